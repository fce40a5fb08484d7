/* The rows of a pass split into ranges, and their distribution to threads. Ranges depend on the
 * number of rows and the pass alone, those of several models and of batches of a softmax pass,
 * whose sums are integers, on the number of threads too. */
#ifndef DPERM_RANGES_H
#define DPERM_RANGES_H

#include <stdatomic.h>

#include "kernel_table.h"
#include "passes/work_stealing.h"

struct ranges {
    int64_t n_rows, rows_per_range, n_ranges;
    int n_threads; /* at most the number of ranges and side tasks */
    _Atomic int64_t next;
    int is_backward;           /* take the last range first */
    struct work_queue *queues; /* n_threads: each takes neighbouring ranges; or NULL */
    const struct side_task *side_tasks;
    int n_side_tasks;
    atomic_int next_side_task;
};

/* partial_size: numbers in a partial result. Returns 0, or -1 when memory ran out; close_ranges()
 * may be called in any case. */
int open_ranges(struct ranges *ranges, const struct dense_rows *rows, enum range_policy policy,
                int64_t partial_size, int n_threads);
void close_ranges(struct ranges *ranges);

/* Takes the next range, or several neighbouring ones, for the calling thread; 0 when there is none.
 */
int take_ranges(struct ranges *ranges, struct chunk *taken);

/* The row at which the ranges before range `end` end. */
int64_t end_of_ranges(const struct ranges *ranges, int64_t end);

/* The calling thread's share of the side tasks. */
void run_side_tasks(struct ranges *ranges);

/* Rows per range of RANGES_OF_ROWS over all rows; the last range may be shorter. */
int64_t rows_in_range(int64_t n_rows);

#endif
