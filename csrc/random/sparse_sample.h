/* Poisson sampling at a small rate: a few bits per block of rows instead of some bits per row. */
#ifndef DPERM_SPARSE_SAMPLE_H
#define DPERM_SPARSE_SAMPLE_H

#include "random/random_bits.h"

/*
 * The binomial distribution of the number of sampled rows in a block of 2^log2_block, log2_block
 * from 6 to SPARSE_MAX_LOG2_BLOCK.
 *
 * Digit k of the probability of at most j rows is digits[k * size + j], 32 bits, k = 0 the most
 * significant of LAZY_UNIFORM_DIGITS; further digits are truncated. Probabilities ascend; the last
 * ones have all digits 2^32 - 1, which no drawn number exceeds. size is at least
 * SPARSE_FIRST_COUNTS and at most SPARSE_MAX_COUNTS.
 */
struct block_counts {
    const uint32_t *digits;
    size_t size;
    unsigned log2_block;
};

/* Counts searched first, the limits of a distribution, and the number of entries of `out` that must
 * be left for the sample to continue. */
enum {
    SPARSE_FIRST_COUNTS = 16,
    SPARSE_MAX_COUNTS = 256,
    SPARSE_MAX_LOG2_BLOCK = 32,
    SPARSE_ROOM = 32 * SPARSE_MAX_COUNTS
};

/* The progress of a sample. */
struct sparse_progress {
    uint64_t n_rows;
    uint64_t next_row; /* 0 at the beginning, n_rows at the end */
    size_t count;      /* indices written */
};

/*
 * Continues the sample: appends the indices of the rows that are in, ascending, to out[0 ..
 * capacity-1], until next_row == n_rows or fewer than SPARSE_ROOM entries are left in out. n_rows
 * is below 2^62. Returns a status of random_bits.h.
 */
int sparse_sample(struct random_bits *bits, const struct block_counts *law,
                  struct sparse_progress *progress, int64_t *out, size_t capacity);

#endif
