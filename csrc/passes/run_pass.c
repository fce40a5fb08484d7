/* See run_pass.h. */
#include <stdlib.h>
#include <string.h>

#include "dense/row_blocks.h"
#include "memory/aligned_memory.h"
#include "passes/ranges.h"
#include "passes/run_pass.h"
#include "passes/threads.h"
#include "sparse/sparse_passes.h"
#include "tabular/tabular_matrix.h"

/* A running pass: its ranges, and the memory of its threads. */
struct run {
    const struct dense_rows *rows;
    const struct pass *pass;
    enum real_type type;
    pass_fn *kernel;
    struct ranges ranges;
    enum combine combine;
    /* Partial results: one per range for reals, one per thread for integers. */
    int64_t partial_size, stride, n_partials;
    void *partial;
    char *out; /* for WRITE_ROWS */
    int64_t row_bytes;
    char *workspace;
    int64_t workspace_bytes;
    char *blocks; /* of expanded rows; NULL if the kernel reads the rows directly */
    int64_t block_bytes;
};

/* The representation to be read; passes without a kernel for it read dense blocks. */
static enum representation representation_for(const struct dense_rows *rows,
                                              const struct pass *pass) {
    if (pass->n_classes)
        return SOFTMAX_ROWS;
    const enum representation kept = rows->source ? rows->source->representation : DENSE_ROWS;
    return kept == COLUMN_ROWS && (rows->batch || rows->multiplicity) ? DENSE_ROWS : kept;
}

/* How a pass runs over rows of one representation; NULL without a kernel for it. */
static const struct route *route_for(const struct kernel_table *kernels,
                                     enum representation representation, enum real_type type,
                                     const struct pass *pass) {
    const struct route *routes = NULL;
    switch (representation) {
    case DENSE_ROWS:
        if (pass->kind == PASS_gradient_sum && pass->precise && type == REAL_F32)
            return &kernels->dense[REAL_F64]->precise_gradient_sum;
        routes = kernels->dense[type]->rows;
        break;
    case SOFTMAX_ROWS:
        routes = kernels->softmax[type];
        break;
    case COLUMN_ROWS:
        routes = kernels->dense[type]->columns;
        break;
    case TABULAR_ROWS:
        routes = type == REAL_F64 ? kernels->tabular : NULL;
        break;
    case SPARSE_ROWS: /* have passes of their own, see sparse_passes.h, or are expanded */
        break;
    }
    return routes && routes[pass->kind].kernel ? &routes[pass->kind] : NULL;
}

static int open_run(struct run *run, const struct route *route, int reads_blocks, int n_threads) {
    const struct dense_rows *rows = run->rows;
    const struct result result = result_of_pass(rows, run->pass);
    run->combine = result.combine;
    run->kernel = route->kernel;
    run->row_bytes = result.shape[1] * (int64_t)sizeof(double);
    run->partial_size = result.combine == WRITE_ROWS ? 0 : result_size(&result);
    run->stride = run->partial_size;
    const int is_class_batch = route->ranges == RANGES_OF_CLASSES && rows->batch &&
                               run->pass->kind == PASS_clipped_gradient_sum;
    if (open_ranges(&run->ranges, rows, is_class_batch ? RANGES_OF_CLASS_BATCH : route->ranges,
                    run->partial_size, n_threads))
        return -1;
    run->n_partials = run->ranges.n_ranges;
    if (result.combine == ADD_INTEGERS) {
        run->n_partials = run->ranges.n_threads;
        run->stride = round_up(run->partial_size, ALIGNMENT / (int64_t)sizeof(int64_t));
    }
    if (route->workspace_bytes)
        run->workspace_bytes = round_up(route->workspace_bytes(rows, run->pass), ALIGNMENT);
    if (reads_blocks)
        run->block_bytes = round_up(block_scratch_bytes(run->type, rows), ALIGNMENT);
    const int64_t n = run->ranges.n_threads;
    run->partial = calloc((size_t)(run->n_partials * run->stride) + 1, sizeof(int64_t));
    run->workspace = aligned_memory((size_t)(n * run->workspace_bytes + ALIGNMENT));
    run->blocks = run->block_bytes ? aligned_memory((size_t)(n * run->block_bytes)) : NULL;
    return run->partial && run->workspace && (run->blocks || !run->block_bytes) ? 0 : -1;
}

