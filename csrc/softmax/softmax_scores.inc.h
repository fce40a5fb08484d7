/* From the scores p_k of a row, one per class, to its residuals and its loss. Scores of a group of
 * rows are kept class by class, so that every loop runs over rows and a row's sums over classes
 * are added in the order of the classes. In double; elementary operations only.
 *
 * Needs: loss/loss_values.inc.h. */
#ifndef DPERM_SOFTMAX_SCORES_H
#define DPERM_SOFTMAX_SCORES_H

#include "loss/loss_derivatives.h"

#define ROWS_PER_GROUP (2 * ROWS_PER_BLOCK) /* entry [k * ROWS_PER_GROUP + i]: class k, row i */

#define FOR_EACH_ROW(i) _Pragma("omp simd") for (int i = 0; i < ROWS_PER_GROUP; i++)

/* log(x) for 1 <= x <= 2^1000, absolute error below 4e-16 plus 2e-16 of the value; NaN stays NaN.
 * x = 2^k f with f in [0.70, 1.42): log f = 2 atanh((f - 1)/(f + 1)). */
ALWAYS_INLINE double log_of_sum(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: integers are the low bits */
    uint64_t bits, half, shifted_bits;
    memcpy(&bits, &x, sizeof bits);
    half = (bits & 0x000fffffffffffff) > 0x6a09e667f3bcd; /* f would be above sqrt(2) */
    const uint64_t k = (bits >> 52) - 1023 + half;
    const uint64_t f_bits = (bits & 0x000fffffffffffff) | ((1023 - half) << 52);
    memcpy(&shifted_bits, &shift, sizeof shifted_bits);
    shifted_bits += k;
    double f, shifted_k;
    memcpy(&f, &f_bits, sizeof f);
    memcpy(&shifted_k, &shifted_bits, sizeof shifted_k);
    const double s = (f - 1.0) / (f + 1.0);
    const double z = s * s;
    const double log_f = 2.0 * (s + s * (z * atanh_series_f64(z)));
    return x <= DBL_MAX ? (shifted_k - shift) * 0.6931471805599453 + log_f : x + x;
}

/* scores := residuals exp(p_k) / sum_j exp(p_j) - [k = y]; value := losses log(sum_j exp(p_j -
 * p_y)), unless NULL. A row with a score of NaN or +infinity gets NaN throughout. The residual of
 * the target is minus the sum of the others' probabilities: it keeps its digits when it is small.
 */
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

/* of[k, i] *= weight[i]: what a group's rows weigh, for each class or another count of numbers. */
static void weigh_group(int64_t n_classes, const double *restrict weight, double *restrict of) {
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i) of[k * ROWS_PER_GROUP + i] *= weight[i];
}

/* factor[i] such that the gradient factor[i] * residuals_i (x_i, 1)^T of row i, as long as
 * factor[i] * |residuals_i| * norm[i], is clipped to inner_clip: at most scale[i]. The tiny number
 * under the root covers squares lost to underflow. Only a true comparison lets a row pass: NaN or 0
 * else. A subnormal cap has lost its digits and counts as 0. */
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
