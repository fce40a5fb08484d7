/* Cache-aligned memory; aligned_alloc() is not available everywhere. */
#ifndef DPERM_ALIGNED_MEMORY_H
#define DPERM_ALIGNED_MEMORY_H

#include <stdint.h>
#include <stdlib.h>

#ifdef _WIN32
#include <malloc.h>
#endif

enum { ALIGNMENT = 64 }; /* a cache line */

/* NULL when memory ran out. `bytes` must be a multiple of `boundary`, a power of two. */
static inline void *memory_aligned_to(size_t boundary, size_t bytes) {
#ifdef _WIN32
    return _aligned_malloc(bytes, boundary);
#else
    return aligned_alloc(boundary, bytes);
#endif
}

static inline void *aligned_memory(size_t bytes) {
    return memory_aligned_to(ALIGNMENT, bytes);
}

/* The smallest multiple of `multiple` that is at least `value`. */
static inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* A workspace from which pieces are taken one after the other; without memory pieces are NULL, and
 * only their size is counted. */
struct arena {
    char *memory;
    int64_t bytes; /* taken so far */
};

static inline void *arena_take(struct arena *arena, int64_t bytes) {
    void *piece = arena->memory ? arena->memory + arena->bytes : NULL;
    arena->bytes += round_up(bytes, ALIGNMENT);
    return piece;
}

static inline void free_aligned(void *memory) {
#ifdef _WIN32
    _aligned_free(memory);
#else
    free(memory);
#endif
}

#endif
