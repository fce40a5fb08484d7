/* sum_i loss'(p_i) z_i: clipped and exact, or plain. See kernel_table.h. */

/* s_i = loss'(p_i) * scale_i; on return s_i (x_i, 1) is the record's gradient. */
ALWAYS_INLINE void NAME(gradient_factors)(const struct NAME(block) * block, struct loss loss,
                                          const double *p, double *s) {
    loss_derivatives(loss, p, block->y, s);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        s[i] *= block->scale[i];
}

/* cap[i] = clip_in / norm_i. */
ALWAYS_INLINE void NAME(find_caps)(const double *norm, double clip_in, double *cap) {
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        cap[i] = clip_in / norm[i];
}

/* Clamp to +-cap_i. Only a true comparison lets a value pass: NaN becomes 0. So does a subnormal
 * factor: it has few digits, and times a huge row its rounding error would carry the record past
 * the clip. */
ALWAYS_INLINE void NAME(clamp_factors)(const double *s, const double *cap, REAL *clipped) {
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        double value = s[i] > cap[i] ? cap[i] : s[i];
        value = value < -cap[i] ? -cap[i] : value;
        const double magnitude = value < 0.0 ? -value : value;
        const int passes = (magnitude <= cap[i]) & (magnitude <= (double)REAL_MAX) &
                           (magnitude >= (double)REAL_MIN);
        clipped[i] = passes ? (REAL)value : (REAL)0;
    }
}

/* Clamp to +-clip_in / norm_i. */
ALWAYS_INLINE void NAME(clip_factors)(const double *s, const double *norm, double clip_in,
                                      REAL *clipped) {
    double cap[ROWS_PER_BLOCK];
    NAME(find_caps)(norm, clip_in, cap);
    NAME(clamp_factors)(s, cap, clipped);
}

/* sum_out += accumulator / its `added` shifts removed; accumulator = 0. */
static void NAME(flush_rounded)(const struct NAME(layout) * layout, UNSIGNED *accumulator,
                                REAL shift, UNSIGNED added, int64_t *sum_out) {
    UNSIGNED shift_bits;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    const UNSIGNED surplus = shift_bits * added;
    for (int64_t unit = 0; unit < layout->units; unit++)
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t column = NAME(unit_offset)(layout, unit) + lane;
            const UNSIGNED bits = accumulator[unit * LANES + lane] - surplus;
            accumulator[unit * LANES + lane] = 0;
            if (column >= unit * LANES && column < layout->n_columns)
                sum_out[column] += (INTEGER)bits;
        }
}

/* rounded[i] = round(s_i / grid), what an entry of 1 adds; returns their sum. */
ALWAYS_INLINE int64_t NAME(rounded_factors)(const REAL *s, REAL shift, int64_t *rounded) {
    int64_t sum = 0;
    UNSIGNED shift_bits;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const REAL shifted = s[i] + shift;
        UNSIGNED bits;
        memcpy(&bits, &shifted, sizeof bits);
        rounded[i] = (INTEGER)(bits - shift_bits);
        sum += rounded[i];
    }
    return sum;
}

/* What the rows of a block that count more than once add beyond the first time. Apart: few do. */
static __attribute__((noinline)) void NAME(add_repeats)(const struct NAME(block) * block,
                                                        const REAL *s, const int64_t *count,
                                                        int64_t n_columns, int intercept,
                                                        REAL shift, int64_t *sum_out) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const int64_t times = count[i] - 1;
        if (times == 0 || s[i] == 0)
            continue;
        NAME(add_rounded_multiple)(block->row[i], n_columns, s[i], shift, times, sum_out);
        if (intercept)
            NAME(add_rounded_multiple)(&s[i], 1, 1, shift, times, sum_out + n_columns);
    }
}

