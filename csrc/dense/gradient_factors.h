/* What rows are multiplied by in a sum of gradients, and the rounding of such sums. */
#ifndef DPERM_GRADIENT_FACTORS_H
#define DPERM_GRADIENT_FACTORS_H

#include "dense/block_arguments.h"
#include "dense/dense_block.h"
#include "loss/losses.h"

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
SHARED void NAME(flush_rounded)(const struct NAME(layout) * layout, UNSIGNED *accumulator,
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
SHARED __attribute__((noinline)) void NAME(add_repeats)(int n, const struct NAME(block) * block,
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

#endif
