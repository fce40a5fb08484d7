/* The partial sums that dot() keeps for a dense row, for sparse rows. Once per arithmetic.
 *
 * Needs: vector/real_types.inc.h, dense/dense_rows.inc.h. */

#undef SLOTS
#define SLOTS (ACCUMULATORS * LANES)

/* Adds up partial sums as dot() does. */
ALWAYS_INLINE REAL NAME(fold_slots)(const REAL *slot) {
    VECTOR sum[VECTORS_PER_UNIT];
    for (int v = 0; v < VECTORS_PER_UNIT; v++) {
        const VECTOR *at = (const VECTOR *)(slot + v * VECTOR_LANES);
        const int unit = LANES / VECTOR_LANES;
        sum[v] = (at[0] + at[unit]) + (at[2 * unit] + at[3 * unit]);
    }
    return NAME(fold)(sum);
}
