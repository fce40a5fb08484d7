/* The loss of one prediction p and target y in the precision of the data: a line search evaluates
 * many per row, and floats take half the time. Elementary operations only, as in
 * loss_derivatives.h.
 *
 * Needs: vector/real_types.inc.h, loss/loss_derivatives.h. */

#if REAL_IS_F32
#define LARGEST_EXP_ARGUMENT 87.0F

ALWAYS_INLINE float two_to_f32(float shifted) {
    return from_bits_f32((bits_f32(shifted) + 127) << 23);
}

/* exp(x) for -87 <= x <= 87, relative error below 3e-7; smaller x is clamped, NaN stays NaN. Same
 * method as exp_f64; the polynomial is good to 8e-9. */
ALWAYS_INLINE float exp_f32(float x) {
    x = x < -87.0F ? -87.0F : x;
    float shifted = x * 1.44269504F + SHIFT_F32;
    float k = shifted - SHIFT_F32;
    float r = (x - k * 0.693359375F) - k * -2.12194440e-4F;
    float r2 = r * r;
    float even = 0.00139262508F * r2 + 0.0416665542F;
    float odd = 0.00836323288F * r2 + 0.166665767F;
    float reduced = ((even * r2 + odd * r) + 0.5F) * r2 + r;
    return (reduced + 1.0F) * two_to_f32(shifted);
}

/* x^p for x >= 0 and 0 < p <= 2 as in power_f64, relative error below 1e-6. p is split into its
 * leading 12 bits and the rest. */
ALWAYS_INLINE float power_f32(float x, double p) {
    const uint32_t sqrt_half = 0x3f3504f3;
    const float p_high = from_bits_f32(bits_f32((float)p) & 0xfffff000);
    const float p_low = (float)(p - (double)p_high);
    const float base = x > 0.0F ? x : 1.0F;
    const int tiny = base < FLT_MIN;
    const uint32_t bits = bits_f32(tiny ? base * 0x1p24F : base);
    const uint32_t exponent = (bits - sqrt_half + (UINT32_C(256) << 23)) >> 23; /* k + 256 */
    const float m = from_bits_f32(bits - ((exponent - 256) << 23));
    float k = (float)(int32_t)exponent - (tiny ? 256.0F + 24.0F : 256.0F);

    float s = (m - 1.0F) / (m + 1.0F);
    float z = s * s;
    float a = (0.147899747F * z + 0.199943903F) * z + 0.333333425F;
    float log_m = 2.0F * (s + s * (z * a));

    float product = k * p_high;
    float whole = (product + SHIFT_F32) - SHIFT_F32;
    float rest = (product - whole) + k * p_low;
    whole = whole < -250.0F ? -250.0F : whole;
    float half = 0.5F * whole + SHIFT_F32;
    float other = (whole - (half - SHIFT_F32)) + SHIFT_F32;
    float result = exp_f32(rest * 0.693147181F + (float)p * log_m);
    result = (result * two_to_f32(half)) * two_to_f32(other);
    return x > 0.0F && x <= FLT_MAX ? result : x;
}

/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; adds an error below 2e-8. */
ALWAYS_INLINE float atanh_series_f32(float z) {
    float z2 = z * z;
    return (0.13425749F * z2 + 0.200037803F) * z + (0.141183099F * z2 + 0.333333202F);
}
#else
#define LARGEST_EXP_ARGUMENT LARGEST_EXP_F64
/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; adds an error below 2e-16. */
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

/* The function whose derivative is kink_slope(); its value at 0 is 0, plus the bias of the ramp. */
ALWAYS_INLINE REAL NAME(kink_value)(REAL t, double low, double high, double curvature) {
    const REAL half_width = (REAL)(0.5 * (low + high) / curvature);
    const REAL left = (REAL)low, right = (REAL)high;
    const REAL above = (REAL)(0.5 * (high + low)) + (REAL)curvature * t; /* slope - left slope */
    const REAL ramp = above * above * (REAL)(0.5 / curvature) - left * t;
    const REAL below = low == 0.0 ? (REAL)0 : -left * t;
    return t <= -half_width ? below : (t >= half_width ? right * t : ramp);
}

ALWAYS_INLINE REAL NAME(loss_value)(struct loss loss, enum loss_kind kind, REAL p, REAL y) {
    const REAL h = (REAL)loss.parameter, m = y * p, e = p - y;
    const REAL magnitude = e < 0 ? -e : e;
    REAL gap = 1 - m;
    switch (kind) {
    case LOSS_LOGISTIC:
        return NAME(softplus_of_minus)(m);
    case LOSS_HINGE:
        return NAME(kink_value)(gap, 0.0, 1.0, loss.curvature);
    case LOSS_SQUARED_HINGE:
        gap = gap < 0 ? 0 : gap; /* a NaN stays */
        return (REAL)0.5 * (gap * gap);
    case LOSS_SOFT_MARGIN: {
        const REAL power = NAME(power)(gap, loss.parameter);
        return gap <= 0 ? 0 : power;
    }
    case LOSS_SIGMOID:
        return 1 / (1 + NAME(exp)(m > LARGEST_EXP_ARGUMENT ? LARGEST_EXP_ARGUMENT : m));
    case LOSS_HUBER:
        return magnitude <= h ? (REAL)0.5 * (e * e) : h * magnitude - (REAL)0.5 * (h * h);
    case LOSS_ABSOLUTE:
        return NAME(kink_value)(e, 1.0, 1.0, loss.curvature);
    case LOSS_PINBALL:
        return NAME(kink_value)(e, loss.parameter, 1.0 - loss.parameter, loss.curvature);
    case LOSS_EPSILON_INSENSITIVE:
        return NAME(kink_value)(magnitude - h, 0.0, 1.0, loss.curvature);
    case LOSS_POWER:
        return NAME(power)(magnitude, loss.parameter);
    case N_LOSS_KINDS:
        break;
    }
    return 0;
}

/* value[i] = loss at (p[i], y[i]) for whole blocks: several at a time hide the latency of one. */
static void NAME(loss_values)(struct loss loss, const REAL *restrict p, const REAL *restrict y,
                              int n_blocks, REAL *restrict value) {
#define VALUE_LOOP(KIND)                                                                           \
    _Pragma("omp simd") for (int i = 0; i < n_blocks * ROWS_PER_BLOCK; i++) value[i] =             \
        NAME(loss_value)(loss, KIND, p[i], y[i]);
    LOOP_OF_LOSS(loss.kind, VALUE_LOOP)
#undef VALUE_LOOP
}
#undef LARGEST_EXP_ARGUMENT
