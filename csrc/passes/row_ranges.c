/* See row_ranges.h. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "memory/aligned_memory.h"
#include "dense/row_blocks.h"
#include "passes/row_ranges.h"
#include "sparse/sparse_passes.h"
#include "tabular/tabular_matrix.h"
#include "passes/work_stealing.h"

enum {
    ROWS_PER_RANGE = 512,
    ROWS_PER_BATCH_RANGE = 256,
    TABLE_ROWS_PER_RANGE = 4096,
    MOST_RANGES = 1024,
    MOST_EXACT_RANGES = 256,
    MODELS_ROWS_PER_RANGE = 4096,
    MOST_COLUMNS_RANGES = 64 /* of a chunk of a file */
};
/* See open_softmax_ranges(). */
enum { SOFTMAX_ROWS_PER_RANGE = 2048, MOST_NUMBERS = 1 << 24, FEWEST_RANGES = 16 };

int has_threads(void) {
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

int most_threads(void) {
#ifdef _OPENMP
    const int limit = omp_get_thread_limit(), most = omp_get_max_threads();
    return most < limit ? most : limit;
#else
    return 1;
#endif
}

void end_threads(void) {
#ifdef HAVE_OMP_PAUSE
    omp_pause_resource_all(omp_pause_soft);
#endif
}

static int this_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* One task: the row ranges, a partial result for each and a workspace for each thread. */
struct ranges {
    int64_t n_rows, rows_per_range, n_ranges;
    int64_t partial_size; /* 8-byte numbers in a partial result */
    int64_t n_partials;   /* one per range, or, of exact sums, one per thread */
    int64_t workspace_bytes;
    int n_threads;   /* no more than there are ranges and errands */
    void *partial;   /* n_partials * partial_size zeros */
    char *workspace; /* n_threads * workspace_bytes */
    /* Blocks of rows that are not kept dense, n_threads * block_bytes; none where the kernel reads
     * the rows as they are. */
    enum real_type type;
    int64_t block_bytes;
    char *blocks;
    _Atomic int64_t next;
    int backwards; /* take the last range first */
    int is_shared; /* each thread takes neighbouring ranges, from its share: see work_stealing.h */
    struct work_share *shares; /* n_threads, or NULL */
    const struct errand *errands;
    int n_errands;
    atomic_int next_errand;
};

/* Passes go over the rows to and fro: what the last one read at its end is still in the cache. */
static atomic_int passes;

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int64_t rows_in_range(int64_t n_rows) {
    const int64_t rows = round_up((n_rows + MOST_RANGES - 1) / MOST_RANGES, ROWS_PER_RANGE);
    return rows < ROWS_PER_RANGE ? ROWS_PER_RANGE : rows;
}

static void cut_rows(struct ranges *ranges, const struct dense_rows *rows, int n_threads,
                     int64_t most_ranges) {
    ranges->n_rows = rows->n_rows;
    atomic_init(&ranges->next, 0);
    ranges->backwards = atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed) & 1;
    ranges->is_shared = 0;
    /* A batch is short, and its rows come from all over the memory: more to share out. */
    const int64_t least = rows->batch ? ROWS_PER_BATCH_RANGE : ROWS_PER_RANGE;
    ranges->rows_per_range = round_up((rows->n_rows + most_ranges - 1) / most_ranges, least);
    if (ranges->rows_per_range < least)
        ranges->rows_per_range = least;
    ranges->n_ranges = (rows->n_rows + ranges->rows_per_range - 1) / ranges->rows_per_range;
    ranges->errands = rows->errands;
    ranges->n_errands = rows->n_errands;
    atomic_init(&ranges->next_errand, 0);
    const int64_t tasks = ranges->n_ranges + ranges->n_errands;
    ranges->n_threads = n_threads < tasks ? n_threads : (int)tasks;
    if (ranges->n_threads < 1) /* an empty batch */
        ranges->n_threads = 1;
}

/* For results that do not depend on which ranges are taken together. Kernels ask for rows of a
 * batch long before their turn: with neighbouring ranges those are the thread's own. */
