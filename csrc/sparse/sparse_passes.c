/* See sparse_ranges.h. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "memory/aligned_memory.h"
#include "sparse/column_panels.h"
#include "dense/row_blocks.h"
#include "passes/row_ranges.h"
#include "memory/buffer_pool.h"
#include "sparse/sparse_passes.h"
#include "sparse/sparse_rows.h"

enum {
    ENTRIES_PER_TASK = 1 << 15,
    ROWS_PER_TASK = 16,         /* a block: tasks are multiples of it */
    COLUMNS_PER_TASK = 1 << 12, /* whole groups of column_permutation.h */
    LINE = ALIGNMENT / sizeof(float)
};

static int this_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int is_sparse(const struct dense_rows *rows) {
    return rows->source && rows->source->sparse;
}

static struct sparse_rows sparse_rows_of(const struct dense_rows *dense) {
    struct sparse_rows rows = {.rows = *dense, .matrix = dense->source->sparse};
    rows.reading = reading_once();
    rows.rows.x = rows.matrix->values;
    return rows;
}

/* Shares of a pass that threads take when they are free. */
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

/* *begin and *end of a share that nobody has taken; 0 when there is none. */
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

/* Run a statement for every share of `tasks`, in at most n_threads threads. In braces: a build
 * without threads may take the pragma for a statement of its own. */
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

static _Atomic(struct spare *) spare_zeros;   /* the threads' sums, always zeros */
static _Atomic(struct spare *) spare_weights; /* weights that had to be packed */
static _Atomic(struct spare *) spare_factors; /* of all rows */
static _Atomic(struct spare *) spare_sums, spare_products;

/* Weights as the kernels want them: doubles in place, anything else in memory of its own. */
struct packed_weights {
    struct sparse_weights weights;
    struct spare *owned;
};

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

/* One or two vectors: w, and v for pairs. */
static int pack_weights(struct packed_weights *packed, enum real_type type, int64_t n_columns,
                        int n_threads, const double *w, const double *v) {
    const int64_t width = v ? 2 : 1;
    _Atomic int64_t infinite = 0;
    struct tasks tasks;
    memset(packed, 0, sizeof *packed);
    packed->weights.packed = w;
    if (type == REAL_F64 && !v)
        return 0;
    const size_t size = type == REAL_F32 ? sizeof(float) : sizeof(double);
    packed->owned = take_spare(&spare_weights, (size_t)(n_columns * width) * size);
    if (!packed->owned)
        return -1;
    void *out = packed->owned->memory;
    open_tasks(&tasks, n_columns, COLUMNS_PER_TASK);
    n_threads = threads_of(&tasks, n_threads);
    if (type == REAL_F32)
        FOR_EACH_TASK(tasks, n_threads, infinite += pack_floats(w, begin, end, width, out);
                      if (v) infinite += pack_floats(v, begin, end, width, (float *)out + 1))
    else
        FOR_EACH_TASK(tasks, n_threads, pack_doubles(w, begin, end, out);
                      pack_doubles(v, begin, end, (double *)out + 1))
    packed->weights.packed = out;
    packed->weights.infinite = infinite;
    return 0;
}

static double intercept_of(const struct dense_rows *rows, const double *w) {
    return rows->intercept ? w[rows->n_columns] : 0.0;
}

int sparse_row_norms(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *dense, int n_threads, double *norms_out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    struct tasks tasks;
    open_row_tasks(&tasks, &rows);
    n_threads = threads_of(&tasks, n_threads);
    FOR_EACH_TASK(
        tasks, n_threads,
        kernels->sparse->row_norms[type][rows.matrix->index](&rows, begin, end, norms_out))
    return 0;
}

/* sum_out = the sum of n_parts arrays of integers, one every `stride`, which become 0. */
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

