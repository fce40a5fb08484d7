/* The logistic loss at evenly spaced points of a line, in double, without an exponential a point:
 * exp(-m_j) of the margins m_j = m_0 - j delta is a geometric sequence.
 *
 * Only for rows whose margins stay within +-LINE_LIMIT, where neither exp(m) nor exp(-m)
 * overflows; whether a row does is a matter of that row and the arguments alone. After n steps
 * the relative error of the sequence is below (n + 8) 2^-52. */
#ifndef DPERM_LOGISTIC_LINE_H
#define DPERM_LOGISTIC_LINE_H

#define LINE_LIMIT 700.0
#define LINE_MOST_STEPS 64 /* keeps the error of the sequence below 2^-45 */

struct logistic_line {
    double margin[ROWS_PER_BLOCK], slope[ROWS_PER_BLOCK];       /* m = margin - step * slope */
    double exp_minus[ROWS_PER_BLOCK], exp_plus[ROWS_PER_BLOCK]; /* exp(-m_j), exp(m_j) */
    double up[ROWS_PER_BLOCK], down[ROWS_PER_BLOCK];            /* exp(delta), exp(-delta) */
    int fits[ROWS_PER_BLOCK], all_fit;
};

/* log(1 + t) for t in [0, 1 + 2^-40], relative error below 3e-13: far below the grid, and shorter
 * than log1p_unit_f64. The series is interpolated at Chebyshev nodes. */
ALWAYS_INLINE double log1p_for_line(double t) {
    double s = t / (2.0 + t);
    double z = s * s;
    double z2 = z * z;
    double even = 0.09532894472904432;
    double odd = 0.07223047417690645;
    even = even * z2 + 0.0912765172439636;
    odd = odd * z2 + 0.11109655860158806;
    even = even * z2 + 0.1428574151703626;
    odd = odd * z2 + 0.1999999980990146;
    even = even * z2 + 0.33333333333549087;
    double twice = s + s;
    return twice + twice * (z * (even + odd * z));
}

static int evenly_spaced(const double *steps, int64_t n_steps) {
    if (n_steps < 3 || n_steps > LINE_MOST_STEPS)
        return 0;
    const double spacing = (steps[n_steps - 1] - steps[0]) / (double)(n_steps - 1);
    const double largest = fmax(fabs(steps[0]), fabs(steps[n_steps - 1]));
    for (int64_t j = 0; j < n_steps; j++)
        if (!(fabs(steps[j] - (steps[0] + (double)j * spacing)) <= 0x1p-50 * largest))
            return 0;
    return 1;
}

/* Start at the first step: margins y (p - step q). */
static void logistic_line_open(struct logistic_line *line, const double *p, const double *q,
                               const double *y, const double *steps, int64_t n_steps) {
    const double spacing = (steps[n_steps - 1] - steps[0]) / (double)(n_steps - 1);
    double first[ROWS_PER_BLOCK], delta[ROWS_PER_BLOCK];
    line->all_fit = 1;
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        line->margin[i] = y[i] * p[i];
        line->slope[i] = y[i] * q[i];
        first[i] = line->margin[i] - steps[0] * line->slope[i];
        delta[i] = spacing * line->slope[i];
        line->fits[i] = fabs(first[i]) + (double)n_steps * fabs(delta[i]) <= LINE_LIMIT;
        line->all_fit &= line->fits[i];
        first[i] = line->fits[i] ? first[i] : 0.0;
        delta[i] = line->fits[i] ? delta[i] : 0.0;
    }
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        line->exp_minus[i] = exp_f64(-first[i]);
        line->exp_plus[i] = exp_f64(first[i]);
        line->up[i] = exp_f64(delta[i]);
        line->down[i] = exp_f64(-delta[i]);
    }
}

/* Losses at `step`, the line's present point; then move to the next. */
static void logistic_line_next(struct logistic_line *line, double step, double *restrict value) {
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const double minus = line->exp_minus[i], plus = line->exp_plus[i];
        const double margin = line->margin[i] - step * line->slope[i];
        value[i] = (margin < 0.0 ? -margin : 0.0) + log1p_for_line(minus < plus ? minus : plus);
        line->exp_minus[i] = minus * line->up[i];
        line->exp_plus[i] = plus * line->down[i];
    }
}

#endif