static void cut_exact_rows(struct ranges *ranges, const struct dense_rows *rows, int n_threads,
                           int64_t most_ranges) {
    cut_rows(ranges, rows, n_threads, most_ranges);
    ranges->is_shared = rows->batch != NULL;
}

/* Threads that are at errands when the others begin. */
static int threads_that_are_late(const struct ranges *ranges) {
    const int half = ranges->n_threads > 1 ? (ranges->n_threads + 1) / 2 : 0;
    return ranges->n_errands < half ? ranges->n_errands : half;
}

static int allocate(struct ranges *ranges, enum real_type type, int64_t n_partials,
                    int64_t partial_size, int64_t workspace_bytes, int64_t block_bytes) {
    ranges->type = type;
    ranges->n_partials = n_partials;
    ranges->partial_size = partial_size;
    ranges->workspace_bytes = round_up(workspace_bytes, ALIGNMENT);
    ranges->block_bytes = round_up(block_bytes, ALIGNMENT);
    ranges->partial = calloc(n_partials * partial_size + 1, sizeof(int64_t));
    ranges->workspace = aligned_memory(ranges->n_threads * ranges->workspace_bytes);
    ranges->blocks =
        block_bytes > 0 ? aligned_memory(ranges->n_threads * ranges->block_bytes) : NULL;
    ranges->shares =
        ranges->is_shared ? aligned_memory(ranges->n_threads * sizeof *ranges->shares) : NULL;
    if (ranges->shares)
        share_work(ranges->shares, ranges->n_threads, threads_that_are_late(ranges),
                   ranges->n_ranges);
    const int there = ranges->partial && ranges->workspace &&
                      (ranges->blocks || block_bytes == 0) &&
                      (ranges->shares || !ranges->is_shared);
    return there ? 0 : -1;
}

/* Ranges whose length floating-point sums depend on. */
static int open_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                       enum real_type type, const struct dense_rows *rows, int n_threads,
                       int64_t partial_size) {
    cut_rows(ranges, rows, n_threads, MOST_RANGES);
    return allocate(ranges, type, ranges->n_ranges, partial_size,
                    kernels->workspace_bytes(rows->n_columns), block_scratch_bytes(type, rows));
}

/* Longer ones, for integers, which depend on nothing: no rows are read ahead of a range's first. */
static int open_exact_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                             enum real_type type, const struct dense_rows *rows, int n_threads,
                             int64_t partial_size) {
    cut_exact_rows(ranges, rows, n_threads, MOST_EXACT_RANGES);
    return allocate(ranges, type, ranges->is_shared ? ranges->n_threads : ranges->n_ranges,
                    partial_size, kernels->workspace_bytes(rows->n_columns),
                    block_scratch_bytes(type, rows));
}

/* The table that a pass of exact sums can read as it is, or NULL. */
static const struct tabular_matrix *table_of(const struct dense_rows *rows) {
    return rows->source ? rows->source->table : NULL;
}

/* For kernels that read tables: what they do once per range takes time proportional to the number
 * of columns, and what they do for a row little: longer ranges. */
static int open_table_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                             const struct dense_rows *rows, int n_threads, int64_t partial_size) {
    if (!rows->batch)
        prepare_pass(table_of(rows), rows->n_rows, n_threads);
    int64_t rows_per_range = rows->n_rows / FEWEST_RANGES;
    if (rows_per_range > TABLE_ROWS_PER_RANGE)
        rows_per_range = TABLE_ROWS_PER_RANGE;
    if (rows_per_range < rows->n_columns)
        rows_per_range = rows->n_columns;
    const int64_t most_ranges = rows->n_rows / rows_per_range + 1;
    cut_exact_rows(ranges, rows, n_threads, most_ranges < MOST_RANGES ? most_ranges : MOST_RANGES);
    return allocate(ranges, REAL_F64, ranges->n_threads, partial_size,
                    kernels->tabular_workspace_bytes(table_of(rows)), 0);
}

