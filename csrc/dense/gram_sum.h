/* Sums of outer products of rows, and norms of rows multiplied by a matrix. See kernel_table.h. */
#ifndef DPERM_GRAM_SUM_H
#define DPERM_GRAM_SUM_H

#include "dense/block_arguments.h"
#include "dense/workspaces.h"
#include "loss/losses.h"
#include "vector/integer_panels.h"

/* At most bound / norm. Only a true comparison lets a value pass: NaN becomes 0, and so does a
 * subnormal factor, which has lost precision. */
ALWAYS_INLINE double bounded_factor(double factor, double norm, double bound) {
    const double cap = bound / norm;
    const double value = factor > cap ? cap : factor;
    return value >= DBL_MIN && value <= cap && value <= DBL_MAX ? value : 0.0;
}

/* The last column's entry of a record with target y. */
ALWAYS_INLINE double target_entry(const struct pass *pass, double y) {
    const double limit = pass->target_limit, distance = y - pass->target_centre;
    return pass->target_factor * (distance > limit ? limit : distance < -limit ? -limit : distance);
}

/* A row of the panel: round(factor * the row), and round(target) in the column after it. With a
 * factor of 0 the row is 0, whatever it holds. */
ALWAYS_INLINE void round_row(int64_t width, double factor, double target, double *restrict place) {
    for (int64_t j = 0; j <= width; j++) {
        double *entry = place + j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES;
        const double value = j == width ? target : factor > 0.0 ? factor * *entry : 0.0;
        *entry = (value + SHIFT_F64) - SHIFT_F64;
    }
}

/* Images matrix^T V of TILE_ROWS rows V of a panel from `row` on: their norms, and unless `images`
 * is the constant NULL, the images themselves as rows of another panel. */
ALWAYS_INLINE void multiply_panel_rows(const double *panel, int row, int64_t width,
                                       const struct pass *pass, double *images, double *norms) {
    enum { LANES_OUT = TILE_UNITS * PANEL_LANES, PARTIAL_SUMS = 2 * PANEL_LANES };
    const double *matrix = pass->matrix;
    const int64_t n_out = pass->n_out;
    double squares[TILE_ROWS][PARTIAL_SUMS] = {{0.0}}, out[TILE_ROWS][LANES_OUT];
    for (int64_t j = 0; j < n_out; j += LANES_OUT) {
        panel_times_matrix(panel, row, width, matrix + j, n_out, out);
        for (int r = 0; r < TILE_ROWS; r++)
            for (int lane = 0; lane < LANES_OUT; lane++) {
                const int64_t column = j + lane;
                squares[r][column % PARTIAL_SUMS] += out[r][lane] * out[r][lane];
                if (images)
                    images[column / PANEL_LANES * PANEL_UNIT + (row + r) * PANEL_LANES +
                           column % PANEL_LANES] = out[r][lane];
            }
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        double total = 0.0;
        for (int lane = 0; lane < PARTIAL_SUMS; lane++)
            total += squares[r][lane];
        norms[r] = sqrt(total);
    }
}

/* sums[j] += V_kj and squares[j] += round(factor V_kj^2) for row k of a panel, with
 * factor = min(1, clip / ||(V_kj^2)_j||). */
ALWAYS_INLINE void add_moments(const double *panel, int64_t units, int row, double clip,
                               double *sums, double *squares) {
    double partial[PANEL_LANES] = {0.0}, total = 0.0;
    const double *place = panel + row * PANEL_LANES;
    for (int64_t unit = 0; unit < units; unit++)
        for (int lane = 0; lane < PANEL_LANES; lane++) {
            const double value = place[unit * PANEL_UNIT + lane], square = value * value;
            partial[lane] += square * square;
        }
    for (int lane = 0; lane < PANEL_LANES; lane++)
        total += partial[lane];
    const double length = sqrt(total), factor = length <= clip ? 1.0 : clip / length;
    for (int64_t unit = 0; unit < units; unit++)
        for (int lane = 0; lane < PANEL_LANES; lane++) {
            const double value = place[unit * PANEL_UNIT + lane];
            sums[unit * PANEL_LANES + lane] += value;
            squares[unit * PANEL_LANES + lane] +=
                (factor * (value * value) + SHIFT_F64) - SHIFT_F64;
        }
}

/* A row of the panel: round(factor * (x, 1)), and round(target) in the column after it. */
ALWAYS_INLINE void NAME(put_row)(const struct dense_rows *rows, const REAL *restrict x,
                                 double factor, double target, double *restrict place) {
    const int64_t n_columns = rows->n_columns, width = n_columns + rows->intercept;
    const int64_t whole = n_columns / PANEL_LANES;
    for (int64_t unit = 0; unit < whole; unit++)
        for (int lane = 0; lane < PANEL_LANES; lane++)
            place[unit * PANEL_UNIT + lane] =
                (factor * (double)x[unit * PANEL_LANES + lane] + SHIFT_F64) - SHIFT_F64;
    for (int64_t j = whole * PANEL_LANES; j <= width; j++) {
        const double value = j < n_columns ? factor * (double)x[j] : j < width ? factor : target;
        place[j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES] = (value + SHIFT_F64) - SHIFT_F64;
    }
}

/* A row of the panel: t_j = factor * ((x, 1)_j * scales[j] - shifts[j]), not rounded; returns
 * ||t||. */
