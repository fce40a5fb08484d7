/* What kernels need of a pass for a block of rows, whatever the type of the rows. */
#ifndef DPERM_BLOCK_ARGUMENTS_H
#define DPERM_BLOCK_ARGUMENTS_H

#include <stddef.h>

#include "kernel_table.h"
#include "vector/lanes.h"

static inline double intercept_of(const struct dense_rows *rows, const double *w) {
    return rows->intercept ? w[rows->n_columns] : 0.0;
}

/* Weights of the rows of a block: `weight`, filled in, or NULL if there are none. Places past the
 * end weigh 0. */
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

/* factor[i] *= weight of row i of a block, n of them, at most ROWS_PER_BLOCK. */
static inline void weigh(const struct dense_rows *rows, int64_t first, int64_t end, int n,
                         double *factor) {
    double weights[ROWS_PER_BLOCK];
    const double *weight = read_weights(rows, first, end, n, weights);
    for (int i = 0; i < n && weight; i++)
        factor[i] *= weight[i];
}

/* A block on the line of a line search: predictions p and their slopes q, targets, and how often
 * each row counts and what it weighs, or NULL. */
struct on_line {
    const double *p, *q, *y;
    const int64_t *count;
    const double *weight;
};

/* Folds of the rows of a block that are there, none without folds; and their weights, or NULL. */
struct in_models {
    const int32_t *fold;
    int n_folds;
    const double *weight;
};

static inline struct in_models block_in_models(const struct pass *pass,
                                               const struct dense_rows *rows, int64_t first,
                                               int64_t end, double *weights) {
    struct in_models here = {NULL, 0, read_weights(rows, first, end, ROWS_PER_BLOCK, weights)};
    if (pass->folds) {
        here.fold = pass->folds + first;
        here.n_folds = end - first < ROWS_PER_BLOCK ? (int)(end - first) : ROWS_PER_BLOCK;
    }
    return here;
}

#endif
