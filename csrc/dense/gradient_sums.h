/* sum_i loss'(p_i) z_i: clipped and exact, or plain. See kernel_table.h.
 *
 * A software pipeline: one block of rows is added up while the next one is multiplied and the one
 * after is prefetched, a few cache lines at a time, which keeps the memory bus busy. */
#ifndef DPERM_GRADIENT_SUMS_H
#define DPERM_GRADIENT_SUMS_H

#include "dense/gradient_factors.h"
#include "loss/losses.h"

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

#endif
