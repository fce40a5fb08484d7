/* All kernels for one instruction set: compiled once per set with its own flags,
 * KERNEL_LEVEL (the set's name) and VECTOR_BYTES. Everything is static but the
 * table, so that no code of a wider set can be picked up by a narrower one. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dense/columns_matrix.h"
#include "vector/integer_panels.h"
#include "kernel_table.h"
#include "vector/lanes.h"
#include "tabular/nonzero_columns.h"
#include "loss/loss_curvatures.h"
#include "loss/loss_derivatives.h"
#include "dense/row_blocks.h"
#include "sgd/sgd_steps.h"
#include "tabular/tabular_matrix.h"

#if FLT_EVAL_METHOD != 0
#error "the exact sums need float and double arithmetic without extra precision"
#endif

#define REAL_IS_F32 0
#include "vector/real_types.inc.h"
#include "loss/loss_values.inc.h"
#include "loss/logistic_line.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "loss/loss_values.inc.h"
#include "loss/logistic_line.inc.h"
#include "dense/row_norms.inc.h"
#include "dense/dense_rows.inc.h"
#include "dense/clipped_gradient_sum.inc.h"
#include "dense/clipped_loss_sums.inc.h"
#include "dense/coordinate_loss_sums.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 0
#include "vector/real_types.inc.h"
#include "dense/row_norms.inc.h"
#include "dense/dense_rows.inc.h"
#include "dense/clipped_gradient_sum.inc.h"
#include "dense/clipped_loss_sums.inc.h"
#include "dense/coordinate_loss_sums.inc.h"
#include "dense/precise_gradient_sum.inc.h"
#include "tabular/number_vectors.inc.h"
#include "tabular/nonzero_rows.inc.h"
#include "tabular/tabular_rows.inc.h"
#include "tabular/tabular_passes.inc.h"
#include "tabular/tabular_models.inc.h"
#include "smoothing/smooth_chunk.inc.h"
#include "sgd/sgd_update.inc.h"
#include "sgd/sgd_steps.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "sgd/sgd_steps.inc.h"

#undef REAL_IS_F32

#include "softmax/class_tiles.inc.h"
#include "softmax/softmax_scores.inc.h"

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "softmax/softmax_products.inc.h"
#include "softmax/softmax_passes.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 0
#include "vector/real_types.inc.h"
#include "softmax/softmax_products.inc.h"
#include "softmax/softmax_passes.inc.h"

/* Four arrays of one row rounded up to units, two blocks of narrow rows, and converted rows. A
 * row of doubles needs at least as many units as a row of floats. */
static int64_t workspace_bytes(int64_t n_columns) {
    return 4 * UNIT_BYTES * layout_of_f64(n_columns).units + 2 * ROWS_PER_BLOCK * UNIT_BYTES +
           converted_bytes(n_columns);
}

/* Weights and sums of every class, a row of zeros, the group of narrow rows; factors, scores and
 * intercepts. */
static int64_t softmax_workspace_bytes(int64_t n_columns, int64_t n_classes) {
    const int64_t doubles = n_classes * (3 * ROWS_PER_GROUP + 2);
    return (2 * n_classes + 1) * UNIT_BYTES * layout_of_f64(n_columns).units +
           ROWS_PER_GROUP * UNIT_BYTES + doubles * (int64_t)sizeof(double);
}

static int64_t whole_units(int64_t bytes) {
    return (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

/* After the workspace of the other kernels a panel and the tiles of a triangle, stored as a square.
 */
static int64_t gram_workspace_bytes(int64_t n_columns, int64_t width) {
    const int64_t units = panel_units(width), tile = PANEL_LANES * PANEL_LANES;
    return whole_units(workspace_bytes(n_columns)) +
           (units + 1) * (PANEL_UNIT + units * tile) * (int64_t)sizeof(double);
}

/* After the workspace of the other kernels a block of rows, weights and sums of every model. */
static int64_t models_workspace_bytes(int64_t n_columns, int64_t n_models) {
    return whole_units(workspace_bytes(n_columns)) +
           (ROWS_PER_BLOCK + 2 * n_models) * UNIT_BYTES * layout_of_f64(n_columns).units;
}

#include "dense/clipped_gradient_sums.inc.h"
#include "dense/gram_sum.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "dense/clipped_gradient_sums.inc.h"
#include "dense/gram_sum.inc.h"

#undef REAL_IS_F32

#include "sparse/sparse_instances.inc.h"

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "dense/columns_matrix.inc.h"
#include "dense/column_tiles.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 0
#include "vector/real_types.inc.h"
#include "dense/columns_matrix.inc.h"
#include "dense/column_tiles.inc.h"
#undef REAL_IS_F32

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
    .models_workspace_bytes = models_workspace_bytes,
    .clipped_gradient_sums = BOTH(clipped_gradient_sums),
    .gradient_sum = BOTH(gradient_sum),
    .precise_gradient_sum = {precise_gradient_sum_f32, gradient_sum_f64},
    .clipped_loss_sums = BOTH(clipped_loss_sums),
    .coordinate_loss_sums = BOTH(coordinate_loss_sums),
    .predictions = BOTH(predictions),
    .gram_workspace_bytes = gram_workspace_bytes,
    .gram_sum = BOTH(gram_sum),
    .moment_sums = BOTH(moment_sums),
    .norms_through = BOTH(norms_through),
    .entry_sum = BOTH(entry_sum),
    .softmax_workspace_bytes = softmax_workspace_bytes,
    .clipped_softmax_gradient_sum = BOTH(clipped_softmax_gradient_sum),
    .softmax_gradient_sum = BOTH(softmax_gradient_sum),
    .clipped_softmax_loss_sums = BOTH(clipped_softmax_loss_sums),
    .class_scores = BOTH(class_scores),
    .chunk_ends = chunk_ends,
    .smooth_chunk = smooth_chunk,
    .sgd_workspace_bytes = sgd_workspace_bytes,
    .sgd_steps = BOTH(sgd_steps),
    .tabular_workspace_bytes = tabular_workspace_bytes,
    .tabular_clipped_gradient_sum = tabular_clipped_gradient_sum,
    .tabular_models_workspace_bytes = tabular_models_workspace_bytes,
    .tabular_clipped_gradient_sums = tabular_clipped_gradient_sums,
    .tabular_clipped_loss_sums = tabular_clipped_loss_sums,
    .tabular_predictions = tabular_predictions,
    .columns_workspace_bytes = BOTH(columns_workspace_bytes),
    .columns_clipped_gradient_sum = BOTH(columns_clipped_gradient_sum),
    .expand_columns = BOTH(expand_columns),
    .sparse = &sparse_kernels,
};
