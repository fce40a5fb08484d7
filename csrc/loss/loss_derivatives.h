/* Derivatives of the losses with respect to the prediction p, in double. Elementary operations
 * only, so that the loops vectorise and every lane has the bits of a scalar evaluation. Values:
 * loss_values.h. */
#ifndef DPERM_LOSS_DERIVATIVES_H
#define DPERM_LOSS_DERIVATIVES_H

#include "loss/losses.h"
#include "vector/exp_power.h"

/* Slope at t of the function with slope -low below 0 and high above. With a finite curvature the
 * kink is replaced by a ramp of that curvature around 0; otherwise the slope at the kink is 0. */
ALWAYS_INLINE double kink_slope(double t, double low, double high, double curvature) {
    const double middle = 0.5 * (high - low);
    double slope = middle + curvature * t;
    slope = slope > high ? high : slope;
    slope = slope < -low ? -low : slope;
    return t == 0.0 ? (curvature <= DBL_MAX ? middle : 0.0) : slope; /* a NaN stays */
}

/* largest: LARGEST_EXP_F64, which loss_derivatives() hides from the compiler. */
ALWAYS_INLINE double loss_derivative_one(struct loss loss, enum loss_kind kind, double largest,
                                         double p, double y) {
    const double h = loss.parameter, m = y * p, e = p - y;
    const double gap = 1.0 - m, magnitude = e < 0.0 ? -e : e;
    double slope;
    switch (kind) {
    case LOSS_LOGISTIC:
        return -y / (1.0 + exp_f64(m > largest ? largest : m));
    case LOSS_HINGE:
        return -y * kink_slope(gap, 0.0, 1.0, loss.curvature);
    case LOSS_SQUARED_HINGE:
        return -y * (gap > 0.0 ? gap : 0.0 * gap); /* 0 * NaN keeps a NaN */
    case LOSS_HUBER:
        slope = e > h ? h : e;
        return slope < -h ? -h : slope;
    case LOSS_ABSOLUTE:
        return kink_slope(e, 1.0, 1.0, loss.curvature);
    case LOSS_PINBALL:
        return kink_slope(e, h, 1.0 - h, loss.curvature);
    case LOSS_EPSILON_INSENSITIVE:
        slope = kink_slope(magnitude - h, 0.0, 1.0, loss.curvature);
        return e < 0.0 ? -slope : slope;
    case LOSS_SOFT_MARGIN:
        return -y * (gap > 0.0 ? h * power_f64(gap, h - 1.0) : 0.0 * gap);
    case LOSS_POWER:
        slope = h * power_f64(magnitude, h - 1.0);
        return e < 0.0 ? -slope : slope;
    case LOSS_SIGMOID: {
        const double t = exp_f64(m < 0.0 ? m : -m);
        return -y * (t / ((1.0 + t) * (1.0 + t)));
    }
    case N_LOSS_KINDS:
        break;
    }
    return 0.0;
}

/* A bound that is unknown to the compiler, which otherwise divides twice: what lies beyond it has a
 * constant divisor. */
#define HIDDEN_BOUND(largest)                                                                      \
    double largest = LARGEST_EXP_F64;                                                              \
    __asm__("" : "+m"(largest))

