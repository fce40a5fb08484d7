/* Memory reused by later passes, because faulting in fresh pages takes a good part of a pass. */
#ifndef DPERM_BUFFER_POOL_H
#define DPERM_BUFFER_POOL_H

#include <stddef.h>

#include "memory/aligned_memory.h"

struct pool_buffer {
    size_t bytes;
    _Alignas(ALIGNMENT) char memory[];
};

/* Takes the buffer kept at `place` if it is large enough, otherwise new zeroed memory; NULL when
 * memory ran out. Of two concurrent passes, the second one gets new memory. */
struct pool_buffer *take_buffer(_Atomic(struct pool_buffer *) *place, size_t bytes);

/* Keeps the buffer for later, contents included; NULL for none. */
void return_buffer(_Atomic(struct pool_buffer *) *place, struct pool_buffer *taken);

#endif