static void NAME(clipped_gradient_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                       struct loss loss, const double *w, double clip_in,
                                       double grid, int64_t *sum_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const REAL shift = ROUNDING_SHIFT * (REAL)grid;
    int64_t intercept_sum = 0;
    int added = 0;
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        NAME(prefetch_row)(rows, begin + i);
    NAME(pack_weights)(&layout, w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK];
        REAL clipped[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK], rounded[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const int64_t *count = NAME(read_counts)(rows, first, end, counts);
        struct read_ahead ahead = NAME(block_ahead)(rows, first + ROWS_PER_BLOCK, end);
        NAME(predict_block_ahead)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                                  &layout, &ahead, p);
        NAME(products_are_formed)(&ahead);
        for (int i = 0; i < ROWS_PER_BLOCK && rows->predictions && first + i < end; i++)
            rows->predictions[first + i] = p[i];
        NAME(gradient_factors)(&block, loss, p, s);
        if (rows->clip_norms)
            NAME(read_clip_norms)(rows, first, &block);
        NAME(clip_factors)(s, block.norm, clip_in, clipped);
        if (rows->batch)
            NAME(add_rounded_batch_rows)(rows, first + ROWS_PER_BLOCK, &block, clipped, shift,
                                         &layout, scratch.accumulator);
        else
            for (int i = 0; i < ROWS_PER_BLOCK; i += ROWS_PER_LOAD)
                NAME(add_rounded_rows)(block.row + i, clipped + i, shift, &layout, &ahead, NULL, 0,
                                       scratch.accumulator);
        intercept_sum += NAME(rounded_factors)(clipped, shift, rounded);
        if (count)
            NAME(add_repeats)(&block, clipped, count, rows->n_columns, rows->intercept, shift,
                              sum_out);
        added += ROWS_PER_BLOCK;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            NAME(flush_rounded)(&layout, scratch.accumulator, shift, added, sum_out);
            added = 0;
        }
    }
    if (rows->intercept)
        sum_out[rows->n_columns] += intercept_sum;
}

static void NAME(flush_plain)(const struct NAME(layout) * layout, REAL *accumulator,
                              double *sum_out) {
    for (int64_t unit = 0; unit < layout->units; unit++)
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t column = NAME(unit_offset)(layout, unit) + lane;
            if (column >= unit * LANES && column < layout->n_columns)
                sum_out[column] += (double)accumulator[unit * LANES + lane];
            accumulator[unit * LANES + lane] = 0;
        }
}

static void NAME(gradient_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                               struct loss loss, const double *w, double *sum_out, double *loss_out,
                               void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    double intercept_sum = 0.0, loss_sum = 0.0;
    int added = 0;
    NAME(pack_weights)(&layout, w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK], value[ROWS_PER_BLOCK];
        REAL factor[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const int64_t *count = NAME(read_counts)(rows, first, end, counts);
        struct read_ahead ahead = NAME(block_ahead)(rows, first + ROWS_PER_BLOCK, end);
        NAME(predict_block_ahead)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                                  &layout, &ahead, p);
        NAME(products_are_formed)(&ahead);
        NAME(gradient_factors)(&block, loss, p, s);
        for (int i = 0; i < ROWS_PER_BLOCK && count; i++)
            s[i] *= (double)count[i];
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            factor[i] = fabs(s[i]) <= (double)REAL_MAX ? (REAL)s[i] : (REAL)0;
            intercept_sum += (double)factor[i];
        }
        if (loss_out) {
            loss_values_f64(loss, p, block.y, 1, value);
            for (int i = 0; i < ROWS_PER_BLOCK && count; i++)
                value[i] *= (double)count[i];
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                loss_sum += value[i] <= DBL_MAX ? value[i] : 0.0;
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i += ROWS_PER_LOAD)
            NAME(add_rows)(block.row + i, factor + i, &layout, &ahead, scratch.accumulator);
        added += ROWS_PER_BLOCK;
        if (added == FLOAT_ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            NAME(flush_plain)(&layout, scratch.accumulator, sum_out);
            added = 0;
        }
    }
    if (rows->intercept)
        sum_out[rows->n_columns] += intercept_sum;
    if (loss_out)
        *loss_out += loss_sum;
}
