/* Second derivatives of the losses with respect to the prediction p, for a block of ROWS_PER_BLOCK
 * rows at once, in double; never negative, and 0 for losses without one. Alternatively, upper
 * bounds: curvatures of the parabolas that touch the loss at p and lie above it everywhere, which
 * are at least the second derivative and have the same maximum. */
#ifndef DPERM_LOSS_CURVATURES_H
#define DPERM_LOSS_CURVATURES_H

#include "loss/loss_derivatives.h"

ALWAYS_INLINE double loss_curvature_one(enum loss_kind kind, double h, double p, double y) {
    const double m = y * p, e = p - y;
    if (kind == LOSS_LOGISTIC) {
        const double magnitude = m < 0.0 ? -m : m;
        const double odds = exp_f64(magnitude > 700.0 ? -700.0 : -magnitude);
        return odds / ((1.0 + odds) * (1.0 + odds));
    }
    if (kind == LOSS_SQUARED_HINGE)
        return m < 1.0 ? 1.0 : 0.0 * m; /* 0 * NaN keeps a NaN */
    if (kind == LOSS_HUBER)
        return e <= h && e >= -h ? 1.0 : 0.0 * e;
    return 0.0;
}

ALWAYS_INLINE double upper_curvature_one(enum loss_kind kind, double h, double p, double y) {
    const double m = y * p, e = p - y;
    if (kind == LOSS_LOGISTIC) { /* tanh(m/2) / (2m), Jaakkola and Jordan 2000 */
        const double magnitude = m < 0.0 ? -m : m;
        const double odds = exp_f64(magnitude > 700.0 ? -700.0 : -magnitude);
        const double ratio = (1.0 - odds) / ((1.0 + odds) * (2.0 * magnitude));
        return magnitude > 1e-3 ? (ratio < 0.25 ? ratio : 0.25) : 0.25 + 0.0 * m;
    }
    if (kind == LOSS_SQUARED_HINGE)
        return 1.0 + 0.0 * m;
    if (kind == LOSS_HUBER) {
        const double magnitude = e < 0.0 ? -e : e;
        return magnitude <= h ? 1.0 : h / magnitude;
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

/* curvature[i] = d^2 loss / d p^2 at (p[i], y[i]). */
static void loss_curvatures(struct loss loss, int upper, const double *restrict p,
                            const double *restrict y, double *restrict curvature) {
    const double h = loss.parameter;
#define CURVATURE_LOOP(KIND)                                                                       \
    for (int i = 0; i < ROWS_PER_BLOCK; i++)                                                       \
        curvature[i] = upper ? upper_curvature_one(KIND, h, p[i], y[i])                            \
                             : loss_curvature_one(KIND, h, p[i], y[i]);
    FOR_EACH_LOSS(loss.kind, CURVATURE_LOOP)
#undef CURVATURE_LOOP
}

#endif
