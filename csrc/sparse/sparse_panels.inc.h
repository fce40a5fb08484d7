/* Products of rows with weights, and exact sums, over strips of columns. Once per type of values.
 */

ALWAYS_INLINE void NAME(add_entry)(uint32_t entry, REAL x, const REAL *restrict factors, REAL shift,
                                   int64_t *restrict sums) {
    UNSIGNED shift_bits, bits;
    const REAL rounded = factors[entry >> 16] * x + shift;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    memcpy(&bits, &rounded, sizeof bits);
    sums[entry & 0xffff] += (INTEGER)(bits - shift_bits);
}

ALWAYS_INLINE void NAME(ask_for_entries)(const struct column_strips *strips, int64_t k,
                                         int64_t count) {
    ask_beyond(strips->entries + k, SPARSE_ENTRIES_AHEAD * sizeof *strips->entries,
               count * (int64_t)sizeof *strips->entries, strips->reading);
    ask_beyond((const REAL *)strips->values + k, SPARSE_ENTRIES_AHEAD * sizeof(REAL),
               count * (int64_t)sizeof(REAL), strips->reading);
}

/* The entries of a tile: sums[place] += round(factors[row] x / grid). */
ALWAYS_INLINE void NAME(add_entries)(const struct column_strips *strips, int64_t begin, int64_t end,
                                     const REAL *factors, REAL shift, int64_t *sums) {
    enum { AT_ONCE = 16 };
    const uint32_t *entries = strips->entries;
    const REAL *x = strips->values;
    int64_t k = begin;
    for (; k + AT_ONCE <= end; k += AT_ONCE) {
        NAME(ask_for_entries)(strips, k, AT_ONCE);
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++)
            NAME(add_entry)(entries[k + i], x[k + i], factors, shift, sums);
    }
    for (; k < end; k++)
        NAME(add_entry)(entries[k], x[k], factors, shift, sums);
}

static void NAME(sum_strip)(const struct column_strips *strips, int64_t strip, const void *factors,
                            double grid, int64_t *sum_out) {
    const int64_t first = strips->first_place[strip], last = strips->first_place[strip + 1];
    const int64_t *start = strips->starts + strip * strips->n_slabs;
    const REAL shift = ROUNDING_SHIFT * (REAL)grid;
    memset(sum_out + first, 0, (size_t)(last - first) * sizeof *sum_out);
    for (int64_t slab = 0; slab < strips->n_slabs; slab++)
        NAME(add_entries)(strips, start[slab], start[slab + 1],
                          (const REAL *)factors + slab * strips->slab_rows, shift, sum_out + first);
}

/* The entries of a tile: products[row] += x * w[place]. Those of a row are in the order of columns.
 */
ALWAYS_INLINE void NAME(multiply_entries)(const struct column_strips *strips, int64_t begin,
                                          int64_t end, const REAL *restrict w,
                                          REAL *restrict products) {
    enum { AT_ONCE = 16 };
    const uint32_t *entries = strips->entries;
    const REAL *x = strips->values;
    int64_t k = begin;
    for (; k + AT_ONCE <= end; k += AT_ONCE) {
        NAME(ask_for_entries)(strips, k, AT_ONCE);
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++)
            products[entries[k + i] >> 16] += x[k + i] * w[entries[k + i] & 0xffff];
    }
    for (; k < end; k++)
        products[entries[k] >> 16] += x[k] * w[entries[k] & 0xffff];
}

/* Partial sums of a leaf, for `count` rows of a slab. */
static void NAME(sum_leaf)(const struct column_strips *strips, int64_t slab, int64_t leaf,
                           int64_t count, const REAL *w, REAL *products) {
    memset(products, 0, (size_t)count * sizeof *products);
    for (int64_t t = strips->first_strip[leaf]; t < strips->first_strip[leaf + 1]; t++) {
        const int64_t *start = strips->starts + t * strips->n_slabs + slab;
        NAME(multiply_entries)(strips, start[0], start[1], w + strips->first_place[t], products);
    }
}

/* workspace[i] = <x_i, w> with the bits of dot(), for `count` rows of a slab. The tree of leaves is
 * added up from left to right: what is not yet added is a stack of arrays. */
static const REAL *NAME(multiply_slab)(const struct column_strips *strips, int64_t slab,
                                       int64_t count, const REAL *w, REAL *workspace) {
    REAL *top = workspace;
    for (int64_t leaf = 0; leaf < strips->order.n_slots; leaf++) {
        NAME(sum_leaf)(strips, slab, leaf, count, w, top);
        for (int64_t right = leaf; right & 1; right >>= 1) {
            REAL *left = top - strips->slab_rows;
#pragma omp simd
            for (int64_t i = 0; i < count; i++)
                left[i] += top[i];
            top = left;
        }
        top += strips->slab_rows;
    }
    return workspace;
}

/* A block of rows; the products of those that do not count become 0. */
ALWAYS_INLINE void NAME(read_products)(const struct dense_rows *rows, int64_t first, int64_t end,
                                       const REAL *product, struct NAME(block) * block, double *p) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const int past_end = first + i >= end;
        const int counts = NAME(read_target)(rows, past_end ? 0 : first + i, past_end, i, block);
        p[i] = counts ? (double)product[i] : 0.0;
    }
    NAME(read_scales)(rows, ROWS_PER_BLOCK, block);
}

static int64_t NAME(clipped_factors)(const struct dense_rows *rows,
                                     const struct column_strips *strips, int64_t slab,
                                     struct loss loss, const void *w, double intercept,
                                     double clip_in, double grid, void *workspace,
                                     void *factor_out) {
    const int64_t begin = slab * strips->slab_rows, left = rows->n_rows - begin;
    const int64_t count = left < strips->slab_rows ? left : strips->slab_rows, end = begin + count;
    const REAL shift = ROUNDING_SHIFT * (REAL)grid;
    const REAL *product = NAME(multiply_slab)(strips, slab, count, w, workspace);
    int64_t sum = 0;
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK];
        REAL clipped[ROWS_PER_BLOCK];
        int64_t rounded[ROWS_PER_BLOCK];
        const int64_t here = end - first < ROWS_PER_BLOCK ? end - first : ROWS_PER_BLOCK;
        NAME(read_products)(rows, first, end, product + first - begin, &block, p);
        NAME(clip_products)(rows, ROWS_PER_BLOCK, first, end, loss, intercept, clip_in, &block, p,
                            clipped);
        memcpy((REAL *)factor_out + first, clipped, (size_t)here * sizeof *clipped);
        sum += NAME(rounded_factors)(ROWS_PER_BLOCK, clipped, shift, rounded);
    }
    return sum;
}
