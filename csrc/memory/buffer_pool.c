/* See spare_memory.h. */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include <stdatomic.h>
#include <string.h>

#include "memory/huge_pages.h"
#include "memory/buffer_pool.h"

struct spare *take_spare(_Atomic(struct spare *) *place, size_t bytes) {
    struct spare *taken = atomic_exchange(place, NULL);
    if (taken && taken->bytes >= bytes)
        return taken;
    free_aligned(taken);
    taken = large_memory(sizeof *taken + bytes);
    if (!taken)
        return NULL;
    memset(taken, 0, sizeof *taken + bytes);
    taken->bytes = bytes;
    return taken;
}

void put_spare(_Atomic(struct spare *) *place, struct spare *taken) {
    if (taken)
        free_aligned(atomic_exchange(place, taken));
}
