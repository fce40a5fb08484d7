/* Products of small matrices of integers stored as doubles.
 *
 * A panel is PANEL_ROWS rows of integers, split into units of PANEL_LANES columns: entry (k, j) is
 * at [j / PANEL_LANES][k][j % PANEL_LANES]. As long as no sum of magnitudes reaches 2^51, every
 * product and sum below is exact: neither the order of additions nor a fused multiply-add changes
 * a bit, so each instruction set uses its fastest instructions.
 */
#ifndef DPERM_INTEGER_PANELS_H
#define DPERM_INTEGER_PANELS_H

#include <stdint.h>
#include <string.h>

#include "vector/grid_rounding.h"
#include "vector/lanes.h"

enum { PANEL_ROWS = 64, PANEL_LANES = 8, PANEL_UNIT = PANEL_ROWS * PANEL_LANES };

#if defined(__AVX512F__)
#include <immintrin.h>
enum { TILE_BYTES = 64, TILE_ROWS = 8, TILE_UNITS = 2 };
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { TILE_BYTES = 32, TILE_ROWS = 4, TILE_UNITS = 1 };
#else
enum { TILE_BYTES = VECTOR_BYTES, TILE_ROWS = 2, TILE_UNITS = 1 };
#endif
enum { TILE_LANES = TILE_BYTES / 8, TILE_VECTORS = TILE_UNITS * PANEL_LANES / TILE_LANES };

typedef double tile_vec __attribute__((vector_size(TILE_BYTES), aligned(8), may_alias));
typedef uint64_t tile_bits __attribute__((vector_size(TILE_BYTES), aligned(8), may_alias));

ALWAYS_INLINE tile_vec multiply_add(double a, tile_vec b, tile_vec sum) {
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum);
#elif defined(__AVX2__) && defined(__FMA__)
    return _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum);
#else
    return (a - (tile_vec){0}) * b + sum;
#endif
}

/* Panels have one more unit, of zeros, because tiles may be two units wide. */
ALWAYS_INLINE int64_t panel_units(int64_t width) {
    return (width + PANEL_LANES - 1) / PANEL_LANES;
}

/* sums[unit][r][lane] += sum_k left[k][r] right[unit][k][lane] for r < PANEL_LANES and TILE_UNITS
 * units. The accumulators start at SHIFT_F64, so that their bits hold the integer sum. */
ALWAYS_INLINE void add_panel_tile(const double *left, const double *right, uint64_t *sums) {
    for (int first = 0; first < PANEL_LANES; first += TILE_ROWS) {
        tile_vec sum[TILE_ROWS][TILE_VECTORS];
        for (int r = 0; r < TILE_ROWS; r++)
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[r][v] = SHIFT_F64 - (tile_vec){0};
        for (int k = 0; k < PANEL_ROWS; k++) {
            tile_vec b[TILE_VECTORS];
            for (int v = 0; v < TILE_VECTORS; v++) {
                const int at = v * TILE_LANES;
                b[v] = *(const tile_vec *)(right + at / PANEL_LANES * PANEL_UNIT + k * PANEL_LANES +
                                           at % PANEL_LANES);
            }
            for (int r = 0; r < TILE_ROWS; r++)
                for (int v = 0; v < TILE_VECTORS; v++)
                    sum[r][v] = multiply_add(left[k * PANEL_LANES + first + r], b[v], sum[r][v]);
        }
        for (int r = 0; r < TILE_ROWS; r++)
            for (int v = 0; v < TILE_VECTORS; v++) {
                const int at = v * TILE_LANES;
                uint64_t *place = sums +
                                  (at / PANEL_LANES * PANEL_LANES + first + r) * PANEL_LANES +
                                  at % PANEL_LANES;
                *(tile_bits *)place += (tile_bits)sum[r][v] - bits_f64(SHIFT_F64);
            }
    }
}

/* Tiles of a triangle of that many units, stored as a square. */
static inline size_t tiles_bytes(int64_t units) {
    return (size_t)(units * (units + 1) * PANEL_LANES * PANEL_LANES) * sizeof(uint64_t);
}

/* Adds the products of all pairs of columns of a panel to the tiles. */
ALWAYS_INLINE void add_panel_tiles(const double *panel, int64_t units, uint64_t *tiles) {
    for (int64_t i = 0; i < units; i++)
        for (int64_t j = i; j < units; j += TILE_UNITS)
            add_panel_tile(panel + i * PANEL_UNIT, panel + j * PANEL_UNIT,
                           tiles + (i * (units + 1) + j) * PANEL_LANES * PANEL_LANES);
}

/* Adds the upper triangle held in the tiles to sum_out, row by row. */
ALWAYS_INLINE void add_tiles(const uint64_t *tiles, int64_t width, int64_t *sum_out) {
    const int64_t units = panel_units(width), tile = PANEL_LANES * PANEL_LANES;
    for (int64_t i = 0; i < width; i++)
        for (int64_t j = i; j < width; j++)
            *sum_out++ += (int64_t)tiles[(i / PANEL_LANES * (units + 1) + j / PANEL_LANES) * tile +
                                         i % PANEL_LANES * PANEL_LANES + j % PANEL_LANES];
}

/* out[r][lane] = sum_i panel[i][first + r] matrix[i][lane] for r < TILE_ROWS and TILE_UNITS units
 * of lanes; `matrix` has `stride` columns, i runs over `width` columns of the panel. */
ALWAYS_INLINE void panel_times_matrix(const double *panel, int first, int64_t width,
                                      const double *matrix, int64_t stride,
                                      double out[TILE_ROWS][TILE_UNITS * PANEL_LANES]) {
    tile_vec sum[TILE_ROWS][TILE_VECTORS];
    memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < width; i++) {
        const double *column = panel + i / PANEL_LANES * PANEL_UNIT + i % PANEL_LANES;
        for (int r = 0; r < TILE_ROWS; r++)
            for (int v = 0; v < TILE_VECTORS; v++)
                sum[r][v] = multiply_add(column[(first + r) * PANEL_LANES],
                                         *(const tile_vec *)(matrix + i * stride + v * TILE_LANES),
                                         sum[r][v]);
    }
    for (int r = 0; r < TILE_ROWS; r++)
        for (int v = 0; v < TILE_VECTORS; v++)
            *(tile_vec *)&out[r][v * TILE_LANES] = sum[r][v];
}

#endif
