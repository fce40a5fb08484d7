/* Memory that is kept from one pass to the next, as fresh pages would cost a good part of a pass.
 */
#ifndef DPERM_BUFFER_POOL_H
#define DPERM_BUFFER_POOL_H

#include <stddef.h>

#include "memory/aligned_memory.h"

struct pool_buffer {
    size_t bytes;
    _Alignas(ALIGNMENT) char memory[];
};

/* What a place keeps, if it is large enough, or else new memory, all 0; NULL when memory ran out.
 * Two passes at a time: the second one gets memory of its own. */
struct pool_buffer *take_buffer(_Atomic(struct pool_buffer *) *place, size_t bytes);

/* Keeps the memory as it is; NULL for none. */
void return_buffer(_Atomic(struct pool_buffer *) *place, struct pool_buffer *taken);

#endif
