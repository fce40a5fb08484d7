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
    double exp_minus[ROWS_PER_BLOCK], exp_plus[ROWS_PER_BLOCK]; /* exp(-m_j), exp(m_j) */
    double up[ROWS_PER_BLOCK], down[ROWS_PER_BLOCK];            /* exp(delta), exp(-delta) */
    int fits[ROWS_PER_BLOCK], all_fit;
};

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
    double margin[ROWS_PER_BLOCK], delta[ROWS_PER_BLOCK];
    line->all_fit = 1;
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        margin[i] = y[i] * (p[i] - steps[0] * q[i]);
        delta[i] = y[i] * (spacing * q[i]);
        line->fits[i] = fabs(margin[i]) + (double)n_steps * fabs(delta[i]) <= LINE_LIMIT;
        line->all_fit &= line->fits[i];
        margin[i] = line->fits[i] ? margin[i] : 0.0;
        delta[i] = line->fits[i] ? delta[i] : 0.0;
    }
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        line->exp_minus[i] = exp_f64(-margin[i]);
        line->exp_plus[i] = exp_f64(margin[i]);
        line->up[i] = exp_f64(delta[i]);
        line->down[i] = exp_f64(-delta[i]);
    }
}

/* Losses at `step`, the line's present point; then move to the next. */
static void logistic_line_next(struct logistic_line *line, const double *restrict p,
                               const double *restrict q, const double *restrict y, double step,
                               double *restrict value) {
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const double minus = line->exp_minus[i], plus = line->exp_plus[i];
        const double margin = y[i] * (p[i] - step * q[i]);
        value[i] = (margin < 0.0 ? -margin : 0.0) + log1p_unit_f64(minus < plus ? minus : plus);
        line->exp_minus[i] = minus * line->up[i];
        line->exp_plus[i] = plus * line->down[i];
    }
}

#endif
