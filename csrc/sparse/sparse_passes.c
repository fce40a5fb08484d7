/* See sparse_passes.h. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dense/row_blocks.h"
#include "memory/aligned_memory.h"
#include "memory/buffer_pool.h"
#include "passes/ranges.h"
#include "passes/threads.h"
#include "sparse/sparse_passes.h"
#include "sparse/sparse_rows.h"

enum {
    ENTRIES_PER_TASK = 1 << 15,
    ROWS_PER_TASK = 16, /* a block: tasks are multiples of it */
    COLUMNS_PER_TASK = 1 << 12
};

static struct sparse_rows sparse_rows_of(const struct dense_rows *dense) {
    struct sparse_rows rows = {.rows = *dense, .matrix = dense->source->matrix};
    rows.reading = reading_once();
    rows.rows.x = rows.matrix->values;
    return rows;
}

/* Chunks of a pass, taken by free threads. */
struct tasks {
    int64_t size, step;
    _Atomic int64_t next;
};

static void open_tasks(struct tasks *tasks, int64_t size, int64_t step) {
    tasks->size = size;
    tasks->step = step;
    atomic_init(&tasks->next, 0);
}

/* Rows of about ENTRIES_PER_TASK entries. */
static void open_row_tasks(struct tasks *tasks, const struct sparse_rows *rows) {
    const double per_row = (double)rows->matrix->n_entries / (double)rows->matrix->n_rows + 1.0;
    const int64_t step = (int64_t)(ENTRIES_PER_TASK / per_row);
    open_tasks(tasks, rows->rows.n_rows, round_up(step + 1, ROWS_PER_TASK));
}

/* *begin and *end of the next chunk; returns 0 when there is none. */
static int take_task(struct tasks *tasks, int64_t *begin, int64_t *end) {
    *begin = atomic_fetch_add_explicit(&tasks->next, tasks->step, memory_order_relaxed);
    *end = *begin + tasks->step < tasks->size ? *begin + tasks->step : tasks->size;
    return *begin < tasks->size;
}

static int threads_of(const struct tasks *tasks, int n_threads) {
    const int64_t n_tasks = (tasks->size + tasks->step - 1) / tasks->step;
    if (n_tasks < n_threads)
        n_threads = (int)n_tasks;
    return n_threads < 1 ? 1 : n_threads;
}

/* Runs a statement for every chunk of `tasks`, in at most n_threads threads. In braces, because a
 * build without threads may treat the pragma as a statement. */