/* Row by row, into one sum per thread: integers do not depend on who adds them. */
static int add_by_rows(const struct kernel_table *kernels, enum real_type type,
                       const struct sparse_rows *rows, int n_threads, struct loss loss,
                       const struct sparse_weights *w, double clip_in, double grid,
                       int64_t *sum_out) {
    const int64_t dimension = rows->rows.n_columns + rows->rows.intercept;
    const int64_t stride = round_up(dimension, ALIGNMENT / (int64_t)sizeof(int64_t));
    struct tasks tasks, column_tasks;
    open_row_tasks(&tasks, rows);
    open_tasks(&column_tasks, dimension, COLUMNS_PER_TASK);
    const int team = threads_of(&tasks, n_threads);
    struct spare *zeros = take_spare(&spare_zeros, (size_t)(team * stride) * sizeof(int64_t));
    if (!zeros)
        return -1;
    int64_t *sums = (int64_t *)zeros->memory;
    FOR_EACH_TASK(tasks, team,
                  kernels->sparse->clipped_gradient_sum[type][rows->matrix->index](
                      rows, begin, end, loss, w, clip_in, grid, sums + this_thread() * stride))
    FOR_EACH_TASK(column_tasks, team, move_parts(sums, team, stride, begin, end, sum_out))
    put_spare(&spare_zeros, zeros); /* zeros again */
    return 0;
}

/* What a pass by strips needs beside them. */
struct strip_scratch {
    struct spare *weights, *sums; /* in the order of the strips */
    struct spare *products;       /* a workspace for each thread */
    struct spare *factors;        /* of all rows */
};

static void put_strip_scratch(struct strip_scratch *scratch) {
    put_spare(&spare_weights, scratch->weights);
    put_spare(&spare_sums, scratch->sums);
    put_spare(&spare_products, scratch->products);
    put_spare(&spare_factors, scratch->factors);
}

/* 0 when memory ran out. */
static int take_strip_scratch(struct strip_scratch *scratch, const struct column_strips *strips,
                              int64_t n_rows, size_t real_bytes, int64_t reals_per_thread,
                              int n_threads) {
    const int64_t n_places = strips->order.n_places;
    scratch->weights = take_spare(&spare_weights, (size_t)n_places * real_bytes);
    scratch->sums = take_spare(&spare_sums, (size_t)n_places * sizeof(int64_t));
    scratch->products =
        take_spare(&spare_products, (size_t)(reals_per_thread * n_threads) * real_bytes);
    scratch->factors = take_spare(&spare_factors, (size_t)n_rows * real_bytes);
    return scratch->weights && scratch->sums && scratch->products && scratch->factors;
}

/* First the factors of all rows, slab by slab, then the sums, strip by strip. Returns 1 where
 * weights became infinite, whose products with zeros that are not stored only rows know. */
static int add_by_strips(const struct kernel_table *kernels, enum real_type type,
                         const struct dense_rows *rows, const struct column_strips *strips,
                         int n_threads, struct loss loss, const double *w, double clip_in,
                         double grid, int64_t *sum_out) {
    const size_t real_bytes = type == REAL_F32 ? sizeof(float) : sizeof(double);
    const int64_t reals = slab_workspace_rows(&strips->order) * round_up(strips->slab_rows, LINE);
    struct strip_scratch scratch;
    struct tasks slabs, columns, by_strip;
    _Atomic int64_t intercept_sum = 0, infinite = 0;
    int status = -1;
    open_tasks(&slabs, strips->n_slabs, 1);
    open_tasks(&columns, rows->n_columns, COLUMNS_PER_TASK);
    const int team = threads_of(&slabs, n_threads);
    if (take_strip_scratch(&scratch, strips, rows->n_rows, real_bytes, reals, team)) {
        FOR_EACH_TASK(columns, threads_of(&columns, n_threads),
                      infinite +=
                      order_weights(&strips->order, type, w, begin, end, scratch.weights->memory))
        status = infinite > 0;
    }
    if (status == 0) {
        FOR_EACH_TASK(slabs, team,
                      intercept_sum += kernels->sparse->clipped_factors[type](
                          rows, strips, begin, loss, scratch.weights->memory, intercept_of(rows, w),
                          clip_in, grid,
                          scratch.products->memory + this_thread() * reals * (int64_t)real_bytes,
                          scratch.factors->memory))
        open_tasks(&by_strip, strips->n_strips, 1);
        FOR_EACH_TASK(by_strip, threads_of(&by_strip, n_threads),
                      kernels->sparse->sum_strip[type](strips, begin, scratch.factors->memory, grid,
                                                       (int64_t *)scratch.sums->memory))
        open_tasks(&columns, rows->n_columns, COLUMNS_PER_TASK);
        FOR_EACH_TASK(columns, threads_of(&columns, n_threads),
                      restore_sums(&strips->order, (const int64_t *)scratch.sums->memory, begin,
                                   end, sum_out))
        if (rows->intercept)
            sum_out[rows->n_columns] = intercept_sum;
    }
    put_strip_scratch(&scratch);
    return status;
}

