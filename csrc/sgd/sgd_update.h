/* The parts of stochastic gradient descent that do not depend on the representation of the rows, on
 * vectors of doubles padded with 0 to whole units. Included where the double templates are in
 * force. */
#ifndef DPERM_SGD_UPDATE_H
#define DPERM_SGD_UPDATE_H

#include "dense/gradient_factors.h"
#include "sgd/sgd_steps.h"

enum {
    SGD_LANES = UNIT_BYTES / sizeof(double),
    SGD_ROWS_AHEAD = 3,       /* prefetch distance in records */
    SGD_PREFETCH_BYTES = 4096 /* of a row; the hardware prefetcher does the rest */
};

ALWAYS_INLINE int64_t sgd_width(const struct dense_rows *rows) {
    return (rows->n_columns + rows->intercept + SGD_LANES - 1) / SGD_LANES * SGD_LANES;
}

/* Vectors of `width` doubles, the dimension rounded up to whole units; places past the dimension
 * stay 0. */
struct sgd_scratch {
    struct layout_f64 layout;
    struct slot_map map; /* for sparse rows */
    int64_t dimension;
    double *w, *w_sum; /* packed copies of the caller's */
    double *gradient;  /* of a batch */
    double *rows;      /* rows as doubles, the intercept's 1 included */
};

static int64_t sgd_scratch_bytes(const struct dense_rows *rows, int n_rows) {
    return (3 + n_rows) * sgd_width(rows) * (int64_t)sizeof(double);
}

SHARED int64_t sgd_workspace_bytes(const struct dense_rows *rows) {
    return sgd_scratch_bytes(rows, ROWS_PER_BLOCK);
}

ALWAYS_INLINE struct sgd_scratch open_sgd_scratch(void *workspace, const struct dense_rows *rows,
                                                  const struct sgd_block *block, int n_rows) {
    const int64_t width = sgd_width(rows);
    struct sgd_scratch scratch = {.layout = layout_of_f64(width),
                                  .map = slot_map_of(width, SGD_LANES),
                                  .dimension = rows->n_columns + rows->intercept,
                                  .w = workspace};
    scratch.w_sum = scratch.w + width;
    scratch.gradient = scratch.w_sum + width;
    scratch.rows = scratch.gradient + width;
    memset(workspace, 0, (size_t)sgd_scratch_bytes(rows, n_rows));
    memcpy(scratch.w, block->w, scratch.dimension * sizeof(double));
    if (block->w_sum)
        memcpy(scratch.w_sum, block->w_sum, scratch.dimension * sizeof(double));
    for (int i = 0; i < n_rows && rows->intercept; i++)
        scratch.rows[i * width + rows->n_columns] = 1.0;
    return scratch;
}

/* Hands the weights and their sum back to the caller. */
ALWAYS_INLINE void close_sgd_scratch(const struct sgd_scratch *scratch,
                                     const struct sgd_block *block) {
    memcpy(block->w, scratch->w, scratch->dimension * sizeof(double));
    if (block->w_sum)
        memcpy(block->w_sum, scratch->w_sum, scratch->dimension * sizeof(double));
}

/* gradient = the sum carried over from an earlier call, or 0. */
ALWAYS_INLINE void open_sgd_batch(const struct sgd_scratch *scratch, const double *carried) {
    memset(scratch->gradient, 0, scratch->layout.width * sizeof(double));
    if (carried)
        memcpy(scratch->gradient, carried, scratch->dimension * sizeof(double));
}

/* Adds the noise of a step to the sum of its batch. Integer noise is added to the sum as an
 * integer, so that only the noisy sum is rounded to a double. */
ALWAYS_INLINE void add_sgd_noise(double *restrict gradient, const struct sgd_block *block,
                                 int64_t step, int64_t dimension, double grid) {
    if (block->noise_integers) {
        const int64_t *restrict noise = block->noise_integers + step * dimension;
        const double steps_per_unit = 1.0 / grid; /* exact: a power of two */
        for (int64_t j = 0; j < dimension; j++)
            gradient[j] = (double)(noise[j] + (int64_t)(gradient[j] * steps_per_unit)) * grid;
    } else if (block->noise) {
        const double *restrict noise = block->noise + step * dimension;
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++)
            gradient[j] += noise[j];
    }
}

/* Projects w onto the ball of radius settings->radius. */
ALWAYS_INLINE void project_sgd(const struct sgd_settings *settings, const struct layout_f64 *layout,
                               double *restrict w) {
    if (!(settings->radius <= DBL_MAX))
        return;
    const double length = sqrt(dot_f64(w, w, layout));
    if (length <= settings->radius)
        return;
    const double shrink = settings->radius / length;
#pragma omp simd
    for (int64_t j = 0; j < layout->width; j++)
        w[j] *= shrink;
}

