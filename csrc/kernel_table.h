/* The interface of the compute kernels on one page.
 *
 * A pass over the data is described by a value, struct pass. Its kernel processes one range of rows
 * in one thread and adds to the caller's buffers; run_pass() (passes/run_pass.h) runs it over all
 * rows in many threads. Every kernel is compiled for float and double rows and once per instruction
 * set, and computes the same bits in each of them: all arithmetic is IEEE +, -, *, / and sqrt in a
 * fixed order, never contracted.
 *
 * Conventions. A design matrix has n rows x_i of d columns, in C order. With `intercept` the row is
 * (x_i, 1); the 1 is never stored, and weights and sums have d + 1 entries, the intercept last.
 * norms[i] is the Euclidean norm of that row. Rows longer than row_norm are scaled down to it:
 *
 *     z_i = min(1, row_norm / norms[i]) * (x_i, 1),    p_i = <w, z_i>.
 *
 * A row with a non-finite norm or target contributes exactly 0 to every sum, and so does a row
 * whose prediction is NaN.
 *
 * With `weights` the loss of row i is weights[i] loss(p_i), and its derivatives are weighted in the
 * same way, before any clipping. coordinate_loss_sums and the passes that see rows through a matrix
 * ignore the weights.
 *
 * What a row adds to an exact sum is a function of that row and the arguments alone, bit for bit:
 * it does not depend on the row's position, its neighbours, the range or the thread.
 */
#ifndef DPERM_KERNEL_TABLE_H
#define DPERM_KERNEL_TABLE_H

#include <stdint.h>

#include "loss/loss_kinds.h"
#include "passes/side_task.h"

enum real_type { REAL_F32 = 0, REAL_F64 = 1, N_REAL_TYPES = 2 };

/* Of the column indices of a sparse matrix. */
enum index_type { INDEX_I32 = 0, INDEX_I64 = 1, N_INDEX_TYPES = 2 };

static inline int64_t real_bytes(enum real_type type) {
    return type == REAL_F32 ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
}

/* The passes. A new one needs a line here, its contract below, its result in passes/pass_result.c,
 * its kernels and routes in the headers of the file that compiles them (*_instances.c), and a
 * method of DenseRows in _kernels/row_kernels.pyx. */
enum pass_kind {
    PASS_row_norms,
    PASS_entry_sum,
    PASS_predictions,
    PASS_clipped_gradient_sum,
    PASS_gradient_sum,
    PASS_clipped_loss_sums,
    PASS_coordinate_loss_sums,
    PASS_gram_sum,
    PASS_moment_sums,
    PASS_norms_scaled,
    PASS_norms_through,
    PASS_norm_counts,
    PASS_magnitude_counts,
    PASS_image_sum,
    PASS_image_gram,
    PASS_image_table,
    PASS_residual_sums,
    N_PASSES
};

/* The factor of a row's weighted image: the derivative of its loss of that order. */
enum image_factor { IMAGE_PLAIN = 0, IMAGE_SLOPE = 1, IMAGE_CURVATURE = 2, IMAGE_THIRD = 3 };

/* A pass: what each record contributes, and on which grid. Each pass reads only some of the
 * arguments, those in its contract below. */
struct pass {
    enum pass_kind kind;
    struct loss loss;
    int64_t n_classes; /* of the softmax loss, which is not in enum loss_kind; 0 for other losses */
    const double *w;
    double inner_clip; /* bound on the norm of a contribution before rounding */
    double grid;       /* a power of two */

    const double *direction, *steps; /* steps: n_steps */
    int64_t n_steps;
    double clip;
    double stride, intercept_stride;

    /* Rows as integers, see below. */
    double target_factor, target_centre, target_limit;
    int upper;            /* replace loss'' by an upper bound, see loss_derivatives.h */
    const double *matrix; /* has n_out columns */
    int64_t n_out;
    const double *column_scales, *column_shifts; /* n_columns + intercept; or NULL */
    int64_t n_bins;

    /* Rows seen through `matrix`, see below. */
    int64_t image_factor; /* enum image_factor */
    int64_t n_images;     /* dimension of an image, at most n_out */
    double image_unit, image_bound;
    double largest_square, largest_curvature; /* of slopes, and of curvatures */

    int with_loss, precise;
};

struct row_source;

