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

#include "passes/side_task.h"

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

struct row_source;

struct dense_rows {
    const void *x;       /* n_rows * n_columns reals, C order; unused with a source */
    const void *y;       /* n_rows reals */
    const double *norms; /* n_rows, from row_norms(); NULL for a source that finds them */
    int64_t n_rows, n_columns;
    int intercept; /* 0 or 1 */
    double row_norm;
    /* NULL for all rows. Otherwise "row i" of everything below (but row_norms and entry_sum, which
     * read whole matrices) is row batch[i] of x, and n_rows is the length of batch. A kernel asks
     * for the memory of rows up to n_rows ahead of time, beyond the end of its range, too. */
    const int64_t *batch;
    /* NULL, or n_rows numbers above 0, and no batch: sums of gradients and of losses hold row i
     * counts[i] times, and sums of integers are those of a matrix with as many equal rows. The
     * other kernels do not look here. */
    const int64_t *counts;
    const double *clip_norms; /* n_rows lengths that stand for norms when clipping, or NULL */
    double *predictions; /* n_rows: clipped_gradient_sum leaves its p_i here, and clipped_loss_sums
                          * at the same weights takes them from here; or NULL */
    /* NULL, or what makes these rows, see row_blocks.h. Kernels for dense rows never see it. */
    const struct row_source *source;
    /* Done by the threads of a pass of row_ranges.h meanwhile; one over sparse rows leaves them. */
    const struct errand *errands;
    int n_errands;
};

/* Rows on their way to integers: V_ij = round(a_i (x_i, 1)_j / grid), where
 * a_i = min(1, row_norm / norms[i]) sqrt(loss''(p_i)), at most bound_in / norms[i]. Without w the
 * square root is 1. With target_factor > 0 a last column holds round(target_factor y_i / grid).
 * Before rounding V_i without that column is no longer than bound_in / grid (1 + 2^-50 + (n_columns
 * + 16) 2^-52). grid is a power of two, bound_in / grid and target_factor y_i / grid are at most
 * 2^22. */
struct integer_rows {
    struct loss loss;
    const double *w; /* or NULL */
    double bound_in, grid, target_factor;
    int upper; /* loss'' is replaced by an upper bound, see loss_curvatures.h */
};

/* Several models of the same loss: clipped gradient sums that are made together. */
struct models {
    int64_t n_models;
    const double *w;         /* n_models * (n_columns + intercept) */
    const double *clips_in;  /* n_models */
    const double *grids;     /* n_models */
    const int32_t *folds;    /* n_rows: the row's fold; or NULL */
    const int32_t *left_out; /* n_models: the fold whose rows add nothing to the model */
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
 * s_i = loss'(p_i) * min(1, row_norm / norms[i]), clamped to +-clip_in / norms[i] (to
 * +-clip_in / clip_norms[i] where given), so that the vector before rounding is no longer than
 * clip_in (1 + 2^-22) for float and clip_in (1 + 2^-50) for double rows. A subnormal s_i counts as
 * 0. grid is a power of two with clip_in / grid <= 2^22 (float), 2^50 (double). sum_out has
 * n_columns + intercept entries. workspace is scratch. */
typedef void clipped_gradient_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                     struct loss loss, const double *w, double clip_in, double grid,
                                     int64_t *sum_out, void *workspace);

/* The same for every model: sum_out[k, j], n_models * (n_columns + intercept) integers, row k as
 * clipped_gradient_sum gives it for the rows that the model sees. No batch, no clip_norms. */
typedef void clipped_gradient_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                      struct loss loss, const struct models *models,
                                      int64_t *sum_out, void *workspace);
typedef int64_t models_workspace_bytes_fn(int64_t n_columns, int64_t n_models);

/* The same sum without clip or grid, in floating point, for non-private use:
 * sum_out += sum_i loss'(p_i) z_i and, unless loss_out is NULL, *loss_out += sum_i loss(p_i). */
typedef void gradient_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                             struct loss loss, const double *w, double *sum_out, double *loss_out,
                             void *workspace);

/* sum_out[j] += sum over rows of round(min(loss_i(w - steps[j] * direction), clip) / grid).
 * Losses are evaluated in the precision of the rows. One read of each row serves all n_steps
 * candidates. grid is a power of two,
 * clip a multiple of it with clip / grid <= 2^22 (float), 2^50 (double). */
typedef void clipped_loss_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                  struct loss loss, const double *w, const double *direction,
                                  const double *steps, int64_t n_steps, double clip, double grid,
                                  int64_t *sum_out, void *workspace);

