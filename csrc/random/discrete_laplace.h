/*
 * Exact geometric and discrete Laplace numbers for any dyadic rate, from random bits and integer
 * arithmetic alone.
 *
 * Source: C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
 * 2020, algorithm 2.
 */
#ifndef DPERM_DISCRETE_LAPLACE_H
#define DPERM_DISCRETE_LAPLACE_H

#include "random/exponential_mechanism.h"
#include "random/random_bits.h"

/* Larger magnitudes are clamped to this one. Their probability is below exp(-128) for rates of at
 * least 2^-55, and exp(-4) at 2^-60. */
#define DISCRETE_LAPLACE_LIMIT (INT64_C(1) << 62)

/* Rates below 2^-60, including 0, are not supported. The running time depends on the values. */

/* value: v >= 0 with probability proportional to exp(-rate * v). */
int geometric_draw(struct random_bits *bits, struct dyadic_rate rate, int64_t *value);

/* value: v with probability proportional to exp(-rate * |v|). */
int discrete_laplace_draw(struct random_bits *bits, struct dyadic_rate rate, int64_t *value);

/* out[0 .. count-1]: independent; of both signs, or at least 0. */
int discrete_laplace_fill(struct random_bits *bits, struct dyadic_rate rate, bool two_sided,
                          int64_t *out, size_t count);

#endif