/* clang-format off */
#define PRAGMA(text) _Pragma(#text)
#define FOR_EACH_TASK(tasks, n_threads, ...)                                                       \
    {                                                                                              \
        PRAGMA(omp parallel num_threads(n_threads))                                                \
        for (int64_t begin, end; take_task(&(tasks), &begin, &end);) {                             \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    }
/* clang-format on */

static _Atomic(struct pool_buffer *) pooled_zeros;   /* the threads' sums, always zeros */
static _Atomic(struct pool_buffer *) pooled_weights; /* packed weights */

static int64_t pack_floats(const double *w, int64_t begin, int64_t end, int64_t width,
                           float *packed) {
    int64_t infinite = 0;
    for (int64_t j = begin; j < end; j++) {
        packed[width * j] = (float)w[j];
        infinite += !(fabs((double)packed[width * j]) <= FLT_MAX);
    }
    return infinite;
}

static void pack_doubles(const double *w, int64_t begin, int64_t end, double *packed) {
    for (int64_t j = begin; j < end; j++)
        packed[2 * j] = w[j];
}

/* Packs one vector of weights, or two as pairs (w, and v unless NULL): doubles in place, anything
 * else in *owned, a buffer of pooled_weights that the caller returns. Returns -1 when memory ran
 * out. */
static int pack_weights(struct sparse_rows *rows, enum real_type type, int n_threads,
                        const double *w, const double *v, struct pool_buffer **owned) {
    const int64_t width = v ? 2 : 1, n_columns = rows->rows.n_columns;
    _Atomic int64_t infinite = 0;
    struct tasks tasks;
    *owned = NULL;
    rows->weights = (struct sparse_weights){.packed = w, .intercept = intercept_of(&rows->rows, w)};
    if (type == REAL_F64 && !v)
        return 0;
    *owned = take_buffer(&pooled_weights, (size_t)(n_columns * width * real_bytes(type)));
    if (!*owned)
        return -1;
    void *out = (*owned)->memory;
    open_tasks(&tasks, n_columns, COLUMNS_PER_TASK);
    n_threads = threads_of(&tasks, n_threads);
    if (type == REAL_F32)
        FOR_EACH_TASK(tasks, n_threads, infinite += pack_floats(w, begin, end, width, out);
                      if (v) infinite += pack_floats(v, begin, end, width, (float *)out + 1))
    else
        FOR_EACH_TASK(tasks, n_threads, pack_doubles(w, begin, end, out);
                      pack_doubles(v, begin, end, (double *)out + 1))
    rows->weights.packed = out;
    rows->weights.infinite = infinite;
    return 0;
}

/* A pass that writes a number for every row. */
static int write_rows(sparse_pass_fn *kernel, const struct sparse_rows *rows,
                      const struct pass *pass, int n_threads, double *out) {
    struct tasks tasks;
    open_row_tasks(&tasks, rows);
    FOR_EACH_TASK(tasks, threads_of(&tasks, n_threads), kernel(rows, begin, end, pass, out + begin))
    return 0;
}

static int row_norms(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *dense, const struct pass *pass, int n_threads,
                     void *out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    return write_rows(kernels->sparse[type][rows.matrix->index]->row_norms, &rows, pass, n_threads,
                      out);
}

static int predictions(const struct kernel_table *kernels, enum real_type type,
                       const struct dense_rows *dense, const struct pass *pass, int n_threads,
                       void *out) {
    struct sparse_rows rows = sparse_rows_of(dense);
    struct pool_buffer *owned;
    int status = pack_weights(&rows, type, n_threads, pass->w, NULL, &owned);
    if (status == 0)
        status = write_rows(kernels->sparse[type][rows.matrix->index]->predictions, &rows, pass,
                            n_threads, out);
    return_buffer(&pooled_weights, owned);
    return status;
}

/* sum_out = the sum of n_parts arrays of integers, `stride` apart, which become 0. */
static void move_parts(int64_t *parts, int n_parts, int64_t stride, int64_t begin, int64_t end,
                       int64_t *sum_out) {
    memset(sum_out + begin, 0, (size_t)(end - begin) * sizeof *sum_out);
    for (int part = 0; part < n_parts; part++) {
        int64_t *from = parts + part * stride;
        for (int64_t j = begin; j < end; j++)
            sum_out[j] += from[j];
        memset(from + begin, 0, (size_t)(end - begin) * sizeof *from);
    }
}

/* Row by row, into one sum per thread: integer sums do not depend on the order. */
static int add_by_rows(sparse_pass_fn *kernel, const struct sparse_rows *rows,
                       const struct pass *pass, int n_threads, int64_t *sum_out) {
    const int64_t dimension = rows->rows.n_columns + rows->rows.intercept;
    const int64_t stride = round_up(dimension, ALIGNMENT / (int64_t)sizeof(int64_t));
    struct tasks tasks, column_tasks;
    open_row_tasks(&tasks, rows);
    open_tasks(&column_tasks, dimension, COLUMNS_PER_TASK);
    const int team = threads_of(&tasks, n_threads);
    struct pool_buffer *zeros =
        take_buffer(&pooled_zeros, (size_t)(team * stride) * sizeof(int64_t));
    if (!zeros)
        return -1;
    int64_t *sums = (int64_t *)zeros->memory;
    FOR_EACH_TASK(tasks, team, kernel(rows, begin, end, pass, sums + this_thread() * stride))
    FOR_EACH_TASK(column_tasks, team, move_parts(sums, team, stride, begin, end, sum_out))
    return_buffer(&pooled_zeros, zeros); /* zeros again */
    return 0;
}

static int clipped_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                                const struct dense_rows *dense, const struct pass *pass,
                                int n_threads, void *out) {
    struct sparse_rows rows = sparse_rows_of(dense);
    struct pool_buffer *owned;
    int status = pack_weights(&rows, type, n_threads, pass->w, NULL, &owned);
    if (status == 0)
        status = add_by_rows(kernels->sparse[type][rows.matrix->index]->clipped_gradient_sum, &rows,
                             pass, n_threads, out);
    return_buffer(&pooled_weights, owned);
    return status;
}

/* The kernels of a plain sum, and the rows of a range. */
struct plain_sum {
    const struct sparse_kernels *kernels;
    int64_t rows_per_range;
};

/* Factors of the rows of a range, and the sums of factors and losses, in the order of gradient_sum,
 * which adds up pieces of the range. */
static void range_factors(const struct plain_sum *plain, const struct sparse_rows *rows,
                          int64_t begin, int64_t end, const struct pass *pass, double *factors,
                          double *sums) {
    const int64_t most = plain->kernels->rows_per_call;
    for (int64_t from = begin; from < end; from += most) {
        const int64_t to = end - from < most ? end : from + most;
        plain->kernels->factors(rows, from, to, pass, factors + from, sums);
        if (to == end)
            break;
    }
}

/* Columns [first, last) of the sum over all ranges, in order. */
static void add_all_ranges(const struct plain_sum *plain, const struct sparse_rows *rows,
                           const double *factors, struct sparse_columns columns, int64_t first,
                           int64_t last) {
    const int64_t n_rows = rows->rows.n_rows, step = plain->rows_per_range;
    columns.first = first;
    columns.last = last;
    for (int64_t begin = 0; begin < n_rows; begin += step)
        plain->kernels->add_columns(rows, begin, begin + step < n_rows ? begin + step : n_rows,
                                    factors, &columns);
}

