/* Sizes of the workspaces of kernels for dense rows. */
#ifndef DPERM_WORKSPACES_H
#define DPERM_WORKSPACES_H

#include "dense/dense_block.h"
#include "memory/aligned_memory.h"
#include "vector/integer_panels.h"

enum { ROWS_CONVERTED = 32 };

/* Converted rows and targets. */
SHARED int64_t converted_bytes(int64_t n_columns) {
    return round_up(ROWS_CONVERTED * (n_columns + 1) * (int64_t)sizeof(double), UNIT_BYTES);
}

/* Four arrays of one row, rounded up to whole units, and two blocks of narrow rows. */
SHARED int64_t NAME(scratch_bytes)(int64_t n_columns) {
    return 4 * UNIT_BYTES * NAME(layout_of)(n_columns).units + 2 * ROWS_PER_BLOCK * UNIT_BYTES;
}

SHARED int64_t workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    (void)pass;
    return round_up(NAME(scratch_bytes)(rows->n_columns), UNIT_BYTES);
}

/* The usual workspace, then a panel of rows with a target, and two of their sums. */
SHARED int64_t panel_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    return workspace_bytes(rows, pass) +
           (units + 1) * (PANEL_UNIT + 2 * PANEL_LANES) * (int64_t)sizeof(double);
}

/* The same, then the tiles of a triangle, stored as a square. */
SHARED int64_t gram_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    return panel_workspace_bytes(rows, pass) +
           (units + 1) * units * PANEL_LANES * PANEL_LANES * (int64_t)sizeof(double);
}

/* The usual workspace, then panels of rows and of their images, and the tiles of the images. */
SHARED int64_t image_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    const int64_t image_units = pass->n_out / PANEL_LANES;
    return workspace_bytes(rows, pass) +
           (units + image_units + 2) * PANEL_UNIT * (int64_t)sizeof(double) +
           (int64_t)tiles_bytes(image_units);
}

#endif
