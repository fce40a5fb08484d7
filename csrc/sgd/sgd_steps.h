/* Stochastic gradient descent, a block of steps at a time.
 *
 * Step t with batch B_t, step size eta_t and noise Z_t:
 *
 *     w <- Proj( w - eta_t ( (sum_{i in B_t} g_i(w) + Z_t) / divisor + l2 w ) ),
 *
 * g_i the gradient of record i's loss, scaled down onto the norm `inner_clip` where it is longer,
 * and Proj the projection onto the ball ||w|| <= radius. Rows are those of kernel_table.h; the
 * arithmetic is IEEE double in a fixed order whatever the type of the rows, the same bits on every
 * instruction set. */
#ifndef DPERM_SGD_STEPS_H
#define DPERM_SGD_STEPS_H

#include "kernel_table.h"

struct sgd_settings {
    struct loss loss;
    double inner_clip; /* positive; infinite for no clip */
    double grid;       /* a power of two: every record's gradient is rounded to it; 0 for none */
    double divisor;    /* public size of a batch, whatever its real one */
    double l2;
    int64_t n_penalized; /* leading weights that the ridge term covers */
    double radius;       /* infinite for no projection */
};

struct sgd_block {
    double *w;     /* before the first step, and after the last */
    double *w_sum; /* to which w is added before every step; or NULL */
    int64_t n_steps;
    const int64_t *order;      /* indices of rows; one that is not a row contributes 0 */
    const int64_t *batch_ends; /* batch t is order[batch_ends[t-1] .. batch_ends[t] - 1] */
    const double *step_sizes;  /* n_steps */
    /* Noise on the batches' sums, n_steps * dimension, at most one of the two: in units of the
     * grid, added to the exact integer sum, or in floating point. */
    const int64_t *noise_integers;
    const double *noise;
    /* A batch may come in several calls, piece by piece. `begun`: the first batch has begun, and
     * `carried` (dimension entries) is the sum of the gradients so far. n_open > 0: after the last
     * step, `order` goes on with so many records of a batch that is not complete, and `carried` is
     * where the sum is left. */
    double *carried;
    int begun;
    int64_t n_open;
};

/* An sgd_steps_fn runs the steps. With a grid, |sum + noise| / grid must stay below 2^63, and that
 * of the sum below 2^51. */

/* Runs a block over rows of any representation, in this thread. Returns 0, or -1 when memory ran
 * out. */
int run_sgd_block(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, const struct sgd_settings *settings,
                  const struct sgd_block *block);

#endif
