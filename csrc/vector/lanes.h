/* Vectors of VECTOR_BYTES bytes (16, 32 or 64, depending on the instruction set).
 *
 * Columns are processed in units of 64 bytes whatever the vector width: one, two or four vectors.
 * Partial sums are kept per lane of a unit, so that the order of additions, and with it every bit
 * of the result, is the same for all instruction sets.
 */
#ifndef DPERM_LANES_H
#define DPERM_LANES_H

#include <stdint.h>

#include "vector/bits.h"
#include "vector/lane_sums.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifndef VECTOR_BYTES
#error "VECTOR_BYTES must be 16, 32 or 64"
#endif

#define VECTORS_PER_UNIT (UNIT_BYTES / VECTOR_BYTES)

/* aligned(4/8): rows may start at any element; may_alias: they are the caller's plain arrays. */
typedef float vec_f32 __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef float vec_half_f32 __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint64_t vec_u64 __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));

/* The widest vectors of the instruction set, for arrays of our own, which are aligned: wide loads
 * are only slow on unaligned rows. */
#ifdef __AVX512F__
#define WIDE_BYTES 64
#else
#define WIDE_BYTES VECTOR_BYTES
#endif
typedef float wide_f32 __attribute__((vector_size(WIDE_BYTES), may_alias));
typedef double wide_f64 __attribute__((vector_size(WIDE_BYTES), may_alias));
typedef float wide_half_f32 __attribute__((vector_size(WIDE_BYTES / 2), may_alias));
typedef uint32_t wide_u32 __attribute__((vector_size(WIDE_BYTES), may_alias));
typedef uint64_t wide_u64 __attribute__((vector_size(WIDE_BYTES), may_alias));
typedef float loose_wide_f32 __attribute__((vector_size(WIDE_BYTES), aligned(4), may_alias));
typedef double loose_wide_f64 __attribute__((vector_size(WIDE_BYTES), aligned(8), may_alias));

/* Narrower vectors, to add up a wide one by halves. */
typedef float vec16_f32 __attribute__((vector_size(16)));
typedef float vec32_f32 __attribute__((vector_size(32)));
typedef double vec16_f64 __attribute__((vector_size(16)));
typedef double vec32_f64 __attribute__((vector_size(32)));

#define ROWS_PER_BLOCK 16 /* rows whose losses and derivatives are evaluated together */
#define COLUMNS_PER_BATCH (4 * ROWS_PER_BLOCK) /* axes whose losses are evaluated together */
#define ROWS_PER_LOAD 8                        /* rows added per load and store of an accumulator */
#define ROWS_AHEAD 16                          /* prefetch distance in rows */
#define BATCH_BYTES_AHEAD (24 << 10)           /* prefetch distance in a batch of long rows */
#define BATCH_ROWS_AHEAD 24                    /* and of short rows */

#if WIDE_BYTES == 64
/* Halves of a vector, without a round trip through memory. */
ALWAYS_INLINE vec32_f64 low_half_f64(wide_f64 all) {
    return _mm512_castpd512_pd256((__m512d)all);
}

ALWAYS_INLINE vec32_f64 high_half_f64(wide_f64 all) {
    return _mm512_extractf64x4_pd((__m512d)all, 1);
}

ALWAYS_INLINE vec32_f32 low_half_f32(wide_f32 all) {
    return _mm512_castps512_ps256((__m512)all);
}

ALWAYS_INLINE vec32_f32 high_half_f32(wide_f32 all) {
    return _mm512_extractf32x8_ps((__m512)all, 1);
}
#endif

/* Memory to prefetch during arithmetic, a few cache lines at a time: a processor drops prefetches
 * beyond the few that it can have in flight. */
struct read_ahead {
    uintptr_t at;
    int64_t lines_per_call;
};

/* What to prefetch while a row is multiplied. */
enum prefetching { PREFETCH_NOTHING, PREFETCH_ROWS, PREFETCH_BATCH };

ALWAYS_INLINE void read_ahead(struct read_ahead *ahead) {
    for (int64_t line = 0; line < ahead->lines_per_call; line++)
        __builtin_prefetch((const void *)(ahead->at + (uintptr_t)line * UNIT_BYTES), 0, 3);
    ahead->at += (uintptr_t)ahead->lines_per_call * UNIT_BYTES;
}

#endif
