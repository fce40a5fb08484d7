/* Derivatives of the losses in the prediction p, for the ROWS_PER_BLOCK rows of a block at
 * once, in double. Elementary operations only, so that the loops vectorise and every lane
 * gives the bits that a scalar evaluation gives. Values: loss_values.template.h. */
#ifndef DPERM_LOSS_DERIVATIVES_H
#define DPERM_LOSS_DERIVATIVES_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "kernel_table.h"
#include "lanes.h"

/* exp(x) for -708 <= x <= 708, relative error below 4e-16; smaller x is clamped, NaN stays NaN.
 * x = k log 2 + r, |r| <= log(2)/2; exp(r) = 1 + r + r^2 c(r) with c interpolating
 * (exp(r) - 1 - r)/r^2 at Chebyshev nodes, relative error 2.3e-16. */
ALWAYS_INLINE double exp_f64(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: rounds to an integer */
    x = x < -708.0 ? -708.0 : x;
    double shifted = x * 1.4426950408889634 + shift;
    double k = shifted - shift;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    /* Even and odd coefficients apart: half the chain of dependent operations. */
    double r2 = r * r;
    double even = 2.7620088445409746e-07;
    double odd = 2.510038549551032e-08;
    even = even * r2 + 2.4801521295954376e-05;
    odd = odd * r2 + 2.7557268459997064e-06;
    even = even * r2 + 0.0013888888917213717;
    odd = odd * r2 + 0.00019841269863053618;
    even = even * r2 + 0.04166666666662413;
    odd = odd * r2 + 0.008333333333330062;
    even = even * r2 + 0.5000000000000001;
    odd = odd * r2 + 0.16666666666666669;
    double exp_r = (even + odd * r) * r2 + r + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* the low bits of `shifted` are k */
    double two_to_k;
    memcpy(&two_to_k, &bits, sizeof two_to_k);
    return exp_r * two_to_k;
}

ALWAYS_INLINE double loss_derivative_one(enum loss_kind kind, double h, double p, double y) {
    double m = y * p;
    if (kind == LOSS_LOGISTIC)
        return -y / (1.0 + exp_f64(m > 708.0 ? 708.0 : m));
    if (kind == LOSS_HUBER) {
        double e = p - y;
        e = e > h ? h : e;
        return e < -h ? -h : e;
    }
    double gap = 1.0 - m;
    double slope = kind == LOSS_HINGE ? 1.0 : gap;
    return gap > 0.0 ? -y * slope : 0.0 * gap; /* 0 * NaN keeps a NaN */
}

/* One loop per loss: the kind is a constant inside it. */
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
    }

/* derivative[i] = d loss / d p at (p[i], y[i]). */
static void loss_derivatives(struct loss loss, const double *restrict p, const double *restrict y,
                             double *restrict derivative) {
    const double h = loss.parameter;
#define DERIVATIVE_LOOP(KIND)                                                                      \
    _Pragma("omp simd") for (int i = 0; i < ROWS_PER_BLOCK; i++) derivative[i] =                   \
        loss_derivative_one(KIND, h, p[i], y[i]);
    FOR_EACH_LOSS(loss.kind, DERIVATIVE_LOOP)
#undef DERIVATIVE_LOOP
}

#endif