int sparse_clipped_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                                const struct dense_rows *dense, int n_threads, struct loss loss,
                                const double *w, double clip_in, double grid, int64_t *sum_out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    const struct column_strips *strips =
        dense->batch || dense->counts ? NULL : strips_for_pass(rows.matrix, n_threads);
    if (strips) {
        const int status =
            add_by_strips(kernels, type, dense, strips, n_threads, loss, w, clip_in, grid, sum_out);
        if (status <= 0)
            return status;
    }
    struct packed_weights packed;
    int status = pack_weights(&packed, type, dense->n_columns, n_threads, w, NULL);
    packed.weights.intercept = intercept_of(dense, w);
    if (status == 0)
        status = add_by_rows(kernels, type, &rows, n_threads, loss, &packed.weights, clip_in, grid,
                             sum_out);
    put_spare(&spare_weights, packed.owned);
    return status;
}

/* Factors of the rows of a range, and their sum and loss, as gradient_sum forms them: the sums of
 * calls over pieces of it. */
static void range_factors(sparse_factors_fn *factors_of, const struct sparse_rows *rows,
                          int64_t begin, int64_t end, int64_t rows_per_call, struct loss loss,
                          const struct sparse_weights *w, double *factors, double *sums,
                          int with_loss) {
    for (int64_t from = begin; from < end; from += rows_per_call) {
        const int64_t to = end - from < rows_per_call ? end : from + rows_per_call;
        factors_of(rows, from, to, loss, w, factors + from, &sums[0], with_loss ? &sums[1] : NULL);
        if (to == end)
            break;
    }
}

/* Columns [first, last) of the sum over all ranges, in order. */
static void add_all_ranges(sparse_add_columns_fn *add_columns, const struct sparse_rows *rows,
                           int64_t step, const double *factors, struct sparse_columns columns,
                           int64_t first, int64_t last) {
    const int64_t n_rows = rows->rows.n_rows;
    columns.first = first;
    columns.last = last;
    for (int64_t begin = 0; begin < n_rows; begin += step)
        add_columns(rows, begin, begin + step < n_rows ? begin + step : n_rows, factors, &columns);
}

int sparse_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                        const struct dense_rows *dense, int n_threads, struct loss loss,
                        const double *w, int precise, double *sum_out, double *loss_out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    const struct sparse_kernels *sparse = kernels->sparse;
    sparse_factors_fn *factors_of =
        (precise ? sparse->precise_factors : sparse->factors)[type][rows.matrix->index];
    sparse_add_columns_fn *add_columns =
        (precise ? sparse->precise_add_columns : sparse->add_columns)[type][rows.matrix->index];
    const int64_t rows_per_flush =
        (precise ? sparse->precise_rows_per_flush : sparse->rows_per_flush)[type];
    const int64_t rows_per_call = precise ? sparse->precise_rows_per_call[type] : INT64_MAX;
    const int64_t n_rows = dense->n_rows, n_columns = dense->n_columns;
    const int64_t step = rows_in_range(n_rows), n_ranges = (n_rows + step - 1) / step;
    struct packed_weights packed;
    struct tasks tasks, column_tasks;
    int status = pack_weights(&packed, precise ? REAL_F64 : type, n_columns, n_threads, w, NULL);
    packed.weights.intercept = intercept_of(dense, w);
    double *factors = malloc((size_t)n_rows * sizeof *factors);
    double *range_sums = calloc((size_t)n_ranges * 2, sizeof *range_sums);
    double *sums = calloc((size_t)n_columns * 2, sizeof *sums); /* products, range_sum */
    if (status == 0 && factors && range_sums && sums) {
        open_tasks(&tasks, n_rows, step);
        FOR_EACH_TASK(tasks, threads_of(&tasks, n_threads),
                      range_factors(factors_of, &rows, begin, end, rows_per_call, loss,
                                    &packed.weights, factors, range_sums + begin / step * 2,
                                    loss_out != NULL))
        memset(sum_out, 0, (size_t)(n_columns + dense->intercept) * sizeof *sum_out);
        const int64_t share =
            round_up((n_columns + n_threads - 1) / n_threads, ALIGNMENT / (int64_t)sizeof(double));
        open_tasks(&column_tasks, n_columns, share);
        const struct sparse_columns columns = {0,      0, rows_per_flush, sums, sums + n_columns,
                                               sum_out};
        FOR_EACH_TASK(column_tasks, threads_of(&column_tasks, n_threads),
                      add_all_ranges(add_columns, &rows, step, factors, columns, begin, end))
        double loss_sum = 0.0;
        for (int64_t range = 0; range < n_ranges; range++) {
            if (dense->intercept)
                sum_out[n_columns] += range_sums[2 * range];
            loss_sum += range_sums[2 * range + 1];
        }
        if (loss_out)
            *loss_out = loss_sum;
    } else {
        status = -1;
    }
    free(sums);
    free(range_sums);
    free(factors);
    put_spare(&spare_weights, packed.owned);
    return status;
}