/* w_sum += w, then w <- Proj(keep w - move gradient). */
ALWAYS_INLINE void take_sgd_step(const struct sgd_settings *settings,
                                 const struct sgd_scratch *scratch, double step_size) {
    const struct layout_f64 *layout = &scratch->layout;
    const int64_t dimension = scratch->dimension;
    double *restrict w = scratch->w, *restrict w_sum = scratch->w_sum;
    const double *restrict gradient = scratch->gradient;
    const double move = step_size / settings->divisor;
    const double keep = 1.0 - step_size * settings->l2;
    const double last = w[dimension - 1]; /* the intercept, unless it is penalized too */
#pragma omp simd
    for (int64_t j = 0; j < layout->width; j++) {
        w_sum[j] += w[j];
        w[j] = keep * w[j] - move * gradient[j];
    }
    if (settings->n_penalized < dimension)
        w[dimension - 1] = last - move * gradient[dimension - 1];
    project_sgd(settings, layout, w);
}

/* The same for a batch of one record, with gradient factor * scratch->rows and floating-point
 * noise, or NULL. */
ALWAYS_INLINE void take_single_step(const struct sgd_settings *settings,
                                    const struct sgd_scratch *scratch, double step_size,
                                    double factor, const double *restrict noise) {
    const int64_t dimension = scratch->dimension;
    double *restrict w = scratch->w, *restrict w_sum = scratch->w_sum;
    const double *restrict row = scratch->rows;
    const double move = step_size / settings->divisor;
    const double keep = 1.0 - step_size * settings->l2;
    const double last = w[dimension - 1];
    if (noise) {
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++) {
            w_sum[j] += w[j];
            w[j] = keep * w[j] - move * (factor * row[j] + noise[j]);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++) {
            w_sum[j] += w[j];
            w[j] = keep * w[j] - move * (factor * row[j]);
        }
    }
    if (settings->n_penalized < dimension) {
        const int64_t at = dimension - 1;
        w[at] = last - move * (noise ? factor * row[at] + noise[at] : factor * row[at]);
    }
    project_sgd(settings, &scratch->layout, w);
}

/* s[i] *= weight of record order[i]. */
ALWAYS_INLINE void weigh_sgd_records(const struct dense_rows *rows, const int64_t *order, int count,
                                     double *s) {
    for (int i = 0; i < count && rows->weights; i++)
        if ((uint64_t)order[i] < (uint64_t)rows->n_rows)
            s[i] *= rows->weights[order[i]];
}

ALWAYS_INLINE double sgd_scale(const struct dense_rows *rows, double norm) {
    return norm <= rows->row_norm ? 1.0 : rows->row_norm / norm;
}

/* Up to ROWS_PER_BLOCK records of a batch: products of rows and weights, targets and norms. Records
 * that do not count keep the values of no_sgd_records(). */
struct sgd_records {
    double product[ROWS_PER_BLOCK], y[ROWS_PER_BLOCK], norm[ROWS_PER_BLOCK];
};

ALWAYS_INLINE void no_sgd_records(struct sgd_records *records) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        records->product[i] = records->y[i] = 0.0;
        records->norm[i] = NAN;
    }
}

/* factor[i] for which factor[i] (x_i, 1) is the clipped gradient of record order[i]; 0 for records
 * that do not count. */
ALWAYS_INLINE void sgd_factors(const struct dense_rows *rows, const struct sgd_settings *settings,
                               const int64_t *order, int count, const struct sgd_records *records,
                               double *factor) {
    double p[ROWS_PER_BLOCK] = {0}, scale[ROWS_PER_BLOCK] = {0}, s[ROWS_PER_BLOCK];
    for (int i = 0; i < count; i++)
        if (records->norm[i] <= DBL_MAX) {
            scale[i] = sgd_scale(rows, records->norm[i]);
            p[i] = scale[i] * records->product[i];
        }
    loss_derivatives(settings->loss, ROWS_PER_BLOCK, p, records->y, s);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        s[i] *= scale[i];
    weigh_sgd_records(rows, order, count, s);
    clip_factors_f64(ROWS_PER_BLOCK, s, records->norm, settings->inner_clip, factor);
}

/* The same for one record, which counts. */
ALWAYS_INLINE double single_sgd_factor(const struct dense_rows *rows,
                                       const struct sgd_settings *settings, int64_t index,
                                       double product, double y, double norm) {
    const double scale = sgd_scale(rows, norm);
    double s = single_loss_derivative(settings->loss, scale * product, y) * scale;
    weigh_sgd_records(rows, &index, 1, &s);
    return clamped_f64(s, settings->inner_clip / norm);
}

#endif