#define DERIVATIVES_OF(NAME, N)                                                                    \
    void NAME(const struct loss *of, const double *restrict p, const double *restrict y,           \
              double *restrict derivative) {                                                       \
        const struct loss loss = *of;                                                              \
        HIDDEN_BOUND(largest);                                                                     \
        LOOP_OF_LOSS(loss.kind, DERIVATIVES_##N)                                                   \
    }
#define DERIVATIVES(KIND, N)                                                                       \
    _Pragma("omp simd") for (int i = 0; i < (N); i++) derivative[i] =                              \
        loss_derivative_one(loss, KIND, largest, p[i], y[i]);
#define DERIVATIVES_ROWS_PER_LOAD(KIND) DERIVATIVES(KIND, ROWS_PER_LOAD)
#define DERIVATIVES_ROWS_PER_BLOCK(KIND) DERIVATIVES(KIND, ROWS_PER_BLOCK)
DERIVATIVES_OF(derivatives_of_load, ROWS_PER_LOAD)
DERIVATIVES_OF(derivatives_of_block, ROWS_PER_BLOCK)

double single_loss_derivative(struct loss loss, double p, double y) {
    double derivative = 0.0;
#define DERIVATIVE_OF_ONE(KIND) derivative = loss_derivative_one(loss, KIND, LARGEST_EXP_F64, p, y);
    LOOP_OF_LOSS(loss.kind, DERIVATIVE_OF_ONE)
#undef DERIVATIVE_OF_ONE
    return derivative;
}

/* The second derivative: never negative, and 0 for losses without one. */
ALWAYS_INLINE double loss_curvature_one(enum loss_kind kind, double h, double p, double y) {
    const double m = y * p, e = p - y;
    switch (kind) {
    case LOSS_LOGISTIC: {
        const double magnitude = m < 0.0 ? -m : m;
        const double odds = exp_f64(magnitude > 700.0 ? -700.0 : -magnitude);
        return odds / ((1.0 + odds) * (1.0 + odds));
    }
    case LOSS_SQUARED_HINGE:
        return m < 1.0 ? 1.0 : 0.0 * m; /* 0 * NaN keeps a NaN */
    case LOSS_HUBER:
        return e <= h && e >= -h ? 1.0 : 0.0 * e;
    case LOSS_HINGE:
    case LOSS_ABSOLUTE:
    case LOSS_PINBALL:
    case LOSS_EPSILON_INSENSITIVE:
    case LOSS_SOFT_MARGIN:
    case LOSS_POWER:
    case LOSS_SIGMOID:
    case N_LOSS_KINDS:
        break;
    }
    return 0.0;
}

/* An upper bound: the curvature of the parabola that touches the loss at p and lies above it
 * everywhere. It is at least the second derivative and has the same maximum. */
ALWAYS_INLINE double upper_curvature_one(enum loss_kind kind, double h, double p, double y) {
    const double m = y * p, e = p - y;
    switch (kind) {
    case LOSS_LOGISTIC: { /* tanh(m/2) / (2m), Jaakkola and Jordan 2000 */
        const double magnitude = m < 0.0 ? -m : m;
        const double odds = exp_f64(magnitude > 700.0 ? -700.0 : -magnitude);
        const double ratio = (1.0 - odds) / ((1.0 + odds) * (2.0 * magnitude));
        return magnitude > 1e-3 ? (ratio < 0.25 ? ratio : 0.25) : 0.25 + 0.0 * m;
    }
    case LOSS_SQUARED_HINGE:
        return 1.0 + 0.0 * m;
    case LOSS_HUBER: {
        const double magnitude = e < 0.0 ? -e : e;
        return magnitude <= h ? 1.0 : h / magnitude;
    }
    case LOSS_HINGE:
    case LOSS_ABSOLUTE:
    case LOSS_PINBALL:
    case LOSS_EPSILON_INSENSITIVE:
    case LOSS_SOFT_MARGIN:
    case LOSS_POWER:
    case LOSS_SIGMOID:
    case N_LOSS_KINDS:
        break;
    }
    return 0.0;
}

/* d^3 loss / d p^3, of the logistic loss only: its curvature times -tanh(p / 2), for either label.
 */
ALWAYS_INLINE double loss_third_one(enum loss_kind kind, double p) {
    const double magnitude = p < 0.0 ? -p : p;
    const double odds = exp_f64(magnitude > 700.0 ? -700.0 : -magnitude), sum = 1.0 + odds;
    const double third = odds * (1.0 - odds) / (sum * sum * sum);
    return kind != LOSS_LOGISTIC ? 0.0 : p < 0.0 ? third : -third;
}

void loss_curvatures(struct loss loss, int upper, const double *restrict p,
                     const double *restrict y, double *restrict curvature) {
    const double h = loss.parameter;
#define CURVATURE_LOOP(KIND)                                                                       \
    for (int i = 0; i < ROWS_PER_BLOCK; i++)                                                       \
        curvature[i] = upper ? upper_curvature_one(KIND, h, p[i], y[i])                            \
                             : loss_curvature_one(KIND, h, p[i], y[i]);
    LOOP_OF_LOSS(loss.kind, CURVATURE_LOOP)
#undef CURVATURE_LOOP
}

void loss_thirds(struct loss loss, int n, const double *p, double *third) {
    for (int i = 0; i < n; i++)
        third[i] = loss_third_one(loss.kind, p[i]);
}

#endif
