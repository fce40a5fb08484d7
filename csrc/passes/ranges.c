/* See ranges.h. */
#include <stdlib.h>

#include "memory/aligned_memory.h"
#include "passes/ranges.h"
#include "passes/threads.h"

enum {
    MIN_ROWS = 512,
    MIN_BATCH_ROWS = 256, /* a batch is short, and its rows are scattered in memory */
    MAX_RANGES = 1024,
    MAX_INTEGER_RANGES = 256, /* fewer, because each range begins without prefetched rows, and
                                 integer sums do not depend on the ranges */
    MAX_COLUMN_RANGES = 64,   /* of a chunk of a file */
    TABLE_ROWS = 4096,
    CLASSES_ROWS = 2048,
    MIN_CLASS_BATCH_ROWS = 64,
    CLASS_BATCH_NUMBERS = 1 << 18, /* products per range: several times the work to begin one */
    MAX_NUMBERS = 1 << 24,
    FEW_RANGES = 16,
    RANGES_PER_THREAD = 4
};

/* Passes alternate in direction: the rows that the last one read at its end are still in the cache.
 */
static atomic_int passes;

static int64_t at_most(int64_t value, int64_t limit) {
    return value < limit ? value : limit;
}

static int64_t at_least(int64_t value, int64_t limit) {
    return value > limit ? value : limit;
}

static int64_t rows_per_range(int64_t n_rows, int64_t max_ranges, int64_t min_rows) {
    return at_least(round_up((n_rows + max_ranges - 1) / max_ranges, min_rows), min_rows);
}

int64_t rows_in_range(int64_t n_rows) {
    return rows_per_range(n_rows, MAX_RANGES, MIN_ROWS);
}

/* Kernels for tables take time proportional to the number of columns per range, and little per row.
 */
static int64_t max_table_ranges(const struct dense_rows *rows) {
    const int64_t fit = at_most(rows->n_rows / FEW_RANGES, TABLE_ROWS);
    return at_most(rows->n_rows / at_least(fit, rows->n_columns) + 1, MAX_RANGES);
}

/* Weights and partial results of softmax are large: fewer ranges pack and add them less often, and
 * keep partial results below MAX_NUMBERS in total. */
static int64_t max_class_ranges(const struct dense_rows *rows, int64_t partial_size) {
    const int64_t fit = partial_size > 0 ? MAX_NUMBERS / partial_size : MAX_RANGES;
    return at_most(at_most(at_least(fit, FEW_RANGES), MAX_RANGES), rows->n_rows / CLASSES_ROWS + 1);
}

/* Each record of a softmax pass is much work, so that threads share even short batches. */
static int64_t max_class_batch_ranges(const struct dense_rows *rows, int64_t partial_size,
                                      int n_threads) {
    const int64_t min_rows = at_least(CLASS_BATCH_NUMBERS / partial_size, MIN_CLASS_BATCH_ROWS);
    return at_most(rows->n_rows / min_rows + 1, RANGES_PER_THREAD * n_threads);
}

static int64_t max_ranges(const struct dense_rows *rows, enum range_policy policy,
                          int64_t partial_size, int n_threads) {
    switch (policy) {
    case RANGES_OF_INTEGERS:
        return MAX_INTEGER_RANGES;
    case RANGES_OF_CLASSES:
        return max_class_ranges(rows, partial_size);
    case RANGES_OF_CLASS_BATCH:
        return max_class_batch_ranges(rows, partial_size, n_threads);
    case RANGES_OF_TABLE:
        return max_table_ranges(rows);
    case RANGES_OF_COLUMNS:
        return MAX_COLUMN_RANGES;
    case RANGES_OF_ROWS:
        return MAX_RANGES;
    }
    return MAX_RANGES;
}

/* Threads that run side tasks first. */
static int late_threads(const struct ranges *ranges) {
    const int half = ranges->n_threads > 1 ? (ranges->n_threads + 1) / 2 : 0;
    return (int)at_most(ranges->n_side_tasks, half);
}

int open_ranges(struct ranges *ranges, const struct dense_rows *rows, enum range_policy policy,
                int64_t partial_size, int n_threads) {
    const int64_t min_rows = policy == RANGES_OF_CLASS_BATCH ? MIN_CLASS_BATCH_ROWS
                             : rows->batch                   ? MIN_BATCH_ROWS
                                                             : MIN_ROWS;
    ranges->n_rows = rows->n_rows;
    ranges->rows_per_range =
        rows_per_range(rows->n_rows, max_ranges(rows, policy, partial_size, n_threads), min_rows);
    ranges->n_ranges = (rows->n_rows + ranges->rows_per_range - 1) / ranges->rows_per_range;
    ranges->side_tasks = rows->side_tasks;
    ranges->n_side_tasks = rows->n_side_tasks;
    const int64_t tasks = ranges->n_ranges + ranges->n_side_tasks;
    ranges->n_threads = (int)at_least(at_most(n_threads, tasks), 1); /* a batch may be empty */
    atomic_init(&ranges->next, 0);
    atomic_init(&ranges->next_side_task, 0);
    ranges->is_backward = atomic_fetch_add_explicit(&passes, 1, memory_order_relaxed) & 1;
    ranges->queues = NULL;
    /* Kernels prefetch rows of a batch far ahead: with neighbouring ranges those are the thread's
     * own. Integer sums do not depend on which ranges are taken together. */
    if (!rows->batch || (policy != RANGES_OF_INTEGERS && policy != RANGES_OF_TABLE &&
                         policy != RANGES_OF_CLASS_BATCH))
        return 0;
    ranges->queues = aligned_memory(ranges->n_threads * sizeof *ranges->queues);
    if (!ranges->queues)
        return -1;
    fill_work_queues(ranges->queues, ranges->n_threads, late_threads(ranges), ranges->n_ranges);
    return 0;
}

void close_ranges(struct ranges *ranges) {
    free_aligned(ranges->queues);
}

int take_ranges(struct ranges *ranges, struct chunk *taken) {
    if (ranges->queues)
        return take_chunk(ranges->queues, ranges->n_threads, this_thread(), taken);
    const int64_t turn = atomic_fetch_add_explicit(&ranges->next, 1, memory_order_relaxed);
    const int64_t left = ranges->n_ranges - 1 - turn;
    taken->begin = left < 0 || ranges->is_backward ? left : turn;
    taken->end = taken->begin + 1;
    taken->next_end = ranges->n_ranges;
    return left >= 0;
}

int64_t end_of_ranges(const struct ranges *ranges, int64_t end) {
    return at_most(end * ranges->rows_per_range, ranges->n_rows);
}

/* Side tasks run before ranges, so that no thread waits at the end for a long one. Half of the
 * threads run them: a pass is bound by memory bandwidth, so that the other half can run ahead. */
void run_side_tasks(struct ranges *ranges) {
    if (2 * this_thread() >= ranges->n_threads)
        return;
    for (int i; (i = atomic_fetch_add_explicit(&ranges->next_side_task, 1, memory_order_relaxed)) <
                ranges->n_side_tasks;)
        ranges->side_tasks[i].run(ranges->side_tasks[i].context);
}
