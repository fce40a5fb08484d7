/* Sums of outer products of rows, and norms of rows seen through a matrix. See kernel_table.h.
 *
 * Needs: vector/real_types.inc.h, dense/dense_rows.inc.h. */

/* Column of the panel = round(factor * (x, 1)), and round(target) in the column after it. */
ALWAYS_INLINE void NAME(put_row)(const REAL *restrict x, int64_t n_columns, int intercept,
                                 double factor, double target, double *restrict place) {
    const int64_t whole = n_columns / PANEL_LANES, width = n_columns + intercept;
    for (int64_t unit = 0; unit < whole; unit++)
        for (int lane = 0; lane < PANEL_LANES; lane++)
            place[unit * PANEL_UNIT + lane] =
                (factor * (double)x[unit * PANEL_LANES + lane] + INTEGER_SHIFT) - INTEGER_SHIFT;
    for (int64_t j = whole * PANEL_LANES; j <= width; j++) {
        const double value = j < n_columns ? factor * (double)x[j] : j < width ? factor : target;
        place[j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES] =
            (value + INTEGER_SHIFT) - INTEGER_SHIFT;
    }
}

/* Column of the panel = t_j = factor * (x, 1)_j * scales[j], not rounded; returns ||t||. */
ALWAYS_INLINE double NAME(put_scaled_row)(const REAL *restrict x, int64_t n_columns, int intercept,
                                          double factor, const double *restrict scales,
                                          double *restrict place) {
    const int64_t width = n_columns + intercept;
    double partial[PANEL_LANES] = {0.0}, total = 0.0;
    for (int64_t j = 0; j < width; j++) {
        const double entry = j < n_columns ? (double)x[j] : 1.0;
        const double value = factor * entry * scales[j];
        place[j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES] = value;
        partial[j % PANEL_LANES] += value * value;
    }
    for (int lane = 0; lane < PANEL_LANES; lane++)
        total += partial[lane];
    return sqrt(total);
}

/* Column of the panel = round(factor * the same), and round(target) in the column after it. */
ALWAYS_INLINE void NAME(round_row)(int64_t width, double factor, double target,
                                   double *restrict place) {
    for (int64_t j = 0; j <= width; j++) {
        double *entry = place + j / PANEL_LANES * PANEL_UNIT + j % PANEL_LANES;
        *entry = ((j < width ? factor * *entry : target) + INTEGER_SHIFT) - INTEGER_SHIFT;
    }
}

/* At most bound / norm. Only a true comparison lets a value pass: NaN becomes 0, and so does a
 * subnormal factor, which has lost its digits. */
ALWAYS_INLINE double NAME(bounded_factor)(double factor, double norm, double bound) {
    const double cap = bound / norm;
    const double value = factor > cap ? cap : factor;
    return value >= DBL_MIN && value <= cap && value <= DBL_MAX ? value : 0.0;
}

/* PANEL_ROWS rows from `first` on as a panel of integers; rows past `end` are 0. */
static void NAME(fill_panel)(const struct dense_rows *rows, int64_t first, int64_t end,
                             const struct pass *pass, const struct NAME(layout) * layout,
                             const struct NAME(scratch) * scratch, double *panel) {
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
            const double factor = sqrt(curvature[i]) * per_unit,
                         bound = pass->inner_clip * per_unit;
            const int counts = block.norm[i] <= DBL_MAX;
            const double target = counts ? pass->target_factor * block.y[i] * per_unit : 0.0;
            double *place = panel + (done + i) * PANEL_LANES;
            if (pass->column_scales) {
                const double length =
                    NAME(put_scaled_row)(block.row[i], rows->n_columns, rows->intercept,
                                         counts ? block.scale[i] : 0.0, pass->column_scales, place);
                NAME(round_row)(rows->n_columns + rows->intercept,
                                NAME(bounded_factor)(factor, length, bound), target, place);
            } else
                NAME(put_row)(block.row[i], rows->n_columns, rows->intercept,
                              NAME(bounded_factor)(block.scale[i] * factor, block.norm[i], bound),
                              target, place);
        }
    }
}

