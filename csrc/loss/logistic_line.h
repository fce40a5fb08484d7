/* The logistic loss at evenly spaced points of a line without one exponential per point: for
 * margins m_j = m_0 - j delta, exp(-m_j) is a geometric sequence. Works in the precision of the
 * rows, on vectors of rows whose state stays in registers from the first step to the last.
 *
 * Only for rows whose margins stay within +-LINE_LIMIT, where neither exp(m) nor exp(-m)
 * overflows; whether they do depends on the row and the arguments alone. After n steps the relative
 * error of the sequence is below n + 8 roundings. */
#ifndef DPERM_LOGISTIC_LINE_H
#define DPERM_LOGISTIC_LINE_H

#include <math.h>

#include "kernel_table.h"
#include "vector/exp_power.h"
#include "vector/real_types.h"

#define WIDES_PER_BLOCK (ROWS_PER_BLOCK / WIDE_LANES)

#if REAL_IS_F32
#define LINE_LIMIT 80.0F
#define LINE_BLOCKS_PER_FLUSH 64 /* 4 per lane and block, at most 2^22 each: below 2^31 */

/* log(1 + t) for t in [0, 1 + 2^-17]. */
ALWAYS_INLINE wide_f32 log1p_for_line_f32(wide_f32 t) {
    wide_f32 s = t / (2.0F + t);
    wide_f32 z = s * s;
    wide_f32 z2 = z * z;
    wide_f32 series = (0.13425749F * z2 + 0.200037803F) * z + (0.141183099F * z2 + 0.333333202F);
    wide_f32 twice = s + s;
    return twice + twice * (z * series);
}
#else
#define LINE_LIMIT 700.0
#define LINE_BLOCKS_PER_FLUSH 512 /* 8 per lane and block, at most 2^50 each: below 2^63 */

/* log(1 + t) for t in [0, 1 + 2^-40], relative error below 3e-13: far below the grid, with a lower
 * degree than log1p_unit_f64. The series is interpolated at Chebyshev nodes. */
ALWAYS_INLINE wide_f64 log1p_for_line_f64(wide_f64 t) {
    wide_f64 s = t / (2.0 + t);
    wide_f64 z = s * s;
    wide_f64 z2 = z * z;
    wide_f64 even = 0.09532894472904432 * z2 + 0.0912765172439636;
    wide_f64 odd = 0.07223047417690645 * z2 + 0.11109655860158806;
    even = even * z2 + 0.1428574151703626;
    odd = odd * z2 + 0.1999999980990146;
    even = even * z2 + 0.33333333333549087;
    wide_f64 twice = s + s;
    return twice + twice * (z * (even + odd * z));
}
#endif

#define LINE_MAX_STEPS 64 /* keeps the error of the sequence below 2^-45, 2^-16 in float */

static int evenly_spaced(const double *steps, int64_t n_steps) {
    if (n_steps < 3 || n_steps > LINE_MAX_STEPS)
        return 0;
    const double spacing = (steps[n_steps - 1] - steps[0]) / (double)(n_steps - 1);
    const double largest = fmax(fabs(steps[0]), fabs(steps[n_steps - 1]));
    for (int64_t j = 0; j < n_steps; j++)
        if (!(fabs(steps[j] - (steps[0] + (double)j * spacing)) <= 0x1p-50 * largest))
            return 0;
    return 1;
}

/* A block of rows on the line: margins are margin - step * slope; exp(-m) and exp(m) at the first
 * step, and the ratio of each from one step to the next. */
struct NAME(logistic_line) {
    _Alignas(64) REAL margin[ROWS_PER_BLOCK], slope[ROWS_PER_BLOCK];
    REAL exp_minus[ROWS_PER_BLOCK], exp_plus[ROWS_PER_BLOCK];
    REAL up[ROWS_PER_BLOCK], down[ROWS_PER_BLOCK];
    UNSIGNED fits[ROWS_PER_BLOCK]; /* all bits set, or none */
    int all_fit;
};

