/* Rows seen through a public matrix, weighted by how long they are there: sums of them, of their
 * outer products, and what else weights and residuals tell. See kernel_table.h.
 *
 * Needs: vector/real_types.inc.h, dense/dense_rows.inc.h, dense/gram_sum.inc.h. */

#if !REAL_IS_F32
enum { COUNT_UNITS = 1 << 20 };

/* Adds to nothing: only a true comparison lets a value pass. */
ALWAYS_INLINE double at_most(double value, double bound) {
    return value <= bound ? value : value > bound ? bound : 0.0;
}

/* What multiplies a row's image, from a derivative of its loss and its weight. */
ALWAYS_INLINE double factor_of_image(int64_t kind, double derivative, double weight) {
    if (kind == IMAGE_PLAIN || kind == IMAGE_CURVATURE)
        return sqrt(weight * derivative);
    return weight * derivative;
}

/* PANEL_ROWS rows seen through the matrix. */
struct images {
    double *panel;
    double length[PANEL_ROWS], weight[PANEL_ROWS]; /* of the images, in units of the sums' grid */
    double prediction[PANEL_ROWS], target[PANEL_ROWS];
    int counts[PANEL_ROWS]; /* whether the row is there, and finite */
};
#endif

/* Whether rows count, and with weights given their predictions. */
static void NAME(predict_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                                 const struct pass *pass, const struct NAME(layout) * layout,
                                 const struct NAME(scratch) * scratch, struct images *images) {
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

/* The images of PANEL_ROWS rows from `first` on, exact, with their lengths and weights. */
static void NAME(see_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                             const struct pass *pass, const struct NAME(layout) * layout,
                             const struct NAME(scratch) * scratch, double *panel,
                             struct images *images) {
    enum { LANES_OUT = TILE_UNITS * PANEL_LANES, PARTIAL_SUMS = 2 * PANEL_LANES };
    const int64_t width = rows->n_columns + rows->intercept, n_out = pass->n_out;
    struct pass plain = *pass;
    plain.w = NULL;
    NAME(fill_panel)(rows, first, end, &plain, layout, scratch, panel);
    NAME(predict_images)(rows, first, end, pass, layout, scratch, images);
    for (int row = 0; row < PANEL_ROWS; row += TILE_ROWS) {
        double squares[TILE_ROWS][PARTIAL_SUMS] = {{0.0}}, out[TILE_ROWS][LANES_OUT];
        for (int64_t j = 0; j < n_out; j += LANES_OUT) {
            panel_times_matrix(panel, row, width, pass->matrix + j, n_out, out);
            for (int r = 0; r < TILE_ROWS; r++)
                for (int lane = 0; lane < LANES_OUT; lane++) {
                    const int64_t column = j + lane;
                    squares[r][column % PARTIAL_SUMS] += out[r][lane] * out[r][lane];
                    images->panel[column / PANEL_LANES * PANEL_UNIT + (row + r) * PANEL_LANES +
                                  column % PANEL_LANES] = out[r][lane];
                }
        }
        for (int r = 0; r < TILE_ROWS; r++) {
            double total = 0.0;
            for (int lane = 0; lane < PARTIAL_SUMS; lane++)
                total += squares[r][lane];
            images->length[row + r] = sqrt(total) * pass->image_unit;
        }
    }
    for (int i = 0; i < PANEL_ROWS; i++) {
        const double share = pass->clip / images->length[i];
        images->weight[i] = share < 1.0 ? share * share : 1.0;
    }
}

/* derivative[i] of the loss of a panel's rows. */
static void NAME(derivatives_of_images)(const struct pass *pass, int64_t kind,
                                        const struct images *images, double *derivative) {
    const double *p = images->prediction;
    if (kind == IMAGE_SLOPE)
        loss_derivatives(pass->loss, PANEL_ROWS, p, images->target, derivative);
    for (int i = 0; i < PANEL_ROWS && kind == IMAGE_CURVATURE; i += ROWS_PER_BLOCK)
        loss_curvatures(pass->loss, 0, p + i, images->target + i, derivative + i);
    for (int i = 0; i < PANEL_ROWS && kind != IMAGE_SLOPE && kind != IMAGE_CURVATURE; i++)
        derivative[i] = kind == IMAGE_PLAIN ? 1.0 : loss_third_one(pass->loss.kind, p[i]);
}

/* U_i for PANEL_ROWS rows, in place of their images. */
static void NAME(fill_images)(const struct dense_rows *rows, int64_t first, int64_t end,
                              const struct pass *pass, const struct NAME(layout) * layout,
                              const struct NAME(scratch) * scratch, double *panel,
                              struct images *images) {
    double derivative[PANEL_ROWS];
    NAME(see_images)(rows, first, end, pass, layout, scratch, panel, images);
    NAME(derivatives_of_images)(pass, pass->image_factor, images, derivative);
    for (int i = 0; i < PANEL_ROWS; i++) {
        const double factor = factor_of_image(pass->image_factor, derivative[i], images->weight[i]);
        const double bounded =
            NAME(bounded_factor)(fabs(factor), images->length[i], pass->image_bound);
        const double per_unit =
            images->counts[i] ? copysign(bounded, factor) * pass->image_unit : 0.0;
        for (int64_t unit = 0; unit < pass->n_out / PANEL_LANES; unit++)
            for (int lane = 0; lane < PANEL_LANES; lane++) {
                double *entry = images->panel + unit * PANEL_UNIT + i * PANEL_LANES + lane;
                *entry = (per_unit * *entry + INTEGER_SHIFT) - INTEGER_SHIFT;
            }
    }
}

/* The panel of rows, and after it that of images; tiles may follow. */
static double *NAME(open_images)(const struct dense_rows *rows, const struct pass *pass,
                                 void *workspace, const struct NAME(layout) * layout,
                                 struct NAME(scratch) * scratch, struct images *images) {
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    double *panel = NAME(open_panel)(rows, pass, units, workspace, layout, scratch);
    images->panel = panel + (units + 1) * PANEL_UNIT;
    memset(images->panel, 0,
           (size_t)((pass->n_out / PANEL_LANES + 1) * PANEL_UNIT) * sizeof *images->panel);
    return panel;
}

static void NAME(image_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const struct pass *pass, void *out, void *workspace) {
    int64_t *sum_out = out;
    const int64_t width = pass->n_images;
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    struct images images;
    double *panel = NAME(open_images)(rows, pass, workspace, &layout, &scratch, &images);
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_images)(rows, first, end, pass, &layout, &scratch, panel, &images);
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
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    struct images images;
    double *panel = NAME(open_images)(rows, pass, workspace, &layout, &scratch, &images);
    uint64_t *tiles = (uint64_t *)(images.panel + (pass->n_out / PANEL_LANES + 1) * PANEL_UNIT);
    memset(tiles, 0, tiles_bytes(units));
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_images)(rows, first, end, pass, &layout, &scratch, panel, &images);
        add_panel_tiles(images.panel, units, tiles);
    }
    add_tiles(tiles, width, out);
}

