/* Classes are split into tiles of CLASSES_PER_TILE; the last one holds the rest. Tiles determine
 * what stays in registers; the arithmetic of a row and a class does not depend on them. */
#ifndef DPERM_CLASS_TILES_H
#define DPERM_CLASS_TILES_H

#include "vector/lanes.h"

/* Sums of one tile, and products of some rows with one tile, fit into the registers: 5 classes * 2
 * vectors of sums, or 2 rows * 5 classes, of 16; 4 rows * 5 classes of the 32 of AVX-512. */
#define CLASSES_PER_TILE 5
#define VECTORS_PER_SUM (VECTORS_PER_UNIT < 2 ? 1 : 2)
#ifdef __AVX512F__
#define ROWS_PER_PRODUCT 4
#else
#define ROWS_PER_PRODUCT 2
#endif

ALWAYS_INLINE int64_t tile_width(int64_t n_classes, int64_t first_class) {
    const int64_t left = n_classes - first_class;
    return left < CLASSES_PER_TILE ? left : CLASSES_PER_TILE;
}

/* CALL(width) with the width as a compile-time constant. */
#define FOR_TILE_WIDTH(width, CALL)                                                                \
    switch (width) {                                                                               \
    case 1:                                                                                        \
        CALL(1) break;                                                                             \
    case 2:                                                                                        \
        CALL(2) break;                                                                             \
    case 3:                                                                                        \
        CALL(3) break;                                                                             \
    case 4:                                                                                        \
        CALL(4) break;                                                                             \
    default:                                                                                       \
        CALL(CLASSES_PER_TILE) break;                                                              \
    }

#endif
