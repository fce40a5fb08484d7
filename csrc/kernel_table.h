/* The compute kernels on one page.
 *
 * A pass over the data is a value, struct pass. Its kernel works on one range of rows, in one
 * thread, and adds to the caller's buffers; run_pass() (passes/run_pass.h) runs it over all rows in
 * many threads. Every kernel exists for float and double rows and once per instruction set, and
 * computes the same bits in each of them: all arithmetic is IEEE +, -, *, / in a fixed order, never
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
 * With `weights` the loss of row i is weights[i] loss(p_i), and so are its derivatives weighted:
 * before a clip. coordinate_loss_sums and what sees rows through a matrix do not look there.
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

/* The passes. To add one: a line here, its contract below, its result in passes/pass_arguments.c,
 * and its kernels and routes in dispatch/kernel_instances.c. */
#define FOR_EACH_PASS(PASS)                                                                        \
    PASS(row_norms)                                                                                \
    PASS(entry_sum)                                                                                \
    PASS(predictions)                                                                              \
    PASS(clipped_gradient_sum)                                                                     \
    PASS(clipped_gradient_sums)                                                                    \
    PASS(gradient_sum)                                                                             \
    PASS(clipped_loss_sums)                                                                        \
    PASS(coordinate_loss_sums)                                                                     \
    PASS(gram_sum)                                                                                 \
    PASS(moment_sums)                                                                              \
    PASS(norms_scaled)                                                                             \
    PASS(norms_through)                                                                            \
    PASS(norm_counts)                                                                              \
    PASS(magnitude_counts)                                                                         \
    PASS(image_sum)                                                                                \
    PASS(image_gram)                                                                               \
    PASS(image_table)                                                                              \
    PASS(residual_sums)

enum pass_kind {
#define PASS(name) PASS_##name,
    FOR_EACH_PASS(PASS)
#undef PASS
        N_PASSES
};

/* What multiplies the weighted image of a row: a derivative of its loss, of that order. */
enum image_factor { IMAGE_PLAIN = 0, IMAGE_SLOPE = 1, IMAGE_CURVATURE = 2, IMAGE_THIRD = 3 };

/* A pass: what each record contributes, and on which grid. Every pass reads some of the arguments;
 * passes/pass_arguments.c knows them by name. */
struct pass {
    enum pass_kind kind;
    struct loss loss;
    int64_t n_classes; /* of the softmax loss, which is none of enum loss_kind; 0 for the others */
    const double *w;
    double inner_clip; /* bound of a contribution's norm before it is rounded */
    double grid;       /* a power of two */

    /* Several models: w is (n_models, n_columns + intercept). */
    int64_t n_models;
    const double *inner_clips, *grids; /* n_models */
    const int32_t *folds;              /* n_rows: the row's fold; or NULL */
    const int32_t *left_out;           /* n_models: the fold whose rows add nothing to the model */

    const double *direction, *steps; /* steps: n_steps */
    int64_t n_steps;
    double clip;
    double stride;

    /* Rows as integers, see below. */
    double target_factor;
    int upper;            /* loss'' is replaced by an upper bound, see loss_curvatures.h */
    const double *matrix; /* of n_out columns */
    int64_t n_out;
    const double *column_scales; /* n_columns + intercept; or NULL */
    int64_t n_bins;

    /* Rows seen through `matrix`, see below. */
    int64_t image_factor; /* enum image_factor */
    int64_t n_images;     /* coordinates of an image, at most n_out */
    double image_unit, image_bound;

    int with_loss, precise;
};

struct row_source;

struct dense_rows {
    const void *x;       /* n_rows * n_columns reals, C order; unused with a source */
    const void *y;       /* n_rows reals */
    const double *norms; /* n_rows, from the pass row_norms; NULL for a source that finds them */
    int64_t n_rows, n_columns;
    int intercept; /* 0 or 1 */
    double row_norm;
    /* NULL for all rows. Otherwise "row i" of everything below (but row_norms and entry_sum, which
     * read whole matrices) is row batch[i] of x, and n_rows is the length of batch. A kernel
     * prefetches rows up to n_rows, beyond the end of its range, too. */
    const int64_t *batch;
    /* NULL, or n_rows numbers above 0, and no batch: sums of gradients and of losses hold row i
     * multiplicity[i] times, and sums of integers are those of a matrix with as many equal rows.
     * The other kernels do not look here. */
    const int64_t *multiplicity;
    const double *weights;    /* n_rows numbers from 0, see below; or NULL: every weight is 1 */
    const double *clip_norms; /* n_rows lengths that stand for norms when clipping, or NULL */
    double *predictions; /* n_rows: clipped_gradient_sum leaves its p_i here, and clipped_loss_sums
                          * at the same weights takes them from here; or NULL */
    /* NULL, or what makes these rows, see row_blocks.h. Kernels for dense rows never see it. */
    const struct row_source *source;
    /* Done by the threads of run_pass() meanwhile; a pass over sparse rows leaves them undone. */
    const struct side_task *side_tasks;
    int n_side_tasks;
};