/* The state at the first step, for margins y (p - step q). */
static void NAME(logistic_line_open)(struct NAME(logistic_line) * line, const double *p,
                                     const double *q, const double *y, const double *steps,
                                     int64_t n_steps) {
    const double spacing = (steps[n_steps - 1] - steps[0]) / (double)(n_steps - 1);
    REAL first[ROWS_PER_BLOCK], delta[ROWS_PER_BLOCK];
    UNSIGNED all_fit = (UNSIGNED)-1;
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const double margin = y[i] * p[i], slope = y[i] * q[i];
        line->margin[i] = (REAL)margin;
        line->slope[i] = (REAL)slope;
        first[i] = (REAL)(margin - steps[0] * slope);
        delta[i] = (REAL)(spacing * slope);
        const REAL size = first[i] < 0 ? -first[i] : first[i];
        const REAL stride = delta[i] < 0 ? -delta[i] : delta[i];
        const int fits = size + (REAL)n_steps * stride <= LINE_LIMIT; /* false for NaN */
        line->fits[i] = -(UNSIGNED)fits;
        all_fit &= line->fits[i];
        first[i] = fits ? first[i] : 0;
        delta[i] = fits ? delta[i] : 0;
    }
    line->all_fit = all_fit != 0;
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        line->exp_minus[i] = NAME(exp)(-first[i]);
        line->exp_plus[i] = NAME(exp)(first[i]);
        line->up[i] = NAME(exp)(delta[i]);
        line->down[i] = NAME(exp)(-delta[i]);
    }
}

/* Sum of integers times the multiplicities of their rows. */
ALWAYS_INLINE int64_t NAME(sum_of_multiples)(UNSIGNED_WIDE integers, const int64_t *count) {
    int64_t sum = 0;
    for (int lane = 0; lane < WIDE_LANES; lane++)
        sum += (int64_t)integers[lane] * count[lane];
    return sum;
}

/* The steps of a line, the clip of the losses, and the shift of their grid (grid_rounding.h). */
struct NAME(line_steps) {
    const REAL *steps;
    int64_t n_steps;
    REAL clip, shift;
};

/* sums[j] += round(min(loss at steps[j], clip) / grid), lane by lane, for the rows that fit; or,
 * with `count`, sum_out[j] += their sum, with row i counted count[i] times. `weight`: factors of
 * the losses, or the constant NULL. */
ALWAYS_INLINE void NAME(logistic_line_add)(const struct NAME(logistic_line) * line,
                                           const struct NAME(line_steps) * line_steps,
                                           struct read_ahead next, UNSIGNED_WIDE *sums,
                                           const REAL *weight, const int64_t *count,
                                           int64_t *sum_out) {
    const REAL *steps = line_steps->steps, shift = line_steps->shift;
    const int64_t n_steps = line_steps->n_steps;
    const UNSIGNED_WIDE shift_bits = (UNSIGNED_WIDE)(shift - (WIDE){0});
    const WIDE clips = line_steps->clip - (WIDE){0};
    for (int v = 0; v < WIDES_PER_BLOCK; v++) {
        const int at = v * WIDE_LANES;
        const WIDE margin = *(const WIDE *)(line->margin + at);
        const WIDE slope = *(const WIDE *)(line->slope + at);
        const WIDE up = *(const WIDE *)(line->up + at);
        const WIDE down = *(const WIDE *)(line->down + at);
        const UNSIGNED_WIDE fits = *(const UNSIGNED_WIDE *)(line->fits + at);
        WIDE minus = *(const WIDE *)(line->exp_minus + at);
        WIDE plus = *(const WIDE *)(line->exp_plus + at);
        for (int64_t j = 0; j < n_steps; j++) {
            read_ahead(&next);
            const WIDE m = margin - steps[j] * slope;
            const UNSIGNED_WIDE negative = (UNSIGNED_WIDE)(m < 0);
            const WIDE linear = (WIDE)((UNSIGNED_WIDE)-m & negative); /* max(0, -m) */
            const UNSIGNED_WIDE less = (UNSIGNED_WIDE)(minus < plus);
            const WIDE t = (WIDE)(((UNSIGNED_WIDE)minus & less) | ((UNSIGNED_WIDE)plus & ~less));
            WIDE loss = linear + NAME(log1p_for_line)(t);
            if (weight)
                loss *= *(const WIDE *)(weight + at);
            const UNSIGNED_WIDE high = (UNSIGNED_WIDE)(loss > clips);
            const WIDE clipped =
                (WIDE)(((UNSIGNED_WIDE)clips & high) | ((UNSIGNED_WIDE)loss & ~high));
            const UNSIGNED_WIDE integers = ((UNSIGNED_WIDE)(clipped + shift) - shift_bits) & fits;
            if (count)
                sum_out[j] += NAME(sum_of_multiples)(integers, count + at);
            else
                sums[j] += integers;
            minus *= up;
            plus *= down;
        }
    }
}

/* sum_out[j] += the lanes of sums[j]; sums[j] = 0. */
static void NAME(logistic_line_flush)(UNSIGNED_WIDE *sums, int64_t n_steps, int64_t *sum_out) {
    for (int64_t j = 0; j < n_steps; j++) {
        for (int lane = 0; lane < WIDE_LANES; lane++)
            sum_out[j] += (INTEGER)sums[j][lane];
        sums[j] = (UNSIGNED_WIDE){0};
    }
}

#endif
