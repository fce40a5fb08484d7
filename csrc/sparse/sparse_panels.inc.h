/* Products of rows with weights, and exact sums, by column panels. Once per type of values.
 *
 * Needs: vector/real_types.inc.h, dense/clipped_gradient_sum.inc.h, dense/dense_rows.inc.h. */

ALWAYS_INLINE void NAME(add_entry)(uint32_t entry, REAL x, const REAL *restrict factors, REAL shift,
                                   int64_t *restrict sums) {
    sums[entry & 0xffff] += NAME(grid_steps)(factors[entry >> 16] * x, shift);
}

ALWAYS_INLINE void NAME(prefetch_entries)(const struct column_panels *panels, int64_t k,
                                          int64_t count) {
    prefetch_beyond(panels->entries + k, SPARSE_ENTRIES_AHEAD * sizeof *panels->entries,
                    count * (int64_t)sizeof *panels->entries, panels->reading);
    prefetch_beyond((const REAL *)panels->values + k, SPARSE_ENTRIES_AHEAD * sizeof(REAL),
                    count * (int64_t)sizeof(REAL), panels->reading);
}

/* For the entries of a tile: sums[place] += round(factors[row] x / grid). */
ALWAYS_INLINE void NAME(add_entries)(const struct column_panels *panels, int64_t begin, int64_t end,
                                     const REAL *factors, REAL shift, int64_t *sums) {
    enum { AT_ONCE = 16 };
    const uint32_t *entries = panels->entries;
    const REAL *x = panels->values;
    int64_t k = begin;
    for (; k + AT_ONCE <= end; k += AT_ONCE) {
        NAME(prefetch_entries)(panels, k, AT_ONCE);
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++)
            NAME(add_entry)(entries[k + i], x[k + i], factors, shift, sums);
    }
    for (; k < end; k++)
        NAME(add_entry)(entries[k], x[k], factors, shift, sums);
}

static void NAME(panel_sums)(const struct panel_pass *pass, int64_t panel, int64_t *sum_out) {
    const struct column_panels *panels = pass->panels;
    const int64_t first = panels->first_place[panel], last = panels->first_place[panel + 1];
    const int64_t *start = panels->starts + panel * panels->n_row_panels;
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->pass->grid;
    memset(sum_out + first, 0, (size_t)(last - first) * sizeof *sum_out);
    for (int64_t row_panel = 0; row_panel < panels->n_row_panels; row_panel++)
        NAME(add_entries)(panels, start[row_panel], start[row_panel + 1],
                          (const REAL *)pass->factors + row_panel * panels->rows_per_row_panel,
                          shift, sum_out + first);
}

/* For the entries of a tile: products[row] += x * w[place]. Entries of a row are in the order of
 * columns. */
ALWAYS_INLINE void NAME(multiply_entries)(const struct column_panels *panels, int64_t begin,
                                          int64_t end, const REAL *restrict w,
                                          REAL *restrict products) {
    enum { AT_ONCE = 16 };
    const uint32_t *entries = panels->entries;
    const REAL *x = panels->values;
    int64_t k = begin;
    for (; k + AT_ONCE <= end; k += AT_ONCE) {
        NAME(prefetch_entries)(panels, k, AT_ONCE);
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++)
            products[entries[k + i] >> 16] += x[k + i] * w[entries[k + i] & 0xffff];
    }
    for (; k < end; k++)
        products[entries[k] >> 16] += x[k] * w[entries[k] & 0xffff];
}

/* Partial sums of a leaf, for `count` rows of a row panel. */
static void NAME(sum_leaf)(const struct column_panels *panels, int64_t row_panel, int64_t leaf,
                           int64_t count, const REAL *w, REAL *products) {
    memset(products, 0, (size_t)count * sizeof *products);
    for (int64_t t = panels->first_panel[leaf]; t < panels->first_panel[leaf + 1]; t++) {
        const int64_t *start = panels->starts + t * panels->n_row_panels + row_panel;
        NAME(multiply_entries)(panels, start[0], start[1], w + panels->first_place[t], products);
    }
}

/* workspace[i] = <x_i, w> with the bits of dot(), for `count` rows of a row panel. The tree of
 * leaves is added up from left to right; the pending sums form a stack of arrays. */
static const REAL *NAME(multiply_row_panel)(const struct column_panels *panels, int64_t row_panel,
                                            int64_t count, const REAL *w, REAL *workspace) {
    REAL *top = workspace;
    for (int64_t leaf = 0; leaf < panels->order.n_slots; leaf++) {
        NAME(sum_leaf)(panels, row_panel, leaf, count, w, top);
        for (int64_t right = leaf; right & 1; right >>= 1) {
            REAL *left = top - panels->rows_per_row_panel;
#pragma omp simd
            for (int64_t i = 0; i < count; i++)
                left[i] += top[i];
            top = left;
        }
        top += panels->rows_per_row_panel;
    }
    return workspace;
}

/* Reads a block of rows; products of rows that do not count become 0. */
ALWAYS_INLINE void NAME(read_products)(const struct dense_rows *rows, int64_t first, int64_t end,
                                       const REAL *product, struct NAME(block) * block, double *p) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const int past_end = first + i >= end;
        const int counts = NAME(read_target)(rows, past_end ? 0 : first + i, past_end, i, block);
        p[i] = counts ? (double)product[i] : 0.0;
    }
    NAME(read_scales)(rows, ROWS_PER_BLOCK, block);
}

static int64_t NAME(panel_factors)(const struct panel_pass *pass, int64_t row_panel,
                                   void *workspace) {
    const struct dense_rows *rows = pass->rows;
    const int64_t most = pass->panels->rows_per_row_panel, begin = row_panel * most;
    const int64_t left = rows->n_rows - begin, count = left < most ? left : most;
    const int64_t end = begin + count;
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->pass->grid;
    const REAL *product =
        NAME(multiply_row_panel)(pass->panels, row_panel, count, pass->weights, workspace);
    int64_t sum = 0;
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK];
        REAL clipped[ROWS_PER_BLOCK];
        int64_t rounded[ROWS_PER_BLOCK];
        const int64_t here = end - first < ROWS_PER_BLOCK ? end - first : ROWS_PER_BLOCK;
        NAME(read_products)(rows, first, end, product + first - begin, &block, p);
        NAME(scale_products)(ROWS_PER_BLOCK, &block, pass->intercept, p);
        NAME(clip_predictions)(rows, ROWS_PER_BLOCK, first, end, pass->pass, &block, p, clipped);
        memcpy((REAL *)pass->factors + first, clipped, (size_t)here * sizeof *clipped);
        sum += NAME(rounded_factors)(ROWS_PER_BLOCK, clipped, shift, rounded);
    }
    return sum;
}