/* A kernel: adds what rows [begin, end) contribute to `out`, or writes a result for each of them
 * from `out` on. `workspace` is scratch of the size that the route tells, 64-byte aligned.
 *
 * row_norms: out[i - begin] = norm of row i, the intercept's 1 included, in double. Robust to
 * overflow and underflow of the squares; NaN for a row with a non-finite entry, infinity for a norm
 * above DBL_MAX, at least DBL_MIN for any row but 0. Relative error at most (n_columns + 8) *
 * 2^-52. Reads no argument: the pass may be NULL.
 *
 * entry_sum: *out += sum of the entries: what reading them costs at least.
 *
 * predictions: out[i - begin] = p_i.
 *
 * clipped_gradient_sum: out[j] += sum over rows of round(s_i * (x_i, 1)_j / grid): integers.
 *
 *     s_i = loss'(p_i) * min(1, row_norm / norms[i]), clamped to +-inner_clip / norms[i] (to
 *     +-inner_clip / clip_norms[i] where given), so that the vector before rounding is no longer
 *     than inner_clip (1 + 2^-22) for float and inner_clip (1 + 2^-50) for double rows. A subnormal
 *     s_i counts as 0. inner_clip / grid <= 2^22 (float), 2^50 (double). n_columns + intercept
 *     numbers.
 *
 * clipped_gradient_sums: the same for every model: out[k, j], row k as clipped_gradient_sum gives
 * it for the rows that the model sees. No batch, no clip_norms.
 *
 * gradient_sum: the same sum without clip or grid, in floating point, for non-private use:
 * out += sum_i loss'(p_i) z_i, and with_loss one number more, sum_i loss(p_i). `precise`: in double
 * arithmetic for float rows, too.
 *
 * clipped_loss_sums: out[j] += sum over rows of round(min(loss_i(w - steps[j] * direction), clip) /
 * grid). Losses are evaluated in the precision of the rows. One read of each row serves all n_steps
 * candidates. clip is a multiple of the grid with clip / grid <= 2^22 (float), 2^50 (double).
 *
 * coordinate_loss_sums: changes of the losses at the neighbours of w along the axes, each kept in
 * [-clip/2, clip/2]: with D = n_columns + intercept, j < D and a = clip/2
 *
 *     out[j]     += sum over rows of round((clamp(loss_i(w + stride e_j) - loss_i(w)) + a) / grid),
 *     out[D + j] += the same at w - stride e_j,   out[2 D] += the same at w.
 *
 *     Losses are evaluated in double at predictions in the precision of the rows. clip is a
 *     multiple of the grid with clip / grid <= 2^50.
 *
 * Second moments see rows as integers: V_ij = round(a_i (x_i, 1)_j / grid), where
 * a_i = min(1, row_norm / norms[i]) sqrt(loss''(p_i)), at most inner_clip / norms[i]. Without w the
 * square root is 1. With target_factor > 0 a last column holds round(target_factor y_i / grid).
 * With column_scales s the row is t_i = min(1, row_norm / norms[i]) (s_j (x_i, 1)_j)_j instead:
 * V_ij = round(a_i t_ij / grid), a_i = sqrt(loss''(p_i)), at most inner_clip / ||t_i||. Before
 * rounding V_i without that column is no longer than inner_clip / grid (1 + 2^-50 + (n_columns +
 * 16) 2^-52). inner_clip / grid and target_factor y_i / grid are at most 2^22.
 *
 * gram_sum: out[(j, k)] += sum over rows of V_ij V_ik, for j <= k, row by row of the upper
 * triangle. At most 2^40 rows.
 *
 * moment_sums: out[j] += sum over rows of V_ij, and after these sums of round(f_i V_ij^2), where
 * f_i = min(1, clip / ||(V_ij^2)_j||): of norm at most clip (1 + (n_columns + 16) 2^-52) before
 * rounding. clip is at most 2^44.
 *
 * norms_scaled: out[i - begin] = ||t_i|| for t_i with column_scales, relative error below
 * (n_columns + 16) 2^-52 where no square of an entry is subnormal or infinite.
 *
 * norms_through: out[i - begin] = ||matrix^T V_i||, relative error below 2^-48. `matrix` has
 * n_columns + intercept rows of n_out integers, n_out a multiple of 16; magnitudes of a column
 * times V_i sum to at most 2^52.
 *
 * norm_counts: out[k] += number of rows with ||t_i|| / inner_clip in (2^(-(k + 1) / 2), 2^(-k /
 * 2)], for t_i as above; the first of n_bins bins takes longer rows, too, and the last shorter
 * ones. Edges are off by a relative error of at most 2^-28.
 *
 * magnitude_counts: out[j, k] += floor(1 / (grid sqrt(m_i))) for rows whose entry j, of n_columns,
 * scaled with the row, has a magnitude in inner_clip (4^-(k + 1), 4^-k]; m_i is the number of such
 * entries of the row. The first of n_bins bins takes larger ones, too, and smaller ones are in
 * none.
 *
 * Images: u_i = image_unit matrix^T V_i, for V_i without w as norms_through sees it, is row i seen
 * through a public matrix, in units of the grid of what is summed. Its weight is
 * omega_i = min(1, clip^2 / ||u_i||^2). U_i = round(f_i u_i), where f_i, at most image_bound /
 * ||u_i|| in magnitude, is for image_factor
 *
 *     IMAGE_PLAIN: sqrt(omega_i)                     IMAGE_SLOPE: omega_i loss'(p_i)
 *     IMAGE_CURVATURE: sqrt(omega_i loss''(p_i))     IMAGE_THIRD: omega_i loss'''(p_i), logistic
 * only
 *
 * Before rounding U_i is no longer than image_bound (1 + 2^-49 + (n_columns + 16) 2^-52). n_out is
 * n_images rounded up to a multiple of 16, and columns beyond n_images are 0.
 *
 * image_sum: out[j] += sum over rows of U_ij. image_bound <= 2^40.
 *
 * image_gram: out[(j, k)] += sum over rows of U_ij U_ik, as gram_sum. image_bound <= 2^22.
 *
 * image_table: for rows with ||u_i|| > sqrt(2) clip and k = floor(log2(||u_i|| / (sqrt(2) clip))),
 * at most n_bins - 1, out[k, j] += 2^20 (u_ij / ||u_i||)^2, rounded down: integers that sum to at
 * most 2^20.
 *
 * residual_sums: 2^20 times the number of rows with omega_i < 1, and sums of floor(2^20
 * loss'(p_i)^2 / L^2) and of floor(2^20 loss''(p_i) / B), each at most 2^20; L^2 = inner_clips[0]
 * and B = inner_clips[1].
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
 * s_i = r_i * min(1, row_norm / norms[i]), shortened where needed so that |s_i| * norms[i], the
 * Frobenius norm before rounding, is at most inner_clip times 1 + 2^-22 (float rows) or 1 + 2^-50 +
 * n_classes * 2^-52 (double rows).
 *
 * gradient_sum, clipped_loss_sums: as above; losses are evaluated in double from scores in the
 * precision of the rows. */
