/* The partial sums of a dense row's product, as a sparse row adds to them. Once per arithmetic. */

#undef SLOTS
#define SLOTS (ACCUMULATORS * LANES)

/* What dot() does with its partial sums. */
ALWAYS_INLINE REAL NAME(fold_slots)(const REAL *slot) {
    VECTOR sum[VECTORS_PER_UNIT];
    for (int v = 0; v < VECTORS_PER_UNIT; v++) {
        const VECTOR *at = (const VECTOR *)(slot + v * VECTOR_LANES);
        const int unit = LANES / VECTOR_LANES;
        sum[v] = (at[0] + at[unit]) + (at[2 * unit] + at[3 * unit]);
    }
    return NAME(fold)(sum);
}

/* clipped[i] = s_i of clipped_gradient_sum_fn for the rows of a block, from their predictions. */
ALWAYS_INLINE void NAME(clip_predictions)(const struct dense_rows *rows, int64_t first, int64_t end,
                                          struct loss loss, double clip_in,
                                          struct NAME(block) * block, const double *p,
                                          REAL *clipped) {
    double s[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK && rows->predictions && first + i < end; i++)
        rows->predictions[first + i] = p[i];
    NAME(gradient_factors)(ROWS_PER_BLOCK, block, loss, p, s);
    if (rows->clip_norms)
        NAME(read_clip_norms)(rows, first, ROWS_PER_BLOCK, block);
    NAME(clip_factors)(ROWS_PER_BLOCK, s, block->norm, clip_in, clipped);
}
