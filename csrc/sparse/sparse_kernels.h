/* All kernels for sparse rows of one type of values and of indices, in one arithmetic. */
#ifndef DPERM_SPARSE_KERNELS_H
#define DPERM_SPARSE_KERNELS_H

#include "dense/workspaces.h"
#include "dispatch/level.h"
#include "sparse/sparse_plain.h"
/* Floats in double arithmetic are for precise sums and descents alone. */
#define IN_OWN_ARITHMETIC (REAL_IS_F32 == VALUE_IS_F32)
#if IN_OWN_ARITHMETIC
#include "sparse/sparse_norms.h"
#include "sparse/sparse_sums.h"
#endif
#if !REAL_IS_F32
#include "sparse/sparse_sgd.h"
#endif

extern const struct sparse_kernels OF_LEVEL(SPARSE_KERNELS);
const struct sparse_kernels OF_LEVEL(SPARSE_KERNELS) = {
    .factors = factors,
    .add_columns = add_columns,
#if IN_OWN_ARITHMETIC
    .row_norms = row_norms,
    .predictions = predictions,
    .clipped_gradient_sum = clipped_gradient_sum,
    .clipped_loss_sums = clipped_loss_sums,
    .rows_per_flush = FLOAT_ROWS_PER_FLUSH,
    .rows_per_call = INT64_MAX,
#else
    .rows_per_flush = ROWS_CONVERTED,
    .rows_per_call = ROWS_CONVERTED,
#endif
#if !REAL_IS_F32
    .sgd_workspace_bytes = sparse_sgd_workspace_bytes,
    .sgd_steps = sparse_sgd_steps,
#endif
};

#endif
