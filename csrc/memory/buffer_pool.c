/* See buffer_pool.h. */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include <stdatomic.h>
#include <string.h>

#include "memory/huge_pages.h"
#include "memory/buffer_pool.h"

struct pool_buffer *take_buffer(_Atomic(struct pool_buffer *) *place, size_t bytes) {
    struct pool_buffer *taken = atomic_exchange(place, NULL);
    if (taken && taken->bytes >= bytes)
        return taken;
    free_aligned(taken);
    taken = huge_page_memory(sizeof *taken + bytes);
    if (!taken)
        return NULL;
    memset(taken, 0, sizeof *taken + bytes);
    taken->bytes = bytes;
    return taken;
}

void return_buffer(_Atomic(struct pool_buffer *) *place, struct pool_buffer *taken) {
    if (taken)
        free_aligned(atomic_exchange(place, taken));
}