typedef void pass_fn(const struct dense_rows *rows, int64_t begin, int64_t end,
                     const struct pass *pass, void *out, void *workspace);

/* Workspace of a kernel in bytes. */
typedef int64_t workspace_bytes_fn(const struct dense_rows *rows, const struct pass *pass);

/* How rows are cut into the ranges that threads take: see passes/ranges.c. */
enum range_policy {
    RANGES_OF_ROWS,
    RANGES_OF_INTEGERS,
    RANGES_OF_MODELS,
    RANGES_OF_CLASSES,
    RANGES_OF_TABLE,
    RANGES_OF_COLUMNS
};

/* How a pass goes over one representation of the rows. */
struct route {
    pass_fn *kernel[N_REAL_TYPES];       /* NULL where there is none */
    workspace_bytes_fn *workspace_bytes; /* or NULL */
    enum range_policy ranges;
};

/* Dense rows, or blocks of rows that are made dense; columns and tables as they are. Contracts and
 * bits are those of dense rows (of doubles, for tables). Columns: no batch, no multiplicity;
 * without norms in `rows` each row's is found on the way. Sparse rows: see sparse_rows.h. */
enum representation {
    DENSE_ROWS,
    SOFTMAX_ROWS, /* dense, for passes with n_classes > 0 */
    COLUMN_ROWS,
    TABULAR_ROWS,
    SPARSE_ROWS,
    N_ROUTES = SPARSE_ROWS
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

/* The kernels for sparse rows: see sparse_rows.h. */
struct sparse_kernels;

struct kernel_table {
    const char *instruction_set;
    struct route routes[N_ROUTES][N_PASSES];
    expand_columns_fn *expand_columns[N_REAL_TYPES];
    sgd_workspace_bytes_fn *sgd_workspace_bytes;
    sgd_steps_fn *sgd_steps[N_REAL_TYPES];
    chunk_ends_fn *chunk_ends;
    smooth_chunk_fn *smooth_chunk;
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
