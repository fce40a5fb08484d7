/* The partial sums that dot() keeps for a dense row, for sparse rows. */
#ifndef DPERM_SPARSE_LANE_SUMS_H
#define DPERM_SPARSE_LANE_SUMS_H

#include "dense/dense_block.h"

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

#endif
