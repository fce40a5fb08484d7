/* The compute kernels on one page.
 *
 * A kernel works on one range of rows, in one thread, and adds to the caller's
 * buffers; row_ranges.h runs it over threads. Every kernel exists for float and
 * double rows and once per instruction set, and computes the same bits in each
 * of them: all arithmetic is IEEE +, -, *, / in a fixed order, never
 * contracted.
 *
 * Conventions. A design matrix has n rows x_i of d columns, C order. With
 * `intercept`, the row that is meant is (x_i, 1); the 1 is never stored, and
 * weights and sums have d + 1 entries, the intercept last. norms[i] is the
 * Euclidean norm of that row. Rows longer than row_norm are seen scaled onto it:
 *
 *     z_i = min(1, row_norm / norms[i]) * (x_i, 1),    p_i = <w, z_i>.
 *
 * A row whose norm or target is not finite contributes exactly 0 to every sum, and
 * so does a row whose prediction is NaN.
 *
 * What a row adds to an exact sum depends on that row and on the arguments
 * alone, bit for bit: not on its position, its neighbours, the range or the
 * thread.
 */
#ifndef DPERM_KERNEL_TABLE_H
#define DPERM_KERNEL_TABLE_H

#include <stdint.h>

enum real_type { REAL_F32 = 0, REAL_F64 = 1, N_REAL_TYPES = 2 };

/* Of one prediction p and target y, with a parameter h; m = y p for labels y = -1 or +1,
 * e = p - y for real targets. */
enum loss_kind {
    LOSS_LOGISTIC = 0,            /* log(1 + exp(-m)) */
    LOSS_HINGE = 1,               /* max(0, 1 - m); a kink */
    LOSS_SQUARED_HINGE = 2,       /* max(0, 1 - m)^2 / 2 */
    LOSS_HUBER = 3,               /* e^2/2 if |e| <= h else h|e| - h^2/2 */
    LOSS_ABSOLUTE = 4,            /* |e|; a kink */
    LOSS_PINBALL = 5,             /* max((1 - h) e, -h e), 0 < h < 1; a kink */
    LOSS_EPSILON_INSENSITIVE = 6, /* max(0, |e| - h); two kinks */
    LOSS_SOFT_MARGIN = 7,         /* max(0, 1 - m)^h, 1 < h <= 2 */
    LOSS_POWER = 8,               /* |e|^h, 1 < h <= 2 */
    LOSS_SIGMOID = 9,             /* 1 / (1 + exp(m)) */
    LOSS_WELSCH = 10,             /* h^2/2 (1 - exp(-(e/h)^2)) */
    LOSS_TUKEY = 11,              /* h^2/6 (1 - (1 - (e/h)^2)^3) if |e| <= h else h^2/6 */
    N_LOSS_KINDS = 12
};

struct loss {
    enum loss_kind kind;
    double parameter; /* h */
    double curvature; /* of the ramp in place of a kink; infinite for the kink itself */
};

struct dense_rows {
    const void *x;       /* n_rows * n_columns reals, C order */
    const void *y;       /* n_rows reals */
    const double *norms; /* n_rows, from row_norms() */
    int64_t n_rows, n_columns;
    int intercept; /* 0 or 1 */
    double row_norm;
    /* NULL for all rows. Otherwise "row i" of everything below (but row_norms and entry_sum, which
     * read whole matrices) is row batch[i] of x, and n_rows is the length of batch. */
    const int64_t *batch;
};

/* Norms of rows [begin, end), the intercept's 1 included, in double. Robust to
 * overflow and underflow of the squares; NaN for a row with a non-finite entry, infinity
 * for a norm above DBL_MAX, at least DBL_MIN for any row but 0. Relative error at
 * most (n_columns + 8) * 2^-52. */
typedef void row_norms_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                          double *norms_out);

/* Workspace of the two sums below, in bytes, 64-byte aligned. */
typedef int64_t workspace_bytes_fn(int64_t n_columns);

/* sum_out[j] += sum over rows of round(s_i * (x_i, 1)_j / grid): integers.
 *
 * s_i = loss'(p_i) * min(1, row_norm / norms[i]), clamped to +-clip_in / norms[i], so that the
 * vector before rounding is no longer than clip_in (1 + 2^-22) for float and
 * clip_in (1 + 2^-50) for double rows. A subnormal s_i counts as 0. grid is a power of two with
 * clip_in / grid <= 2^22 (float), 2^50 (double). sum_out has n_columns + intercept
 * entries. workspace is scratch. */
typedef void clipped_gradient_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                     struct loss loss, const double *w, double clip_in, double grid,
                                     int64_t *sum_out, void *workspace);

/* The same sum without clip or grid, in floating point, for non-private use:
 * sum_out += sum_i loss'(p_i) z_i and, unless loss_out is NULL, *loss_out += sum_i loss(p_i). */
typedef void gradient_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                             struct loss loss, const double *w, double *sum_out, double *loss_out,
                             void *workspace);

/* sum_out[j] += sum over rows of round(min(loss_i(w - steps[j] * direction), clip) / grid).
 * Losses are evaluated in the precision of the rows. One read of each row serves all n_steps
 * candidates. grid is a power of two,
 * clip a multiple of it with clip / grid <= 2^50. */
typedef void clipped_loss_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                  struct loss loss, const double *w, const double *direction,
                                  const double *steps, int64_t n_steps, double clip, double grid,
                                  int64_t *sum_out, void *workspace);

/* p_out[i - begin] = p_i. */
typedef void predictions_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const double *w, double *p_out, void *workspace);

/* Sum of the entries of rows [begin, end): what reading them costs at least. */
typedef double entry_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end);

/* Steps of stochastic gradient descent: see sgd_steps.h. */
struct sgd_settings;
struct sgd_block;
typedef void sgd_steps_fn(const struct dense_rows *rows, const struct sgd_settings *settings,
                          const struct sgd_block *block, double *w, double *w_sum, void *workspace);
typedef int64_t sgd_workspace_bytes_fn(const struct dense_rows *rows);

struct kernel_table {
    const char *instruction_set;
    workspace_bytes_fn *workspace_bytes;
    row_norms_fn *row_norms[N_REAL_TYPES];
    clipped_gradient_sum_fn *clipped_gradient_sum[N_REAL_TYPES];
    gradient_sum_fn *gradient_sum[N_REAL_TYPES];
    clipped_loss_sums_fn *clipped_loss_sums[N_REAL_TYPES];
    predictions_fn *predictions[N_REAL_TYPES];
    entry_sum_fn *entry_sum[N_REAL_TYPES];
    sgd_workspace_bytes_fn *sgd_workspace_bytes;
    sgd_steps_fn *sgd_steps[N_REAL_TYPES];
};

/* kernel_dispatch.c */

/* Names of the compiled tables that this machine can run, slowest first; NULL
 * past the end. */
const char *kernels_available(int index);

/* The fastest table that this machine can run, or the one called `name`; NULL if
 * that one is unknown or cannot run here. */
const struct kernel_table *kernels_choose(const char *name);

#endif