/* Whether a pass of exact sums can read the columns of the matrix as they are. */
static int is_in_columns(const struct dense_rows *rows) {
    return rows->source && rows->source->columns && !rows->batch && !rows->counts;
}

static int open_columns_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                               enum real_type type, const struct dense_rows *rows, int n_threads,
                               int64_t partial_size) {
    cut_rows(ranges, rows, n_threads, MOST_COLUMNS_RANGES);
    return allocate(ranges, type, ranges->n_threads, partial_size,
                    kernels->columns_workspace_bytes[type](rows->n_columns), 0);
}

/* Weights and partial results of softmax are large: longer ranges pack and add them less often, and
 * fewer ranges keep them below MOST_NUMBERS. */
static int open_softmax_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                               enum real_type type, const struct dense_rows *rows, int n_threads,
                               int64_t n_classes, int64_t partial_size) {
    const int64_t long_ranges = rows->n_rows / SOFTMAX_ROWS_PER_RANGE + 1;
    int64_t most_ranges = partial_size > 0 ? MOST_NUMBERS / partial_size : MOST_RANGES;
    most_ranges = most_ranges < FEWEST_RANGES ? FEWEST_RANGES : most_ranges;
    most_ranges = most_ranges > MOST_RANGES ? MOST_RANGES : most_ranges;
    most_ranges = most_ranges > long_ranges ? long_ranges : most_ranges;
    cut_rows(ranges, rows, n_threads, most_ranges);
    return allocate(ranges, type, ranges->n_ranges, partial_size,
                    kernels->softmax_workspace_bytes(rows->n_columns, n_classes),
                    block_scratch_bytes(type, rows));
}

static void close_ranges(struct ranges *ranges) {
    free(ranges->partial);
    free_aligned(ranges->workspace);
    free_aligned(ranges->blocks);
    free_aligned(ranges->shares);
}

/* Some range, or neighbouring ones, that nobody has taken; 0 when there is none. */
static int take_ranges(struct ranges *ranges, struct stretch *taken) {
    if (ranges->is_shared)
        return take_work(ranges->shares, ranges->n_threads, this_thread(), taken);
    const int64_t turn = atomic_fetch_add_explicit(&ranges->next, 1, memory_order_relaxed);
    const int64_t left = ranges->n_ranges - 1 - turn;
    taken->begin = left < 0 || ranges->backwards ? left : turn;
    taken->end = taken->begin + 1;
    taken->next_end = ranges->n_ranges;
    return left >= 0;
}

/* Where the ranges before range `end` end. */
static int64_t end_of_ranges(const struct ranges *ranges, int64_t end) {
    const int64_t row = end * ranges->rows_per_range;
    return row < ranges->n_rows ? row : ranges->n_rows;
}

/* The rows as a thread sees them that has taken some ranges: without those of a batch that it will
 * hardly take next, so that it does not ask for them. */
static struct dense_rows rows_for(const struct ranges *ranges, const struct dense_rows *rows,
                                  const struct stretch *taken) {
    struct dense_rows own = *rows;
    own.n_rows = end_of_ranges(ranges, taken->next_end);
    return own;
}

/* Errands come before ranges: nobody waits for a long one that was begun last. Half of the threads
 * do them: a pass waits for memory, which leaves the others time to run ahead. */
static void run_errands(struct ranges *ranges) {
    if (2 * this_thread() >= ranges->n_threads)
        return;
    for (int i; (i = atomic_fetch_add_explicit(&ranges->next_errand, 1, memory_order_relaxed)) <
                ranges->n_errands;)
        ranges->errands[i].run(ranges->errands[i].context);
}

static int64_t partial_of(const struct ranges *ranges, int64_t range) {
    return ranges->n_partials == ranges->n_ranges ? range : this_thread();
}

/* Run CALL for every range, or for every block of it where the rows are not kept dense: on rows
 * `begin` .. `end` - 1 of `rows`, the first of which is row `first` of all. A thread takes the next
 * range when it is free, so that one on a busy core holds nobody up. In braces: a build without
 * threads may take the pragma for a statement of its own. */