/* factors: n_rows. range_sums: two for each range, zeros. sums: 2 * n_columns, zeros. */
static void add_plain(const struct plain_sum *plain, const struct sparse_rows *rows,
                      const struct pass *pass, int n_threads, double *factors, double *range_sums,
                      double *sums, double *out) {
    const int64_t n_rows = rows->rows.n_rows, n_columns = rows->rows.n_columns;
    const int64_t step = plain->rows_per_range, dimension = n_columns + rows->rows.intercept;
    struct tasks tasks, column_tasks;
    open_tasks(&tasks, n_rows, step);
    FOR_EACH_TASK(
        tasks, threads_of(&tasks, n_threads),
        range_factors(plain, rows, begin, end, pass, factors, range_sums + begin / step * 2))
    memset(out, 0, (size_t)(dimension + 1) * sizeof *out);
    const int64_t share =
        round_up((n_columns + n_threads - 1) / n_threads, ALIGNMENT / (int64_t)sizeof(double));
    open_tasks(&column_tasks, n_columns, share);
    const struct sparse_columns columns = {
        0, 0, plain->kernels->rows_per_flush, sums, sums + n_columns, out};
    FOR_EACH_TASK(column_tasks, threads_of(&column_tasks, n_threads),
                  add_all_ranges(plain, rows, factors, columns, begin, end))
    for (int64_t begin = 0; begin < n_rows; begin += step) {
        if (rows->rows.intercept)
            out[n_columns] += range_sums[begin / step * 2];
        out[dimension] += range_sums[begin / step * 2 + 1];
    }
}

static int gradient_sum(const struct kernel_table *kernels, enum real_type type,
                        const struct dense_rows *dense, const struct pass *pass, int n_threads,
                        void *out) {
    struct sparse_rows rows = sparse_rows_of(dense);
    const struct plain_sum plain = {
        (pass->precise ? kernels->precise_sparse : kernels->sparse)[type][rows.matrix->index],
        rows_in_range(dense->n_rows)};
    const int64_t n_ranges = (dense->n_rows + plain.rows_per_range - 1) / plain.rows_per_range;
    struct pool_buffer *owned;
    int status =
        pack_weights(&rows, pass->precise ? REAL_F64 : type, n_threads, pass->w, NULL, &owned);
    double *factors = malloc((size_t)dense->n_rows * sizeof *factors);
    double *range_sums = calloc((size_t)n_ranges * 2, sizeof *range_sums);
    double *sums = calloc((size_t)dense->n_columns * 2, sizeof *sums);
    if (status == 0 && factors && range_sums && sums)
        add_plain(&plain, &rows, pass, n_threads, factors, range_sums, sums, out);
    else
        status = -1;
    free(sums);
    free(range_sums);
    free(factors);
    return_buffer(&pooled_weights, owned);
    return status;
}

static int clipped_loss_sums(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *dense, const struct pass *pass, int n_threads,
                             void *out) {
    struct sparse_rows rows = sparse_rows_of(dense);
    const int64_t stride = round_up(pass->n_steps, ALIGNMENT / (int64_t)sizeof(int64_t));
    struct pool_buffer *owned;
    struct tasks tasks;
    open_row_tasks(&tasks, &rows);
    const int team = threads_of(&tasks, n_threads);
    int status = dense->predictions
                     ? pack_weights(&rows, type, n_threads, pass->direction, NULL, &owned)
                     : pack_weights(&rows, type, n_threads, pass->w, pass->direction, &owned);
    rows.weights.direction_intercept = intercept_of(dense, pass->direction);
    int64_t *sums = calloc((size_t)(team * stride), sizeof *sums);
    if (status == 0 && sums) {
        FOR_EACH_TASK(tasks, team,
                      kernels->sparse[type][rows.matrix->index]->clipped_loss_sums(
                          &rows, begin, end, pass, sums + this_thread() * stride))
        move_parts(sums, team, stride, 0, pass->n_steps, out);
    }
    status = sums ? status : -1;
    free(sums);
    return_buffer(&pooled_weights, owned);
    return status;
}

whole_pass_fn *const sparse_passes[N_PASSES] = {
    [PASS_row_norms] = row_norms,
    [PASS_predictions] = predictions,
    [PASS_clipped_gradient_sum] = clipped_gradient_sum,
    [PASS_gradient_sum] = gradient_sum,
    [PASS_clipped_loss_sums] = clipped_loss_sums,
};

int sparse_sgd_block(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *dense, const struct sgd_settings *settings,
                     const struct sgd_block *block) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    const struct sparse_kernels *sparse = kernels->precise_sparse[type][rows.matrix->index];
    const int64_t bytes = sparse->sgd_workspace_bytes(&rows);
    void *workspace = aligned_memory((size_t)round_up(bytes, ALIGNMENT));
    if (!workspace)
        return -1;
    sparse->sgd_steps(&rows, settings, block, workspace);
    free_aligned(workspace);
    return 0;
}
