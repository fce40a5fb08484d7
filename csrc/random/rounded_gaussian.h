/*
 * Exact samples of round(N(0, s^2)), s rational, from random bits and integer arithmetic alone.
 *
 * The normal numbers are those of half_normal.h; rounding reveals bits until the integer is
 * determined.
 */
#ifndef DPERM_ROUNDED_GAUSSIAN_H
#define DPERM_ROUNDED_GAUSSIAN_H

#include "random/random_bits.h"

/* Larger magnitudes are clamped to this value. */
#define ROUNDED_GAUSSIAN_LIMIT (INT64_C(1) << 62)

__extension__ typedef unsigned __int128 uint128;

static inline uint64_t rounded_gaussian_clamp(uint128 magnitude) {
    return magnitude > (uint64_t)ROUNDED_GAUSSIAN_LIMIT ? (uint64_t)ROUNDED_GAUSSIAN_LIMIT
                                                        : (uint64_t)magnitude;
}

/* s = numerator / 2^shift with 1 <= numerator <= 2^63 and 1 <= shift <= 63. */
struct rounded_gaussian_scale {
    uint64_t numerator;
    unsigned shift;
};

/*
 * out[0 .. count-1]: independent, distributed as sign(Z) * floor(s |Z| + 1/2) with Z standard
 * normal: P(out = j) = Phi((j + 1/2)/s) - Phi((j - 1/2)/s), cut off at +-ROUNDED_GAUSSIAN_LIMIT.
 *
 * The running time of a draw depends on its value. Returns a status of random_bits.h; after a
 * failure nothing in out may be used.
 */
int rounded_gaussian_fill(struct random_bits *bits, struct rounded_gaussian_scale scale,
                          int64_t *out, size_t count);

#endif
