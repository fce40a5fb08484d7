/* What kernels need of a pass for a block of rows, whatever the type of the rows. */
#ifndef DPERM_BLOCK_ARGUMENTS_H
#define DPERM_BLOCK_ARGUMENTS_H

#include <stddef.h>

#include "kernel_table.h"
#include "vector/lanes.h"

static inline double intercept_of(const struct dense_rows *rows, const double *w) {
    return rows->intercept ? w[rows->n_columns] : 0.0;
}

/* A block on the line of a line search: predictions p and their slopes q, targets, and how often
 * each row counts, or NULL. */
struct on_line {
    const double *p, *q, *y;
    const int64_t *count;
};

/* Folds of the rows of a block that are there; none without folds. */
struct folds {
    const int32_t *of_row;
    int count;
};

static inline struct folds folds_of_block(const struct pass *pass, int64_t first, int64_t end) {
    struct folds folds = {NULL, 0};
    if (pass->folds) {
        folds.of_row = pass->folds + first;
        folds.count = end - first < ROWS_PER_BLOCK ? (int)(end - first) : ROWS_PER_BLOCK;
    }
    return folds;
}

#endif
