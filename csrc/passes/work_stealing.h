/* Units of work 0 .. n_units - 1 for several threads, each of which gets neighbouring ones.
 *
 * A thread begins with a share of its own and takes it from front to back, half of what is left at
 * a time: a few long stretches, then short ones. When nothing is left it gets the latter half of
 * what another thread has left, the one that has most. So nobody waits long for a thread that comes
 * late or is slow. */
#ifndef DPERM_WORK_STEALING_H
#define DPERM_WORK_STEALING_H

#include <stdatomic.h>
#include <stdint.h>

#include "memory/aligned_memory.h"

/* A cache line to each thread. */
struct work_queue {
    _Alignas(ALIGNMENT) _Atomic uint64_t rest; /* begin and end of the units nobody has taken */
};

/* Units begin .. end - 1 are the thread's. It will probably take those up to `next_end` after them.
 */
struct chunk {
    int64_t begin, end, next_end;
};

/* Equal shares, but none for the first n_late threads, fewer than n_threads. At most 2^32 - 1
 * units. */
void fill_work_queues(struct work_queue *shares, int n_threads, int n_late, int64_t n_units);

/* 1 when thread `me` got some units, 0 when there are no more. */
int take_chunk(struct work_queue *shares, int n_threads, int me, struct chunk *taken);

#endif
