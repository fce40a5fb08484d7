/* Steps of stochastic gradient descent on sparse rows, with the bits of dense_sgd.h. Reading a
 * batch takes time proportional to its stored entries; the step and the noise, to the dimension.
 * All arithmetic in double. */
#ifndef DPERM_SPARSE_SGD_H
#define DPERM_SPARSE_SGD_H

#include "sgd/sgd_update.h"
#include "sparse/sparse_block.h"

/* Reads row `index` and its product with w, the intercept's included, if the row counts; returns
 * whether it does. */
ALWAYS_INLINE int read_sgd_row(const struct sparse_rows *sparse, const struct sgd_scratch *scratch,
                               int64_t index, struct row *row, double *product, double *y_out,
                               double *norm_out) {
    const struct dense_rows *rows = &sparse->rows;
    const struct ahead ahead = {scratch->w, 1, NULL, &scratch->map};
    double slot[1][SLOTS] = {{0.0}};
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return 0;
    const double norm = rows->norms[index], y = (double)((const VALUE *)rows->y)[index];
    if (!(norm <= DBL_MAX && fabs(y) <= DBL_MAX))
        return 0;
    *norm_out = norm;
    *y_out = y;
    const int64_t start = sparse->matrix->starts[index];
    row->x = (const VALUE *)rows->x + start;
    row->column = (const INDEX *)sparse->matrix->columns + start;
    row->count = sparse->matrix->starts[index + 1] - start;
    row->n_columns = rows->n_columns;
    add_products(row, &ahead, 0, 1, slot);
    if (rows->intercept) {
        const int64_t j = rows->n_columns;
        slot[0][dense_slot(&scratch->map, LANES, j)] += scratch->w[j];
    }
    *product = fold_slots_f64(slot[0]);
    return 1;
}

/* gradient += factor * row, rounded to the grid if `shift` is not 0. */
ALWAYS_INLINE void add_sgd_row(const struct row *row, int64_t n_columns, int intercept,
                               double factor, double shift, double *restrict gradient) {
    if (shift > 0.0) {
        for (int64_t k = 0; k < row->count; k++)
            gradient[column_of(row->column, k, n_columns)] +=
                (factor * (double)row->x[k] + shift) - shift;
        if (intercept)
            gradient[n_columns] += (factor + shift) - shift;
    } else {
        for (int64_t k = 0; k < row->count; k++)
            gradient[column_of(row->column, k, n_columns)] += factor * (double)row->x[k];
        if (intercept)
            gradient[n_columns] += factor;
    }
}

/* Adds up to ROWS_PER_BLOCK records of a batch, as add_sgd_gradients() does. */
ALWAYS_INLINE void add_sgd_gradients(const struct sparse_rows *sparse,
                                     const struct sgd_settings *settings,
                                     const struct sgd_scratch *scratch, const int64_t *order,
                                     int count, double shift) {
    const struct dense_rows *rows = &sparse->rows;
    struct row row[ROWS_PER_BLOCK];
    struct sgd_records records;
    double clipped[ROWS_PER_BLOCK];
    no_sgd_records(&records);
    for (int i = 0; i < count; i++)
        read_sgd_row(sparse, scratch, order[i], &row[i], &records.product[i], &records.y[i],
                     &records.norm[i]);
    sgd_factors(rows, settings, order, count, &records, clipped);
    for (int i = 0; i < count; i++)
        if (clipped[i] != 0.0)
            add_sgd_row(&row[i], rows->n_columns, rows->intercept, clipped[i], shift,
                        scratch->gradient);
}

/* A step with a batch of one record, without a grid. The row in scratch->rows is zero before and
 * after, except for the intercept's 1. */
ALWAYS_INLINE void single_step(const struct sparse_rows *sparse,
                               const struct sgd_settings *settings,
                               const struct sgd_scratch *scratch, int64_t index, double step_size,
                               const double *noise) {
    struct row row = {NULL, NULL, 0, 0};
    double product, y, norm, factor = 0.0;
    if (read_sgd_row(sparse, scratch, index, &row, &product, &y, &norm))
        factor = single_sgd_factor(&sparse->rows, settings, index, product, y, norm);
    for (int64_t k = 0; k < row.count; k++)
        scratch->rows[column_of(row.column, k, row.n_columns)] = (double)row.x[k];
    take_single_step(settings, scratch, step_size, factor, noise);
    for (int64_t k = 0; k < row.count; k++)
        scratch->rows[column_of(row.column, k, row.n_columns)] = 0.0;
}

static int64_t sparse_sgd_workspace_bytes(const struct sparse_rows *rows) {
    return sgd_scratch_bytes(&rows->rows, 1);
}

static void sparse_sgd_steps(const struct sparse_rows *sparse, const struct sgd_settings *settings,
                             const struct sgd_block *block, void *workspace) {
    const struct sgd_scratch scratch = open_sgd_scratch(workspace, &sparse->rows, block, 1);
    const int64_t dimension = scratch.dimension;
    const double shift = settings->grid > 0.0 ? SHIFT_F64 * settings->grid : 0.0;
    int64_t next = 0;
    for (int64_t step = 0; step < block->n_steps; step++) {
        const int64_t end = block->batch_ends[step];
        if (end == next + 1 && shift == 0.0) {
            single_step(sparse, settings, &scratch, block->order[next], block->step_sizes[step],
                        block->noise ? block->noise + step * dimension : NULL);
            next = end;
            continue;
        }
        open_sgd_batch(&scratch, NULL);
        while (next < end) {
            const int count = end - next < ROWS_PER_BLOCK ? (int)(end - next) : ROWS_PER_BLOCK;
            add_sgd_gradients(sparse, settings, &scratch, block->order + next, count, shift);
            next += count;
        }
        add_sgd_noise(scratch.gradient, block, step, dimension, settings->grid);
        take_sgd_step(settings, &scratch, block->step_sizes[step]);
    }
    close_sgd_scratch(&scratch, block);
}

#endif
