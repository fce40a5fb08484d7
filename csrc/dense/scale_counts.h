/* Norms of scaled rows, and histograms, on powers of two, of these norms and of the entries of each
 * column. See kernel_table.h. */
#ifndef DPERM_SCALE_COUNTS_H
#define DPERM_SCALE_COUNTS_H

#include "dense/gram_sum.h"

/* k for a magnitude in (2^-(k + 1), 2^-k]; n_bins for one below the last bin. The factor corrects
 * for powers of two that earlier arithmetic rounded up. */
static int64_t bin_of_magnitude(double magnitude, int64_t n_bins) {
    const uint64_t bits = bits_f64(magnitude * (1.0 - 0x1p-30));
    const int64_t k = 1022 - (int64_t)(bits >> 52); /* the number is positive */
    return k < 0 ? 0 : k < n_bins ? k : n_bins;
}

/* The largest integer w with m w^2 <= scale^2, for m and an integer scale below 2^20. */
static int64_t scale_over_root(int64_t m, int64_t scale) {
    int64_t w = (int64_t)((double)scale / sqrt((double)m));
    while (m * w * w > scale * scale)
        w--;
    return w;
}

static void NAME(norms_scaled)(const struct dense_rows *rows, int64_t begin, int64_t end,
                               const struct pass *pass, void *out, void *workspace) {
    double *norms_out = out;
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        NAME(read_block)(rows, first, end - first, &panel.layout, &panel.scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            norms_out[first + i - begin] =
                NAME(put_scaled_row)(rows, block.row[i], block.scale[i], pass, panel.entries);
    }
}

static void NAME(norm_counts)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        NAME(read_block)(rows, first, end - first, &panel.layout, &panel.scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            if (!(block.norm[i] <= DBL_MAX))
                continue;
            const double length =
                NAME(put_scaled_row)(rows, block.row[i], block.scale[i], pass, panel.entries) /
                pass->inner_clip;
            const int64_t k = bin_of_magnitude(length * length, pass->n_bins);
            counts[k < pass->n_bins ? k : pass->n_bins - 1]++;
        }
    }
}

static void NAME(magnitude_counts)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                   const struct pass *pass, void *out, void *workspace) {
    int64_t *counts = out;
    const struct NAME(panel) panel = NAME(open_panel)(rows, pass, workspace);
    const int64_t n_bins = pass->n_bins;
    int64_t *found = (int64_t *)panel.entries; /* places in `counts` */
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        NAME(read_block)(rows, first, end - first, &panel.layout, &panel.scratch, &block);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const double unit = block.scale[i] / pass->inner_clip;
            int64_t n_found = 0;
            for (int64_t j = 0; j < rows->n_columns && block.norm[i] <= DBL_MAX; j++) {
                const double magnitude = fabs((double)block.row[i][j]) * unit;
                const int64_t k = bin_of_magnitude(magnitude, n_bins);
                found[n_found] = j * n_bins + k;
                n_found += k < n_bins;
            }
            const int64_t weight =
                n_found ? scale_over_root(n_found, (int64_t)(1.0 / pass->grid)) : 0;
            for (int64_t j = 0; j < n_found; j++)
                counts[found[j]] += weight;
        }
    }
}

#endif