/* Changes of the losses at the neighbours of w along the axes, each kept in [-clip/2, clip/2]: with
 * D = n_columns + intercept, j < D and a = clip/2
 *
 *     sum_out[j]     += sum over rows of round((clamp(loss_i(w + stride e_j) - loss_i(w)) + a) /
 * grid), sum_out[D + j] += the same at w - stride e_j,   sum_out[2 D] += the same at w.
 *
 * Losses are evaluated in double at predictions in the precision of the rows. grid is a power of
 * two, clip a multiple of it with clip / grid <= 2^50. */
typedef void coordinate_loss_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                     struct loss loss, const double *w, double stride, double clip,
                                     double grid, int64_t *sum_out, void *workspace);

/* sum_out[(j, k)] += sum over rows of V_ij V_ik, for j <= k, row by row of the upper triangle. At
 * most 2^40 rows. */
typedef void gram_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                         const struct integer_rows *form, int64_t *sum_out, void *workspace);

/* sum_out[j] += sum over rows of V_ij, and after these sums of round(f_i V_ij^2), where
 * f_i = min(1, clip / ||(V_ij^2)_j||): of norm at most clip (1 + (n_columns + 16) 2^-52) before
 * rounding. clip is at most 2^44. */
typedef void moment_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const struct integer_rows *form, double clip, int64_t *sum_out,
                            void *workspace);

/* norms_out[i - begin] = ||matrix^T V_i||, relative error below 2^-48. `matrix` has n_columns +
 * intercept rows of n_out integers, n_out a multiple of 16; magnitudes of a column times V_i sum to
 * at most 2^52. */
typedef void norms_through_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct integer_rows *form, const double *matrix, int64_t n_out,
                              double *norms_out, void *workspace);

/* Workspace of these three for rows of `width` integers, in bytes. */
typedef int64_t gram_workspace_bytes_fn(int64_t n_columns, int64_t width);

/* p_out[i - begin] = p_i. */
typedef void predictions_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const double *w, double *p_out, void *workspace);

/* Softmax. Targets are classes 0 .. n_classes - 1, weights w_k the columns of a matrix of
 * (n_columns + intercept, n_classes), C order, and so are directions and sums of gradients. A row
 * has one score <w_k, z_i> per class, the probabilities q_k = exp(score_k) / sum_j exp(score_j),
 * and the loss -log q_y; the gradient of the loss is z_i r_i^T with the residuals r_i = q - e_y. A
 * row with a score of NaN or +infinity contributes 0. */

/* Workspace of the four kernels below, in bytes, 64-byte aligned. */
typedef int64_t softmax_workspace_bytes_fn(int64_t n_columns, int64_t n_classes);

/* sum_out[j, k] += sum over rows of round(s_ik * (x_i, 1)_j / grid): integers.
 *
 * s_i = r_i * min(1, row_norm / norms[i]), shortened where needed so that |s_i| * norms[i], the
 * Frobenius norm before rounding, is at most clip_in times 1 + 2^-22 (float rows) or 1 + 2^-50 +
 * n_classes * 2^-52 (double rows). The rest as for clipped_gradient_sum_fn. */
typedef void clipped_softmax_gradient_sum_fn(const struct dense_rows *rows, int64_t begin,
                                             int64_t end, int64_t n_classes, const double *w,
                                             double clip_in, double grid, int64_t *sum_out,
                                             void *workspace);

/* The same sum without clip or grid, for non-private use, as gradient_sum_fn. */
typedef void softmax_gradient_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                     int64_t n_classes, const double *w, double *sum_out,
                                     double *loss_out, void *workspace);

/* As clipped_loss_sums_fn; losses are evaluated in double from scores in the precision of the rows.
 */
typedef void clipped_softmax_loss_sums_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                                          int64_t n_classes, const double *w,
                                          const double *direction, const double *steps,
                                          int64_t n_steps, double clip, double grid,
                                          int64_t *sum_out, void *workspace);

/* p_out[i - begin, k] = <w_k, z_i>. */
typedef void class_scores_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                             int64_t n_classes, const double *w, double *p_out, void *workspace);

/* Sum of the entries of rows [begin, end): what reading them costs at least. */
typedef double entry_sum_fn(const struct dense_rows *rows, int64_t begin, int64_t end);

/* Laplacian smoothing of a chunk of a ring, see circulant_solve.h. `power` holds 1, a, .., a^8;
 * forward[j][i] = a^(i-j) for i >= j, backward[j][i] = a^(j-i) for i < j, else 0. Powers beyond
 * a^reach are negligible. */
enum { SMOOTHER_UNIT = 8 };
struct smoother {
    double a, scale;
    int64_t reach;
    double power[SMOOTHER_UNIT + 1];
    double forward[SMOOTHER_UNIT][SMOOTHER_UNIT], backward[SMOOTHER_UNIT][SMOOTHER_UNIT];
};

/* *forward = sum_i a^(length-1-i) v_i and *backward = sum_i a^i v_i, without negligible terms. */
typedef void chunk_ends_fn(const struct smoother *smoother, const double *v, int64_t length,
                           double *forward, double *backward);

