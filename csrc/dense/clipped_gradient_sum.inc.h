/* sum_i loss'(p_i) z_i: clipped and exact, or plain. See kernel_table.h.
 *
 * A software pipeline: one block of rows is added up while the next one is multiplied and the one
 * after is prefetched, a few cache lines at a time, which keeps the memory bus busy.
 *
 * Needs: vector/real_types.inc.h, dense/dense_rows.inc.h, loss/loss_values.inc.h. */

/* s_i = weight_i * loss'(p_i) * scale_i for the n rows from `first` on: s_i (x_i, 1) is the
 * gradient of the record. */
ALWAYS_INLINE void NAME(gradient_factors)(const struct dense_rows *rows, int n, int64_t first,
                                          int64_t end, const struct NAME(block) * block,
                                          struct loss loss, const double *p, double *s) {
    loss_derivatives(loss, n, p, block->y, s);
    for (int i = 0; i < n; i++)
        s[i] *= block->scale[i];
    weigh(rows, first, end, n, s);
}

/* cap[i] = inner_clip / norm_i. */
ALWAYS_INLINE void NAME(find_caps)(int n, const double *norm, double inner_clip, double *cap) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        cap[i] = inner_clip / norm[i];
}

/* s clamped to +-inner_clip / norm_i; NaN remains. */
ALWAYS_INLINE void NAME(limit_factors)(int n, const double *norm, double inner_clip, double *s) {
    double cap[ROWS_PER_BLOCK];
    NAME(find_caps)(n, norm, inner_clip, cap);
    for (int i = 0; i < n; i++)
        s[i] = s[i] > cap[i] ? cap[i] : s[i] < -cap[i] ? -cap[i] : s[i];
}

/* s clamped to +-cap. Only a true comparison lets a value pass: NaN becomes 0. So does a subnormal
 * factor, whose rounding error, multiplied by a huge row, would carry the record past the clip. */
ALWAYS_INLINE REAL NAME(clamped)(double s, double cap) {
    double value = s > cap ? cap : s;
    value = value < -cap ? -cap : value;
    const double magnitude = value < 0.0 ? -value : value;
    const int passes =
        (magnitude <= cap) & (magnitude <= (double)REAL_MAX) & (magnitude >= (double)REAL_MIN);
    return passes ? (REAL)value : (REAL)0;
}

ALWAYS_INLINE void NAME(clamp_factors)(int n, const double *s, const double *cap, REAL *clipped) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        clipped[i] = NAME(clamped)(s[i], cap[i]);
}

/* Clamps to +-inner_clip / norm_i; n <= ROWS_PER_BLOCK. */
ALWAYS_INLINE void NAME(clip_factors)(int n, const double *s, const double *norm, double inner_clip,
                                      REAL *clipped) {
    double cap[ROWS_PER_BLOCK];
    NAME(find_caps)(n, norm, inner_clip, cap);
    NAME(clamp_factors)(n, s, cap, clipped);
}

/* sum_out += accumulator / its `added` shifts removed; accumulator = 0. */
static void NAME(flush_rounded)(const struct NAME(layout) * layout, UNSIGNED *accumulator,
                                REAL shift, UNSIGNED added, int64_t *sum_out) {
    const UNSIGNED surplus = NAME(bits)(shift) * added;
    for (int64_t unit = 0; unit < layout->units; unit++)
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t column = NAME(unit_offset)(layout, unit) + lane;
            const UNSIGNED bits = accumulator[unit * LANES + lane] - surplus;
            accumulator[unit * LANES + lane] = 0;
            if (column >= unit * LANES && column < layout->n_columns)
                sum_out[column] += (INTEGER)bits;
        }
}

/* rounded[i] = round(s_i / grid), the contribution of an entry of 1; returns their sum. */
ALWAYS_INLINE int64_t NAME(rounded_factors)(int n, const REAL *s, REAL shift, int64_t *rounded) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        rounded[i] = NAME(grid_steps)(s[i], shift);
        sum += rounded[i];
    }
    return sum;
}