static void NAME(image_table)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const int64_t width = pass->n_images;
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    struct images images;
    double *panel = NAME(open_images)(rows, pass, workspace, &layout, &scratch, &images);
    const double edge = sqrt(2.0) * pass->clip;
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(see_images)(rows, first, end, pass, &layout, &scratch, panel, &images);
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
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    struct images images;
    double *panel = NAME(open_images)(rows, pass, workspace, &layout, &scratch, &images);
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        double slope[PANEL_ROWS], curvature[PANEL_ROWS];
        NAME(see_images)(rows, first, end, pass, &layout, &scratch, panel, &images);
        NAME(derivatives_of_images)(pass, IMAGE_SLOPE, &images, slope);
        NAME(derivatives_of_images)(pass, IMAGE_CURVATURE, &images, curvature);
        for (int i = 0; i < PANEL_ROWS; i++) {
            if (!images.counts[i])
                continue;
            sums[0] += images.weight[i] < 1.0 ? COUNT_UNITS : 0;
            sums[1] +=
                (int64_t)(COUNT_UNITS * at_most(slope[i] * slope[i] / pass->inner_clips[0], 1.0));
            sums[2] += (int64_t)(COUNT_UNITS * at_most(curvature[i] / pass->inner_clips[1], 1.0));
        }
    }
}
