/* See work_stealing.h. */
#include "passes/work_stealing.h"

/* Both in one word, for atomic updates. */
static uint64_t rest_of(int64_t begin, int64_t end) {
    return (uint64_t)begin | (uint64_t)end << 32;
}

static int64_t begin_of(uint64_t rest) {
    return (int64_t)(rest & UINT32_MAX);
}

static int64_t end_of(uint64_t rest) {
    return (int64_t)(rest >> 32);
}

static int64_t length_of(uint64_t rest) {
    return end_of(rest) - begin_of(rest);
}

void fill_work_queues(struct work_queue *queues, int n_threads, int n_late, int64_t n_units) {
    const int early = n_threads - n_late;
    for (int k = 0; k < n_threads; k++) {
        const int turn = k < n_late ? 0 : k - n_late, after = k < n_late ? 0 : turn + 1;
        atomic_init(&queues[k].rest, rest_of(n_units * turn / early, n_units * after / early));
    }
}

/* Takes the first half of a non-empty rest, or all of it if there is only one thread; returns what
 * remains. */
static uint64_t take_from(uint64_t rest, int n_threads, struct chunk *taken) {
    const int64_t length = length_of(rest);
    taken->begin = begin_of(rest);
    taken->end = taken->begin + (n_threads > 1 ? (length + 1) / 2 : length);
    taken->next_end = end_of(rest);
    return rest_of(taken->end, taken->next_end);
}

static int swap(struct work_queue *queue, uint64_t *expected, uint64_t rest) {
    return atomic_compare_exchange_weak_explicit(&queue->rest, expected, rest, memory_order_relaxed,
                                                 memory_order_relaxed);
}

static struct work_queue *longest(struct work_queue *queues, int n_threads, uint64_t *rest) {
    struct work_queue *found = queues;
    *rest = 0;
    for (int k = 0; k < n_threads; k++) {
        const uint64_t other = atomic_load_explicit(&queues[k].rest, memory_order_relaxed);
        if (length_of(other) > length_of(*rest)) {
            found = &queues[k];
            *rest = other;
        }
    }
    return found;
}

int take_chunk(struct work_queue *queues, int n_threads, int me, struct chunk *taken) {
    struct work_queue *own = &queues[me];
    uint64_t rest = atomic_load_explicit(&own->rest, memory_order_relaxed);
    while (length_of(rest) > 0)
        if (swap(own, &rest, take_from(rest, n_threads, taken)))
            return 1;
    for (;;) {
        struct work_queue *other = longest(queues, n_threads, &rest);
        if (length_of(rest) == 0)
            return 0;
        const int64_t middle = begin_of(rest) + length_of(rest) / 2, end = end_of(rest);
        if (swap(other, &rest, rest_of(begin_of(rest), middle))) {
            /* No other thread writes to an empty queue. */
            const uint64_t left = take_from(rest_of(middle, end), n_threads, taken);
            atomic_store_explicit(&own->rest, left, memory_order_relaxed);
            return 1;
        }
    }
}
