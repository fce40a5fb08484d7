/* Changes of the losses from w to its neighbours along the axes. See kernel_table.h. */
#ifndef DPERM_COORDINATE_LOSS_SUMS_H
#define DPERM_COORDINATE_LOSS_SUMS_H

#include "dense/dense_block.h"
#include "loss/losses.h"

/* sum_out[k] += times * round(change_k / grid) with change_k = value[k] - base + clip/2 clamped to
 * [0, clip]. NaN counts as 0, because it fails every comparison. */
ALWAYS_INLINE void NAME(add_rounded_changes)(const double *value, int64_t count, double base,
                                             const struct pass *pass, int64_t times,
                                             int64_t *sum_out) {
    const double clip = pass->clip;
    const double shift = SHIFT_F64 * pass->grid, half = 0.5 * clip;
#pragma omp simd
    for (int64_t k = 0; k < count; k++) {
        double change = (value[k] - base) + half;
        change = change > clip ? clip : change;
        change = change >= 0.0 ? change : 0.0;
        sum_out[k] += times * grid_steps_f64(change, shift);
    }
}

/* A row: its prediction, target and loss, its scale, and its multiplicity. */
struct NAME(row_at) {
    double p, y, base, scale;
    int64_t times;
};

/* Adds entries of one row, in batches of whole blocks of losses. */
static void NAME(add_coordinates)(const struct pass *pass, double stride, const REAL *x,
                                  int64_t n_columns, const struct NAME(row_at) * row, int64_t *plus,
                                  int64_t *minus) {
    double at[COLUMNS_PER_BATCH], value[COLUMNS_PER_BATCH], target[COLUMNS_PER_BATCH];
    for (int k = 0; k < COLUMNS_PER_BATCH; k++)
        target[k] = row->y;
    for (int64_t j = 0; j < n_columns; j += COLUMNS_PER_BATCH) {
        const int64_t left = n_columns - j;
        const int64_t count = left < COLUMNS_PER_BATCH ? left : COLUMNS_PER_BATCH;
        const int n_blocks = (int)((count + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK);
        for (int sign = 1; sign >= -1; sign -= 2) {
            const double signed_step = sign * (stride * row->scale);
            for (int64_t k = 0; k < count; k++)
                at[k] = row->p + signed_step * (double)x[j + k];
            for (int64_t k = count; k < n_blocks * ROWS_PER_BLOCK; k++)
                at[k] = row->p;
            loss_values_f64(pass->loss, at, target, n_blocks, value);
            NAME(add_rounded_changes)(value, count, row->base, pass, row->times,
                                      (sign > 0 ? plus : minus) + j);
        }
    }
}

static void NAME(coordinate_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                       const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = intercept_of(rows, pass->w);
    const int64_t dimension = rows->n_columns + rows->intercept;
    const REAL one = 1;
    int64_t *plus = out, *minus = plus + dimension, *parent = minus + dimension;
    NAME(pack_weights)(&layout, pass->w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], base[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        NAME(predict_block)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                            &layout, p);
        loss_values_f64(pass->loss, p, block.y, 1, base);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const struct NAME(row_at)
                row = {p[i], block.y[i], base[i], block.scale[i],
                       rows->multiplicity && first + i < end ? rows->multiplicity[first + i] : 1};
            if (!(block.norm[i] <= DBL_MAX))
                continue;
            NAME(add_coordinates)(pass, pass->stride, block.row[i], rows->n_columns, &row, plus,
                                  minus);
            if (rows->intercept)
                NAME(add_coordinates)(pass, pass->intercept_stride, &one, 1, &row,
                                      plus + rows->n_columns, minus + rows->n_columns);
            NAME(add_rounded_changes)(base + i, 1, base[i], pass, row.times, parent);
        }
    }
}

#endif