/* u_i = scale (F_i + a B_(i+1)), F_(-1) = forward and B_length = backward, which carry over from
 * the neighbouring chunks. */
typedef void smooth_chunk_fn(const struct smoother *smoother, const double *v, int64_t length,
                             double forward, double backward, double *u);

/* Steps of stochastic gradient descent: see sgd_steps.h. */
struct sgd_settings;
struct sgd_block;
typedef void sgd_steps_fn(const struct dense_rows *rows, const struct sgd_settings *settings,
                          const struct sgd_block *block, double *w, double *w_sum, void *workspace);
typedef int64_t sgd_workspace_bytes_fn(const struct dense_rows *rows);

/* Passes over the rows of a struct tabular_matrix as they are: rows->source->table. The contracts
 * are those of the passes over dense rows of doubles, and so is every bit. */
struct tabular_matrix;
typedef int64_t tabular_workspace_bytes_fn(const struct tabular_matrix *table);
typedef int64_t tabular_models_workspace_bytes_fn(const struct tabular_matrix *table,
                                                  int64_t n_models);

/* The same for a struct columns_matrix, rows->source->columns: no batch, no counts. Without norms
 * in `rows` each row's is found on the way. */
typedef int64_t columns_workspace_bytes_fn(int64_t n_columns);

/* An expand_rows_fn (row_blocks.h) for a struct columns_matrix. */
typedef void expand_columns_fn(const void *matrix, const int64_t *places, int64_t first,
                               int64_t count, void *x_out);

/* The kernels for sparse rows: see sparse_rows.h. */
struct sparse_kernels;

struct kernel_table {
    const char *instruction_set;
    workspace_bytes_fn *workspace_bytes;
    row_norms_fn *row_norms[N_REAL_TYPES];
    clipped_gradient_sum_fn *clipped_gradient_sum[N_REAL_TYPES];
    models_workspace_bytes_fn *models_workspace_bytes;
    clipped_gradient_sums_fn *clipped_gradient_sums[N_REAL_TYPES];
    gradient_sum_fn *gradient_sum[N_REAL_TYPES];
    gradient_sum_fn *precise_gradient_sum[N_REAL_TYPES]; /* double arithmetic for float rows, too */
    clipped_loss_sums_fn *clipped_loss_sums[N_REAL_TYPES];
    coordinate_loss_sums_fn *coordinate_loss_sums[N_REAL_TYPES];
    predictions_fn *predictions[N_REAL_TYPES];
    gram_workspace_bytes_fn *gram_workspace_bytes;
    gram_sum_fn *gram_sum[N_REAL_TYPES];
    moment_sums_fn *moment_sums[N_REAL_TYPES];
    norms_through_fn *norms_through[N_REAL_TYPES];
    entry_sum_fn *entry_sum[N_REAL_TYPES];
    softmax_workspace_bytes_fn *softmax_workspace_bytes;
    clipped_softmax_gradient_sum_fn *clipped_softmax_gradient_sum[N_REAL_TYPES];
    softmax_gradient_sum_fn *softmax_gradient_sum[N_REAL_TYPES];
    clipped_softmax_loss_sums_fn *clipped_softmax_loss_sums[N_REAL_TYPES];
    class_scores_fn *class_scores[N_REAL_TYPES];
    chunk_ends_fn *chunk_ends;
    smooth_chunk_fn *smooth_chunk;
    sgd_workspace_bytes_fn *sgd_workspace_bytes;
    sgd_steps_fn *sgd_steps[N_REAL_TYPES];
    tabular_workspace_bytes_fn *tabular_workspace_bytes;
    clipped_gradient_sum_fn *tabular_clipped_gradient_sum;
    tabular_models_workspace_bytes_fn *tabular_models_workspace_bytes;
    clipped_gradient_sums_fn *tabular_clipped_gradient_sums;
    clipped_loss_sums_fn *tabular_clipped_loss_sums;
    predictions_fn *tabular_predictions;
    columns_workspace_bytes_fn *columns_workspace_bytes[N_REAL_TYPES];
    clipped_gradient_sum_fn *columns_clipped_gradient_sum[N_REAL_TYPES];
    expand_columns_fn *expand_columns[N_REAL_TYPES];
    const struct sparse_kernels *sparse;
};

/* kernel_dispatch.c */

/* Names of the compiled tables that this machine can run, slowest first; NULL
 * past the end. */
const char *kernels_available(int index);

/* The fastest table that this machine can run, or the one called `name`; NULL if
 * that one is unknown or cannot run here. */
const struct kernel_table *kernels_choose(const char *name);

/* The table that all threads take; set it before use. */
extern const struct kernel_table *_Atomic kernels_in_use;

#endif
