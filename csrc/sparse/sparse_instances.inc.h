/* The kernels for sparse rows, for one instruction set: the end of kernel_instances.c. */
#include "sparse/sparse_rows.h"

enum {
    SPARSE_WEIGHTS_AHEAD = 128,   /* prefetch distance of weights, in entries */
    SPARSE_ENTRIES_AHEAD = 512,   /* prefetch distance of entries */
    SPARSE_ROWS_AHEAD = 64,       /* prefetch distance of norms, targets and starts of rows */
    SPARSE_NEAR_COLUMNS = 1 << 14 /* weights and sums of so few columns stay in the cache */
};

/* Prefetches `bytes` bytes that begin `distance` bytes after `at`: among random accesses, hardware
 * prefetchers do not recognise sequential reads of an array. */
ALWAYS_INLINE void prefetch_beyond(const void *at, int64_t distance, int64_t bytes,
                                   enum reading reading) {
    const uintptr_t first = (uintptr_t)at + (uintptr_t)distance;
    for (int64_t line = 0; line < bytes; line += UNIT_BYTES)
        if (reading == READ_AGAIN)
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 3);
        else if (reading == READ_ONCE)
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 2);
        else
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 0);
}

static int64_t sparse_sgd_workspace_bytes(const struct sparse_rows *rows) {
    return sgd_scratch_bytes(&rows->rows, 1);
}

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "sparse/sparse_lane_sums.inc.h"
enum { SPARSE_FLUSH_F32 = FLOAT_ROWS_PER_FLUSH };
#define VALUE_IS_F32 1
#define INDEX_IS_I32 1
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_norms.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_sums.inc.h"
#include "sparse/sparse_plain.inc.h"
#undef INDEX_IS_I32
#define INDEX_IS_I32 0
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_norms.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_sums.inc.h"
#include "sparse/sparse_plain.inc.h"
#undef INDEX_IS_I32
#undef REAL_IS_F32

/* Floats read for double arithmetic. */
#define REAL_IS_F32 0
#include "vector/real_types.inc.h"
#include "sparse/sparse_lane_sums.inc.h"
enum { SPARSE_FLUSH_F64 = FLOAT_ROWS_PER_FLUSH };
#define INDEX_IS_I32 1
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_plain.inc.h"
#include "sparse/sparse_sgd.inc.h"
#undef INDEX_IS_I32
#define INDEX_IS_I32 0
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_plain.inc.h"
#include "sparse/sparse_sgd.inc.h"
#undef INDEX_IS_I32
#undef VALUE_IS_F32

#define VALUE_IS_F32 0
#define INDEX_IS_I32 1
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_norms.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_sums.inc.h"
#include "sparse/sparse_plain.inc.h"
#include "sparse/sparse_sgd.inc.h"
#undef INDEX_IS_I32
#define INDEX_IS_I32 0
#include "sparse/sparse_types.inc.h"
#include "sparse/sparse_norms.inc.h"
#include "sparse/sparse_rows.inc.h"
#include "sparse/sparse_sums.inc.h"
#include "sparse/sparse_plain.inc.h"
#include "sparse/sparse_sgd.inc.h"
#undef INDEX_IS_I32
#undef VALUE_IS_F32
#undef REAL_IS_F32

#define BY_INDEX(kernel, type) {kernel##_sparse_##type##_i32, kernel##_sparse_##type##_i64}
#define BY_TYPE(kernel, first, second) {BY_INDEX(kernel, first), BY_INDEX(kernel, second)}

static const struct sparse_kernels sparse_kernels = {
    .row_norms = BY_TYPE(row_norms, f32, f64),
    .clipped_gradient_sum = BY_TYPE(clipped_gradient_sum, f32, f64),
    .clipped_loss_sums = BY_TYPE(clipped_loss_sums, f32, f64),
    .predictions = BY_TYPE(predictions, f32, f64),
    .factors = BY_TYPE(factors, f32, f64),
    .precise_factors = BY_TYPE(factors, wide, f64),
    .add_columns = BY_TYPE(add_columns, f32, f64),
    .precise_add_columns = BY_TYPE(add_columns, wide, f64),
    .sgd_workspace_bytes = sparse_sgd_workspace_bytes,
    .sgd_steps = BY_TYPE(sgd_steps, wide, f64),
    .rows_per_flush = {SPARSE_FLUSH_F32, SPARSE_FLUSH_F64},
    .precise_rows_per_flush = {ROWS_CONVERTED, SPARSE_FLUSH_F64},
    .precise_rows_per_call = {ROWS_CONVERTED, INT64_MAX},
};
