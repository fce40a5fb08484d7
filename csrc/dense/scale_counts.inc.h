/* How long rows are, and how large the entries of their columns: histograms on powers of two. See
 * kernel_table.h.
 *
 * Needs: vector/real_types.inc.h, dense/dense_rows.inc.h, dense/gram_sum.inc.h. */

#if !REAL_IS_F32
/* k for a magnitude in (2^-(k + 1), 2^-k]; n_bins for one below the last bin. Exact powers of two
 * may have been rounded up by the arithmetic before. */
static int64_t bin_of_magnitude(double magnitude, int64_t n_bins) {
    uint64_t bits;
    magnitude *= 1.0 - 0x1p-30;
    memcpy(&bits, &magnitude, sizeof bits);
    const int64_t k = 1022 - (int64_t)(bits >> 52); /* of a positive number */
    return k < 0 ? 0 : k < n_bins ? k : n_bins;
}
#endif

static void NAME(norm_counts)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const int64_t units = panel_units(rows->n_columns + rows->intercept + 1);
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    struct NAME(scratch) scratch;
    double *panel = NAME(open_panel)(rows, pass, units, workspace, &layout, &scratch);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            if (!(block.norm[i] <= DBL_MAX))
                continue;
            const double length =
                NAME(put_scaled_row)(block.row[i], rows->n_columns, rows->intercept, block.scale[i],
                                     pass->column_scales, panel) /
                pass->inner_clip;
            const int64_t k = bin_of_magnitude(length * length, pass->n_bins);
            counts[k < pass->n_bins ? k : pass->n_bins - 1]++;
        }
    }
}

static void NAME(magnitude_counts)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                   const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const int64_t n_bins = pass->n_bins;
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const double unit = block.scale[i] / pass->inner_clip;
            if (!(block.norm[i] <= DBL_MAX))
                continue;
            for (int64_t j = 0; j < rows->n_columns; j++) {
                const int64_t k = bin_of_magnitude(fabs((double)block.row[i][j]) * unit, n_bins);
                if (k < n_bins)
                    counts[j * n_bins + k]++;
            }
        }
    }
}
