/* What the steps of stochastic gradient descent do to vectors of doubles, padded with 0 to whole
 * units (see sgd_steps.inc.h). Included where the double templates are in force.
 *
 * Needs: dense/dense_rows.inc.h. */

enum {
    SGD_LANES = UNIT_BYTES / sizeof(double),
    SGD_ROWS_AHEAD = 3,       /* records whose rows are asked for before their turn */
    SGD_PREFETCH_BYTES = 4096 /* of a row; the processor goes on by itself */
};

ALWAYS_INLINE int64_t sgd_width(const struct dense_rows *rows) {
    return (rows->n_columns + rows->intercept + SGD_LANES - 1) / SGD_LANES * SGD_LANES;
}

/* Weights, their sum, a gradient and a block of rows. */
static int64_t sgd_workspace_bytes(const struct dense_rows *rows) {
    return (3 + ROWS_PER_BLOCK) * sgd_width(rows) * (int64_t)sizeof(double);
}

/* The noise of a step, added to the sum of its batch. The exact sum is added as an integer: what is
 * rounded to a double is the noisy sum. */
ALWAYS_INLINE void add_sgd_noise(double *restrict gradient, const struct sgd_block *block,
                                 int64_t step, int64_t dimension, double grid) {
    if (block->noise_integers) {
        const int64_t *restrict noise = block->noise_integers + step * dimension;
        const double steps_per_unit = 1.0 / grid; /* exact: a power of two */
        for (int64_t j = 0; j < dimension; j++)
            gradient[j] = (double)(noise[j] + (int64_t)(gradient[j] * steps_per_unit)) * grid;
    } else if (block->noise) {
        const double *restrict noise = block->noise + step * dimension;
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++)
            gradient[j] += noise[j];
    }
}

/* Projects w onto the ball of the radius. */
ALWAYS_INLINE void project_sgd(const struct sgd_settings *settings, const struct layout_f64 *layout,
                               double *restrict w) {
    if (!(settings->radius <= DBL_MAX))
        return;
    const double length = sqrt(dot_f64(w, w, layout));
    if (length <= settings->radius)
        return;
    const double shrink = settings->radius / length;
#pragma omp simd
    for (int64_t j = 0; j < layout->width; j++)
        w[j] *= shrink;
}

/* Weights and the sum of iterates, as packed copies. */
struct sgd_iterate {
    const struct layout_f64 *layout;
    double *w, *w_sum;
    int64_t dimension;
};

/* w <- Proj(keep w - move gradient), with w_sum += w before. */
ALWAYS_INLINE void take_sgd_step(const struct sgd_settings *settings,
                                 const struct sgd_iterate *iterate, double step_size,
                                 const double *restrict gradient) {
    const struct layout_f64 *layout = iterate->layout;
    const int64_t dimension = iterate->dimension;
    double *restrict w = iterate->w, *restrict w_sum = iterate->w_sum;
    const double move = step_size / settings->divisor;
    const double keep = 1.0 - step_size * settings->l2;
    const double last = w[dimension - 1]; /* the intercept, if one weight is not penalized */
#pragma omp simd
    for (int64_t j = 0; j < layout->width; j++) {
        w_sum[j] += w[j];
        w[j] = keep * w[j] - move * gradient[j];
    }
    if (settings->n_penalized < dimension)
        w[dimension - 1] = last - move * gradient[dimension - 1];
    project_sgd(settings, layout, w);
}

/* The same for a batch of one record, gradient = factor * row, and noise in floating point or none.
 */
ALWAYS_INLINE void take_single_step(const struct sgd_settings *settings,
                                    const struct sgd_iterate *iterate, double step_size,
                                    double factor, const double *restrict row,
                                    const double *restrict noise) {
    const int64_t dimension = iterate->dimension;
    double *restrict w = iterate->w, *restrict w_sum = iterate->w_sum;
    const double move = step_size / settings->divisor;
    const double keep = 1.0 - step_size * settings->l2;
    const double last = w[dimension - 1];
    if (noise) {
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++) {
            w_sum[j] += w[j];
            w[j] = keep * w[j] - move * (factor * row[j] + noise[j]);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < dimension; j++) {
            w_sum[j] += w[j];
            w[j] = keep * w[j] - move * (factor * row[j]);
        }
    }
    if (settings->n_penalized < dimension) {
        const int64_t at = dimension - 1;
        w[at] = last - move * (noise ? factor * row[at] + noise[at] : factor * row[at]);
    }
    project_sgd(settings, iterate->layout, w);
}

/* s[i] *= weight of record order[i]. */
ALWAYS_INLINE void weigh_sgd_records(const struct dense_rows *rows, const int64_t *order, int count,
                                     double *s) {
    for (int i = 0; i < count && rows->weights; i++)
        if ((uint64_t)order[i] < (uint64_t)rows->n_rows)
            s[i] *= rows->weights[order[i]];
}

/* loss_derivatives for one prediction: the same bits. */
static double single_loss_derivative(struct loss loss, double p, double y) {
    double derivative = 0.0;
#define DERIVATIVE_OF_ONE(KIND) derivative = loss_derivative_one(loss, KIND, p, y);
    FOR_EACH_LOSS(loss.kind, DERIVATIVE_OF_ONE)
#undef DERIVATIVE_OF_ONE
    return derivative;
}

/* clip_factors for one record: the same bits. */
ALWAYS_INLINE double single_clip(double s, double norm, double inner_clip) {
    const double cap = inner_clip / norm;
    double value = s > cap ? cap : s;
    value = value < -cap ? -cap : value;
    const double magnitude = value < 0.0 ? -value : value;
    return magnitude <= cap && magnitude <= DBL_MAX && magnitude >= DBL_MIN ? value : 0.0;
}
