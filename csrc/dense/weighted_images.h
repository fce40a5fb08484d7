/* Images of rows under a public matrix, weighted by their norms: sums of them and of their outer
 * products, and statistics of weights and residuals. See kernel_table.h. */
#ifndef DPERM_WEIGHTED_IMAGES_H
#define DPERM_WEIGHTED_IMAGES_H

#include "dense/gram_sum.h"

enum { COUNT_UNITS = 1 << 20 };

/* min(value, bound), but 0 for NaN. */
ALWAYS_INLINE double at_most(double value, double bound) {
    return value <= bound ? value : value > bound ? bound : 0.0;
}

/* The factor of a row's image, from a derivative of its loss and its weight. */
ALWAYS_INLINE double factor_of_image(int64_t kind, double derivative, double weight) {
    if (kind == IMAGE_PLAIN || kind == IMAGE_CURVATURE)
        return sqrt(weight * derivative);
    return weight * derivative;
}

/* Images of PANEL_ROWS rows. */
struct images {
    double *panel;
    double length[PANEL_ROWS], weight[PANEL_ROWS]; /* lengths in units of the grid of the sums */
    double prediction[PANEL_ROWS], target[PANEL_ROWS];
    int counts[PANEL_ROWS]; /* whether the row exists and is finite */
};

/* Which rows count, their targets, and their predictions if there are weights. */
static void NAME(predict_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                                 const struct pass *pass, const struct NAME(panel) * panel,
                                 struct images *images) {
    const struct NAME(layout) *layout = &panel->layout;
    const struct NAME(scratch) *scratch = &panel->scratch;
    for (int done = 0; done < PANEL_ROWS; done += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double *p = images->prediction + done;
        NAME(read_block)(rows, first + done, end - first - done, layout, scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            p[i] = 0.0;
        if (pass->w)
            NAME(predict_block)(rows, first + done + ROWS_PER_BLOCK, &block, scratch->weights,
                                intercept_of(rows, pass->w), layout, p);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            images->target[done + i] = block.y[i];
            images->counts[done + i] = first + done + i < end && block.norm[i] <= DBL_MAX;
        }
    }
}

/* Exact images of PANEL_ROWS rows from `first` on, with their lengths and weights. */
static void NAME(find_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                              const struct pass *pass, const struct NAME(panel) * panel,
                              struct images *images) {
    struct pass plain = *pass;
    plain.w = NULL;
    NAME(fill_panel)(rows, first, end, &plain, panel);
    NAME(predict_images)(rows, first, end, pass, panel, images);
    for (int row = 0; row < PANEL_ROWS; row += TILE_ROWS)
        multiply_panel_rows(panel->entries, row, panel->width, pass, images->panel,
                            images->length + row);
    for (int i = 0; i < PANEL_ROWS; i++) {
        images->length[i] *= pass->image_unit;
        const double share = pass->clip / images->length[i];
        images->weight[i] = share < 1.0 ? share * share : 1.0;
    }
}

/* derivative[i] of the losses of a panel's rows. */
static void NAME(derivatives_of_images)(const struct pass *pass, int64_t kind,
                                        const struct images *images, double *derivative) {
    const double *p = images->prediction;
    if (kind == IMAGE_SLOPE)
        loss_derivatives(pass->loss, PANEL_ROWS, p, images->target, derivative);
    for (int i = 0; i < PANEL_ROWS && kind == IMAGE_CURVATURE; i += ROWS_PER_BLOCK)
        loss_curvatures(pass->loss, 0, p + i, images->target + i, derivative + i);
    if (kind == IMAGE_THIRD)
        loss_thirds(pass->loss, PANEL_ROWS, p, derivative);
    for (int i = 0; i < PANEL_ROWS && kind == IMAGE_PLAIN; i++)
        derivative[i] = 1.0;
}

/* U_i for PANEL_ROWS rows, in place of their images. */
static void NAME(fill_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                              const struct pass *pass, const struct NAME(panel) * panel,
                              struct images *images) {
    double derivative[PANEL_ROWS];
    NAME(find_images)(rows, first, end, pass, panel, images);
    NAME(derivatives_of_images)(pass, pass->image_factor, images, derivative);
    for (int i = 0; i < PANEL_ROWS; i++) {
        const double factor = factor_of_image(pass->image_factor, derivative[i], images->weight[i]);
        const double bounded = bounded_factor(fabs(factor), images->length[i], pass->image_bound);
        const double per_unit =
            images->counts[i] ? copysign(bounded, factor) * pass->image_unit : 0.0;
        for (int64_t unit = 0; unit < pass->n_out / PANEL_LANES; unit++)
            for (int lane = 0; lane < PANEL_LANES; lane++) {
                double *entry = images->panel + unit * PANEL_UNIT + i * PANEL_LANES + lane;
                *entry = (per_unit * *entry + SHIFT_F64) - SHIFT_F64;
            }
    }
}