/* Adds the further copies of rows with multiplicity above 1. Not inlined: such rows are rare. */
static __attribute__((noinline)) void NAME(add_repeats)(int n, const struct NAME(block) * block,
                                                        const REAL *s, const int64_t *count,
                                                        const struct dense_rows *rows, REAL shift,
                                                        int64_t *sum_out) {
    for (int i = 0; i < n; i++) {
        const int64_t times = count[i] - 1;
        if (times == 0 || s[i] == 0)
            continue;
        NAME(add_rounded_multiple)(block->row[i], rows->n_columns, s[i], shift, times, sum_out);
        if (rows->intercept)
            NAME(add_rounded_multiple)(&s[i], 1, 1, shift, times, sum_out + rows->n_columns);
    }
}

/* Reads the block of rows from `first` on into one half of the scratch; two blocks fit. */
ALWAYS_INLINE void NAME(take_rows)(const struct dense_rows *rows, int64_t first, int64_t end,
                                   int half, const struct NAME(layout) * layout,
                                   const struct NAME(scratch) * scratch,
                                   struct NAME(block) * block) {
    REAL *narrow = scratch->narrow + half * ROWS_PER_BLOCK * LANES;
    NAME(read_rows)(rows, first, end - first, ROWS_IN_FLIGHT, layout, scratch->zero_row, narrow,
                    block);
}

/* Reads the first block and multiplies its rows with the packed weights. Prefetches the rows of a
 * batch up to those with which add_and_multiply() begins. */
static void NAME(first_products)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                 const struct NAME(layout) * layout,
                                 const struct NAME(scratch) * scratch, struct NAME(block) * block,
                                 double *product) {
    for (int i = 0; i < ROWS_IN_FLIGHT + layout->rows_far; i++)
        NAME(prefetch_row)(rows, begin + i);
    NAME(take_rows)(rows, begin, end, 0, layout, scratch, block);
    for (int i = 0; i < ROWS_IN_FLIGHT; i++)
        product[i] = (double)NAME(dot)(block->row[i], scratch->weights, layout);
}

/* A block to be added up, each row times its factor. */
struct NAME(sum) {
    const struct NAME(block) * block;
    const REAL *factor;
    REAL shift; /* of the grid, see grid_rounding.h */
    const struct NAME(layout) * layout;
    const struct NAME(scratch) * scratch;
};

/* Adds up a block (rounded if `exact`) piece by piece while multiplying the rows of the next block,
 * from row `second` on: product[i] = <x_i, w>. `exact` and `prefetching` are compile-time
 * constants. */
ALWAYS_INLINE void NAME(add_and_multiply_block)(int exact, enum prefetching prefetching,
                                                const struct NAME(sum) * sum,
                                                const struct dense_rows *rows, int64_t second,
                                                const REAL *const *ahead,
                                                const struct NAME(block) * next, double *product) {
    const struct NAME(layout) *layout = sum->layout;
    const int64_t near = second + layout->rows_near, far = second + layout->rows_far;
    for (int first = 0; first < ROWS_IN_FLIGHT; first += ROWS_PER_LOAD) {
        const struct NAME(rows_to_add) added =
            NAME(rows_to_add)(sum->block->row + first, sum->factor + first);
        int64_t unit = 0;
        for (int i = first; i < first + ROWS_PER_LOAD; i++) {
            const int64_t end = layout->units * (i + 1 - first) / ROWS_PER_LOAD;
            struct NAME(prefetched) prefetched = {ahead[i], NULL};
            if (prefetching == PREFETCH_BATCH)
                prefetched = NAME(prefetched_of_batch)(rows, near + i, far + i, next->row[i]);
            product[i] = (double)NAME(dot_prefetching)(prefetching, next->row[i],
                                                       sum->scratch->weights, layout, prefetched);
            if (exact)
                NAME(add_rounded_rows)(&added, sum->shift, layout, unit, end,
                                       sum->scratch->accumulator);
            else
                NAME(add_rows)(&added, layout, unit, end, sum->scratch->accumulator);
            unit = end;
        }
    }
}

