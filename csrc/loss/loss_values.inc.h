/* The part of loss_values.h that depends on the type: LOSS_REAL, in names OF_REAL(), and
 * LARGEST_EXP_ARGUMENT. */

/* log(1 + t) = 2 atanh(t/(2 + t)) for t in [0, 1]. */
ALWAYS_INLINE LOSS_REAL OF_REAL(log1p_unit)(LOSS_REAL t) {
    LOSS_REAL s = t / (2 + t);
    LOSS_REAL z = s * s;
    return 2 * (s + s * (z * OF_REAL(atanh_series)(z)));
}

/* log(1 + exp(-m)) = max(0, -m) + log(1 + exp(-|m|)). */
ALWAYS_INLINE LOSS_REAL OF_REAL(softplus_of_minus)(LOSS_REAL m) {
    LOSS_REAL value = OF_REAL(log1p_unit)(OF_REAL(exp)(m < 0 ? m : -m));
    return m < 0 ? value - m : value;
}

/* The function whose derivative is kink_slope(); its value at 0 is 0, plus the bias of the ramp. */
ALWAYS_INLINE LOSS_REAL OF_REAL(kink_value)(LOSS_REAL t, double low, double high,
                                            double curvature) {
    const LOSS_REAL half_width = (LOSS_REAL)(0.5 * (low + high) / curvature);
    const LOSS_REAL left = (LOSS_REAL)low, right = (LOSS_REAL)high;
    const LOSS_REAL above =
        (LOSS_REAL)(0.5 * (high + low)) + (LOSS_REAL)curvature * t; /* slope - left slope */
    const LOSS_REAL ramp = above * above * (LOSS_REAL)(0.5 / curvature) - left * t;
    const LOSS_REAL below = low == 0.0 ? (LOSS_REAL)0 : -left * t;
    return t <= -half_width ? below : (t >= half_width ? right * t : ramp);
}

ALWAYS_INLINE LOSS_REAL OF_REAL(loss_value)(struct loss loss, enum loss_kind kind, LOSS_REAL p,
                                            LOSS_REAL y) {
    const LOSS_REAL h = (LOSS_REAL)loss.parameter, m = y * p, e = p - y;
    const LOSS_REAL magnitude = e < 0 ? -e : e;
    LOSS_REAL gap = 1 - m;
    switch (kind) {
    case LOSS_LOGISTIC:
        return OF_REAL(softplus_of_minus)(m);
    case LOSS_HINGE:
        return OF_REAL(kink_value)(gap, 0.0, 1.0, loss.curvature);
    case LOSS_SQUARED_HINGE:
        gap = gap < 0 ? 0 : gap; /* a NaN stays */
        return (LOSS_REAL)0.5 * (gap * gap);
    case LOSS_SOFT_MARGIN: {
        const LOSS_REAL power = OF_REAL(power)(gap, loss.parameter);
        return gap <= 0 ? 0 : power;
    }
    case LOSS_SIGMOID:
        return 1 / (1 + OF_REAL(exp)(m > LARGEST_EXP_ARGUMENT ? LARGEST_EXP_ARGUMENT : m));
    case LOSS_HUBER:
        return magnitude <= h ? (LOSS_REAL)0.5 * (e * e) : h * magnitude - (LOSS_REAL)0.5 * (h * h);
    case LOSS_ABSOLUTE:
        return OF_REAL(kink_value)(e, 1.0, 1.0, loss.curvature);
    case LOSS_PINBALL:
        return OF_REAL(kink_value)(e, loss.parameter, 1.0 - loss.parameter, loss.curvature);
    case LOSS_EPSILON_INSENSITIVE:
        return OF_REAL(kink_value)(magnitude - h, 0.0, 1.0, loss.curvature);
    case LOSS_POWER:
        return OF_REAL(power)(magnitude, loss.parameter);
    case N_LOSS_KINDS:
        break;
    }
    return 0;
}

void OF_REAL(loss_values)(struct loss loss, const LOSS_REAL *restrict p,
                          const LOSS_REAL *restrict y, int n_blocks, LOSS_REAL *restrict value) {
#define VALUE_LOOP(KIND)                                                                           \
    _Pragma("omp simd") for (int i = 0; i < n_blocks * ROWS_PER_BLOCK; i++) value[i] =             \
        OF_REAL(loss_value)(loss, KIND, p[i], y[i]);
    LOOP_OF_LOSS(loss.kind, VALUE_LOOP)
#undef VALUE_LOOP
}
