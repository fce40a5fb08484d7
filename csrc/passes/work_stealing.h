/* Work stealing: units of work 0 .. n_units - 1 for several threads, in chunks of neighbouring
 * units.
 *
 * A thread processes its own queue from front to back, half of what is left at a time: a few long
 * chunks, then short ones. When its queue is empty it steals the latter half of the longest queue,
 * so that no thread waits long for a late or slow one. */
#ifndef DPERM_WORK_STEALING_H
#define DPERM_WORK_STEALING_H

#include <stdatomic.h>
#include <stdint.h>

#include "memory/aligned_memory.h"

/* One cache line per thread. */
struct work_queue {
    _Alignas(ALIGNMENT) _Atomic uint64_t rest; /* begin and end of the units not taken yet */
};

/* Units begin .. end - 1. The thread will probably take those up to `next_end` next. */
struct chunk {
    int64_t begin, end, next_end;
};

/* Fills the queues equally, except for those of the first n_late < n_threads threads, which stay
 * empty. At most 2^32 - 1 units. */
void fill_work_queues(struct work_queue *queues, int n_threads, int n_late, int64_t n_units);

/* Returns 1 if thread `me` got some units, 0 if there are no more. */
int take_chunk(struct work_queue *queues, int n_threads, int me, struct chunk *taken);

#endif
