/* The two passes over a chunk of circulant_solve.h, see kernel_table.h. */
#ifndef DPERM_SMOOTH_CHUNK_H
#define DPERM_SMOOTH_CHUNK_H

#include "dispatch/level.h"
#include "kernel_table.h"
#include "vector/lanes.h"

ALWAYS_INLINE double power_sum(const double *x, const double *power, int64_t step, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += power[i] * x[i * step];
    return sum;
}

/* Sums of the entries times powers of a that grow with the distance from the chunk's last entry
 * (forward) or its first (backward), by Horner's rule for eight entries at a time. */
static void chunk_ends(const struct smoother *smoother, const double *v, int64_t length,
                       double *forward, double *backward) {
    const int64_t count = length < smoother->reach ? length : smoother->reach;
    const int64_t units = count / SMOOTHER_UNIT, rest = count % SMOOTHER_UNIT;
    const double eighth = smoother->power[SMOOTHER_UNIT];
    const double *last = v + length - 1;
    vec_f64 up[VECTORS_PER_UNIT] = {{0}}, down[VECTORS_PER_UNIT] = {{0}};
    /* Entries farthest from the end come first, beginning with those that do not fill a unit. */
    double up_sum = power_sum(last - units * SMOOTHER_UNIT, smoother->power, -1, rest);
    double down_sum = power_sum(v + units * SMOOTHER_UNIT, smoother->power, 1, rest);
    for (int64_t unit = units - 1; unit >= 0; unit--) {
        const double *near_end = last + 1 - (unit + 1) * SMOOTHER_UNIT;
        const double *near_start = v + unit * SMOOTHER_UNIT;
        up_sum *= eighth;
        down_sum *= eighth;
        for (int k = 0; k < VECTORS_PER_UNIT; k++) {
            const int64_t at = k * (SMOOTHER_UNIT / VECTORS_PER_UNIT);
            up[k] = eighth * up[k] + *(const vec_f64 *)(near_end + at);
            down[k] = eighth * down[k] + *(const vec_f64 *)(near_start + at);
        }
    }
    double lanes[SMOOTHER_UNIT];
    memcpy(lanes, up, sizeof lanes);
    *forward = up_sum + power_sum(lanes + SMOOTHER_UNIT - 1, smoother->power, -1, SMOOTHER_UNIT);
    memcpy(lanes, down, sizeof lanes);
    *backward = down_sum + power_sum(lanes, smoother->power, 1, SMOOTHER_UNIT);
}

/* out += matrix^T x of a unit. */
ALWAYS_INLINE void add_products(const double matrix[][SMOOTHER_UNIT], const double *x,
                                vec_f64 *out) {
    for (int j = 0; j < SMOOTHER_UNIT; j++)
        for (int k = 0; k < VECTORS_PER_UNIT; k++)
            out[k] += x[j] * *(const vec_f64 *)(matrix[j] + k * (SMOOTHER_UNIT / VECTORS_PER_UNIT));
}

static void smooth_chunk(const struct smoother *smoother, const double *v, int64_t length,
                         double forward, double backward, double *u) {
    const int64_t whole = length / SMOOTHER_UNIT * SMOOTHER_UNIT;
    const int step = SMOOTHER_UNIT / VECTORS_PER_UNIT;
    const double a = smoother->a, eighth = smoother->power[SMOOTHER_UNIT];
    double to_next[SMOOTHER_UNIT], from_next[SMOOTHER_UNIT]; /* powers 1..8 and 8..1 */
    for (int i = 0; i < SMOOTHER_UNIT; i++) {
        to_next[i] = smoother->power[i + 1];
        from_next[i] = smoother->power[SMOOTHER_UNIT - i];
    }
    for (int64_t i = length - 1; i >= whole; i--) { /* u_i = a B_(i+1) */
        u[i] = a * backward;
        backward = v[i] + a * backward;
    }
    for (int64_t i = whole - SMOOTHER_UNIT; i >= 0; i -= SMOOTHER_UNIT) {
        vec_f64 sum[VECTORS_PER_UNIT] = {{0}};
        add_products(smoother->backward, v + i, sum);
        const double first = v[i] + sum[0][0];
        for (int k = 0; k < VECTORS_PER_UNIT; k++)
            *(vec_f64 *)(u + i + k * step) =
                sum[k] + backward * *(const vec_f64 *)(from_next + k * step);
        backward = first + eighth * backward;
    }
    for (int64_t i = 0; i < whole; i += SMOOTHER_UNIT) { /* u_i = (F_i + a B_(i+1)) scale */
        vec_f64 sum[VECTORS_PER_UNIT] = {{0}};
        add_products(smoother->forward, v + i, sum);
        const double last = sum[VECTORS_PER_UNIT - 1][step - 1];
        for (int k = 0; k < VECTORS_PER_UNIT; k++) {
            vec_f64 *place = (vec_f64 *)(u + i + k * step);
            const vec_f64 own = sum[k] + forward * *(const vec_f64 *)(to_next + k * step);
            *place = smoother->scale * (own + *place);
        }
        forward = last + eighth * forward;
    }
    for (int64_t i = whole; i < length; i++) {
        forward = v[i] + a * forward;
        u[i] = smoother->scale * (forward + u[i]);
    }
}

extern const struct smoothing_kernels OF_LEVEL(smoothing_kernels);
const struct smoothing_kernels OF_LEVEL(smoothing_kernels) = {chunk_ends, smooth_chunk};

#endif