/* The panel of rows, followed by that of images; tiles may follow. */
static struct NAME(panel) NAME(open_images)(const struct dense_rows *rows, const struct pass *pass,
                                            void *workspace, struct images *images) {
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    images->panel = panel.entries + (panel.units + 1) * PANEL_UNIT;
    memset(images->panel, 0,
           (size_t)((pass->n_out / PANEL_LANES + 1) * PANEL_UNIT) * sizeof *images->panel);
    return panel;
}

static void NAME(image_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const struct pass *pass, void *out, void *workspace) {
    int64_t *sum_out = out;
    const int64_t width = pass->n_images;
    struct images images;
    const struct NAME(panel) panel = NAME(open_images)(rows, pass, workspace, &images);
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_images)(rows, first, end, pass, &panel, &images);
        for (int64_t j = 0; j < width; j++) {
            const double *column = images.panel + j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES;
            double sum = 0.0; /* of integers */
            for (int i = 0; i < PANEL_ROWS; i++)
                sum += column[i * PANEL_LANES];
            sum_out[j] += (int64_t)sum;
        }
    }
}

static void NAME(image_gram)(const struct dense_rows *rows, int64_t begin, int64_t end,
                             const struct pass *pass, void *out, void *workspace) {
    const int64_t width = pass->n_images, units = panel_units(width);
    struct images images;
    const struct NAME(panel) panel = NAME(open_images)(rows, pass, workspace, &images);
    uint64_t *tiles = (uint64_t *)(images.panel + (pass->n_out / PANEL_LANES + 1) * PANEL_UNIT);
    memset(tiles, 0, tiles_bytes(units));
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_images)(rows, first, end, pass, &panel, &images);
        add_panel_tiles(images.panel, units, tiles);
    }
    add_tiles(tiles, width, out);
}

static void NAME(image_table)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const int64_t width = pass->n_images;
    struct images images;
    const struct NAME(panel) panel = NAME(open_images)(rows, pass, workspace, &images);
    const double edge = sqrt(2.0) * pass->clip;
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(find_images)(rows, first, end, pass, &panel, &images);
        for (int i = 0; i < PANEL_ROWS; i++) {
            const double length = images.length[i];
            if (!images.counts[i] || !(length > edge && length <= DBL_MAX))
                continue;
            int64_t k = 0;
            for (double reach = 2.0 * edge; k < pass->n_bins - 1 && length >= reach; reach *= 2.0)
                k++;
            for (int64_t j = 0; j < width; j++) {
                const double entry =
                    pass->image_unit / length *
                    images.panel[j / PANEL_LANES * PANEL_UNIT + i * PANEL_LANES + j % PANEL_LANES];
                counts[k * width + j] += (int64_t)(COUNT_UNITS * (1.0 - 0x1p-40) * entry * entry);
            }
        }
    }
}

static void NAME(residual_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                const struct pass *pass, void *out, void *workspace) {
    int64_t *sums = out;
    struct images images;
    const struct NAME(panel) panel = NAME(open_images)(rows, pass, workspace, &images);
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        double slope[PANEL_ROWS], curvature[PANEL_ROWS];
        NAME(find_images)(rows, first, end, pass, &panel, &images);
        NAME(derivatives_of_images)(pass, IMAGE_SLOPE, &images, slope);
        NAME(derivatives_of_images)(pass, IMAGE_CURVATURE, &images, curvature);
        for (int i = 0; i < PANEL_ROWS; i++) {
            if (!images.counts[i])
                continue;
            sums[0] += images.weight[i] < 1.0 ? COUNT_UNITS : 0;
            sums[1] +=
                (int64_t)(COUNT_UNITS * at_most(slope[i] * slope[i] / pass->largest_square, 1.0));
            sums[2] +=
                (int64_t)(COUNT_UNITS * at_most(curvature[i] / pass->largest_curvature, 1.0));
        }
    }
}

#endif