struct dense_rows {
    const void *x;       /* n_rows * n_columns reals, C order; unused with a source */
    const void *y;       /* n_rows reals */
    const double *norms; /* n_rows, from the pass row_norms; NULL if the source computes them */
    int64_t n_rows, n_columns;
    int intercept; /* 0 or 1 */
    double row_norm;
    /* NULL for all rows. Otherwise "row i" below means row batch[i] of x, and n_rows is the length
     * of batch (except for row_norms and entry_sum, which read whole matrices). A kernel prefetches
     * rows up to n_rows, even beyond the end of its range. */
    const int64_t *batch;
    /* NULL, or n_rows positive numbers (then there is no batch): sums of gradients and losses count
     * row i multiplicity[i] times, and integer sums equal those of a matrix with the rows repeated.
     * The other kernels ignore it. */
    const int64_t *multiplicity;
    const double *weights;    /* n_rows non-negative numbers; NULL: every weight is 1 */
    const double *clip_norms; /* n_rows lengths used in place of norms when clipping, or NULL */
    double *predictions; /* n_rows: written by clipped_gradient_sum, and read by clipped_loss_sums
                          * at the same weights; or NULL */
    /* NULL, or what generates these rows, see row_blocks.h. Kernels for dense rows never see it. */
    const struct row_source *source;
    /* Run by the threads of run_pass() alongside; a pass over sparse rows does not run them. */
    const struct side_task *side_tasks;
    int n_side_tasks;
};

static inline double intercept_of(const struct dense_rows *rows, const double *w) {
    return rows->intercept ? w[rows->n_columns] : 0.0;
}

