/* Clipped gradient sums at several weight vectors: a block of rows is read from memory once, and
 * from the cache for every model. Each sum has the bits of clipped_gradient_sum(): the same units,
 * in the same order. */

enum { NAME(wides_per_unit) = UNIT_BYTES / WIDE_BYTES };

/* Rows of a block unit by unit, one row after the other: aligned, for the widest vectors. */
static void NAME(pack_rows)(const struct NAME(block) * block, const struct NAME(layout) * layout,
                            struct read_ahead *ahead, REAL *packed) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        read_ahead(ahead);
        for (int64_t unit = 0; unit < layout->units; unit++, packed += LANES)
            memcpy(packed, block->row[i] + NAME(unit_offset)(layout, unit), UNIT_BYTES);
    }
}

/* p[m] = <x, w_m> for packed x and w_m, these `stride` apart: the additions of dot() for each
 * model, with one load of x for all of them. n_models, at most MODELS_PER_DOT, is a constant. */
ALWAYS_INLINE void NAME(model_dots)(const REAL *restrict x, const REAL *restrict w, int64_t stride,
                                    int n_models, const struct NAME(layout) * layout, REAL *p) {
    WIDE sum[MODELS_PER_DOT][4][NAME(wides_per_unit)];
    const int64_t fours = layout->full_units / 4 * 4;
    for (int u = 0; u < 4; u++) {
        WIDE chain[MODELS_PER_DOT][NAME(wides_per_unit)] = {{{0}}};
        for (int64_t unit = u; unit < fours; unit += 4)
            for (int v = 0; v < NAME(wides_per_unit); v++) {
                const int64_t at = unit * LANES + v * WIDE_LANES;
                for (int m = 0; m < n_models; m++)
                    chain[m][v] += *(const WIDE *)(x + at) * *(const WIDE *)(w + m * stride + at);
            }
        for (int64_t unit = fours; u == 0 && unit < layout->units; unit++)
            for (int v = 0; v < NAME(wides_per_unit); v++) {
                const int64_t at = unit * LANES + v * WIDE_LANES;
                for (int m = 0; m < n_models; m++)
                    chain[m][v] += *(const WIDE *)(x + at) * *(const WIDE *)(w + m * stride + at);
            }
        for (int m = 0; m < n_models; m++)
            for (int v = 0; v < NAME(wides_per_unit); v++)
                sum[m][u][v] = chain[m][v];
    }
    for (int m = 0; m < n_models; m++) {
        VECTOR unit[VECTORS_PER_UNIT];
        for (int v = 0; v < NAME(wides_per_unit); v++)
            sum[m][0][v] = (sum[m][0][v] + sum[m][1][v]) + (sum[m][2][v] + sum[m][3][v]);
        memcpy(unit, sum[m][0], UNIT_BYTES);
        p[m] = NAME(fold)(unit);
    }
}

/* p[m][i] = <x_i, w_m> for the packed rows of a block; see model_dots(). */
ALWAYS_INLINE void NAME(block_dots)(const REAL *x, const REAL *w, int64_t stride, int n_models,
                                    const struct NAME(layout) * layout, struct read_ahead *ahead,
                                    double (*p)[ROWS_PER_BLOCK]) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        REAL with[MODELS_PER_DOT];
        read_ahead(ahead);
        NAME(model_dots)(x + i * stride, w, stride, n_models, layout, with);
        for (int m = 0; m < n_models; m++)
            p[m][i] = (double)with[m];
    }
}

/* The same for up to MODELS_PER_DOT models. */
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

/* Adds what the packed rows of a block contribute to model k, and how often each; p: the products
 * of rows and weights. folds: of the block's rows, or NULL. */
static void NAME(add_to_model)(const struct dense_rows *rows, const struct NAME(block) * block,
                               const REAL *packed, const int64_t *count, const int32_t *folds,
                               int64_t n_folds, struct loss loss, const struct models *models,
                               int64_t k, const struct NAME(layout) * layout, double *p,
                               UNSIGNED *accumulator, int64_t *sum_out) {
    const int64_t dimension = rows->n_columns + rows->intercept, stride = layout->units * LANES;
    const double intercept = rows->intercept ? models->w[k * dimension + rows->n_columns] : 0.0;
    const REAL shift = ROUNDING_SHIFT * (REAL)models->grids[k];
    double s[ROWS_PER_BLOCK];
    REAL clipped[ROWS_PER_BLOCK];
    int64_t rounded[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
    NAME(gradient_factors)(ROWS_PER_BLOCK, block, loss, p, s);
    NAME(clip_factors)(ROWS_PER_BLOCK, s, block->norm, models->clips_in[k], clipped);
    for (int i = 0; folds && i < ROWS_PER_BLOCK && i < n_folds; i++)
        clipped[i] = folds[i] == k ? (REAL)0 : clipped[i];
    for (int i = 0; i < ROWS_PER_BLOCK; i += ROWS_PER_LOAD)
        NAME(add_packed_rows)(packed + i * stride, stride, clipped + i, shift, layout->units,
                              accumulator);
    if (rows->intercept)
        sum_out[rows->n_columns] += NAME(rounded_factors)(ROWS_PER_BLOCK, clipped, shift, rounded);
    if (count)
        NAME(add_repeats)(ROWS_PER_BLOCK, block, clipped, count, rows->n_columns, rows->intercept,
                          shift, sum_out);
}

static void NAME(clipped_gradient_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                        struct loss loss, const struct models *models,
                                        int64_t *sum_out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const int64_t n_models = models->n_models, dimension = rows->n_columns + rows->intercept;
    const int64_t stride = layout.units * LANES;
    REAL *packed = (REAL *)((char *)workspace + whole_units(workspace_bytes(rows->n_columns)));
    REAL *weights = packed + ROWS_PER_BLOCK * stride;
    UNSIGNED *accumulators = (UNSIGNED *)(weights + n_models * stride);
    int added = 0;
    memset(accumulators, 0, n_models * stride * sizeof(REAL));
    for (int64_t k = 0; k < n_models; k++)
        NAME(pack_weights)(&layout, models->w + k * dimension, weights + k * stride);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        int64_t counts[ROWS_PER_BLOCK];
        /* One half while this block is packed, the other while it meets the first models. */
        struct read_ahead ahead =
            NAME(rows_ahead)(rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const int64_t *count = NAME(read_counts)(rows, first, end, ROWS_PER_BLOCK, counts);
        const int32_t *folds = models->folds ? models->folds + first : NULL;
        NAME(pack_rows)(&block, &layout, &ahead, packed);
        for (int64_t tile = 0; tile < n_models; tile += MODELS_PER_DOT) {
            double p[MODELS_PER_DOT][ROWS_PER_BLOCK];
            const int64_t left = n_models - tile;
            const int64_t here = left < MODELS_PER_DOT ? left : MODELS_PER_DOT;
            NAME(tile_dots)(packed, weights + tile * stride, stride, here, &layout, &ahead, p);
            ahead.lines_per_call = 0;
            for (int64_t k = tile; k < tile + here; k++)
                NAME(add_to_model)(rows, &block, packed, count, folds, end - first, loss, models, k,
                                   &layout, p[k - tile], accumulators + k * stride,
                                   sum_out + k * dimension);
        }
        added += ROWS_PER_BLOCK;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            for (int64_t k = 0; k < n_models; k++)
                NAME(flush_rounded)(&layout, accumulators + k * stride,
                                    ROUNDING_SHIFT * (REAL)models->grids[k], added,
                                    sum_out + k * dimension);
            added = 0;
        }
    }
}
