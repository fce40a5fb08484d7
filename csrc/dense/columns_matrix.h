/* A design matrix stored column by column, as in files and data frames. */
#ifndef DPERM_COLUMNS_MATRIX_H
#define DPERM_COLUMNS_MATRIX_H

#include <stdint.h>

struct columns_matrix {
    const void *const *columns; /* n_columns arrays of reals, one type for all */
    int64_t n_columns;
};

enum { QUAD = 4 };            /* entries of a column that are moved together */
enum { COLUMNS_AT_ONCE = 8 }; /* as many streams as hardware prefetchers follow */

/* Tiles, see column_tiles.h. */
enum { GROUP_BYTES = 1 << 17, MAX_GROUP_TILES = 32, TILES_PER_LOAD = 4, COLUMNS_AHEAD = 1 };

#endif
