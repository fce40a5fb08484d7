/* Losses of one prediction p and target y in the precision of the data: a line search
 * evaluates many per row, and float ones cost half. Elementary operations only, as in
 * loss_derivatives.h. */

#if REAL_IS_F32
/* exp(x) for -87 <= x <= 87, relative error below 3e-7; smaller x is clamped, NaN stays NaN.
 * Same method as exp_f64; the polynomial is good to 8e-9. */
ALWAYS_INLINE float exp_f32(float x) {
    const float shift = 12582912.0F; /* 1.5 * 2^23 */
    x = x < -87.0F ? -87.0F : x;
    float shifted = x * 1.44269504F + shift;
    float k = shifted - shift;
    float r = (x - k * 0.693359375F) - k * -2.12194440e-4F;
    float r2 = r * r;
    float even = 0.00139262508F * r2 + 0.0416665542F;
    float odd = 0.00836323288F * r2 + 0.166665767F;
    float exp_r = ((even * r2 + odd * r) + 0.5F) * r2 + r + 1.0F;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    float two_to_k;
    memcpy(&two_to_k, &bits, sizeof two_to_k);
    return exp_r * two_to_k;
}

/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; contributes an error below 2e-8. */
ALWAYS_INLINE float atanh_series_f32(float z) {
    float z2 = z * z;
    return (0.13425749F * z2 + 0.200037803F) * z + (0.141183099F * z2 + 0.333333202F);
}
#else
/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; contributes an error below 2e-16. */
ALWAYS_INLINE double atanh_series_f64(double z) {
    double z2 = z * z;
    double even = 0.08435350330548605;
    double odd = 0.05161334635249541;
    even = even * z2 + 0.0675117123587855;
    odd = odd * z2 + 0.07686637438179002;
    even = even * z2 + 0.09091130554209872;
    odd = odd * z2 + 0.11111106278964857;
    even = even * z2 + 0.14285714338330496;
    odd = odd * z2 + 0.19999999999780063;
    even = even * z2 + 0.33333333333333487;
    return even + odd * z;
}
#endif

/* log(1 + t) = 2 atanh(t/(2 + t)) for t in [0, 1]. */
ALWAYS_INLINE REAL NAME(log1p_unit)(REAL t) {
    REAL s = t / (2 + t);
    REAL z = s * s;
    return 2 * (s + s * (z * NAME(atanh_series)(z)));
}

/* log(1 + exp(-m)) = max(0, -m) + log(1 + exp(-|m|)). */
ALWAYS_INLINE REAL NAME(softplus_of_minus)(REAL m) {
    REAL value = NAME(log1p_unit)(NAME(exp)(m < 0 ? m : -m));
    return m < 0 ? value - m : value;
}

ALWAYS_INLINE REAL NAME(loss_value)(enum loss_kind kind, REAL h, REAL p, REAL y) {
    if (kind == LOSS_LOGISTIC)
        return NAME(softplus_of_minus)(y * p);
    if (kind == LOSS_HUBER) {
        REAL e = p - y;
        REAL magnitude = e < 0 ? -e : e;
        return magnitude <= h ? (REAL)0.5 * (e * e) : h * magnitude - (REAL)0.5 * (h * h);
    }
    REAL gap = 1 - y * p;
    gap = gap < 0 ? 0 : gap; /* a NaN stays */
    return kind == LOSS_HINGE ? gap : (REAL)0.5 * (gap * gap);
}

/* value[i] = loss at (p[i], y[i]) for whole blocks: a batch of several hides the latency of one. */
static void NAME(loss_values)(struct loss loss, const REAL *restrict p, const REAL *restrict y,
                              int n_blocks, REAL *restrict value) {
    const REAL h = (REAL)loss.parameter;
#define VALUE_LOOP(KIND)                                                                           \
    _Pragma("omp simd") for (int i = 0; i < n_blocks * ROWS_PER_BLOCK; i++) value[i] =             \
        NAME(loss_value)(KIND, h, p[i], y[i]);
    FOR_EACH_LOSS(loss.kind, VALUE_LOOP)
#undef VALUE_LOOP
}
