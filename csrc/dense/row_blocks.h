/* Rows that are not stored as a dense matrix, expanded block by block: a block stays in the cache
 * while a kernel for dense rows reads it. What a row adds to an exact sum depends on that row
 * alone, so the integers are those of the whole dense matrix. */
#ifndef DPERM_ROW_BLOCKS_H
#define DPERM_ROW_BLOCKS_H

#include "kernel_table.h"

/* Writes `count` rows in C order, as reals of the type of the source: row k is row places[k] of the
 * matrix, or row first + k if places is NULL. Called from several threads at once. */
typedef void expand_rows_fn(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                            void *x_out);

/* What struct dense_rows has in place of x. */
struct row_source {
    const void *matrix;
    expand_rows_fn *expand;
    enum representation representation; /* with kernels of its own; or DENSE_ROWS */
    pass_fn *find_norms; /* computes norms of a block if struct dense_rows has none; or NULL */
};

/* Bytes of scratch that one thread needs for its blocks; 0 for a dense matrix. */
int64_t block_scratch_bytes(enum real_type type, const struct dense_rows *rows);

/* An iterator over rows begin .. end - 1, block by block. Without scratch they are a single block,
 * not expanded. */
struct row_blocks {
    const struct dense_rows *all;
    enum real_type type;
    int64_t next, range_end;
    void *scratch; /* block_scratch_bytes(), or NULL */
    /* The current block, after next_block() returned 1: rows begin .. end - 1 of `rows`, the first
     * of which is row `first` of all. */
    struct dense_rows rows;
    int64_t begin, end, first;
};

struct row_blocks blocks_of(enum real_type type, const struct dense_rows *rows, int64_t begin,
                            int64_t end, void *scratch);
int next_block(struct row_blocks *blocks);

/* Steps of stochastic gradient descent over rows with a source, in the caller's workspaces. */
struct sgd_settings;
struct sgd_block;
void sgd_steps_by_blocks(const struct kernel_table *kernels, enum real_type type,
                         const struct dense_rows *rows, const struct sgd_settings *settings,
                         const struct sgd_block *block, void *workspace, void *scratch);

#endif
