/* Steps of stochastic gradient descent without leaving C; see sgd_steps.h. Rows of either type, all
 * arithmetic in double.
 *
 * Needs: vector/real_types.inc.h, dense/clipped_gradient_sum.inc.h, dense/dense_rows.inc.h,
 * sgd/sgd_update.inc.h. */

/* What one call works with: vectors of `width` doubles, the dimension rounded up to whole units;
 * places past the dimension are and stay 0. */
struct NAME(sgd_scratch) {
    struct layout_f64 layout;
    double *w, *w_sum; /* packed copies of the caller's */
    double *gradient;  /* of a batch */
    double *rows;      /* ROWS_PER_BLOCK rows as doubles, the intercept's 1 included */
};

static struct NAME(sgd_scratch) NAME(sgd_scratch_in)(void *workspace, const struct dense_rows *rows,
                                                     const double *w, const double *w_sum) {
    struct NAME(sgd_scratch) scratch;
    const int64_t dimension = rows->n_columns + rows->intercept, width = sgd_width(rows);
    scratch.layout = layout_of_f64(width);
    scratch.w = workspace;
    scratch.w_sum = scratch.w + width;
    scratch.gradient = scratch.w_sum + width;
    scratch.rows = scratch.gradient + width;
    memset(workspace, 0, (3 + ROWS_PER_BLOCK) * width * sizeof(double));
    memcpy(scratch.w, w, dimension * sizeof(double));
    if (w_sum)
        memcpy(scratch.w_sum, w_sum, dimension * sizeof(double));
    if (rows->intercept)
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            scratch.rows[i * width + rows->n_columns] = 1.0;
    return scratch;
}

ALWAYS_INLINE void NAME(prefetch_sgd_row)(const struct dense_rows *rows, int64_t index) {
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return;
    const char *row = (const char *)((const REAL *)rows->x + index * rows->n_columns);
    const int64_t bytes = rows->n_columns * (int64_t)sizeof(REAL);
    for (int64_t at = 0; at < bytes && at < SGD_PREFETCH_BYTES; at += 64)
        __builtin_prefetch(row + at, 0, 3);
    __builtin_prefetch(rows->norms + index);
    __builtin_prefetch((const REAL *)rows->y + index);
}

/* Row `index` as doubles; returns whether it counts: it exists and is finite. */
ALWAYS_INLINE int NAME(read_sgd_row)(const struct dense_rows *rows, int64_t index,
                                     double *restrict row, double *y, double *norm) {
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return 0;
    *norm = rows->norms[index];
    *y = (double)((const REAL *)rows->y)[index];
    if (!(*norm <= DBL_MAX && fabs(*y) <= DBL_MAX))
        return 0;
    const REAL *restrict x = (const REAL *)rows->x + index * rows->n_columns;
    for (int64_t j = 0; j < rows->n_columns; j++)
        row[j] = (double)x[j];
    return 1;
}

/* gradient += sum of the clipped gradients of up to ROWS_PER_BLOCK records, each rounded to the
 * grid if `shift` is not 0 (see add_rounded_rows). What a record adds does not depend on its place
 * in the block. */