ALWAYS_INLINE void NAME(add_and_multiply)(int exact, const struct NAME(sum) * sum,
                                          const struct dense_rows *rows, int64_t second,
                                          int64_t end, const struct NAME(block) * next,
                                          double *product) {
    const REAL *ahead[ROWS_IN_FLIGHT];
    NAME(rows_to_prefetch)(rows, second + ROWS_AHEAD, end, ROWS_IN_FLIGHT, next, ahead);
    if (rows->batch) {
        NAME(prefetch_starts)(rows, second + sum->layout->rows_far);
        NAME(add_and_multiply_block)(exact, PREFETCH_BATCH, sum, rows, second, ahead, next,
                                     product);
    } else
        NAME(add_and_multiply_block)(exact, PREFETCH_ROWS, sum, rows, second, ahead, next, product);
}

/* The clipped factors of the n rows of a block, given their predictions. */
ALWAYS_INLINE void NAME(clip_predictions)(const struct dense_rows *rows, int n, int64_t first,
                                          int64_t end, const struct pass *pass,
                                          struct NAME(block) * block, const double *p,
                                          REAL *clipped) {
    double s[ROWS_PER_BLOCK];
    for (int i = 0; i < n && rows->predictions && first + i < end; i++)
        rows->predictions[first + i] = p[i];
    NAME(gradient_factors)(rows, n, first, end, block, pass->loss, p, s);
    if (rows->clip_norms)
        NAME(read_clip_norms)(rows, first, n, block);
    NAME(clip_factors)(n, s, block->norm, pass->inner_clip, clipped);
}

