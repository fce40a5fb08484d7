/* All kernels for dense rows, and for rows stored column by column, of one type. */
#ifndef DPERM_DENSE_KERNELS_H
#define DPERM_DENSE_KERNELS_H

#include "dense/column_tiles.h"
#include "dense/coordinate_loss_sums.h"
#include "dense/expand_columns.h"
#include "dense/gradient_sums.h"
#include "dense/gram_sum.h"
#include "dense/loss_sums.h"
#include "dense/row_norms.h"
#include "dense/scale_counts.h"
#include "dense/weighted_images.h"
#include "dense/workspaces.h"
#include "dispatch/level.h"
#if !REAL_IS_F32
#include "dense/precise_gradient_sum.h"
#endif

#define OVER_ROWS(kernel) [PASS_##kernel] = {NAME(kernel), workspace_bytes, RANGES_OF_ROWS}
#define OVER_INTEGERS(kernel) [PASS_##kernel] = {NAME(kernel), workspace_bytes, RANGES_OF_INTEGERS}
#define OVER_PANELS(kernel) [PASS_##kernel] = {NAME(kernel), panel_workspace_bytes, RANGES_OF_ROWS}
#define OVER_TILES(kernel) [PASS_##kernel] = {NAME(kernel), gram_workspace_bytes, RANGES_OF_ROWS}
#define OVER_IMAGES(kernel) [PASS_##kernel] = {NAME(kernel), image_workspace_bytes, RANGES_OF_ROWS}

extern const struct dense_kernels OF_LEVEL(NAME(dense_kernels));
const struct dense_kernels OF_LEVEL(NAME(dense_kernels)) = {
    .rows =
        {
            OVER_ROWS(row_norms),
            OVER_ROWS(entry_sum),
            OVER_ROWS(predictions),
            OVER_INTEGERS(clipped_gradient_sum),
            OVER_ROWS(gradient_sum),
            OVER_INTEGERS(clipped_loss_sums),
            OVER_ROWS(coordinate_loss_sums),
            OVER_TILES(gram_sum),
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
    .columns = {[PASS_clipped_gradient_sum] = {NAME(columns_clipped_gradient_sum),
                                               columns_workspace_bytes, RANGES_OF_COLUMNS}},
#if !REAL_IS_F32
    .precise_gradient_sum = {precise_gradient_sum, precise_workspace_bytes, RANGES_OF_ROWS},
#endif
    .expand_columns = NAME(expand_columns),
};

#endif
