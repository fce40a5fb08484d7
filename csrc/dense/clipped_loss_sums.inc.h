/* Clipped losses along a line, and predictions. See kernel_table.h. */

/* Sum over a block of round(min(value, clip) / grid), each count_i times unless count is NULL. A
 * NaN, which no comparison lets pass, counts 0; an overflow to infinity counts as clip. */
ALWAYS_INLINE int64_t NAME(rounded_loss_sum)(const REAL *value, const int64_t *count, double clip,
                                             double grid) {
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
        sum += (bits - shift_bits) * (count ? count[i] : 1);
    }
    return sum;
}

/* A block's part of the sums: losses of a batch of steps at a time. */
ALWAYS_INLINE void NAME(add_losses)(struct loss loss, const double *p, const double *q,
                                    const double *target, const int64_t *count, const double *steps,
                                    int64_t n_steps, double clip, double grid,
                                    struct read_ahead next, int64_t *sum_out) {
    REAL at[STEPS_PER_BATCH * ROWS_PER_BLOCK], value[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    REAL y[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    for (int b = 0; b < STEPS_PER_BATCH; b++)
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            y[b * ROWS_PER_BLOCK + i] = (REAL)target[i];
    for (int64_t j = 0; j < n_steps; j += STEPS_PER_BATCH) {
        read_ahead(&next);
        for (int b = 0; b < STEPS_PER_BATCH; b++) {
            const double step = j + b < n_steps ? steps[j + b] : 0.0;
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                at[b * ROWS_PER_BLOCK + i] = (REAL)(p[i] - step * q[i]);
        }
        NAME(loss_values)(loss, at, y, STEPS_PER_BATCH, value);
        for (int b = 0; b < STEPS_PER_BATCH && j + b < n_steps; b++)
            sum_out[j + b] += NAME(rounded_loss_sum)(value + b * ROWS_PER_BLOCK, count, clip, grid);
    }
}

/* round(min(value, clip) / grid) of the rows that do not fit a logistic line. */
static void NAME(add_unfit_losses)(const struct NAME(logistic_line) * line, struct loss loss,
                                   const double *p, const double *q, const double *y,
                                   const int64_t *count, const double *steps, int64_t n_steps,
                                   double clip, double grid, int64_t *sum_out) {
    for (int64_t j = 0; j < n_steps; j++) {
        REAL value[ROWS_PER_BLOCK];
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const REAL at = (REAL)(p[i] - steps[j] * q[i]);
            value[i] = line->fits[i] ? 0 : NAME(loss_value)(loss, LOSS_LOGISTIC, at, (REAL)y[i]);
        }
        sum_out[j] += NAME(rounded_loss_sum)(value, count, clip, grid);
    }
}

/* State of a pass along a logistic line: see logistic_line.template.h. */
struct NAME(line_pass) {
    UNSIGNED_WIDE sums[LINE_MOST_STEPS];
    REAL steps[LINE_MOST_STEPS];
    int blocks;
};

static void NAME(line_pass_open)(struct NAME(line_pass) * pass, const double *steps,
                                 int64_t n_steps) {
    memset(pass, 0, sizeof *pass);
    for (int64_t j = 0; j < n_steps; j++)
        pass->steps[j] = (REAL)steps[j];
}

static void NAME(line_pass_add)(struct NAME(line_pass) * pass, struct loss loss, const double *p,
                                const double *q, const double *y, const int64_t *count,
                                const double *steps, int64_t n_steps, double clip, double grid,
                                struct read_ahead next, int64_t *sum_out) {
    const REAL shift = ROUNDING_SHIFT * (REAL)grid;
    struct NAME(logistic_line) line;
    NAME(logistic_line_open)(&line, p, q, y, steps, n_steps);
    if (count)
        NAME(logistic_line_add)(&line, pass->steps, n_steps, (REAL)clip, shift, next, NULL, count,
                                sum_out);
    else
        NAME(logistic_line_add)(&line, pass->steps, n_steps, (REAL)clip, shift, next, pass->sums,
                                NULL, NULL);
    if (!line.all_fit)
        NAME(add_unfit_losses)(&line, loss, p, q, y, count, steps, n_steps, clip, grid, sum_out);
    if (++pass->blocks == LINE_BLOCKS_PER_FLUSH) {
        NAME(logistic_line_flush)(pass->sums, n_steps, sum_out);
        pass->blocks = 0;
    }
}

/* p[i] = scale_i * (<x_i, w> + intercept), q[i] = <x_i, direction>. */
ALWAYS_INLINE void NAME(predict_both)(const struct NAME(block) * block,
                                      const struct NAME(scratch) * scratch, double intercept,
                                      const struct NAME(layout) * layout, double *p, double *q) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        REAL with_weights, with_direction;
        NAME(two_dots)(block->row[i], scratch->weights, scratch->direction, layout, &with_weights,
                       &with_direction);
        p[i] = (double)with_weights;
        q[i] = (double)with_direction;
    }
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
}

/* The same with the predictions of an earlier pass. */
ALWAYS_INLINE void NAME(predict_from)(const struct dense_rows *rows, int64_t first, int64_t end,
                                      const struct NAME(block) * block,
                                      const struct NAME(scratch) * scratch,
                                      const struct NAME(layout) * layout, double *p, double *q) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        p[i] = first + i < end ? rows->predictions[first + i] : NAN;
        q[i] = (double)NAME(dot)(block->row[i], scratch->direction, layout);
    }
}

static void NAME(clipped_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                    struct loss loss, const double *w, const double *direction,
                                    const double *steps, int64_t n_steps, double clip, double grid,
                                    int64_t *sum_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double w_intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const double d_intercept = rows->intercept ? direction[rows->n_columns] : 0.0;
    const int64_t n_batches = (n_steps + STEPS_PER_BATCH - 1) / STEPS_PER_BATCH;
    const int evenly = loss.kind == LOSS_LOGISTIC && evenly_spaced(steps, n_steps);
    struct NAME(line_pass) line_pass;
    if (evenly)
        NAME(line_pass_open)(&line_pass, steps, n_steps);
    NAME(pack_weights)(&layout, w, scratch.weights);
    NAME(pack_weights)(&layout, direction, scratch.direction);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const int64_t *count = NAME(read_counts)(rows, first, end, ROWS_PER_BLOCK, counts);
        if (rows->predictions)
            NAME(predict_from)(rows, first, end, &block, &scratch, &layout, p, q);
        else
            NAME(predict_both)(&block, &scratch, w_intercept, &layout, p, q);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            q[i] = block.scale[i] * (q[i] + d_intercept);
        if (evenly) {
            const struct read_ahead next = NAME(rows_ahead)(
                rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, WIDES_PER_BLOCK * n_steps);
            NAME(line_pass_add)(&line_pass, loss, p, q, block.y, count, steps, n_steps, clip, grid,
                                next, sum_out);
            continue;
        }
        const struct read_ahead next =
            NAME(rows_ahead)(rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, n_batches);
        NAME(add_losses)(loss, p, q, block.y, count, steps, n_steps, clip, grid, next, sum_out);
    }
    if (evenly)
        NAME(logistic_line_flush)(line_pass.sums, n_steps, sum_out);
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