/* A kernel adds the contributions of rows [begin, end) to `out`, or writes one result per row from
 * `out` on. `workspace` is 64-byte aligned scratch memory of the size given by the route.
 *
 * row_norms: out[i - begin] = norm of row i, the intercept's 1 included, in double. Robust to
 * overflow and underflow of the squares; NaN for a row with a non-finite entry, infinity for a norm
 * above DBL_MAX, at least DBL_MIN for any non-zero row. Relative error at most (n_columns + 8) *
 * 2^-52. Reads no argument: the pass may be NULL.
 *
 * entry_sum: *out += sum of the entries. Measures the cost of reading the matrix.
 *
 * predictions: out[i - begin] = p_i.
 *
 * clipped_gradient_sum: out[j] += sum over rows of round(s_i * (x_i, 1)_j / grid): integers.
 *
 *     s_i = loss'(p_i) * min(1, row_norm / norms[i]), clamped to +-inner_clip / norms[i] (to
 *     +-inner_clip / clip_norms[i] where given), so that the norm before rounding is at most
 *     inner_clip (1 + 2^-22) for float and inner_clip (1 + 2^-50) for double rows. A subnormal s_i
 *     counts as 0. inner_clip / grid <= 2^22 (float), 2^50 (double). n_columns + intercept numbers.
 *
 * gradient_sum: the same sum without a grid, in floating point: out += sum_i s_i (x_i, 1), followed
 * if with_loss by sum_i loss(p_i). inner_clip is infinite for loss'(p_i) z_i. `precise`: in double
 * arithmetic for float rows, too.
 *
 * clipped_loss_sums: out[j] += sum over rows of round(min(loss_i(w - steps[j] * direction), clip) /
 * grid). Losses are evaluated in the precision of the rows. Each row is read once for all n_steps
 * candidates. clip is a multiple of the grid with clip / grid <= 2^22 (float), 2^50 (double).
 *
 * coordinate_loss_sums: changes of the losses at the neighbours of w along the axes, each clamped
 * to [-clip/2, clip/2]: with D = n_columns + intercept, j < D, h = stride, or intercept_stride for
 * the intercept, and a = clip/2
 *
 *     out[j]     += sum over rows of round((clamp(loss_i(w + h e_j) - loss_i(w)) + a) / grid),
 *     out[D + j] += the same at w - h e_j,   out[2 D] += the same at w.
 *
 *     Losses are evaluated in double at predictions in the precision of the rows. clip is a
 *     multiple of the grid with clip / grid <= 2^50.
 *
 * Second moments see rows as integers: V_ij = round(a_i (x_i, 1)_j / grid), where
 * a_i = min(1, row_norm / norms[i]) sqrt(loss''(p_i)), at most inner_clip / norms[i]. Without w the
 * square root is 1. With target_factor > 0 a last column holds round(target_factor e_i / grid) for
 * e_i = y_i - target_centre clamped to [-target_limit, target_limit].
 * With column_scales s and column_shifts c (NULL: 0) the row is instead
 * t_i = min(1, row_norm / norms[i]) (s_j (x_i, 1)_j - c_j)_j:
 * V_ij = round(a_i t_ij / grid), a_i = sqrt(loss''(p_i)), at most inner_clip / ||t_i||; where that
 * bound scales a row down it scales the target down, too. Before rounding V_i without that column
 * has norm at most inner_clip / grid (1 + 2^-50 + (n_columns + 16) 2^-52). inner_clip / grid and
 * target_factor target_limit / grid are at most 2^22.
 *
 * gram_sum: out[(j, k)] += sum over rows of V_ij V_ik, for j <= k, row by row of the upper
 * triangle. At most 2^40 rows.
 *
 * moment_sums: out[j] += sum over rows of V_ij, and after these sums of round(f_i V_ij^2), where
 * f_i = min(1, clip / ||(V_ij^2)_j||): the norm before rounding is at most clip (1 + (n_columns +
 * 16) 2^-52). clip is at most 2^44.
 *
 * norms_scaled: out[i - begin] = ||t_i|| for t_i with column_scales, relative error below
 * (n_columns + 16) 2^-52 where no square of an entry is subnormal or infinite.
 *
 * norms_through: out[i - begin] = ||matrix^T V_i||, relative error below 2^-48. `matrix` has
 * n_columns + intercept rows of n_out integers, n_out a multiple of 16; magnitudes of a column
 * times V_i sum to at most 2^52.
 *
 * norm_counts: out[k] += number of rows with ||t_i|| / inner_clip in (2^(-(k + 1) / 2), 2^(-k /
 * 2)], for t_i as above; the first of the n_bins bins includes all longer rows, the last all
 * shorter ones. Edges have a relative error of at most 2^-28.
 *
 * magnitude_counts: out[j, k] += floor(1 / (grid sqrt(m_i))) for rows whose entry j, of n_columns,
 * scaled with the row, has a magnitude in inner_clip (2^-(k + 1), 2^-k]; m_i is the number of such
 * entries of the row. The first of the n_bins bins includes all larger entries; smaller ones are
 * not counted.
 *
 * Images: u_i = image_unit matrix^T V_i, with V_i as for norms_through without w, is the image of
 * row i under a public matrix, in units of the grid of the sum. Its weight is
 * omega_i = min(1, clip^2 / ||u_i||^2). U_i = round(f_i u_i), where f_i, clamped to
 * image_bound / ||u_i|| in magnitude, depends on image_factor:
 *
 *     IMAGE_PLAIN      sqrt(omega_i)
 *     IMAGE_SLOPE      omega_i loss'(p_i)
 *     IMAGE_CURVATURE  sqrt(omega_i loss''(p_i))
 *     IMAGE_THIRD      omega_i loss'''(p_i), logistic only
 *
 * Before rounding U_i has norm at most image_bound (1 + 2^-49 + (n_columns + 16) 2^-52). n_out is
 * n_images rounded up to a multiple of 16, and columns beyond n_images are 0.
 *
 * image_sum: out[j] += sum over rows of U_ij. image_bound <= 2^40.
 *
 * image_gram: out[(j, k)] += sum over rows of U_ij U_ik, as gram_sum. image_bound <= 2^22.
 *
 * image_table: for rows with ||u_i|| > sqrt(2) clip and k = floor(log2(||u_i|| / (sqrt(2) clip))),
 * at most n_bins - 1, out[k, j] += 2^20 (u_ij / ||u_i||)^2, rounded down: integers with a sum of
 * at most 2^20.
 *
 * residual_sums: 2^20 times the number of rows with omega_i < 1, and sums of floor(2^20
 * loss'(p_i)^2 / largest_square) and of floor(2^20 loss''(p_i) / largest_curvature), each at most
 * 2^20.
 *
 * Softmax (n_classes > 0). Targets are classes 0 .. n_classes - 1, weights w_k the columns of a
 * matrix of (n_columns + intercept, n_classes), C order, and so are directions and sums of
 * gradients. A row has one score <w_k, z_i> per class, the probabilities q_k = exp(score_k) / sum_j
 * exp(score_j), and the loss -log q_y; the gradient of the loss is z_i r_i^T with the residuals
 * r_i = q - e_y. A row with a score of NaN or +infinity contributes 0.
 *
 * predictions: out[i - begin, k] = <w_k, z_i>.
 *
 * clipped_gradient_sum: out[j, k] += sum over rows of round(s_ik * (x_i, 1)_j / grid): integers.
 * s_i = r_i * min(1, row_norm / norms[i]), scaled down where needed so that |s_i| * norms[i], the
 * Frobenius norm before rounding (|s_i| * clip_norms[i] where given), is at most inner_clip times
 * 1 + 2^-22 (float rows) or 1 + 2^-50 + n_classes * 2^-52 (double rows).
 *
 * gradient_sum, clipped_loss_sums: as above, the former without a clip; losses are evaluated in
 * double from scores in the precision of the rows. */
typedef void pass_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                     const struct pass *pass, void *out, void *workspace);

/* Size of a kernel's workspace in bytes. */
typedef int64_t workspace_bytes_fn(const struct dense_rows *rows, const struct pass *pass);