int sparse_clipped_loss_sums(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *dense, int n_threads, struct loss loss,
                             const double *w, const double *direction, const double *steps,
                             int64_t n_steps, double clip, double grid, int64_t *sum_out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    const int64_t stride = round_up(n_steps, ALIGNMENT / (int64_t)sizeof(int64_t));
    struct packed_weights packed;
    struct tasks tasks;
    open_row_tasks(&tasks, &rows);
    const int team = threads_of(&tasks, n_threads);
    int status = dense->predictions
                     ? pack_weights(&packed, type, dense->n_columns, n_threads, direction, NULL)
                     : pack_weights(&packed, type, dense->n_columns, n_threads, w, direction);
    packed.weights.intercept = intercept_of(dense, w);
    packed.weights.direction_intercept = intercept_of(dense, direction);
    int64_t *sums = calloc((size_t)(team * stride), sizeof *sums);
    if (status == 0 && sums) {
        FOR_EACH_TASK(tasks, team,
                      kernels->sparse->clipped_loss_sums[type][rows.matrix->index](
                          &rows, begin, end, loss, &packed.weights, steps, n_steps, clip, grid,
                          sums + this_thread() * stride))
        move_parts(sums, team, stride, 0, n_steps, sum_out);
    }
    status = sums ? status : -1;
    free(sums);
    put_spare(&spare_weights, packed.owned);
    return status;
}

int sparse_predictions(const struct kernel_table *kernels, enum real_type type,
                       const struct dense_rows *dense, int n_threads, const double *w,
                       double *p_out) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    struct packed_weights packed;
    struct tasks tasks;
    open_row_tasks(&tasks, &rows);
    const int status = pack_weights(&packed, type, dense->n_columns, n_threads, w, NULL);
    packed.weights.intercept = intercept_of(dense, w);
    if (status == 0)
        FOR_EACH_TASK(tasks, threads_of(&tasks, n_threads),
                      kernels->sparse->predictions[type][rows.matrix->index](
                          &rows, begin, end, &packed.weights, p_out + begin))
    put_spare(&spare_weights, packed.owned);
    return status;
}

int sparse_sgd_block(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *dense, const struct sgd_settings *settings,
                     const struct sgd_block *block, double *w, double *w_sum) {
    const struct sparse_rows rows = sparse_rows_of(dense);
    const int64_t bytes = kernels->sparse->sgd_workspace_bytes(&rows);
    void *workspace = aligned_memory((size_t)round_up(bytes, ALIGNMENT));
    if (!workspace)
        return -1;
    kernels->sparse->sgd_steps[type][rows.matrix->index](&rows, settings, block, w, w_sum,
                                                         workspace);
    free_aligned(workspace);
    return 0;
}