static void close_run(struct run *run) {
    close_ranges(&run->ranges);
    free(run->partial);
    free_aligned(run->workspace);
    free_aligned(run->blocks);
}

/* Where the kernel writes its result for rows from `first` on, in a range. */
static void *result_at(const struct run *run, int64_t range, int64_t first) {
    if (run->combine == WRITE_ROWS)
        return run->out + first * run->row_bytes;
    const int64_t place = run->combine == ADD_REALS ? range : this_thread();
    return (double *)run->partial + place * run->stride;
}

/* Runs neighbouring ranges, block by block if rows are expanded. */
static void run_ranges(struct run *run, const struct chunk *taken) {
    const struct ranges *ranges = &run->ranges;
    /* Hides rows of a batch that the thread will probably not process, so that they are not
     * prefetched. */
    struct dense_rows own = *run->rows;
    own.n_rows = end_of_ranges(ranges, taken->next_end);
    struct row_blocks blocks = blocks_of(
        run->type, &own, taken->begin * ranges->rows_per_range, end_of_ranges(ranges, taken->end),
        run->blocks ? run->blocks + this_thread() * run->block_bytes : NULL);
    void *workspace = run->workspace + this_thread() * run->workspace_bytes;
    while (next_block(&blocks)) {
        run->kernel(&blocks.rows, blocks.begin, blocks.end, run->pass,
                    result_at(run, taken->begin, blocks.first), workspace);
    }
}

/* Dynamic scheduling, so that a thread on a busy core does not delay the others. */
static void run_threads(struct run *run) {
#pragma omp parallel num_threads(run->ranges.n_threads)
    {
        struct chunk taken;
        run_side_tasks(&run->ranges);
        while (take_ranges(&run->ranges, &taken))
            run_ranges(run, &taken);
    }
}

/* Adds up partial results in order. */
#define ADD_PARTIALS(NAME, TYPE)                                                                   \
    static void NAME(const struct run *run, TYPE *sum_out) {                                       \
        memset(sum_out, 0, (size_t)run->partial_size * sizeof *sum_out);                           \
        for (int64_t k = 0; k < run->n_partials; k++)                                              \
            for (int64_t j = 0; j < run->partial_size; j++)                                        \
                sum_out[j] += ((const TYPE *)run->partial)[k * run->stride + j];                   \
    }
ADD_PARTIALS(add_integers, int64_t)
ADD_PARTIALS(add_reals, double)

int run_pass(const struct kernel_table *kernels, enum real_type type, const struct dense_rows *rows,
             const struct pass *pass, int n_threads, void *out) {
    enum representation representation = representation_for(rows, pass);
    if (representation == SPARSE_ROWS && sparse_passes[pass->kind])
        return sparse_passes[pass->kind](kernels, type, rows, pass, n_threads, out);
    const struct route *route = route_for(kernels, representation, type, pass);
    if (!route) {
        representation = DENSE_ROWS;
        route = route_for(kernels, representation, type, pass);
    }
    const int reads_blocks = representation == DENSE_ROWS || representation == SOFTMAX_ROWS;
    if (representation == TABULAR_ROWS && !rows->batch)
        prepare_pass(table_of(rows), rows->n_rows, n_threads);
    struct run run = {.rows = rows, .pass = pass, .type = type, .out = out};
    const int status = open_run(&run, route, reads_blocks, n_threads);
    if (status == 0) {
        run_threads(&run);
        if (run.combine == ADD_INTEGERS)
            add_integers(&run, out);
        else if (run.combine == ADD_REALS)
            add_reals(&run, out);
    }
    close_run(&run);
    return status;
}