ALWAYS_INLINE void NAME(add_sgd_gradients)(const struct dense_rows *rows,
                                           const struct sgd_settings *settings,
                                           const struct NAME(sgd_scratch) * scratch,
                                           const int64_t *order, int count, double shift) {
    const int64_t width = scratch->layout.width;
    double p[ROWS_PER_BLOCK] = {0}, y[ROWS_PER_BLOCK] = {0}, norm[ROWS_PER_BLOCK];
    double scale[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK], clipped[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        norm[i] = NAN, scale[i] = 0.0;
    for (int i = 0; i < count; i++) {
        double *row = scratch->rows + i * width;
        if (NAME(read_sgd_row)(rows, order[i], row, &y[i], &norm[i])) {
            scale[i] = norm[i] <= rows->row_norm ? 1.0 : rows->row_norm / norm[i];
            p[i] = scale[i] * dot_f64(row, scratch->w, &scratch->layout);
        } else {
            norm[i] = NAN;
            y[i] = 0.0;
        }
    }
    loss_derivatives(settings->loss, ROWS_PER_BLOCK, p, y, s);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        s[i] *= scale[i];
    weigh_sgd_records(rows, order, count, s);
    clip_factors_f64(ROWS_PER_BLOCK, s, norm, settings->inner_clip, clipped);
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

/* The factor of row `index`, which is left in `row`: its clipped gradient is the product. */
ALWAYS_INLINE double NAME(single_factor)(const struct dense_rows *rows,
                                         const struct sgd_settings *settings,
                                         const struct NAME(sgd_scratch) * scratch, int64_t index,
                                         double *row) {
    double y, norm;
    if (!NAME(read_sgd_row)(rows, index, row, &y, &norm))
        return 0.0;
    const double scale = norm <= rows->row_norm ? 1.0 : rows->row_norm / norm;
    const double p = scale * dot_f64(row, scratch->w, &scratch->layout);
    double s = single_loss_derivative(settings->loss, p, y) * scale;
    weigh_sgd_records(rows, &index, 1, &s);
    return single_clip(s, norm, settings->inner_clip);
}

/* gradient += the clipped gradients of records order[next .. end - 1]. */
ALWAYS_INLINE void NAME(add_sgd_records)(const struct dense_rows *rows,
                                         const struct sgd_settings *settings,
                                         const struct NAME(sgd_scratch) * scratch,
                                         const int64_t *order, int64_t next, int64_t end,
                                         int64_t n_drawn, double shift) {
    while (next < end) {
        const int count = end - next < ROWS_PER_BLOCK ? (int)(end - next) : ROWS_PER_BLOCK;
        for (int i = 0; i < count; i++) {
            const int64_t ahead = next + i + SGD_ROWS_AHEAD;
            if (ahead < n_drawn)
                NAME(prefetch_sgd_row)(rows, order[ahead]);
        }
        NAME(add_sgd_gradients)(rows, settings, scratch, order + next, count, shift);
        next += count;
    }
}

/* gradient = the sum of a batch that has begun, or 0. */
ALWAYS_INLINE void NAME(open_sgd_batch)(const struct sgd_block *block, int begun, int64_t dimension,
                                        const struct NAME(sgd_scratch) * scratch) {
    memset(scratch->gradient, 0, scratch->layout.width * sizeof(double));
    if (begun)
        memcpy(scratch->gradient, block->carried, dimension * sizeof(double));
}

static void NAME(sgd_steps)(const struct dense_rows *rows, const struct sgd_settings *settings,
                            const struct sgd_block *block, void *workspace) {
    double *w = block->w, *w_sum = block->w_sum;
    const struct NAME(sgd_scratch) scratch = NAME(sgd_scratch_in)(workspace, rows, w, w_sum);
    const int64_t dimension = rows->n_columns + rows->intercept;
    const double shift = settings->grid > 0.0 ? 6755399441055744.0 * settings->grid : 0.0;
    const int64_t n_drawn =
        block->n_open + (block->n_steps > 0 ? block->batch_ends[block->n_steps - 1] : 0);
    const struct sgd_iterate iterate = {&scratch.layout, scratch.w, scratch.w_sum, dimension};
    int64_t next = 0;
    int begun = block->begun;
    for (int64_t step = 0; step < block->n_steps; step++) {
        const int64_t end = block->batch_ends[step];
        if (end == next + 1 && shift == 0.0 && !begun) {
            if (next + SGD_ROWS_AHEAD < n_drawn)
                NAME(prefetch_sgd_row)(rows, block->order[next + SGD_ROWS_AHEAD]);
            const double factor =
                NAME(single_factor)(rows, settings, &scratch, block->order[next], scratch.rows);
            take_single_step(settings, &iterate, block->step_sizes[step], factor, scratch.rows,
                             block->noise ? block->noise + step * dimension : NULL);
            next = end;
            continue;
        }
        NAME(open_sgd_batch)(block, begun, dimension, &scratch);
        begun = 0;
        NAME(add_sgd_records)(rows, settings, &scratch, block->order, next, end, n_drawn, shift);
        next = end;
        add_sgd_noise(scratch.gradient, block, step, dimension, settings->grid);
        take_sgd_step(settings, &iterate, block->step_sizes[step], scratch.gradient);
    }
    if (block->n_open > 0) {
        NAME(open_sgd_batch)(block, begun, dimension, &scratch);
        NAME(add_sgd_records)(rows, settings, &scratch, block->order, next, n_drawn, n_drawn,
                              shift);
        memcpy(block->carried, scratch.gradient, dimension * sizeof(double));
    }
    memcpy(w, scratch.w, dimension * sizeof(double));
    if (w_sum)
        memcpy(w_sum, scratch.w_sum, dimension * sizeof(double));
}