/* clang-format off */
#define FOR_EACH_RANGE(ranges, partial_type, CALL)                                                 \
    {                                                                                              \
        _Pragma("omp parallel num_threads((ranges).n_threads)")                                    \
        {                                                                                          \
        run_errands(&(ranges));                                                                    \
        for (struct stretch taken; take_ranges(&(ranges), &taken);) {                              \
            const struct dense_rows own = rows_for(&(ranges), rows, &taken);                       \
            partial_type *partial = (partial_type *)(ranges).partial +                             \
                                    partial_of(&(ranges), taken.begin) * (ranges).partial_size;    \
            void *workspace = (ranges).workspace + this_thread() * (ranges).workspace_bytes;       \
            struct row_blocks blocks = blocks_of(                                                  \
                (ranges).type, &own, taken.begin * (ranges).rows_per_range,                        \
                end_of_ranges(&(ranges), taken.end),                                               \
                (ranges).blocks ? (ranges).blocks + this_thread() * (ranges).block_bytes : NULL);  \
            while (next_block(&blocks)) {                                                          \
                const struct dense_rows *rows = &blocks.rows;                                      \
                const int64_t begin = blocks.begin, end = blocks.end, first = blocks.first;        \
                (void)partial, (void)workspace, (void)first;                                       \
                CALL;                                                                              \
            }                                                                                      \
        }                                                                                          \
        }                                                                                          \
    }
/* clang-format on */

static void add_integers(const struct ranges *ranges, int64_t *sum_out) {
    const int64_t *partial = ranges->partial;
    memset(sum_out, 0, ranges->partial_size * sizeof *sum_out);
    for (int64_t k = 0; k < ranges->n_partials; k++)
        for (int64_t j = 0; j < ranges->partial_size; j++)
            sum_out[j] += *partial++;
}

int all_row_norms(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, int n_threads, double *norms_out) {
    if (is_sparse(rows))
        return sparse_row_norms(kernels, type, rows, n_threads, norms_out);
    struct ranges ranges;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 0);
    if (status == 0)
        FOR_EACH_RANGE(ranges, double,
                       kernels->row_norms[type](rows, begin, end, norms_out + (first - begin)))
    close_ranges(&ranges);
    return status;
}

