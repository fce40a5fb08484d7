/* Clipped gradient sums at several weight vectors: a block of rows is read from memory once, and
 * from the cache for every model. Each sum has the bits of clipped_gradient_sum(): the same units,
 * in the same order.
 *
 * Needs: vector/real_types.inc.h, dense/clipped_gradient_sum.inc.h, dense/dense_rows.inc.h. */

enum { NAME(wides_per_unit) = UNIT_BYTES / WIDE_BYTES };

/* Rows of a block unit by unit, one row after the other: aligned, for the widest vectors, which
 * read rows that start anywhere at half the speed, once and not twice for each model. */
static void NAME(pack_rows)(const struct NAME(block) * block, const struct NAME(layout) * layout,
                            struct read_ahead *ahead, REAL *packed) {
    const int64_t whole = layout->full_units * LANES, stride = layout->units * LANES;
    for (int i = 0; i < ROWS_PER_BLOCK; i++, packed += stride) {
        const REAL *row = block->row[i];
        read_ahead(ahead);
        for (int64_t at = 0; at < whole; at += WIDE_LANES)
            *(WIDE *)(packed + at) = *(const LOOSE_WIDE *)(row + at);
        if (whole < stride)
            memcpy(packed + whole, row + layout->width - LANES, UNIT_BYTES);
    }
}

/* The two halves of a unit added up: where fold() begins. */
ALWAYS_INLINE void NAME(fold_once)(const WIDE *unit, REAL *half) {
#if WIDE_BYTES == UNIT_BYTES
    const NAME(vec32) sum = NAME(low_half)(*unit) + NAME(high_half)(*unit);
    memcpy(half, &sum, sizeof sum);
#else
    for (int v = 0; v < NAME(wides_per_unit) / 2; v++)
        *(WIDE *)(half + v * WIDE_LANES) = unit[v] + unit[v + NAME(wides_per_unit) / 2];
#endif
}

/* p[i] = what fold() makes of row i's unit, of which half[i] is the sum of halves. */
ALWAYS_INLINE void NAME(fold_rest)(const REAL (*half)[LANES / 2], double *p) {
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const REAL *h = half[i];
#if REAL_IS_F32
        p[i] = (double)(((h[0] + h[4]) + (h[2] + h[6])) + ((h[1] + h[5]) + (h[3] + h[7])));
#else
        p[i] = (h[0] + h[2]) + (h[1] + h[3]);
#endif
    }
}

/* sum[m] += products of a unit of x and of w_m. */
ALWAYS_INLINE void NAME(add_products)(const REAL *restrict x, const REAL *restrict w,
                                      int64_t stride, int n_models,
                                      WIDE (*sum)[NAME(wides_per_unit)]) {
    for (int v = 0; v < NAME(wides_per_unit); v++) {
        const WIDE here = *(const WIDE *)(x + v * WIDE_LANES);
        for (int m = 0; m < n_models; m++)
            sum[m][v] += here * *(const WIDE *)(w + m * stride + v * WIDE_LANES);
    }
}

/* <x, w_m> but for the last steps of fold(), for packed x and w_m, these `stride` apart: the
 * additions of dot() for each model, with one load of x for all of them, and as many of the four
 * accumulators at once as there are registers for. n_models, at most MODELS_PER_TILE, is a
 * constant. */
ALWAYS_INLINE void NAME(model_dots)(const REAL *restrict x, const REAL *restrict w, int64_t stride,
                                    int n_models, const struct NAME(layout) * layout,
                                    REAL (*half)[ROWS_PER_BLOCK][LANES / 2]) {
    enum { AT_ONCE = WIDE_BYTES == UNIT_BYTES ? 4 : 1 };
    WIDE sum[4][MODELS_PER_TILE][NAME(wides_per_unit)];
    const int64_t fours = layout->full_units / 4 * 4;
    for (int first = 0; first < 4; first += AT_ONCE) {
        WIDE chain[AT_ONCE][MODELS_PER_TILE][NAME(wides_per_unit)] = {{{{0}}}};
        for (int64_t unit = first; unit < fours; unit += 4)
            for (int u = 0; u < AT_ONCE; u++)
                NAME(add_products)(x + (unit + u) * LANES, w + (unit + u) * LANES, stride, n_models,
                                   chain[u]);
        for (int64_t unit = fours; first == 0 && unit < layout->units; unit++)
            NAME(add_products)(x + unit * LANES, w + unit * LANES, stride, n_models, chain[0]);
        for (int u = 0; u < AT_ONCE; u++)
            for (int m = 0; m < n_models; m++)
                for (int v = 0; v < NAME(wides_per_unit); v++)
                    sum[first + u][m][v] = chain[u][m][v];
    }
    for (int m = 0; m < n_models; m++) {
        for (int v = 0; v < NAME(wides_per_unit); v++)
            sum[0][m][v] = (sum[0][m][v] + sum[1][m][v]) + (sum[2][m][v] + sum[3][m][v]);
        NAME(fold_once)(sum[0][m], half[m][0]);
    }
}

