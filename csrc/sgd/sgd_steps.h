/* Stochastic gradient descent, several steps per call.
 *
 * Step t, with batch B_t, step size eta_t and noise Z_t:
 *
 *     w <- Proj( w - eta_t ( (sum_{i in B_t} g_i(w) + Z_t) / divisor + l2 w ) ),
 *
 * where g_i is the gradient of record i's loss, clipped to the norm `inner_clip`, and Proj the
 * projection onto the ball ||w|| <= radius. Rows are those of kernel_table.h. The arithmetic is
 * IEEE double in a fixed order for rows of any type, with the same bits on every instruction set.
 */
#ifndef DPERM_SGD_STEPS_H
#define DPERM_SGD_STEPS_H

#include "kernel_table.h"

struct sgd_settings {
    struct loss loss;
    double inner_clip; /* positive; infinite for no clip */
    double grid;       /* a power of two to which each record's gradient is rounded; 0 for none */
    double divisor;    /* the public batch size, whatever the actual one */
    double l2;
    int64_t n_penalized; /* leading weights that the ridge term covers */
    double radius;       /* infinite for no projection */
};

struct sgd_block {
    double *w;     /* before the first step, and after the last */
    double *w_sum; /* w is added to it before every step; or NULL */
    int64_t n_steps;
    const int64_t *order;      /* indices of rows; an index out of range contributes 0 */
    const int64_t *batch_ends; /* batch t is order[batch_ends[t-1] .. batch_ends[t] - 1] */
    const double *step_sizes;  /* n_steps */
    /* Noise on the sums of the batches, n_steps * dimension numbers, in at most one form: integers
     * in units of the grid, added to the exact sum, or floating point. */
    const int64_t *noise_integers;
    const double *noise;
    /* A batch may be spread over several calls. `begun`: `carried` (dimension entries) holds the
     * sum of the gradients of the first batch so far. n_open > 0: after the last step, `order`
     * continues with n_open records of an incomplete batch, whose sum is stored in `carried`. */
    double *carried;
    int begun;
    int64_t n_open;
};

/* An sgd_steps_fn runs the steps. With a grid, |sum + noise| / grid must stay below 2^63, and
 * |sum| / grid below 2^51. */

/* Runs a block over rows of any representation, in this thread. Returns 0, or -1 when memory ran
 * out. */
int run_sgd_block(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, const struct sgd_settings *settings,
                  const struct sgd_block *block);

#endif
