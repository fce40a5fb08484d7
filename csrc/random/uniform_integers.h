/*
 * Unbiased integers below a bound, permutations and samples without replacement.
 *
 * Sources: D. Lemire, "Fast random integer generation in an interval", ACM Transactions on Modeling
 * and Computer Simulation 29(1), 2019; R. W. Floyd in J. Bentley, "Programming Pearls: a sample of
 * brilliance", Communications of the ACM 30(9), 1987; the permutation is Fisher-Yates, Knuth volume
 * 2, algorithm 3.4.2P.
 */
#ifndef DPERM_UNIFORM_INTEGERS_H
#define DPERM_UNIFORM_INTEGERS_H

#include "random/random_bits.h"

/*
 * value: uniform in 0 .. bound - 1, bound >= 1, without bias. Reads 32 bits if the bound is below
 * 2^32, otherwise 64, and again with a probability below bound / 2^32 (2^64). Faster than
 * random_bits_below, which reads fewer bits.
 */
int uniform_integer(struct random_bits *bits, uint64_t bound, uint64_t *value);

/* out[0 .. count-1]: independent, uniform in 0 .. bound - 1, 1 <= bound <= 2^63. */
int uniform_integers_fill(struct random_bits *bits, uint64_t bound, int64_t *out, size_t count);

/* out[0 .. count-1]: a uniformly random permutation of 0 .. count-1, the same from both functions.
 */
int permutation_fill_32(struct random_bits *bits, int32_t *out, size_t count);
int permutation_fill_64(struct random_bits *bits, int64_t *out, size_t count);

/* Words of workspace for a sample of `size` of 0 .. population-1, and whether the sample will be in
 * ascending order. */
size_t sample_workspace_words(uint64_t population, size_t size);
bool sample_is_ascending(uint64_t population, size_t size);

/*
 * out[0 .. size-1]: a uniformly random set of `size` distinct numbers in 0 .. population-1; size <=
 * population <= 2^62. The order is arbitrary and not random.
 */
int sample_without_replacement(struct random_bits *bits, uint64_t population, size_t size,
                               int64_t *out, uint64_t *workspace);

#endif
