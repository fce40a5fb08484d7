/* Steps of stochastic gradient descent on sparse rows, with the bits of sgd_steps.inc.h. The
 * rows of a batch cost what they store; the step itself, like the noise, costs the dimension. All
 * arithmetic in double. Once per type of values and columns.
 *
 * Needs: vector/real_types.inc.h, sparse/sparse_types.inc.h, dense/clipped_gradient_sum.inc.h,
 * dense/dense_rows.inc.h, sgd/sgd_update.inc.h, sparse/sparse_lane_sums.inc.h. */

struct SPARSE(sgd_scratch) {
    struct layout_f64 layout;
    struct slot_map map;
    double *w, *w_sum, *gradient;
    double *row; /* zeros, but for the intercept's 1, between steps of one record */
};

static struct SPARSE(sgd_scratch)
    SPARSE(sgd_scratch_in)(void *workspace, const struct dense_rows *rows, const double *w,
                           const double *w_sum) {
    struct SPARSE(sgd_scratch) scratch;
    const int64_t dimension = rows->n_columns + rows->intercept, width = sgd_width(rows);
    scratch.layout = layout_of_f64(width);
    scratch.map = slot_map_of(width, LANES);
    scratch.w = workspace;
    scratch.w_sum = scratch.w + width;
    scratch.gradient = scratch.w_sum + width;
    scratch.row = scratch.gradient + width;
    memset(workspace, 0, SPARSE_SGD_VECTORS * width * sizeof(double));
    memcpy(scratch.w, w, dimension * sizeof(double));
    if (w_sum)
        memcpy(scratch.w_sum, w_sum, dimension * sizeof(double));
    if (rows->intercept)
        scratch.row[rows->n_columns] = 1.0;
    return scratch;
}

/* Row `index` and its product with w, the intercept's included; returns whether it counts. */
ALWAYS_INLINE int SPARSE(read_sgd_row)(const struct sparse_rows *sparse,
                                       const struct SPARSE(sgd_scratch) * scratch, int64_t index,
                                       struct SPARSE(row) * row, double *product, double *y,
                                       double *norm) {
    const struct dense_rows *rows = &sparse->rows;
    const struct SPARSE(ahead) ahead = {scratch->w, 1, NULL, &scratch->map};
    double slot[1][SLOTS] = {{0.0}};
    if ((uint64_t)index >= (uint64_t)rows->n_rows)
        return 0;
    *norm = rows->norms[index];
    *y = (double)((const VALUE *)rows->y)[index];
    if (!(*norm <= DBL_MAX && fabs(*y) <= DBL_MAX))
        return 0;
    const int64_t start = sparse->matrix->starts[index];
    row->x = (const VALUE *)rows->x + start;
    row->column = (const INDEX *)sparse->matrix->columns + start;
    row->count = sparse->matrix->starts[index + 1] - start;
    SPARSE(add_products)(row, &ahead, 0, 1, slot);
    if (rows->intercept) {
        const int64_t j = rows->n_columns;
        slot[0][j < scratch->map.in_fours ? j % SLOTS : late_slot(&scratch->map, LANES, j)] +=
            scratch->w[j];
    }
    *product = fold_slots_f64(slot[0]);
    return 1;
}

/* gradient += factor * row, rounded to the grid if `shift` is not 0. */
ALWAYS_INLINE void SPARSE(add_sgd_row)(const struct SPARSE(row) * row, int64_t n_columns,
                                       int intercept, double factor, double shift,
                                       double *restrict gradient) {
    if (shift > 0.0) {
        for (int64_t k = 0; k < row->count; k++)
            gradient[row->column[k]] += (factor * (double)row->x[k] + shift) - shift;
        if (intercept)
            gradient[n_columns] += (factor + shift) - shift;
    } else {
        for (int64_t k = 0; k < row->count; k++)
            gradient[row->column[k]] += factor * (double)row->x[k];
        if (intercept)
            gradient[n_columns] += factor;
    }
}