/* p[m][i] = <x_i, w_m> for the packed rows of a block; see model_dots(). */
ALWAYS_INLINE void NAME(block_dots)(const REAL *x, const REAL *w, int64_t stride, int n_models,
                                    const struct NAME(layout) * layout, struct read_ahead *ahead,
                                    double (*p)[ROWS_PER_BLOCK]) {
    REAL half[MODELS_PER_TILE][ROWS_PER_BLOCK][LANES / 2] __attribute__((aligned(UNIT_BYTES)));
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        read_ahead(ahead);
        NAME(model_dots)(x + i * stride, w, stride, n_models, layout,
                         (REAL(*)[ROWS_PER_BLOCK][LANES / 2]) half[0][i]);
    }
    for (int m = 0; m < n_models; m++)
        NAME(fold_rest)((const REAL(*)[LANES / 2]) half[m], p[m]);
}

/* The same for up to MODELS_PER_TILE models. */
static void NAME(tile_dots)(const REAL *x, const REAL *w, int64_t stride, int64_t n_models,
                            const struct NAME(layout) * layout, struct read_ahead *ahead,
                            double (*p)[ROWS_PER_BLOCK]) {
    if (n_models == 4)
        NAME(block_dots)(x, w, stride, 4, layout, ahead, p);
    else if (n_models == 3)
        NAME(block_dots)(x, w, stride, 3, layout, ahead, p);
    else if (n_models == 2)
        NAME(block_dots)(x, w, stride, 2, layout, ahead, p);
    else
        NAME(block_dots)(x, w, stride, 1, layout, ahead, p);
}

/* As add_rounded_rows(), for ROWS_PER_LOAD packed rows. */
ALWAYS_INLINE void NAME(add_packed_rows)(const REAL *x, int64_t stride, const REAL *s, REAL shift,
                                         int64_t n_units, UNSIGNED *accumulator) {
    WIDE factor[ROWS_PER_LOAD];
    for (int i = 0; i < ROWS_PER_LOAD; i++)
        factor[i] = s[i] - (WIDE){0};
    for (int64_t at = 0; at < n_units * LANES; at += WIDE_LANES) {
        UNSIGNED_WIDE *place = (UNSIGNED_WIDE *)(accumulator + at);
        UNSIGNED_WIDE sum = *place;
        for (int i = 0; i < ROWS_PER_LOAD; i++)
            sum += (UNSIGNED_WIDE)(factor[i] * *(const WIDE *)(x + i * stride + at) + shift);
        *place = sum;
    }
}

/* What the rows of a block are multiplied with in the sums of `n` models from `tile` on; p: the
 * products of rows and weights. */
static void NAME(models_factors)(const struct dense_rows *rows, const struct NAME(block) * block,
                                 const struct pass *models, int64_t tile, int64_t n,
                                 const struct in_models here, double (*p)[ROWS_PER_BLOCK],
                                 REAL (*clipped)[ROWS_PER_BLOCK]) {
    const int64_t dimension = rows->n_columns + rows->intercept;
    double s[MODELS_PER_TILE][ROWS_PER_BLOCK], y[MODELS_PER_TILE][ROWS_PER_BLOCK];
    double cap[ROWS_PER_BLOCK];
    for (int64_t k = 0; k < n; k++) {
        const double *w = models->w + (tile + k) * dimension;
        const double intercept = intercept_of(rows, w);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            p[k][i] = block->scale[i] * (p[k][i] + intercept);
    }
    for (int k = 0; k < MODELS_PER_TILE; k++)
        memcpy(y[k], block->y, sizeof y[k]);
    loss_derivatives(models->loss, (int)n * ROWS_PER_BLOCK, p[0], y[0], s[0]);
    for (int64_t k = 0; k < n; k++) {
        const double *inner_clip = models->inner_clips + tile + k;
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            s[k][i] *= block->scale[i];
        for (int i = 0; i < ROWS_PER_BLOCK && here.weight; i++)
            s[k][i] *= here.weight[i];
        if (k == 0 || inner_clip[0] != inner_clip[-1])
            NAME(find_caps)(ROWS_PER_BLOCK, block->norm, *inner_clip, cap);
        NAME(clamp_factors)(ROWS_PER_BLOCK, s[k], cap, clipped[k]);
        for (int i = 0; i < here.n_folds; i++)
            clipped[k][i] = here.fold[i] == models->left_out[tile + k] ? (REAL)0 : clipped[k][i];
    }
}

