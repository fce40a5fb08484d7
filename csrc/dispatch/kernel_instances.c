/* All kernels for one instruction set: compiled once per set with its flags, KERNEL_LEVEL (its
 * name) and VECTOR_BYTES. Everything but the table is static, so that the linker cannot use code of
 * a wider set in a narrower one. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dense/block_arguments.h"
#include "dense/columns_matrix.h"
#include "vector/integer_panels.h"
#include "kernel_table.h"
#include "vector/grid_rounding.h"
#include "vector/lanes.h"
#include "memory/aligned_memory.h"
#include "tabular/column_order.h"
#include "tabular/nonzero_columns.h"
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

/* Four arrays of one row, rounded up to whole units, two blocks of narrow rows, and converted rows.
 * A row of doubles takes at least as many units as a row of floats. */
static int64_t workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    (void)pass;
    return 4 * UNIT_BYTES * layout_of_f64(rows->n_columns).units + 2 * ROWS_PER_BLOCK * UNIT_BYTES +
           converted_bytes(rows->n_columns);
}

/* Weights and sums of every class, a row of zeros, a group of narrow rows; factors, scores and
 * intercepts. */
static int64_t softmax_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t n_classes = pass->n_classes, doubles = n_classes * (3 * ROWS_PER_GROUP + 2);
    return (2 * n_classes + 1) * UNIT_BYTES * layout_of_f64(rows->n_columns).units +
           ROWS_PER_GROUP * UNIT_BYTES + doubles * (int64_t)sizeof(double);
}

static int64_t whole_units(int64_t bytes) {
    return round_up(bytes, UNIT_BYTES);
}

/* The usual workspace, then a panel of rows with a target, and the tiles of a triangle, stored as
 * a square. */
static int64_t gram_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    return whole_units(workspace_bytes(rows, pass)) +
           (units + 1) * (PANEL_UNIT + units * PANEL_LANES * PANEL_LANES) * (int64_t)sizeof(double);
}

/* The usual workspace, then panels of rows and of their images, and the tiles of the images. */
static int64_t image_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    const int64_t image_units = pass->n_out / PANEL_LANES;
    return whole_units(workspace_bytes(rows, pass)) +
           (units + image_units + 2) * PANEL_UNIT * (int64_t)sizeof(double) +
           (int64_t)tiles_bytes(image_units);
}

#include "dense/gram_sum.inc.h"
#include "dense/scale_counts.inc.h"
#include "dense/weighted_images.inc.h"
#undef REAL_IS_F32

#define REAL_IS_F32 1
#include "vector/real_types.inc.h"
#include "dense/gram_sum.inc.h"
#include "dense/scale_counts.inc.h"
#include "dense/weighted_images.inc.h"

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

/* A route: kernels by type, their workspace, and how rows are split into ranges. */
#define OVER_DENSE(kernel) [PASS_##kernel] = {BOTH(kernel), workspace_bytes, RANGES_OF_ROWS}
#define OVER_PANELS(kernel) [PASS_##kernel] = {BOTH(kernel), gram_workspace_bytes, RANGES_OF_ROWS}
#define OVER_IMAGES(kernel) [PASS_##kernel] = {BOTH(kernel), image_workspace_bytes, RANGES_OF_ROWS}
#define OVER_CLASSES(pass, kernel)                                                                 \
    [PASS_##pass] = {BOTH(kernel), softmax_workspace_bytes, RANGES_OF_CLASSES}
#define OVER_TABLE(kernel)                                                                         \
    [PASS_##kernel] = {{NULL, tabular_##kernel}, tabular_workspace_bytes, RANGES_OF_TABLE}

extern const struct kernel_table TABLE_NAME(KERNEL_LEVEL);
const struct kernel_table TABLE_NAME(KERNEL_LEVEL) = {
    .instruction_set = LEVEL_STRING(KERNEL_LEVEL),
    .routes[DENSE_ROWS] =
        {
            OVER_DENSE(row_norms),
            OVER_DENSE(entry_sum),
            OVER_DENSE(predictions),
            [PASS_clipped_gradient_sum] = {BOTH(clipped_gradient_sum), workspace_bytes,
                                           RANGES_OF_INTEGERS},
            [PASS_gradient_sum] = {{any_gradient_sum_f32, gradient_sum_f64},
                                   workspace_bytes,
                                   RANGES_OF_ROWS},
            [PASS_clipped_loss_sums] = {BOTH(clipped_loss_sums), workspace_bytes,
                                        RANGES_OF_INTEGERS},
            OVER_DENSE(coordinate_loss_sums),
            OVER_PANELS(gram_sum),
            OVER_PANELS(moment_sums),
            OVER_PANELS(norms_scaled),
            OVER_PANELS(norms_through),
            OVER_PANELS(norm_counts),
            OVER_PANELS(magnitude_counts),
            OVER_IMAGES(image_sum),
            OVER_IMAGES(image_gram),
            OVER_IMAGES(image_table),
            OVER_IMAGES(residual_sums),
        },
    .routes[SOFTMAX_ROWS] =
        {
            OVER_CLASSES(predictions, class_scores),
            OVER_CLASSES(clipped_gradient_sum, clipped_softmax_gradient_sum),
            OVER_CLASSES(gradient_sum, softmax_gradient_sum),
            OVER_CLASSES(clipped_loss_sums, clipped_softmax_loss_sums),
        },
    .routes[COLUMN_ROWS] =
        {
            [PASS_clipped_gradient_sum] = {BOTH(columns_clipped_gradient_sum),
                                           columns_workspace_bytes, RANGES_OF_COLUMNS},
        },
    .routes[TABULAR_ROWS] =
        {
            OVER_TABLE(predictions),
            OVER_TABLE(clipped_gradient_sum),
            OVER_TABLE(clipped_loss_sums),
        },
    .expand_columns = BOTH(expand_columns),
    .sgd_workspace_bytes = sgd_workspace_bytes,
    .sgd_steps = BOTH(sgd_steps),
    .chunk_ends = chunk_ends,
    .smooth_chunk = smooth_chunk,
    .sparse = &sparse_kernels,
};
