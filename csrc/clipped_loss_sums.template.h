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

/* A block's part of the sums: losses of a batch of steps at a time. */
ALWAYS_INLINE void NAME(add_losses)(struct loss loss, const double *p, const double *q,
                                    const double *target, const double *steps, int64_t n_steps,
                                    double clip, double grid, struct memory_range next,
                                    int64_t *sum_out) {
    REAL at[STEPS_PER_BATCH * ROWS_PER_BLOCK], value[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    REAL y[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    for (int b = 0; b < STEPS_PER_BATCH; b++)
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            y[b * ROWS_PER_BLOCK + i] = (REAL)target[i];
    for (int64_t j = 0; j < n_steps; j += STEPS_PER_BATCH) {
        prefetch_part(next, j / STEPS_PER_BATCH);
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

#if !REAL_IS_F32
/* The same for the logistic loss at evenly spaced steps. Rows that do not fit the geometric
 * sequence, if there are any, are evaluated one by one as above. */
static void add_losses_evenly(struct loss loss, const double *p, const double *q, const double *y,
                              const double *steps, int64_t n_steps, double clip, double grid,
                              struct memory_range next, int64_t *sum_out) {
    struct logistic_line line;
    double value[ROWS_PER_BLOCK];
    logistic_line_open(&line, p, q, y, steps, n_steps);
    for (int64_t j = 0; j < n_steps; j++) {
        prefetch_part(next, j);
        logistic_line_next(&line, steps[j], value);
        for (int i = 0; i < ROWS_PER_BLOCK && !line.all_fit; i++)
            if (!line.fits[i])
                value[i] = loss_value_f64(loss, LOSS_LOGISTIC, p[i] - steps[j] * q[i], y[i]);
        sum_out[j] += rounded_loss_sum_f64(value, clip, grid);
    }
}
#endif

static void NAME(clipped_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                    struct loss loss, const double *w, const double *direction,
                                    const double *steps, int64_t n_steps, double clip, double grid,
                                    int64_t *sum_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double w_intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const double d_intercept = rows->intercept ? direction[rows->n_columns] : 0.0;
    const int64_t n_batches = (n_steps + STEPS_PER_BATCH - 1) / STEPS_PER_BATCH;
#if !REAL_IS_F32
    const int evenly = loss.kind == LOSS_LOGISTIC && evenly_spaced(steps, n_steps);
#endif
    NAME(pack_weights)(&layout, w, scratch.weights);
    NAME(pack_weights)(&layout, direction, scratch.direction);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            p[i] = (double)NAME(dot)(block.row[i], scratch.weights, &layout);
            q[i] = (double)NAME(dot)(block.row[i], scratch.direction, &layout);
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            p[i] = block.scale[i] * (p[i] + w_intercept);
            q[i] = block.scale[i] * (q[i] + d_intercept);
        }
#if !REAL_IS_F32
        if (evenly) {
            const struct memory_range next = NAME(next_block)(rows, first, end, n_steps);
            add_losses_evenly(loss, p, q, block.y, steps, n_steps, clip, grid, next, sum_out);
            continue;
        }
#endif
        const struct memory_range next = NAME(next_block)(rows, first, end, n_batches);
        NAME(add_losses)(loss, p, q, block.y, steps, n_steps, clip, grid, next, sum_out);
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
        NAME(predict_block)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                            &layout, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}