/* Adds up to ROWS_PER_BLOCK records of a batch, as add_sgd_gradients. */
ALWAYS_INLINE void SPARSE(add_sgd_gradients)(const struct sparse_rows *sparse,
                                             const struct sgd_settings *settings,
                                             const struct SPARSE(sgd_scratch) * scratch,
                                             const int64_t *order, int count, double shift) {
    const struct dense_rows *rows = &sparse->rows;
    struct SPARSE(row) row[ROWS_PER_BLOCK];
    double p[ROWS_PER_BLOCK] = {0}, y[ROWS_PER_BLOCK] = {0}, norm[ROWS_PER_BLOCK];
    double scale[ROWS_PER_BLOCK] = {0}, s[ROWS_PER_BLOCK], clipped[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        double product = 0.0;
        if (i < count &&
            SPARSE(read_sgd_row)(sparse, scratch, order[i], &row[i], &product, &y[i], &norm[i])) {
            scale[i] = norm[i] <= rows->row_norm ? 1.0 : rows->row_norm / norm[i];
            p[i] = scale[i] * product;
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
    for (int i = 0; i < count; i++)
        if (clipped[i] != 0.0)
            SPARSE(add_sgd_row)
    (&row[i], rows->n_columns, rows->intercept, clipped[i], shift, scratch->gradient);
}

/* A step with a batch of one record, without a grid. */
ALWAYS_INLINE void SPARSE(single_step)(const struct sparse_rows *sparse,
                                       const struct sgd_settings *settings,
                                       const struct SPARSE(sgd_scratch) * scratch,
                                       const struct sgd_iterate *iterate, int64_t index,
                                       double step_size, const double *noise) {
    const struct dense_rows *rows = &sparse->rows;
    struct SPARSE(row) row = {NULL, NULL, 0};
    double product, y, norm, factor = 0.0;
    if (SPARSE(read_sgd_row)(sparse, scratch, index, &row, &product, &y, &norm)) {
        const double scale = norm <= rows->row_norm ? 1.0 : rows->row_norm / norm;
        double s = single_loss_derivative(settings->loss, scale * product, y) * scale;
        weigh_sgd_records(rows, &index, 1, &s);
        factor = single_clip(s, norm, settings->inner_clip);
    }
    for (int64_t k = 0; k < row.count; k++)
        scratch->row[row.column[k]] = (double)row.x[k];
    take_single_step(settings, iterate, step_size, factor, scratch->row, noise);
    for (int64_t k = 0; k < row.count; k++)
        scratch->row[row.column[k]] = 0.0;
}

static void SPARSE(sgd_steps)(const struct sparse_rows *sparse, const struct sgd_settings *settings,
                              const struct sgd_block *block, void *workspace) {
    double *w = block->w, *w_sum = block->w_sum;
    const struct dense_rows *rows = &sparse->rows;
    const struct SPARSE(sgd_scratch) scratch = SPARSE(sgd_scratch_in)(workspace, rows, w, w_sum);
    const int64_t dimension = rows->n_columns + rows->intercept, width = scratch.layout.width;
    const double shift = settings->grid > 0.0 ? ROUNDING_SHIFT * settings->grid : 0.0;
    const struct sgd_iterate iterate = {&scratch.layout, scratch.w, scratch.w_sum, dimension};
    int64_t next = 0;
    for (int64_t step = 0; step < block->n_steps; step++) {
        const int64_t end = block->batch_ends[step];
        if (end == next + 1 && shift == 0.0) {
            SPARSE(single_step)
            (sparse, settings, &scratch, &iterate, block->order[next], block->step_sizes[step],
             block->noise ? block->noise + step * dimension : NULL);
            next = end;
            continue;
        }
        memset(scratch.gradient, 0, width * sizeof(double));
        while (next < end) {
            const int count = end - next < ROWS_PER_BLOCK ? (int)(end - next) : ROWS_PER_BLOCK;
            SPARSE(add_sgd_gradients)
            (sparse, settings, &scratch, block->order + next, count, shift);
            next += count;
        }
        add_sgd_noise(scratch.gradient, block, step, dimension, settings->grid);
        take_sgd_step(settings, &iterate, block->step_sizes[step], scratch.gradient);
    }
    memcpy(w, scratch.w, dimension * sizeof(double));
    if (w_sum)
        memcpy(w_sum, scratch.w_sum, dimension * sizeof(double));
}
