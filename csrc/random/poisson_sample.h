/* Poisson sampling: every row is in the sample independently with the same probability. */
#ifndef DPERM_POISSON_SAMPLE_H
#define DPERM_POISSON_SAMPLE_H

#include "dispatch/bulk_table.h"
#include "random/random_bits.h"

/* Rows are drawn in blocks of this many; see poisson_sample.c for the bits that a block reads. */
enum { POISSON_BLOCK = 2048 };

/* The parameters and the progress of a sample. */
struct poisson_progress {
    uint64_t threshold; /* a row is in with probability threshold / 2^64, exactly */
    uint64_t n_rows;
    uint64_t next_row; /* 0 at the beginning, n_rows at the end */
    size_t count;      /* indices written */
};

/*
 * Continues the sample: appends the indices of the rows that are in, ascending, to out[0 ..
 * capacity-1], until next_row == n_rows or fewer than POISSON_BLOCK entries are left in out. n_rows
 * is below 2^62. Returns a status of random_bits.h.
 */
int poisson_sample(struct random_bits *bits, const struct bulk_table *table,
                   struct poisson_progress *progress, int64_t *out, size_t capacity);

#endif
