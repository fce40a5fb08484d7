/* Steps of stochastic gradient descent on dense rows of either type; see sgd_steps.h. All
 * arithmetic in double. */
#ifndef DPERM_DENSE_SGD_H
#define DPERM_DENSE_SGD_H

#include "dispatch/level.h"
#include "sgd/sgd_update.h"
#include "vector/value_types.h"

ALWAYS_INLINE void prefetch_sgd_row(const struct dense_rows *rows, int64_t index) {
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return;
    const char *row = (const char *)((const VALUE *)rows->x + index * rows->n_columns);
    const int64_t bytes = rows->n_columns * (int64_t)sizeof(VALUE);
    for (int64_t at = 0; at < bytes && at < SGD_PREFETCH_BYTES; at += 64)
        __builtin_prefetch(row + at, 0, 3);
    __builtin_prefetch(rows->norms + index);
    __builtin_prefetch((const VALUE *)rows->y + index);
}

/* Reads row `index` as doubles if it counts, that is, exists and is finite; returns whether it
 * does. */
ALWAYS_INLINE int read_sgd_row(const struct dense_rows *rows, int64_t index, double *restrict row,
                               double *y_out, double *norm_out) {
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return 0;
    const double norm = rows->norms[index], y = (double)((const VALUE *)rows->y)[index];
    if (!(norm <= DBL_MAX && fabs(y) <= DBL_MAX))
        return 0;
    *norm_out = norm;
    *y_out = y;
    const VALUE *restrict x = (const VALUE *)rows->x + index * rows->n_columns;
    for (int64_t j = 0; j < rows->n_columns; j++)
        row[j] = (double)x[j];
    return 1;
}

/* gradient += the clipped gradients of up to ROWS_PER_BLOCK records, each rounded to the grid if
 * `shift` is not 0 (grid_rounding.h). What a record adds does not depend on its place in the block.
 */
ALWAYS_INLINE void add_sgd_gradients(const struct dense_rows *rows,
                                     const struct sgd_settings *settings,
                                     const struct sgd_scratch *scratch, const int64_t *order,
                                     int count, double shift) {
    const int64_t width = scratch->layout.width;
    struct sgd_records records;
    double clipped[ROWS_PER_BLOCK];
    no_sgd_records(&records);
    for (int i = 0; i < count; i++) {
        double *row = scratch->rows + i * width;
        if (read_sgd_row(rows, order[i], row, &records.y[i], &records.norm[i]))
            records.product[i] = dot_f64(row, scratch->w, &scratch->layout);
    }
    sgd_factors(rows, settings, order, count, &records, clipped);
    for (int i = 0; i < count; i++) {
        const double factor = clipped[i];
        const double *restrict row = scratch->rows + i * width;
        double *restrict gradient = scratch->gradient;
        if (factor == 0.0)
            continue;
        if (shift > 0.0) {
#pragma omp simd
            for (int64_t j = 0; j < width; j++)
                gradient[j] += (factor * row[j] + shift) - shift;
        } else {
#pragma omp simd
            for (int64_t j = 0; j < width; j++)
                gradient[j] += factor * row[j];
        }
    }
}

/* Reads row `index` into scratch->rows; returns the factor that makes it its clipped gradient. */
ALWAYS_INLINE double single_factor(const struct dense_rows *rows,
                                   const struct sgd_settings *settings,
                                   const struct sgd_scratch *scratch, int64_t index) {
    double y, norm;
    if (!read_sgd_row(rows, index, scratch->rows, &y, &norm))
        return 0.0;
    const double product = dot_f64(scratch->rows, scratch->w, &scratch->layout);
    return single_sgd_factor(rows, settings, index, product, y, norm);
}

/* gradient += the clipped gradients of records order[next .. end - 1]. */
ALWAYS_INLINE void add_sgd_records(const struct dense_rows *rows,
                                   const struct sgd_settings *settings,
                                   const struct sgd_scratch *scratch, const int64_t *order,
                                   int64_t next, int64_t end, int64_t n_drawn, double shift) {
    while (next < end) {
        const int count = end - next < ROWS_PER_BLOCK ? (int)(end - next) : ROWS_PER_BLOCK;
        for (int i = 0; i < count; i++) {
            const int64_t ahead = next + i + SGD_ROWS_AHEAD;
            if (ahead < n_drawn)
                prefetch_sgd_row(rows, order[ahead]);
        }
        add_sgd_gradients(rows, settings, scratch, order + next, count, shift);
        next += count;
    }
}

static void sgd_steps(const struct dense_rows *rows, const struct sgd_settings *settings,
                      const struct sgd_block *block, void *workspace) {
    const struct sgd_scratch scratch = open_sgd_scratch(workspace, rows, block, ROWS_PER_BLOCK);
    const int64_t dimension = scratch.dimension;
    const double shift = settings->grid > 0.0 ? SHIFT_F64 * settings->grid : 0.0;
    const int64_t n_drawn =
        block->n_open + (block->n_steps > 0 ? block->batch_ends[block->n_steps - 1] : 0);
    int64_t next = 0;
    int begun = block->begun;
    for (int64_t step = 0; step < block->n_steps; step++) {
        const int64_t end = block->batch_ends[step];
        if (end == next + 1 && shift == 0.0 && !begun) {
            if (next + SGD_ROWS_AHEAD < n_drawn)
                prefetch_sgd_row(rows, block->order[next + SGD_ROWS_AHEAD]);
            const double factor = single_factor(rows, settings, &scratch, block->order[next]);
            take_single_step(settings, &scratch, block->step_sizes[step], factor,
                             block->noise ? block->noise + step * dimension : NULL);
            next = end;
            continue;
        }
        open_sgd_batch(&scratch, begun ? block->carried : NULL);
        begun = 0;
        add_sgd_records(rows, settings, &scratch, block->order, next, end, n_drawn, shift);
        next = end;
        add_sgd_noise(scratch.gradient, block, step, dimension, settings->grid);
        take_sgd_step(settings, &scratch, block->step_sizes[step]);
    }
    if (block->n_open > 0) {
        open_sgd_batch(&scratch, begun ? block->carried : NULL);
        add_sgd_records(rows, settings, &scratch, block->order, next, n_drawn, n_drawn, shift);
        memcpy(block->carried, scratch.gradient, dimension * sizeof(double));
    }
    close_sgd_scratch(&scratch, block);
}

#if VALUE_IS_F32
#define SGD_KERNELS sgd_kernels_f32
#else
#define SGD_KERNELS sgd_kernels_f64
#endif

extern const struct sgd_kernels OF_LEVEL(SGD_KERNELS);
const struct sgd_kernels OF_LEVEL(SGD_KERNELS) = {sgd_workspace_bytes, sgd_steps};

#endif