/* The workspace of the other kernels, and after it what is needed here. */
static double *NAME(open_panel)(const struct dense_rows *rows, const struct pass *pass,
                                int64_t units, void *workspace, const struct NAME(layout) * layout,
                                struct NAME(scratch) * scratch) {
    *scratch = NAME(scratch_in)(workspace, layout);
    if (pass->w)
        NAME(pack_weights)(layout, pass->w, scratch->weights);
    double *panel = (double *)((char *)workspace + whole_units(workspace_bytes(rows, pass)));
    memset(panel, 0, (size_t)(units + 1) * PANEL_UNIT * sizeof *panel);
    return panel;
}

static void NAME(gram_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                           const struct pass *pass, void *out, void *workspace) {
    const int64_t width = rows->n_columns + rows->intercept + (pass->target_factor > 0.0);
    const int64_t units = panel_units(width);
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    double *panel = NAME(open_panel)(rows, pass, units, workspace, &layout, &scratch);
    uint64_t *tiles = (uint64_t *)(panel + (units + 1) * PANEL_UNIT);
    memset(tiles, 0, tiles_bytes(units));
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &layout, &scratch, panel);
        add_panel_tiles(panel, units, tiles);
    }
    add_tiles(tiles, width, out);
}

/* sums[j] += V_kj and squares[j] += round(factor V_kj^2) for row k of a panel, with
 * factor = min(1, clip / ||(V_kj^2)_j||). */
ALWAYS_INLINE void NAME(add_moments)(const double *panel, int64_t units, int row, double clip,
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
                (factor * (value * value) + INTEGER_SHIFT) - INTEGER_SHIFT;
        }
}

static void NAME(moment_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    int64_t *sum_out = out;
    const int64_t width = rows->n_columns + rows->intercept, units = panel_units(width + 1);
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    double *panel = NAME(open_panel)(rows, pass, units, workspace, &layout, &scratch);
    double *sums = panel + (units + 1) * PANEL_UNIT, *squares = sums + units * PANEL_LANES;
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &layout, &scratch, panel);
        memset(sums, 0, (size_t)(2 * units * PANEL_LANES) * sizeof *sums);
        for (int row = 0; row < PANEL_ROWS; row++)
            NAME(add_moments)(panel, units, row, pass->clip, sums, squares);
        for (int64_t j = 0; j < width; j++) {
            sum_out[j] += (int64_t)sums[j];
            sum_out[width + j] += (int64_t)squares[j];
        }
    }
}

static void NAME(norms_through)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                const struct pass *pass, void *out, void *workspace) {
    const double *matrix = pass->matrix;
    const int64_t n_out = pass->n_out;
    double *norms_out = out;
    const int64_t width = rows->n_columns + rows->intercept, units = panel_units(width + 1);
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    double *panel = NAME(open_panel)(rows, pass, units, workspace, &layout, &scratch);
    enum { LANES_OUT = TILE_UNITS * PANEL_LANES, PARTIAL_SUMS = 2 * PANEL_LANES };
    for (int64_t first = begin; first < end; first += PANEL_ROWS) {
        NAME(fill_panel)(rows, first, end, pass, &layout, &scratch, panel);
        for (int row = 0; row < PANEL_ROWS && first + row < end; row += TILE_ROWS) {
            double squares[TILE_ROWS][PARTIAL_SUMS] = {{0.0}}, out[TILE_ROWS][LANES_OUT];
            for (int64_t j = 0; j < n_out; j += LANES_OUT) {
                panel_times_matrix(panel, row, width, matrix + j, n_out, out);
                for (int r = 0; r < TILE_ROWS; r++)
                    for (int lane = 0; lane < LANES_OUT; lane++)
                        squares[r][(j + lane) % PARTIAL_SUMS] += out[r][lane] * out[r][lane];
            }
            for (int r = 0; r < TILE_ROWS && first + row + r < end; r++) {
                double total = 0.0;
                for (int lane = 0; lane < PARTIAL_SUMS; lane++)
                    total += squares[r][lane];
                norms_out[first + row + r - begin] = sqrt(total);
            }
        }
    }
}
