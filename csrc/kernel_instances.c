/* All kernels for one instruction set: compiled once per set with its own flags,
 * KERNEL_LEVEL (the set's name) and VECTOR_BYTES. Everything is static but the
 * table, so that no code of a wider set can be picked up by a narrower one. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel_table.h"
#include "lanes.h"
#include "loss_derivatives.h"
#include "sgd_steps.h"

#if FLT_EVAL_METHOD != 0
#error "the exact sums need float and double arithmetic without extra precision"
#endif

#define REAL_IS_F32 0
#include "real_types.h"
#include "loss_values.template.h"
#include "logistic_line.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "real_types.h"
#include "loss_values.template.h"
#include "row_norms.template.h"
#include "dense_rows.template.h"
#include "clipped_gradient_sum.template.h"
#include "clipped_loss_sums.template.h"
#undef REAL_IS_F32

#define REAL_IS_F32 0
#include "real_types.h"
#include "row_norms.template.h"
#include "dense_rows.template.h"
#include "clipped_gradient_sum.template.h"
#include "clipped_loss_sums.template.h"
#include "sgd_update.h"
#include "sgd_steps.template.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "real_types.h"
#include "sgd_steps.template.h"

/* Four arrays of one row rounded up to units, and the block of narrow rows. A row of
 * doubles needs at least as many units as a row of floats. */
static int64_t workspace_bytes(int64_t n_columns) {
    return 4 * UNIT_BYTES * layout_of_f64(n_columns).units + ROWS_PER_BLOCK * UNIT_BYTES;
}

#define PASTE(a, b) a##b
#define STRINGIFY(a) #a
#define TABLE_NAME(level) PASTE(kernel_table_, level)
#define LEVEL_STRING(level) STRINGIFY(level)
#define BOTH(kernel) {kernel##_f32, kernel##_f64}

extern const struct kernel_table TABLE_NAME(KERNEL_LEVEL);
const struct kernel_table TABLE_NAME(KERNEL_LEVEL) = {
    .instruction_set = LEVEL_STRING(KERNEL_LEVEL),
    .workspace_bytes = workspace_bytes,
    .row_norms = BOTH(row_norms),
    .clipped_gradient_sum = BOTH(clipped_gradient_sum),
    .gradient_sum = BOTH(gradient_sum),
    .clipped_loss_sums = BOTH(clipped_loss_sums),
    .predictions = BOTH(predictions),
    .entry_sum = BOTH(entry_sum),
    .sgd_workspace_bytes = sgd_workspace_bytes,
    .sgd_steps = BOTH(sgd_steps),
};
