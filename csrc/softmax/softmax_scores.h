/* Residuals and loss of a row from its scores p_k, one per class. Scores of a group of rows are
 * stored class by class, so that every loop runs over rows and sums over classes are added in the
 * order of the classes. In double; elementary operations only.
 */
#ifndef DPERM_SOFTMAX_SCORES_H
#define DPERM_SOFTMAX_SCORES_H

#include "vector/exp_power.h"

#define ROWS_PER_GROUP (2 * ROWS_PER_BLOCK) /* entry [k * ROWS_PER_GROUP + i]: class k, row i */

#define FOR_EACH_ROW(i) _Pragma("omp simd") for (int i = 0; i < ROWS_PER_GROUP; i++)

/* log(x) for 1 <= x <= 2^1000, absolute error below 4e-16 plus 2e-16 of the value; NaN stays NaN.
 * x = 2^k f with f in [0.70, 1.42): log f = 2 atanh((f - 1)/(f + 1)). */
ALWAYS_INLINE double log_of_sum(double x) {
    const uint64_t bits = bits_f64(x), mantissa = bits & 0x000fffffffffffff;
    const uint64_t half = mantissa > 0x6a09e667f3bcd; /* f would be above sqrt(2) */
    const double f = from_bits_f64(mantissa | ((1023 - half) << 52));
    const double k = from_bits_f64(bits_f64(SHIFT_F64) + ((bits >> 52) - 1023 + half)) - SHIFT_F64;
    const double s = (f - 1.0) / (f + 1.0);
    const double z = s * s;
    const double log_f = 2.0 * (s + s * (z * atanh_series_f64(z)));
    return x <= DBL_MAX ? k * 0.6931471805599453 + log_f : x + x;
}

/* scores := residuals exp(p_k) / sum_j exp(p_j) - [k = y]; value := losses log(sum_j exp(p_j -
 * p_y)), unless NULL. A row with a score of NaN or +infinity gets NaN throughout. The residual of
 * the target is computed as minus the sum of the other probabilities, to avoid cancellation. */
static void softmax_residuals(int64_t n_classes, const double *restrict y, double *restrict scores,
                              double *restrict value) {
    double largest[ROWS_PER_GROUP], others[ROWS_PER_GROUP], of_target[ROWS_PER_GROUP];
    double score_of_target[ROWS_PER_GROUP], inverse[ROWS_PER_GROUP];
    FOR_EACH_ROW(i) {
        largest[i] = scores[i];
        others[i] = of_target[i] = score_of_target[i] = 0.0;
    }
    for (int64_t k = 1; k < n_classes; k++)
        FOR_EACH_ROW(i) {
            const double p = scores[k * ROWS_PER_GROUP + i];
            largest[i] = p > largest[i] ? p : largest[i];
        }
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i) {
            const double p = scores[k * ROWS_PER_GROUP + i];
            const double exponential = exp_f64(p - largest[i]);
            const int target = y[i] == (double)k;
            scores[k * ROWS_PER_GROUP + i] = exponential;
            others[i] += target ? 0.0 : exponential;
            of_target[i] = target ? exponential : of_target[i];
            score_of_target[i] = target ? p : score_of_target[i];
        }
    FOR_EACH_ROW(i) {
        const double total = others[i] + of_target[i];
        inverse[i] = 1.0 / total;
        if (value)
            value[i] = (largest[i] - score_of_target[i]) + log_of_sum(total);
    }
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i) {
            const double exponential = scores[k * ROWS_PER_GROUP + i];
            scores[k * ROWS_PER_GROUP + i] =
                (y[i] == (double)k ? -others[i] : exponential) * inverse[i];
        }
}

/* value := losses at the scores p - step q. */
static void softmax_losses(int64_t n_classes, const double *restrict y, const double *restrict p,
                           const double *restrict q, double step, double *restrict value) {
    double largest[ROWS_PER_GROUP], total[ROWS_PER_GROUP], score_of_target[ROWS_PER_GROUP];
    FOR_EACH_ROW(i) {
        largest[i] = p[i] - step * q[i];
        total[i] = score_of_target[i] = 0.0;
    }
    for (int64_t k = 1; k < n_classes; k++)
        FOR_EACH_ROW(i) {
            const double score = p[k * ROWS_PER_GROUP + i] - step * q[k * ROWS_PER_GROUP + i];
            largest[i] = score > largest[i] ? score : largest[i];
        }
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i) {
            const double score = p[k * ROWS_PER_GROUP + i] - step * q[k * ROWS_PER_GROUP + i];
            total[i] += exp_f64(score - largest[i]);
            score_of_target[i] = y[i] == (double)k ? score : score_of_target[i];
        }
    FOR_EACH_ROW(i) value[i] = (largest[i] - score_of_target[i]) + log_of_sum(total[i]);
}

/* of[k, i] *= weight[i], the weights of a group's rows, for n_classes numbers per row. */
static void weigh_group(int64_t n_classes, const double *restrict weight, double *restrict of) {
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i) of[k * ROWS_PER_GROUP + i] *= weight[i];
}

/* factor[i] <= scale[i] that clips the gradient factor[i] * residuals_i (x_i, 1)^T of row i, of
 * norm factor[i] * |residuals_i| * norm[i], to inner_clip. The tiny number under the root covers
 * squares lost to underflow. Only a true comparison lets a row pass, otherwise the factor is NaN or
 * 0. A subnormal cap has lost precision and counts as 0. */
static void softmax_clip_factors(int64_t n_classes, const double *restrict residuals,
                                 const double *restrict scale, const double *restrict norm,
                                 double inner_clip, double *restrict factor) {
    double squares[ROWS_PER_GROUP];
    FOR_EACH_ROW(i) squares[i] = 0x1p-960;
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i)
    squares[i] += residuals[k * ROWS_PER_GROUP + i] * residuals[k * ROWS_PER_GROUP + i];
    FOR_EACH_ROW(i) {
        const double length = sqrt(squares[i]);
        const double cap = inner_clip / norm[i];
        const double clipped = length * scale[i] <= cap ? scale[i] : cap / length;
        factor[i] = cap >= DBL_MIN ? clipped : 0.0;
    }
}

#endif
