/* Arguments of a pass for a block of rows that do not depend on the type of the rows. */
#ifndef DPERM_BLOCK_ARGUMENTS_H
#define DPERM_BLOCK_ARGUMENTS_H

#include <stddef.h>

#include "kernel_table.h"
#include "vector/lanes.h"

/* Fills `weight` with the weights of a block's rows and returns it; NULL if rows have no weights.
 * Places past the end get weight 0. */
static inline const double *read_weights(const struct dense_rows *rows, int64_t first, int64_t end,
                                         int n, double *weight) {
    if (!rows->weights)
        return NULL;
    for (int i = 0; i < n; i++) {
        const int64_t at = first + i;
        weight[i] = at >= end ? 0.0 : rows->weights[rows->batch ? rows->batch[at] : at];
    }
    return weight;
}

/* factor[i] *= weight of row i of a block, for n <= ROWS_PER_BLOCK rows. */
static inline void weigh(const struct dense_rows *rows, int64_t first, int64_t end, int n,
                         double *factor) {
    double weights[ROWS_PER_BLOCK];
    const double *weight = read_weights(rows, first, end, n, weights);
    for (int i = 0; i < n && weight; i++)
        factor[i] *= weight[i];
}

/* A block in a line search: predictions p and their slopes q along the direction, targets, and
 * multiplicities and weights of the rows, or NULL. */
struct on_line {
    const double *p, *q, *y;
    const int64_t *count;
    const double *weight;
};

#endif
