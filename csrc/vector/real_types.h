/* The type of the arithmetic of a file, float or double, for the headers that it includes: the file
 * defines REAL_IS_F32 as 1 or 0. A name that depends on the type is NAME(it). */
#ifndef DPERM_REAL_TYPES_H
#define DPERM_REAL_TYPES_H

#include <float.h>
#include <stdint.h>

#include "vector/grid_rounding.h"
#include "vector/lanes.h"

#if FLT_EVAL_METHOD != 0
#error "the exact sums need float and double arithmetic without extra precision"
#endif

#ifndef REAL_IS_F32
#error "define REAL_IS_F32 as 1 or 0"
#endif

#if REAL_IS_F32
#define REAL float
#define REAL_MIN FLT_MIN /* the smallest number with a full significand */
#define REAL_MAX FLT_MAX
#define INTEGER int32_t
#define UNSIGNED uint32_t
#define VECTOR vec_f32
#define UNSIGNED_VECTOR vec_u32
#define WIDE wide_f32
#define LOOSE_WIDE loose_wide_f32
#define UNSIGNED_WIDE wide_u32
#define NAME(x) x##_f32
#define ROUNDING_SHIFT SHIFT_F32 /* see vector/grid_rounding.h */
#define ROWS_PER_FLUSH 256       /* 256 * 2^22 = 2^30 < 2^31 */
#define FLOAT_ROWS_PER_FLUSH 16  /* keeps the rounding error of a float sum small */
#define STEPS_PER_BATCH 8        /* candidates of a line search evaluated together */
#define ROWS_IN_FLIGHT 16        /* added up while as many are multiplied: both fit into L1 */
#else
#define REAL double
#define REAL_MIN DBL_MIN
#define REAL_MAX DBL_MAX
#define INTEGER int64_t
#define UNSIGNED uint64_t
#define VECTOR vec_f64
#define UNSIGNED_VECTOR vec_u64
#define WIDE wide_f64
#define LOOSE_WIDE loose_wide_f64
#define UNSIGNED_WIDE wide_u64
#define NAME(x) x##_f64
#define ROUNDING_SHIFT SHIFT_F64
#define ROWS_PER_FLUSH 4096 /* 4096 * 2^50 = 2^62 < 2^63 */
#define FLOAT_ROWS_PER_FLUSH 4096
#define STEPS_PER_BATCH 4
#define ROWS_IN_FLIGHT 8
#endif

#define LANES ((int)(UNIT_BYTES / sizeof(REAL)))
#define VECTOR_LANES ((int)(VECTOR_BYTES / sizeof(REAL)))
#define WIDE_LANES ((int)(WIDE_BYTES / sizeof(REAL)))

#endif
