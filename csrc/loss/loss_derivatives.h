/* Derivatives of the losses with respect to the prediction p, for a block of rows at once, in
 * double. Elementary operations only, so that the loops vectorise and every lane has the bits of a
 * scalar evaluation. Values: loss_values.inc.h. */
#ifndef DPERM_LOSS_DERIVATIVES_H
#define DPERM_LOSS_DERIVATIVES_H

#include "vector/exp_power.h"
#include "kernel_table.h"
#include "vector/lanes.h"

/* Slope at t of the function with slope -low below 0 and high above. With a finite curvature the
 * kink is replaced by a ramp of that curvature around 0; otherwise the slope at the kink is 0. */
ALWAYS_INLINE double kink_slope(double t, double low, double high, double curvature) {
    const double middle = 0.5 * (high - low);
    double slope = middle + curvature * t;
    slope = slope > high ? high : slope;
    slope = slope < -low ? -low : slope;
    return t == 0.0 ? (curvature <= DBL_MAX ? middle : 0.0) : slope; /* a NaN stays */
}

/* Labels: minus the derivative with respect to the margin, from gap = 1 - m. 0 * NaN keeps a NaN.
 */
ALWAYS_INLINE double margin_descent(struct loss loss, enum loss_kind kind, double gap) {
    if (kind == LOSS_HINGE)
        return kink_slope(gap, 0.0, 1.0, loss.curvature);
    if (kind == LOSS_SQUARED_HINGE)
        return gap > 0.0 ? gap : 0.0 * gap;
    return gap > 0.0 ? loss.parameter * power_f64(gap, loss.parameter - 1.0) : 0.0 * gap;
}

/* Real targets: the derivative at e >= 0 of a loss that is an even function of e. */
ALWAYS_INLINE double even_slope(struct loss loss, enum loss_kind kind, double e) {
    const double h = loss.parameter;
    if (kind == LOSS_EPSILON_INSENSITIVE)
        return kink_slope(e - h, 0.0, 1.0, loss.curvature);
    if (kind == LOSS_POWER)
        return h * power_f64(e, h - 1.0);
    const double u = (e / h) * (e / h);
    if (kind == LOSS_WELSCH)
        return u > LARGEST_EXP_F64 ? 0.0 : e * exp_f64(-u);
    return u > 1.0 ? 0.0 : e * ((1.0 - u) * (1.0 - u)); /* LOSS_TUKEY */
}

/* largest: LARGEST_EXP_F64, which loss_derivatives() hides from the compiler. */
ALWAYS_INLINE double loss_derivative_one(struct loss loss, enum loss_kind kind, double largest,
                                         double p, double y) {
    const double h = loss.parameter, m = y * p, e = p - y;
    switch (kind) {
    case LOSS_LOGISTIC:
        return -y / (1.0 + exp_f64(m > largest ? largest : m));
    case LOSS_SIGMOID: {
        const double t = exp_f64(m < 0.0 ? m : -m);
        return -y * (t / ((1.0 + t) * (1.0 + t)));
    }
    case LOSS_HINGE:
    case LOSS_SQUARED_HINGE:
    case LOSS_SOFT_MARGIN:
        return -y * margin_descent(loss, kind, 1.0 - m);
    case LOSS_HUBER: {
        const double slope = e > h ? h : e;
        return slope < -h ? -h : slope;
    }
    case LOSS_ABSOLUTE:
        return kink_slope(e, 1.0, 1.0, loss.curvature);
    case LOSS_PINBALL:
        return kink_slope(e, h, 1.0 - h, loss.curvature);
    default: {
        const double slope = even_slope(loss, kind, e < 0.0 ? -e : e);
        return e < 0.0 ? -slope : slope;
    }
    }
}

/* One loop per loss, in which the kind is a constant. */
#define FOR_EACH_LOSS(kind, LOOP)                                                                  \
    switch (kind) {                                                                                \
    case LOSS_LOGISTIC:                                                                            \
        LOOP(LOSS_LOGISTIC) break;                                                                 \
    case LOSS_HINGE:                                                                               \
        LOOP(LOSS_HINGE) break;                                                                    \
    case LOSS_SQUARED_HINGE:                                                                       \
        LOOP(LOSS_SQUARED_HINGE) break;                                                            \
    case LOSS_HUBER:                                                                               \
        LOOP(LOSS_HUBER) break;                                                                    \
    case LOSS_ABSOLUTE:                                                                            \
        LOOP(LOSS_ABSOLUTE) break;                                                                 \
    case LOSS_PINBALL:                                                                             \
        LOOP(LOSS_PINBALL) break;                                                                  \
    case LOSS_EPSILON_INSENSITIVE:                                                                 \
        LOOP(LOSS_EPSILON_INSENSITIVE) break;                                                      \
    case LOSS_SOFT_MARGIN:                                                                         \
        LOOP(LOSS_SOFT_MARGIN) break;                                                              \
    case LOSS_POWER:                                                                               \
        LOOP(LOSS_POWER) break;                                                                    \
    case LOSS_SIGMOID:                                                                             \
        LOOP(LOSS_SIGMOID) break;                                                                  \
    case LOSS_WELSCH:                                                                              \
        LOOP(LOSS_WELSCH) break;                                                                   \
    case LOSS_TUKEY:                                                                               \
        LOOP(LOSS_TUKEY) break;                                                                    \
    case N_LOSS_KINDS:                                                                             \
        break;                                                                                     \
    }

/* derivative[i] = d loss / d p at (p[i], y[i]) for n rows; n is ROWS_PER_LOAD or a multiple of
 * ROWS_PER_BLOCK. */
static void loss_derivatives(struct loss loss, int n, const double *restrict p,
                             const double *restrict y, double *restrict derivative) {
    /* Unknown to the compiler, which otherwise divides twice: what lies beyond the bound has a
     * constant divisor. */
    double largest = LARGEST_EXP_F64;
    __asm__("" : "+m"(largest));
#define DERIVATIVES(KIND, FIRST, N)                                                                \
    _Pragma("omp simd") for (int i = (FIRST); i < (FIRST) + (N); i++) derivative[i] =              \
        loss_derivative_one(loss, KIND, largest, p[i], y[i]);
#define DERIVATIVES_OF_LOAD(KIND) DERIVATIVES(KIND, 0, ROWS_PER_LOAD)
#define DERIVATIVES_OF_BLOCKS(KIND)                                                                \
    for (int first = 0; first < n; first += ROWS_PER_BLOCK)                                        \
    DERIVATIVES(KIND, first, ROWS_PER_BLOCK)
    if (n == ROWS_PER_LOAD)
        FOR_EACH_LOSS(loss.kind, DERIVATIVES_OF_LOAD)
    else
        FOR_EACH_LOSS(loss.kind, DERIVATIVES_OF_BLOCKS)
#undef DERIVATIVES_OF_BLOCKS
#undef DERIVATIVES_OF_LOAD
#undef DERIVATIVES
}

#endif
