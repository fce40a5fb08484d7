/* Clipped losses along a line, and predictions. See kernel_table.h. */

/* Sum over a block of round(min(value, clip) / grid). A NaN, which no comparison
 * lets pass, counts 0; an overflow to infinity counts as clip. */
ALWAYS_INLINE int64_t NAME(rounded_loss_sum)(const REAL *value, double clip, double grid) {
    const double shift = 6755399441055744.0 * grid; /* 1.5 * 2^52 grid */
    int64_t shift_bits, sum = 0;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        double clipped = (double)value[i];
        clipped = clipped > clip ? clip : clipped;
        clipped = clipped >= 0.0 ? clipped : 0.0;
        const double rounded = clipped + shift;
        int64_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        sum += bits - shift_bits;
    }
    return sum;
}

static void NAME(clipped_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                    struct loss loss, const double *w, const double *direction,
                                    const double *steps, int64_t n_steps, double clip, double grid,
                                    int64_t *sum_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double w_intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const double d_intercept = rows->intercept ? direction[rows->n_columns] : 0.0;
    NAME(pack_weights)(&layout, w, scratch.weights);
    const int64_t n_batches = (n_steps + STEPS_PER_BATCH - 1) / STEPS_PER_BATCH;
    NAME(pack_weights)(&layout, direction, scratch.direction);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        REAL at[STEPS_PER_BATCH * ROWS_PER_BLOCK], value[STEPS_PER_BATCH * ROWS_PER_BLOCK];
        REAL y[STEPS_PER_BATCH * ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            p[i] = (double)NAME(dot)(block.row[i], scratch.weights, &layout);
            q[i] = (double)NAME(dot)(block.row[i], scratch.direction, &layout);
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            p[i] = block.scale[i] * (p[i] + w_intercept);
            q[i] = block.scale[i] * (q[i] + d_intercept);
            for (int b = 0; b < STEPS_PER_BATCH; b++)
                y[b * ROWS_PER_BLOCK + i] = (REAL)block.y[i];
        }
        for (int64_t j = 0; j < n_steps; j += STEPS_PER_BATCH) {
            NAME(prefetch_next_block)(rows, first, end, j / STEPS_PER_BATCH, n_batches);
            for (int b = 0; b < STEPS_PER_BATCH; b++) {
                const double step = j + b < n_steps ? steps[j + b] : 0.0;
                for (int i = 0; i < ROWS_PER_BLOCK; i++)
                    at[b * ROWS_PER_BLOCK + i] = (REAL)(p[i] - step * q[i]);
            }
            NAME(loss_values)(loss, at, y, STEPS_PER_BATCH, value);
            for (int b = 0; b < STEPS_PER_BATCH && j + b < n_steps; b++)
                sum_out[j + b] += NAME(rounded_loss_sum)(value + b * ROWS_PER_BLOCK, clip, grid);
        }
    }
}

static void NAME(predictions)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const double *w, double *p_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    NAME(pack_weights)(&layout, w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        NAME(predict_block)(&block, scratch.weights, intercept, &layout, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}