/* What models share while the packed rows of a block are added to the sums of each. */
struct NAME(packed_block) {
    const struct dense_rows *rows;
    const struct NAME(block) * block;
    const REAL *packed; /* units * LANES a row */
    int64_t stride;
    const int64_t *count; /* how often each row counts, or NULL */
};

static void NAME(add_to_model)(const struct NAME(packed_block) * here, const REAL *clipped,
                               REAL shift, UNSIGNED *accumulator, int64_t *sum_out) {
    const int64_t stride = here->stride, n_columns = here->rows->n_columns;
    int64_t rounded[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i += ROWS_PER_LOAD)
        NAME(add_packed_rows)(here->packed + i * stride, stride, clipped + i, shift, stride / LANES,
                              accumulator);
    if (here->rows->intercept)
        sum_out[n_columns] += NAME(rounded_factors)(ROWS_PER_BLOCK, clipped, shift, rounded);
    if (here->count)
        NAME(add_repeats)(ROWS_PER_BLOCK, here->block, clipped, here->count, here->rows, shift,
                          sum_out);
}

static void NAME(clipped_gradient_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                        const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const int64_t n_models = pass->n_models, dimension = rows->n_columns + rows->intercept;
    const int64_t stride = layout.units * LANES;
    REAL *packed = (REAL *)((char *)workspace + whole_units(workspace_bytes(rows, pass)));
    REAL *weights = packed + ROWS_PER_BLOCK * stride;
    UNSIGNED *accumulators = (UNSIGNED *)(weights + n_models * stride);
    int64_t *sum_out = out;
    int added = 0;
    memset(accumulators, 0, n_models * stride * sizeof(REAL));
    for (int64_t k = 0; k < n_models; k++)
        NAME(pack_weights)(&layout, pass->w + k * dimension, weights + k * stride);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double row_weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        const struct in_models in_models = block_in_models(pass, rows, first, end, row_weights);
        /* One half while this block is packed, the other while it meets the first models. */
        struct read_ahead ahead =
            NAME(rows_ahead)(rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const struct NAME(packed_block)
            here = {rows, &block, packed, stride,
                    NAME(read_multiplicity)(rows, first, end, ROWS_PER_BLOCK, counts)};
        NAME(pack_rows)(&block, &layout, &ahead, packed);
        for (int64_t tile = 0; tile < n_models; tile += MODELS_PER_TILE) {
            double p[MODELS_PER_TILE][ROWS_PER_BLOCK];
            REAL clipped[MODELS_PER_TILE][ROWS_PER_BLOCK];
            const int64_t left = n_models - tile;
            const int64_t n = left < MODELS_PER_TILE ? left : MODELS_PER_TILE;
            NAME(tile_dots)(packed, weights + tile * stride, stride, n, &layout, &ahead, p);
            ahead.lines_per_call = 0;
            NAME(models_factors)(rows, &block, pass, tile, n, in_models, p, clipped);
            for (int64_t k = tile; k < tile + n; k++)
                NAME(add_to_model)(&here, clipped[k - tile], ROUNDING_SHIFT * (REAL)pass->grids[k],
                                   accumulators + k * stride, sum_out + k * dimension);
        }
        added += ROWS_PER_BLOCK;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            for (int64_t k = 0; k < n_models; k++)
                NAME(flush_rounded)(&layout, accumulators + k * stride,
                                    ROUNDING_SHIFT * (REAL)pass->grids[k], added,
                                    sum_out + k * dimension);
            added = 0;
        }
    }
}
