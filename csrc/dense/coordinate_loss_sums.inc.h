/* Changes of the losses at the neighbours of w along the axes. See kernel_table.h. */

/* sum_out[k] += times * round(change_k / grid) with change_k = value[k] - base + clip/2 kept in
 * [0, clip]. A NaN, which no comparison lets pass, counts 0. */
ALWAYS_INLINE void NAME(add_rounded_changes)(const double *value, int64_t count, double base,
                                             double clip, double grid, int64_t times,
                                             int64_t *sum_out) {
    const double shift = 6755399441055744.0 * grid; /* 1.5 * 2^52 grid */
    const double half = 0.5 * clip;
    int64_t shift_bits;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
#pragma omp simd
    for (int64_t k = 0; k < count; k++) {
        double change = (value[k] - base) + half;
        change = change > clip ? clip : change;
        change = change >= 0.0 ? change : 0.0;
        const double rounded = change + shift;
        int64_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        sum_out[k] += times * (bits - shift_bits);
    }
}

/* One row's part: columns in batches that whole blocks of losses fit. */
static void NAME(add_coordinates)(struct loss loss, const REAL *x, int64_t n_columns, double p,
                                  double y, double step, double base, double clip, double grid,
                                  int64_t times, int64_t *plus, int64_t *minus) {
    double at[COLUMNS_PER_BATCH], value[COLUMNS_PER_BATCH], target[COLUMNS_PER_BATCH];
    for (int k = 0; k < COLUMNS_PER_BATCH; k++)
        target[k] = y;
    for (int64_t j = 0; j < n_columns; j += COLUMNS_PER_BATCH) {
        const int64_t left = n_columns - j;
        const int64_t count = left < COLUMNS_PER_BATCH ? left : COLUMNS_PER_BATCH;
        const int n_blocks = (int)((count + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK);
        for (int sign = 1; sign >= -1; sign -= 2) {
            const double signed_step = sign * step;
            for (int64_t k = 0; k < count; k++)
                at[k] = p + signed_step * (double)x[j + k];
            for (int64_t k = count; k < n_blocks * ROWS_PER_BLOCK; k++)
                at[k] = p;
            loss_values_f64(loss, at, target, n_blocks, value);
            NAME(add_rounded_changes)(value, count, base, clip, grid, times,
                                      (sign > 0 ? plus : minus) + j);
        }
    }
}

static void NAME(coordinate_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                       struct loss loss, const double *w, double stride,
                                       double clip, double grid, int64_t *sum_out,
                                       void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const int64_t dimension = rows->n_columns + rows->intercept;
    const REAL one = 1;
    int64_t *plus = sum_out, *minus = sum_out + dimension, *parent = minus + dimension;
    NAME(pack_weights)(&layout, w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], base[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        NAME(predict_block)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                            &layout, p);
        loss_values_f64(loss, p, block.y, 1, base);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const double step = stride * block.scale[i];
            const int64_t times = rows->counts && first + i < end ? rows->counts[first + i] : 1;
            if (!(block.norm[i] <= DBL_MAX))
                continue; /* must not count */
            NAME(add_coordinates)(loss, block.row[i], rows->n_columns, p[i], block.y[i], step,
                                  base[i], clip, grid, times, plus, minus);
            if (rows->intercept)
                NAME(add_coordinates)(loss, &one, 1, p[i], block.y[i], step, base[i], clip, grid,
                                      times, plus + rows->n_columns, minus + rows->n_columns);
            NAME(add_rounded_changes)(base + i, 1, base[i], clip, grid, times, parent);
        }
    }
}