int all_clipped_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, struct loss loss,
                             const double *w, double clip_in, double grid, int64_t *sum_out) {
    if (is_sparse(rows))
        return sparse_clipped_gradient_sum(kernels, type, rows, n_threads, loss, w, clip_in, grid,
                                           sum_out);
    struct ranges ranges;
    const int64_t size = rows->n_columns + rows->intercept;
    clipped_gradient_sum_fn *sum = kernels->clipped_gradient_sum[type];
    int status;
    if (table_of(rows)) {
        sum = kernels->tabular_clipped_gradient_sum;
        status = open_table_ranges(&ranges, kernels, rows, n_threads, size);
    } else if (is_in_columns(rows)) {
        sum = kernels->columns_clipped_gradient_sum[type];
        status = open_columns_ranges(&ranges, kernels, type, rows, n_threads, size);
    } else {
        status = open_exact_ranges(&ranges, kernels, type, rows, n_threads, size);
    }
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       sum(rows, begin, end, loss, w, clip_in, grid, partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

/* The models as a block sees them whose row 0 is row `first` of all. */
static struct models models_from(const struct models *models, int64_t first) {
    struct models here = *models;
    here.folds = models->folds ? models->folds + first : NULL;
    return here;
}

/* Sums of several models are large: one for each thread, and long ranges, as each packs the weights
 * of all models. */
static int open_models_ranges(struct ranges *ranges, const struct kernel_table *kernels,
                              enum real_type type, const struct dense_rows *rows, int n_threads,
                              const struct models *models) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t long_ranges = rows->n_rows / MODELS_ROWS_PER_RANGE;
    int64_t most_ranges = long_ranges < MOST_EXACT_RANGES ? long_ranges : MOST_EXACT_RANGES;
    most_ranges = most_ranges < FEWEST_RANGES ? FEWEST_RANGES : most_ranges;
    const int64_t workspace_bytes =
        table ? kernels->tabular_models_workspace_bytes(table, models->n_models)
              : kernels->models_workspace_bytes(rows->n_columns, models->n_models);
    cut_rows(ranges, rows, n_threads, most_ranges);
    return allocate(ranges, type, ranges->n_threads,
                    models->n_models * (rows->n_columns + rows->intercept), workspace_bytes,
                    table ? 0 : block_scratch_bytes(type, rows));
}

int all_clipped_gradient_sums(const struct kernel_table *kernels, enum real_type type,
                              const struct dense_rows *rows, int n_threads, struct loss loss,
                              const struct models *models, int64_t *sum_out) {
    struct ranges ranges;
    clipped_gradient_sums_fn *sums = table_of(rows) ? kernels->tabular_clipped_gradient_sums
                                                    : kernels->clipped_gradient_sums[type];
    int status = open_models_ranges(&ranges, kernels, type, rows, n_threads, models);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       const struct models here = models_from(models, first - begin);
                       sums(rows, begin, end, loss, &here, partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

/* Ordered sum of floating-point partial results. */
static void add_reals(const struct ranges *ranges, double *sum_out) {
    const double *partial = ranges->partial;
    memset(sum_out, 0, ranges->partial_size * sizeof *sum_out);
    for (int64_t range = 0; range < ranges->n_ranges; range++)
        for (int64_t j = 0; j < ranges->partial_size; j++)
            sum_out[j] += *partial++;
}

int all_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, int n_threads, struct loss loss,
                     const double *w, int precise, double *sum_out, double *loss_out) {
    if (is_sparse(rows))
        return sparse_gradient_sum(kernels, type, rows, n_threads, loss, w, precise, sum_out,
                                   loss_out);
    struct ranges ranges;
    gradient_sum_fn *sum = (precise ? kernels->precise_gradient_sum : kernels->gradient_sum)[type];
    const int64_t dimension = rows->n_columns + rows->intercept;
    /* The last number of a partial result is the loss. */
    double *sums = malloc((dimension + 1) * sizeof *sums);
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, dimension + 1);
    if (status == 0 && sums) {
        FOR_EACH_RANGE(ranges, double,
                       sum(rows, begin, end, loss, w, partial,
                           loss_out ? partial + dimension : NULL, workspace))
        add_reals(&ranges, sums);
        memcpy(sum_out, sums, dimension * sizeof *sums);
        if (loss_out)
            *loss_out = sums[dimension];
    }
    close_ranges(&ranges);
    status = sums ? status : -1;
    free(sums);
    return status;
}

int all_entry_sum(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, int n_threads, double *sum_out) {
    struct ranges ranges;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 1);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, double, *partial += kernels->entry_sum[type](rows, begin, end))
        add_reals(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

int all_clipped_loss_sums(const struct kernel_table *kernels, enum real_type type,
                          const struct dense_rows *rows, int n_threads, struct loss loss,
                          const double *w, const double *direction, const double *steps,
                          int64_t n_steps, double clip, double grid, int64_t *sum_out) {
    if (is_sparse(rows))
        return sparse_clipped_loss_sums(kernels, type, rows, n_threads, loss, w, direction, steps,
                                        n_steps, clip, grid, sum_out);
    struct ranges ranges;
    clipped_loss_sums_fn *sums =
        table_of(rows) ? kernels->tabular_clipped_loss_sums : kernels->clipped_loss_sums[type];
    int status = table_of(rows)
                     ? open_table_ranges(&ranges, kernels, rows, n_threads, n_steps)
                     : open_exact_ranges(&ranges, kernels, type, rows, n_threads, n_steps);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       sums(rows, begin, end, loss, w, direction, steps, n_steps, clip, grid,
                            partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

int all_coordinate_loss_sums(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, struct loss loss,
                             const double *w, double stride, double clip, double grid,
                             int64_t *sum_out) {
    struct ranges ranges;
    const int64_t dimension = rows->n_columns + rows->intercept;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 2 * dimension + 1);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       kernels->coordinate_loss_sums[type](rows, begin, end, loss, w, stride, clip,
                                                           grid, partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

int all_predictions(const struct kernel_table *kernels, enum real_type type,
                    const struct dense_rows *rows, int n_threads, const double *w, double *p_out) {
    if (is_sparse(rows))
        return sparse_predictions(kernels, type, rows, n_threads, w, p_out);
    struct ranges ranges;
    predictions_fn *predict =
        table_of(rows) ? kernels->tabular_predictions : kernels->predictions[type];
    int status = table_of(rows) ? open_table_ranges(&ranges, kernels, rows, n_threads, 0)
                                : open_ranges(&ranges, kernels, type, rows, n_threads, 0);
    if (status == 0)
        FOR_EACH_RANGE(ranges, double, predict(rows, begin, end, w, p_out + first, workspace))
    close_ranges(&ranges);
    return status;
}

/* Workspaces of threads, each with room for a partial sum after it: exact sums do not need one per
 * range, and these are large. */
static char *gram_workspaces(const struct ranges *ranges, const struct kernel_table *kernels,
                             const struct dense_rows *rows, int64_t width, int64_t sum_size,
                             int64_t *bytes) {
    *bytes = round_up(kernels->gram_workspace_bytes(rows->n_columns, width), ALIGNMENT) +
             round_up(sum_size * (int64_t)sizeof(int64_t), ALIGNMENT);
    return aligned_memory(ranges->n_threads * *bytes);
}

int all_gram_sum(const struct kernel_table *kernels, enum real_type type,
                 const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                 int64_t *sum_out) {
    struct ranges ranges;
    const int64_t width = rows->n_columns + rows->intercept + (form->target_factor > 0.0);
    const int64_t size = width * (width + 1) / 2;
    int64_t bytes = 0;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 0);
    char *spaces =
        status == 0 ? gram_workspaces(&ranges, kernels, rows, width, size, &bytes) : NULL;
    if (spaces) {
        const int64_t sum_at = bytes - round_up(size * (int64_t)sizeof(int64_t), ALIGNMENT);
        memset(sum_out, 0, size * sizeof *sum_out);
        for (int t = 0; t < ranges.n_threads; t++)
            memset(spaces + t * bytes + sum_at, 0, size * sizeof *sum_out);
        FOR_EACH_RANGE(ranges, int64_t,
                       kernels->gram_sum[type](rows, begin, end, form,
                                               (int64_t *)(spaces + this_thread() * bytes + sum_at),
                                               spaces + this_thread() * bytes))
        for (int t = 0; t < ranges.n_threads; t++)
            for (int64_t j = 0; j < size; j++)
                sum_out[j] += ((const int64_t *)(spaces + t * bytes + sum_at))[j];
    }
    status = spaces ? status : -1;
    free_aligned(spaces);
    close_ranges(&ranges);
    return status;
}

int all_moment_sums(const struct kernel_table *kernels, enum real_type type,
                    const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                    double clip, int64_t *sum_out) {
    struct ranges ranges;
    const int64_t width = rows->n_columns + rows->intercept;
    int64_t bytes = 0;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 2 * width);
    char *spaces =
        status == 0 ? gram_workspaces(&ranges, kernels, rows, width + 1, 0, &bytes) : NULL;
    if (spaces) {
        FOR_EACH_RANGE(ranges, int64_t,
                       kernels->moment_sums[type](rows, begin, end, form, clip, partial,
                                                  spaces + this_thread() * bytes))
        add_integers(&ranges, sum_out);
    }
    status = spaces ? status : -1;
    free_aligned(spaces);
    close_ranges(&ranges);
    return status;
}

int all_norms_through(const struct kernel_table *kernels, enum real_type type,
                      const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                      const double *matrix, int64_t n_out, double *norms_out) {
    struct ranges ranges;
    int64_t bytes = 0;
    int status = open_ranges(&ranges, kernels, type, rows, n_threads, 0);
    char *spaces = status == 0 ? gram_workspaces(&ranges, kernels, rows,
                                                 rows->n_columns + rows->intercept + 1, 0, &bytes)
                               : NULL;
    if (spaces)
        FOR_EACH_RANGE(ranges, double,
                       kernels->norms_through[type](rows, begin, end, form, matrix, n_out,
                                                    norms_out + first,
                                                    spaces + this_thread() * bytes))
    status = spaces ? status : -1;
    free_aligned(spaces);
    close_ranges(&ranges);
    return status;
}

int all_clipped_softmax_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                                     const struct dense_rows *rows, int n_threads,
                                     int64_t n_classes, const double *w, double clip_in,
                                     double grid, int64_t *sum_out) {
    struct ranges ranges;
    const int64_t size = (rows->n_columns + rows->intercept) * n_classes;
    int status = open_softmax_ranges(&ranges, kernels, type, rows, n_threads, n_classes, size);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       kernels->clipped_softmax_gradient_sum[type](
                           rows, begin, end, n_classes, w, clip_in, grid, partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

int all_softmax_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, int64_t n_classes,
                             const double *w, double *sum_out, double *loss_out) {
    struct ranges ranges;
    const int64_t size = (rows->n_columns + rows->intercept) * n_classes;
    /* The last number of a partial result is the loss. */
    double *sums = malloc((size + 1) * sizeof *sums);
    int status = open_softmax_ranges(&ranges, kernels, type, rows, n_threads, n_classes, size + 1);
    if (status == 0 && sums) {
        FOR_EACH_RANGE(ranges, double,
                       kernels->softmax_gradient_sum[type](rows, begin, end, n_classes, w, partial,
                                                           loss_out ? partial + size : NULL,
                                                           workspace))
        add_reals(&ranges, sums);
        memcpy(sum_out, sums, size * sizeof *sums);
        if (loss_out)
            *loss_out = sums[size];
    }
    close_ranges(&ranges);
    status = sums ? status : -1;
    free(sums);
    return status;
}

int all_clipped_softmax_loss_sums(const struct kernel_table *kernels, enum real_type type,
                                  const struct dense_rows *rows, int n_threads, int64_t n_classes,
                                  const double *w, const double *direction, const double *steps,
                                  int64_t n_steps, double clip, double grid, int64_t *sum_out) {
    struct ranges ranges;
    int status = open_softmax_ranges(&ranges, kernels, type, rows, n_threads, n_classes, n_steps);
    if (status == 0) {
        FOR_EACH_RANGE(ranges, int64_t,
                       kernels->clipped_softmax_loss_sums[type](rows, begin, end, n_classes, w,
                                                                direction, steps, n_steps, clip,
                                                                grid, partial, workspace))
        add_integers(&ranges, sum_out);
    }
    close_ranges(&ranges);
    return status;
}

int all_class_scores(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, int n_threads, int64_t n_classes,
                     const double *w, double *p_out) {
    struct ranges ranges;
    int status = open_softmax_ranges(&ranges, kernels, type, rows, n_threads, n_classes, 0);
    if (status == 0)
        FOR_EACH_RANGE(ranges, double,
                       kernels->class_scores[type](rows, begin, end, n_classes, w,
                                                   p_out + first * n_classes, workspace))
    close_ranges(&ranges);
    return status;
}

int one_sgd_block(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, const struct sgd_settings *settings,
                  const struct sgd_block *block, double *w, double *w_sum) {
    if (is_sparse(rows))
        return sparse_sgd_block(kernels, type, rows, settings, block, w, w_sum);
    const int64_t bytes = round_up(kernels->sgd_workspace_bytes(rows), ALIGNMENT);
    char *workspace = aligned_memory(bytes + round_up(block_scratch_bytes(type, rows), ALIGNMENT));
    if (!workspace)
        return -1;
    if (rows->source)
        sgd_steps_by_blocks(kernels, type, rows, settings, block, w, w_sum, workspace,
                            workspace + bytes);
    else
        kernels->sgd_steps[type](rows, settings, block, w, w_sum, workspace);
    free_aligned(workspace);
    return 0;
}
