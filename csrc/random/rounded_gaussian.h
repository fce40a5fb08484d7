/*
 * Exact samples of round(N(0, s^2)), s rational, from random bits and integer arithmetic alone.
 *
 * The normal numbers are those of half_normal.h; rounding reveals bits until the integer is
 * determined.
 */
#ifndef DPERM_ROUNDED_GAUSSIAN_H
#define DPERM_ROUNDED_GAUSSIAN_H

#include "random/random_bits.h"

/* Larger results are replaced by this value with their sign. */
#define ROUNDED_GAUSSIAN_LIMIT (INT64_C(1) << 62)

/* s = numerator / 2^shift with 1 <= numerator <= 2^63 and 1 <= shift <= 63. */
struct rounded_gaussian_scale {
    uint64_t numerator;
    unsigned shift;
};

/*
 * out[0 .. count-1]: independent, distributed as sign(Z) * floor(s |Z| + 1/2) with Z standard
 * normal: P(out = j) = Phi((j + 1/2)/s) - Phi((j - 1/2)/s), cut off at +-ROUNDED_GAUSSIAN_LIMIT.
 *
 * The time that a draw takes depends on its value. Returns a status of random_bits.h; after a
 * failure nothing in out may be used.
 */
int rounded_gaussian_fill(struct random_bits *bits, struct rounded_gaussian_scale scale,
                          int64_t *out, size_t count);

#endif
