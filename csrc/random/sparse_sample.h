/* Poisson sampling at a small rate: few bits a block of rows in place of some bits a row. */
#ifndef DPERM_SPARSE_SAMPLE_H
#define DPERM_SPARSE_SAMPLE_H

#include "random/random_bits.h"

/*
 * How many rows of a block are in: the binomial law of 2^log2_block trials, log2_block from 6 to
 * SPARSE_MAX_LOG2_BLOCK.
 *
 * Digit k of the probability of at most j rows is digits[k * size + j], 32 bits, k = 0 the most
 * significant of LAZY_UNIFORM_DIGITS; further digits are cut off. Probabilities ascend; the last
 * ones have all digits 2^32 - 1, which no number drawn exceeds. size is at least
 * SPARSE_FIRST_COUNTS and at most SPARSE_MAX_COUNTS.
 */
struct block_counts {
    const uint32_t *digits;
    size_t size;
    unsigned log2_block;
};

/* Counts looked through at first, the most counts and the largest block of a law; what is written
 * at a time has room in SPARSE_ROOM. */
enum {
    SPARSE_FIRST_COUNTS = 16,
    SPARSE_MAX_COUNTS = 256,
    SPARSE_MAX_LOG2_BLOCK = 32,
    SPARSE_ROOM = 32 * SPARSE_MAX_COUNTS
};

/* How far the sample is, and where it goes. */
struct sparse_progress {
    uint64_t n_rows;
    uint64_t next_row; /* 0 at the beginning, n_rows at the end */
    size_t count;      /* indices written */
};

/*
 * Continues the sample: appends the indices of the rows that are in, ascending, to out[0 ..
 * capacity-1], until next_row == n_rows or less than SPARSE_ROOM entries are left in out. n_rows is
 * below 2^62. Returns a status of random_bits.h.
 */
int sparse_sample(struct random_bits *bits, const struct block_counts *law,
                  struct sparse_progress *progress, int64_t *out, size_t capacity);

#endif