/* How rows are split into ranges for threads: see passes/ranges.c. */
enum range_policy {
    RANGES_OF_ROWS,
    RANGES_OF_INTEGERS,
    RANGES_OF_CLASSES,
    RANGES_OF_CLASS_BATCH, /* gradients of a batch, in place of RANGES_OF_CLASSES */
    RANGES_OF_TABLE,
    RANGES_OF_COLUMNS
};

/* How a pass runs over one representation of the rows. */
struct route {
    pass_fn *kernel;                     /* NULL where there is none */
    workspace_bytes_fn *workspace_bytes; /* or NULL */
    enum range_policy ranges;
};

/* Dense rows include blocks of rows that were expanded from another representation. Columns and
 * tables have kernels of their own, with the contracts and bits of dense rows (of doubles, for
 * tables). Columns: no batch, no multiplicity; norms are computed on the fly if `rows` has none.
 * Sparse rows: see sparse_rows.h. */
enum representation {
    DENSE_ROWS,
    SOFTMAX_ROWS, /* dense, for passes with n_classes > 0 */
    COLUMN_ROWS,
    TABULAR_ROWS,
    SPARSE_ROWS
};

/* An expand_rows_fn (row_blocks.h) for a struct columns_matrix. */
typedef void expand_columns_fn(const void *matrix, const int64_t *places, int64_t first,
                               int64_t count, void *x_out);

/* Steps of stochastic gradient descent: see sgd_steps.h. */
struct sgd_settings;
struct sgd_block;
typedef void sgd_steps_fn(const struct dense_rows *rows, const struct sgd_settings *settings,
                          const struct sgd_block *block, void *workspace);
typedef int64_t sgd_workspace_bytes_fn(const struct dense_rows *rows);

/* Laplacian smoothing of a chunk of a ring, see circulant_solve.h. `power` holds 1, a, .., a^8;
 * forward[j][i] = a^(i-j) for i >= j, backward[j][i] = a^(j-i) for i < j, else 0. Powers from
 * a^reach on are negligible. */
enum { SMOOTHER_UNIT = 8 };
struct smoother {
    double a, scale;
    int64_t reach;
    double power[SMOOTHER_UNIT + 1];
    double forward[SMOOTHER_UNIT][SMOOTHER_UNIT], backward[SMOOTHER_UNIT][SMOOTHER_UNIT];
};

/* *forward = sum_i a^(length-1-i) v_i and *backward = sum_i a^i v_i, negligible terms left out. */
typedef void chunk_ends_fn(const struct smoother *smoother, const double *v, int64_t length,
                           double *forward, double *backward);

/* u_i = scale (F_i + a B_(i+1)), where F_(-1) = forward and B_length = backward are the carries
 * from the neighbouring chunks. */
typedef void smooth_chunk_fn(const struct smoother *smoother, const double *v, int64_t length,
                             double forward, double backward, double *u);

/* The kernels for sparse rows: see sparse_rows.h. */
struct sparse_kernels;

/* What each file exports that is compiled once per instruction set. */
struct dense_kernels {
    struct route rows[N_PASSES];
    struct route columns[N_PASSES];    /* of rows stored column by column */
    struct route precise_gradient_sum; /* of float rows, from the file for doubles */
    expand_columns_fn *expand_columns;
};

struct sgd_kernels {
    sgd_workspace_bytes_fn *workspace_bytes;
    sgd_steps_fn *steps;
};

struct smoothing_kernels {
    chunk_ends_fn *chunk_ends;
    smooth_chunk_fn *smooth_chunk;
};

struct kernel_table {
    const char *instruction_set;
    const struct dense_kernels *dense[N_REAL_TYPES];
    const struct route *softmax[N_REAL_TYPES]; /* N_PASSES each */
    const struct route *tabular;               /* N_PASSES, of doubles */
    const struct sgd_kernels *sgd[N_REAL_TYPES];
    const struct smoothing_kernels *smoothing;
    /* In the arithmetic of the rows, and in double. */
    const struct sparse_kernels *sparse[N_REAL_TYPES][N_INDEX_TYPES];
    const struct sparse_kernels *precise_sparse[N_REAL_TYPES][N_INDEX_TYPES];
};

/* kernel_dispatch.c */

/* Names of the compiled tables that this machine can run, slowest first; NULL past the end. */
const char *kernels_available(int index);

/* The fastest table that this machine can run, or the one called `name`; NULL if that one is
 * unknown or cannot run here. */
const struct kernel_table *kernels_choose(const char *name);

/* The table that all threads use; set it before use. */
extern const struct kernel_table *_Atomic kernels_in_use;

#endif