/* Turns products into predictions: p[i] = scale_i * (p[i] + intercept). */
ALWAYS_INLINE void NAME(scale_products)(int n, const struct NAME(block) * block, double intercept,
                                        double *p) {
    for (int i = 0; i < n; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
}

static void NAME(clipped_gradient_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                       const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = intercept_of(rows, pass->w);
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->grid;
    struct NAME(block) blocks[2];
    REAL clipped[2][ROWS_IN_FLIGHT];
    double p[ROWS_IN_FLIGHT];
    int64_t *sum_out = out, intercept_sum = 0;
    int added = 0;
    NAME(pack_weights)(&layout, pass->w, scratch.weights);
    NAME(first_products)(rows, begin, end, &layout, &scratch, blocks, p);
    NAME(scale_products)(ROWS_IN_FLIGHT, blocks, intercept, p);
    NAME(clip_predictions)(rows, ROWS_IN_FLIGHT, begin, end, pass, blocks, p, clipped[0]);
    for (int64_t first = begin, half = 0; first < end; first += ROWS_IN_FLIGHT, half = !half) {
        const int64_t second = first + ROWS_IN_FLIGHT;
        struct NAME(block) *next = &blocks[!half];
        int64_t counts[ROWS_IN_FLIGHT], rounded[ROWS_IN_FLIGHT];
        const struct NAME(sum) sum = {&blocks[half], clipped[half], shift, &layout, &scratch};
        NAME(take_rows)(rows, second, end, !half, &layout, &scratch, next);
        NAME(add_and_multiply)(1, &sum, rows, second, end, next, p);
        intercept_sum += NAME(rounded_factors)(ROWS_IN_FLIGHT, clipped[half], shift, rounded);
        const int64_t *count = NAME(read_multiplicity)(rows, first, end, ROWS_IN_FLIGHT, counts);
        if (count)
            NAME(add_repeats)(ROWS_IN_FLIGHT, &blocks[half], clipped[half], count, rows, shift,
                              sum_out);
        NAME(scale_products)(ROWS_IN_FLIGHT, next, intercept, p);
        NAME(clip_predictions)(rows, ROWS_IN_FLIGHT, second, end, pass, next, p, clipped[!half]);
        added += ROWS_IN_FLIGHT;
        if (added == ROWS_PER_FLUSH || second >= end) {
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

/* The factors of the rows of a block, given their predictions: loss'(p_i) scale_i times weight,
 * clamped, times multiplicity. Adds the factors to sums[0] and, with_loss, the losses to sums[1].
 */
ALWAYS_INLINE void NAME(plain_block)(const struct dense_rows *rows, int64_t first, int64_t end,
                                     const struct pass *pass, const struct NAME(block) * block,
                                     const double *p, REAL *factor, double *sums) {
    double s[ROWS_IN_FLIGHT], value[ROWS_PER_BLOCK];
    int64_t counts[ROWS_IN_FLIGHT];
    const int64_t *count = NAME(read_multiplicity)(rows, first, end, ROWS_IN_FLIGHT, counts);
    NAME(gradient_factors)(rows, ROWS_IN_FLIGHT, first, end, block, pass->loss, p, s);
    NAME(limit_factors)(ROWS_IN_FLIGHT, block->norm, pass->inner_clip, s);
    for (int i = 0; i < ROWS_IN_FLIGHT && count; i++)
        s[i] *= (double)count[i];
    for (int i = 0; i < ROWS_IN_FLIGHT; i++) {
        factor[i] = fabs(s[i]) <= (double)REAL_MAX ? (REAL)s[i] : (REAL)0;
        sums[0] += (double)factor[i];
    }
    if (pass->with_loss) {
        loss_values_f64(pass->loss, p, block->y, 1, value);
        weigh(rows, first, end, ROWS_IN_FLIGHT, value);
    }
    for (int i = 0; i < ROWS_IN_FLIGHT && pass->with_loss && first + i < end; i++) {
        value[i] *= count ? (double)count[i] : 1.0;
        sums[1] += value[i] <= DBL_MAX ? value[i] : 0.0;
    }
}

static void NAME(gradient_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                               const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = intercept_of(rows, pass->w);
    struct NAME(block) blocks[2] = {0};
    REAL factor[2][ROWS_IN_FLIGHT];
    double p[ROWS_PER_BLOCK] = {0}, sums[2] = {0.0}, *sum_out = out;
    int added = 0;
    NAME(pack_weights)(&layout, pass->w, scratch.weights);
    NAME(first_products)(rows, begin, end, &layout, &scratch, blocks, p);
    NAME(scale_products)(ROWS_IN_FLIGHT, blocks, intercept, p);
    NAME(plain_block)(rows, begin, end, pass, blocks, p, factor[0], sums);
    for (int64_t first = begin, half = 0; first < end; first += ROWS_IN_FLIGHT, half = !half) {
        const int64_t second = first + ROWS_IN_FLIGHT;
        struct NAME(block) *next = &blocks[!half];
        const struct NAME(sum) sum = {&blocks[half], factor[half], 0, &layout, &scratch};
        NAME(take_rows)(rows, second, end, !half, &layout, &scratch, next);
        NAME(add_and_multiply)(0, &sum, rows, second, end, next, p);
        NAME(scale_products)(ROWS_IN_FLIGHT, next, intercept, p);
        NAME(plain_block)(rows, second, end, pass, next, p, factor[!half], sums);
        added += ROWS_IN_FLIGHT;
        if (added == FLOAT_ROWS_PER_FLUSH || second >= end) {
            NAME(flush_plain)(&layout, scratch.accumulator, sum_out);
            added = 0;
        }
    }
    if (rows->intercept)
        sum_out[rows->n_columns] += sums[0];
    if (pass->with_loss)
        sum_out[rows->n_columns + rows->intercept] += sums[1];
}