ALWAYS_INLINE double NAME(put_scaled_row)(const struct dense_rows *rows, const REAL *restrict x,
                                          double factor, const struct pass *pass,
                                          double *restrict place) {
    const double *restrict scales = pass->column_scales, *restrict shifts = pass->column_shifts;
    const int64_t n_columns = rows->n_columns, width = n_columns + rows->intercept;
    double partial[PANEL_LANES] = {0.0}, total = 0.0;
    for (int64_t j = 0; j < width; j++) {
        const double entry = j < n_columns ? (double)x[j] : 1.0;
        const double own =
            factor * entry * scales[j]; /* in this order: huge entries are bounded first */
        const double value = shifts ? own - factor * shifts[j] : own;
        place[j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES] = value;
        partial[j % PANEL_LANES] += value * value;
    }
    for (int lane = 0; lane < PANEL_LANES; lane++)
        total += partial[lane];
    return sqrt(total);
}

/* A panel of rows, and what is needed to read them. */
struct NAME(panel) {
    struct NAME(layout) layout;
    struct NAME(scratch) scratch;
    int64_t width, units; /* columns of a row and its intercept; units of these and a target */
    double *entries;
};

/* The usual workspace, and after it a panel of zeros. */
static struct NAME(panel)
    NAME(open_panel)(const struct dense_rows *rows, const struct pass *pass, void *workspace) {
    struct NAME(panel) panel = {.layout = NAME(layout_of)(rows->n_columns),
                                .width = rows->n_columns + rows->intercept};
    panel.units = panel_units(panel.width + 1);
    panel.scratch = NAME(scratch_in)(workspace, &panel.layout);
    panel.entries = (double *)((char *)workspace + workspace_bytes(rows, pass));
    if (pass->w)
        NAME(pack_weights)(&panel.layout, pass->w, panel.scratch.weights);
    memset(panel.entries, 0, (size_t)(panel.units + 1) * PANEL_UNIT * sizeof *panel.entries);
    return panel;
}

/* PANEL_ROWS rows from `first` on as integers; rows past `end` are 0. */
static void NAME(fill_panel)(const struct dense_rows *rows, int64_t first, int64_t end,
                             const struct pass *pass, const struct NAME(panel) * panel) {
    const struct NAME(layout) *layout = &panel->layout;
    const struct NAME(scratch) *scratch = &panel->scratch;
    const double per_unit = 1.0 / pass->grid; /* a power of two */
    const double intercept = pass->w ? intercept_of(rows, pass->w) : 0.0;
    for (int done = 0; done < PANEL_ROWS; done += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], curvature[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first + done, end - first - done, layout, scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            curvature[i] = 1.0;
        if (pass->w) {
            NAME(predict_block)(rows, first + done + ROWS_PER_BLOCK, &block, scratch->weights,
                                intercept, layout, p);
            loss_curvatures(pass->loss, pass->upper, p, block.y, curvature);
            weigh(rows, first + done, end, ROWS_PER_BLOCK, curvature);
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const double factor = sqrt(curvature[i]) * per_unit;
            const double bound = pass->inner_clip * per_unit;
            const int counts = block.norm[i] <= DBL_MAX;
            const double target = counts ? target_entry(pass, block.y[i]) * per_unit : 0.0;
            double *place = panel->entries + (done + i) * PANEL_LANES;
            if (pass->column_scales) {
                const double length = NAME(put_scaled_row)(
                    rows, block.row[i], counts ? block.scale[i] : 0.0, pass, place);
                const double bounded = bounded_factor(factor, length, bound);
                const double share = bounded < factor ? bounded / factor : 1.0;
                round_row(panel->width, bounded, share * target, place);
            } else
                NAME(put_row)(rows, block.row[i],
                              bounded_factor(block.scale[i] * factor, block.norm[i], bound), target,
                              place);
        }
    }
}

static void NAME(gram_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                           const struct pass *pass, void *out, void *workspace) {
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    const int64_t width = panel.width + (pass->target_factor > 0.0), units = panel_units(width);
    uint64_t *tiles = (uint64_t *)(panel.entries + (panel.units + 1) * PANEL_UNIT);
    memset(tiles, 0, tiles_bytes(units));
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &panel);
        add_panel_tiles(panel.entries, units, tiles);
    }
    add_tiles(tiles, width, out);
}

static void NAME(moment_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    const int64_t width = panel.width, units = panel.units;
    double *sums = panel.entries + (units + 1) * PANEL_UNIT, *squares = sums + units * PANEL_LANES;
    int64_t *sum_out = out;
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &panel);
        memset(sums, 0, (size_t)(2 * units * PANEL_LANES) * sizeof *sums);
        for (int row = 0; row < PANEL_ROWS; row++)
            add_moments(panel.entries, units, row, pass->clip, sums, squares);
        for (int64_t j = 0; j < width; j++) {
            sum_out[j] += (int64_t)sums[j];
            sum_out[width + j] += (int64_t)squares[j];
        }
    }
}

static void NAME(norms_through)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                const struct pass *pass, void *out, void *workspace) {
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    double *norms_out = out;
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &panel);
        for (int row = 0; row < PANEL_ROWS && first + row < end; row += TILE_ROWS) {
            double norms[TILE_ROWS];
            multiply_panel_rows(panel.entries, row, panel.width, pass, NULL, norms);
            for (int r = 0; r < TILE_ROWS && first + row + r < end; r++)
                norms_out[first + row + r - begin] = norms[r];
        }
    }
}

#endif
