/* Memory for random access, on huge pages where available, to avoid TLB misses. */
#ifndef DPERM_HUGE_PAGES_H
#define DPERM_HUGE_PAGES_H

#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#error "define _DEFAULT_SOURCE before the first header, for madvise"
#endif

#include <stddef.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "memory/aligned_memory.h"

enum { HUGE_PAGE = 1 << 21 };

/* At least `bytes` bytes, cache-aligned; NULL when memory ran out. Freed by free_aligned(). */
static inline void *huge_page_memory(size_t bytes) {
    const size_t whole = bytes > HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    void *memory = memory_aligned_to(whole, (bytes + whole - 1) / whole * whole);
#ifdef MADV_HUGEPAGE
    if (memory && whole == HUGE_PAGE)
        madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

#endif
