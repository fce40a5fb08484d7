/* Predictions of sparse rows and exact sums over them. */
#ifndef DPERM_SPARSE_SUMS_H
#define DPERM_SPARSE_SUMS_H

#include "dense/gradient_factors.h"
#include "dense/losses_on_line.h"
#include "sparse/sparse_block.h"

static void predictions(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                        const struct pass *pass, void *out) {
    double *p_out = out;
    (void)pass;
    const struct slot_map map = slot_map_of(sparse->rows.n_columns, LANES);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct row row[ROWS_PER_BLOCK];
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK];
        predict_block(sparse, first, end, NULL, &map, row, &block, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}

/* sum_out[j] += times * round(s x_ij / grid) for the entries of a row. */
ALWAYS_INLINE void add_rounded_row(const struct row *row, REAL s, REAL shift, int64_t times,
                                   int64_t *restrict sum_out) {
    const VALUE *restrict x = row->x;
    const INDEX *restrict column = row->column;
    enum { MOST = 64 };
    INTEGER integer[MOST];
    for (int64_t from = 0; from < row->count; from += MOST) {
        const int64_t count = row->count - from < MOST ? row->count - from : MOST;
#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            integer[k] = NAME(grid_steps)(s * (REAL)x[from + k], shift);
#pragma GCC unroll 4
        for (int64_t k = 0; k < count; k++)
            sum_out[column_of(column, from + k, row->n_columns)] += times * (int64_t)integer[k];
    }
}

/* The same for a block with multiplicities above 1. Not inlined: such blocks are rare. */
static __attribute__((noinline)) void add_repeated_rows(const struct row *row, const REAL *s,
                                                        REAL shift, const int64_t *count,
                                                        int64_t *intercept_sum, int64_t *sum_out) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        add_rounded_row(&row[i], s[i], shift, count[i], sum_out);
        NAME(add_rounded_multiple)(&s[i], 1, 1, shift, count[i], intercept_sum);
    }
}

/* Reads a block and computes clipped[i] = s_i of clipped_gradient_sum for its rows, which will be
 * added to `sums` next. */
ALWAYS_INLINE void clip_block(const struct sparse_rows *sparse, int64_t first, int64_t end,
                              const struct pass *pass, const int64_t *sums,
                              const struct slot_map *map, struct row *row, REAL *clipped) {
    struct NAME(block) block;
    double p[ROWS_PER_BLOCK];
    predict_block(sparse, first, end, sums, map, row, &block, p);
    NAME(clip_predictions)(&sparse->rows, ROWS_PER_BLOCK, first, end, pass, &block, p, clipped);
}

static void clipped_gradient_sum(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                                 const struct pass *pass, void *out) {
    const struct dense_rows *rows = &sparse->rows;
    const struct slot_map map = slot_map_of(rows->n_columns, LANES);
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->grid;
    int64_t *sum_out = out, intercept_sum = 0;
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct row row[ROWS_PER_BLOCK];
        REAL clipped[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK], rounded[ROWS_PER_BLOCK];
        const int64_t *count = NAME(read_multiplicity)(rows, first, end, ROWS_PER_BLOCK, counts);
        clip_block(sparse, first, end, pass, sum_out, &map, row, clipped);
        if (count) {
            add_repeated_rows(row, clipped, shift, count, &intercept_sum, sum_out);
            continue;
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            add_rounded_row(&row[i], clipped[i], shift, 1, sum_out);
        intercept_sum += NAME(rounded_factors)(ROWS_PER_BLOCK, clipped, shift, rounded);
    }
    if (rows->intercept)
        sum_out[rows->n_columns] += intercept_sum;
}

/* Reads a block and computes its predictions at the weights and their slopes along the direction.
 */
ALWAYS_INLINE void predict_line(const struct sparse_rows *sparse, int64_t first, int64_t end,
                                const struct slot_map *map, struct NAME(block) * block, double *p,
                                double *q) {
    const double *known = sparse->rows.predictions;
    const struct ahead ahead = {sparse->weights.packed, known ? 1 : 2, NULL, map};
    struct row row[ROWS_PER_BLOCK];
    if (known)
        multiply_block(sparse, first, end, &ahead, 1, row, block, (double *[]){q});
    else
        multiply_block(sparse, first, end, &ahead, 2, row, block, (double *[]){p, q});
    for (int i = 0; i < ROWS_PER_BLOCK && known; i++)
        p[i] = first + i < end ? known[first + i] : NAN;
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        p[i] = known ? p[i] : block->scale[i] * (p[i] + sparse->weights.intercept);
        q[i] = block->scale[i] * (q[i] + sparse->weights.direction_intercept);
    }
}

static void clipped_loss_sums(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                              const struct pass *pass, void *out) {
    const struct slot_map map = slot_map_of(sparse->rows.n_columns, LANES);
    const struct read_ahead nothing = {0, 0};
    struct NAME(line_pass) line_pass;
    NAME(line_pass_open)(&line_pass, pass);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        const int64_t *count =
            NAME(read_multiplicity)(&sparse->rows, first, end, ROWS_PER_BLOCK, counts);
        predict_line(sparse, first, end, &map, &block, p, q);
        double weights[ROWS_PER_BLOCK];
        const struct on_line on_line = {
            p, q, block.y, count, read_weights(&sparse->rows, first, end, ROWS_PER_BLOCK, weights)};
        NAME(add_block_on_line)(&line_pass, pass, &on_line, nothing, out);
    }
    NAME(line_pass_close)(&line_pass, pass, out);
}

#endif
