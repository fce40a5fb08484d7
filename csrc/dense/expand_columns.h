/* Columns to rows: a transposition. See kernel_table.h. */
#ifndef DPERM_EXPAND_COLUMNS_H
#define DPERM_EXPAND_COLUMNS_H

#include <string.h>

#include "dense/columns_matrix.h"
#include "kernel_table.h"
#include "vector/real_types.h"

/* Entries i .. i + QUAD - 1 of four columns, to four rows of x_out. */
ALWAYS_INLINE void NAME(move_tile)(const REAL *const *columns, int64_t i, int64_t n_columns,
                                   REAL *x_out) {
    REAL tile[QUAD][QUAD];
    for (int j = 0; j < QUAD; j++)
        memcpy(tile[j], columns[j] + i, sizeof tile[j]);
    for (int k = 0; k < QUAD; k++) {
        const REAL row[QUAD] = {tile[0][k], tile[1][k], tile[2][k], tile[3][k]};
        memcpy(x_out + k * n_columns, row, sizeof row);
    }
}

static void NAME(interleave)(const struct columns_matrix *matrix, int64_t first, int64_t count,
                             REAL *x_out) {
    const REAL *const *columns = (const REAL *const *)matrix->columns;
    const int64_t d = matrix->n_columns, whole = count / QUAD * QUAD;
    int64_t j = 0;
    for (; j + COLUMNS_AT_ONCE <= d; j += COLUMNS_AT_ONCE)
        for (int64_t i = 0; i < whole; i += QUAD)
            for (int64_t tile = j; tile < j + COLUMNS_AT_ONCE; tile += QUAD)
                NAME(move_tile)(columns + tile, first + i, d, x_out + i * d + tile);
    for (; j < d; j++)
        for (int64_t i = 0; i < whole; i++)
            x_out[i * d + j] = columns[j][first + i];
    for (int64_t i = whole; i < count; i++)
        for (j = 0; j < d; j++)
            x_out[i * d + j] = columns[j][first + i];
}

static void NAME(expand_columns)(const void *source, const int64_t *places, int64_t first,
                                 int64_t count, void *x_out) {
    const struct columns_matrix *matrix = source;
    const int64_t d = matrix->n_columns;
    if (!places)
        NAME(interleave)(matrix, first, count, x_out);
    else
        for (int64_t j = 0; j < d; j++) {
            const REAL *column = matrix->columns[j];
            for (int64_t k = 0; k < count; k++)
                ((REAL *)x_out)[k * d + j] = column[places[k]];
        }
}

#endif
