/* The clipped gradient sum of a matrix that is kept column by column. The rows are never made:
 * tiles of ROWS_PER_BLOCK rows are copied out of the columns, in which entry i of column j is
 * tile[j * ROWS_PER_BLOCK + i], and a lane of a vector is a row. Whatever is computed of a row is
 * computed in the order of the kernels for dense rows: the bits are theirs. Included once per
 * element type. */
#ifndef DPERM_COLUMN_TILES_H
#define DPERM_COLUMN_TILES_H

#include "dense/columns_matrix.h"
#include "dense/gradient_factors.h"
#include "dense/row_blocks.h"
#include "dense/row_norms.h"

enum {
    NAME(TILE_VECTORS) = ROWS_PER_BLOCK / WIDE_LANES,
    NAME(DOUBLES_PER_WIDE) = WIDE_BYTES / (int)sizeof(double),
    NAME(DOUBLE_VECTORS) = ROWS_PER_BLOCK / NAME(DOUBLES_PER_WIDE)
};

/* Tiles that are copied together: as long pieces of columns as fit into half of a small
 * second-level cache. */
static int64_t NAME(tiles_at_once)(int64_t n_columns) {
    const int64_t fit = GROUP_BYTES / (n_columns * ROWS_PER_BLOCK * (int64_t)sizeof(REAL));
    return fit < 1 ? 1 : fit < MAX_GROUP_TILES ? fit : MAX_GROUP_TILES;
}

struct NAME(tile_scratch) {
    REAL *weights;         /* units * LANES, packed */
    UNSIGNED *accumulator; /* one for every entry of a tile */
    REAL *tiles;
};

static struct NAME(tile_scratch)
    NAME(tile_scratch_in)(void *workspace, const struct NAME(layout) * layout) {
    struct NAME(tile_scratch) scratch;
    scratch.weights = workspace;
    scratch.accumulator = (UNSIGNED *)workspace + layout->units * LANES;
    scratch.tiles = (REAL *)scratch.accumulator + layout->n_columns * ROWS_PER_BLOCK;
    return scratch;
}

/* A tile of sums, a group of tiles, and the weights. */
static int64_t columns_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    (void)pass;
    const int64_t tiles = NAME(tiles_at_once)(rows->n_columns) * (int64_t)sizeof(REAL);
    return UNIT_BYTES * NAME(layout_of)(rows->n_columns).units +
           (tiles + (int64_t)sizeof(REAL)) * rows->n_columns * ROWS_PER_BLOCK;
}

/* Where the rows are that are copied COLUMNS_AHEAD columns far; in the end, those of the next
 * group. */
ALWAYS_INLINE uintptr_t NAME(column_ahead)(const struct columns_matrix *matrix, int64_t first,
                                           int64_t count, int64_t j) {
    const int64_t ahead = j + COLUMNS_AHEAD, d = matrix->n_columns;
    const uintptr_t column = (uintptr_t)matrix->columns[ahead % d];
    return column + (uintptr_t)(ahead < d ? first : first + count) * sizeof(REAL);
}

/* Rows first .. first + count - 1 of every column, in tiles; a last one is filled up with zeros.
 * Prefetches what comes next: no hardware foresees where another column is. */
static void NAME(copy_tiles)(const struct columns_matrix *matrix, int64_t first, int64_t count,
                             REAL *tiles) {
    enum { BYTES = ROWS_PER_BLOCK * sizeof(REAL) };
    const int64_t d = matrix->n_columns, whole = count / ROWS_PER_BLOCK;
    const size_t rest = (size_t)(count % ROWS_PER_BLOCK) * sizeof(REAL);
    for (int64_t j = 0; j < d; j++) {
        const REAL *from = (const REAL *)matrix->columns[j] + first;
        REAL *to = tiles + j * ROWS_PER_BLOCK;
        uintptr_t ahead = NAME(column_ahead)(matrix, first, count, j);
        for (int64_t t = 0; t < whole; t++) {
            for (int at = 0; at < BYTES; at += UNIT_BYTES)
                __builtin_prefetch((const void *)(ahead + (uintptr_t)at), 0, 3);
            memcpy(to, from, BYTES);
            ahead += BYTES;
            from += ROWS_PER_BLOCK;
            to += d * ROWS_PER_BLOCK;
        }
        if (rest) {
            memset(to, 0, BYTES);
            memcpy(to, from, rest);
        }
    }
}

/* norms[i] = that of row i, see row_norms.h. */
ALWAYS_INLINE void NAME(tile_norms)(const REAL *tile, int64_t d, int intercept, double *norms) {
    enum { PARTIAL_SUMS = 16, VECTORS = NAME(DOUBLE_VECTORS) };
    wide_f64 total[VECTORS] = {{0}};
    for (int64_t l = 0; l < PARTIAL_SUMS && l < d; l++) {
        wide_f64 partial[VECTORS] = {{0}};
        for (int64_t j = l; j < d; j += PARTIAL_SUMS)
            for (int v = 0; v < VECTORS; v++) {
                const REAL *at = tile + j * ROWS_PER_BLOCK + v * NAME(DOUBLES_PER_WIDE);
#if REAL_IS_F32
                const wide_f64 value =
                    __builtin_convertvector(*(const wide_half_f32 *)at, wide_f64);
#else
                const wide_f64 value = *(const wide_f64 *)at;
#endif
                partial[v] += value * value;
            }
        for (int v = 0; v < VECTORS; v++)
            total[v] += partial[v];
    }
    double sum[ROWS_PER_BLOCK];
    memcpy(sum, total, sizeof sum);
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        norms[i] = sqrt(sum[i] + intercept);
    int others = 0;
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        others |= !(sum[i] > 1e-280 && sum[i] < 1e280); /* NaN is one of them */
    for (int i = 0; i < ROWS_PER_BLOCK && others; i++)
        if (!(sum[i] > 1e-280 && sum[i] < 1e280))
            norms[i] = NAME(careful_norm)(tile + i, ROWS_PER_BLOCK, d, intercept);
}

/* p[i] = scale_i * (<x_i, w> + intercept), for packed w. */
ALWAYS_INLINE void NAME(predict_tile)(const REAL *tile, const struct NAME(layout) * layout,
                                      const REAL *w, double intercept, const double *scale,
                                      double *p) {
    enum { VECTORS = NAME(TILE_VECTORS) };
    WIDE sum[LANES][VECTORS];
    const int64_t lanes = layout->n_columns < LANES ? layout->n_columns : LANES;
    for (int64_t l = 0; l < LANES; l++) {
        WIDE partial[4][VECTORS] = {{{0}}};
        int64_t unit = l < lanes ? 0 : layout->units;
        for (; unit + 4 <= layout->full_units; unit += 4)
            for (int u = 0; u < 4; u++) {
                const int64_t j = (unit + u) * LANES + l;
                for (int v = 0; v < VECTORS; v++)
                    partial[u][v] +=
                        *(const WIDE *)(tile + j * ROWS_PER_BLOCK + v * WIDE_LANES) * w[j];
            }
        for (; unit < layout->units; unit++) {
            const int64_t j = NAME(unit_offset)(layout, unit) + l;
            for (int v = 0; v < VECTORS; v++)
                partial[0][v] += *(const WIDE *)(tile + j * ROWS_PER_BLOCK + v * WIDE_LANES) *
                                 w[unit * LANES + l];
        }
        for (int v = 0; v < VECTORS; v++)
            sum[l][v] = (partial[0][v] + partial[1][v]) + (partial[2][v] + partial[3][v]);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            for (int v = 0; v < VECTORS; v++)
                sum[l][v] += sum[l + half][v];
    REAL dot[ROWS_PER_BLOCK];
    memcpy(dot, sum[0], sizeof dot);
#pragma omp simd
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = scale[i] * ((double)dot[i] + intercept);
}

/* Targets, norms and scales of the tile's rows; entries of a row that must not count become 0. */
ALWAYS_INLINE void NAME(read_tile)(const struct dense_rows *rows, int64_t first, int64_t count,
                                   REAL *tile, struct NAME(block) * block) {
    double found[ROWS_PER_BLOCK];
    struct dense_rows here = *rows;
    here.y = (const REAL *)rows->y + first;
    here.norms = rows->norms ? rows->norms + first : found;
    if (!rows->norms)
        NAME(tile_norms)(tile, rows->n_columns, rows->intercept, found);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        if (!NAME(read_target)(&here, i, i >= count, i, block) && i < count)
            for (int64_t j = 0; j < rows->n_columns; j++)
                tile[j * ROWS_PER_BLOCK + i] = 0;
    NAME(read_scales)(&here, ROWS_PER_BLOCK, block);
}

/* accumulator += bit patterns of s_i x_ij + shift, lane by lane, over n_tiles tiles; see
 * add_rounded_rows. */
ALWAYS_INLINE void NAME(add_rounded_tiles)(const REAL *tiles, const REAL *s, int n_tiles,
                                           REAL shift, int64_t d, UNSIGNED *accumulator) {
    enum { VECTORS = NAME(TILE_VECTORS) };
    for (int64_t j = 0; j < d; j++)
        for (int v = 0; v < VECTORS; v++) {
            const int64_t at = j * ROWS_PER_BLOCK + v * WIDE_LANES;
            UNSIGNED_WIDE sum = *(UNSIGNED_WIDE *)(accumulator + at);
            for (int t = 0; t < n_tiles; t++)
                sum += (UNSIGNED_WIDE)(*(const WIDE *)(s + t * ROWS_PER_BLOCK + v * WIDE_LANES) *
                                           *(const WIDE *)(tiles + t * d * ROWS_PER_BLOCK + at) +
                                       shift);
            *(UNSIGNED_WIDE *)(accumulator + at) = sum;
        }
}

/* sum_out += accumulator / its `added` shifts in every lane removed; accumulator = 0. */
static void NAME(flush_tiles)(int64_t d, UNSIGNED *accumulator, REAL shift, UNSIGNED added,
                              int64_t *sum_out) {
    UNSIGNED shift_bits;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    for (int64_t j = 0; j < d; j++)
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            sum_out[j] += (INTEGER)(accumulator[j * ROWS_PER_BLOCK + i] - shift_bits * added);
    memset(accumulator, 0, (size_t)(d * ROWS_PER_BLOCK) * sizeof *accumulator);
}

/* One pass over a matrix of columns. */
struct NAME(columns_pass) {
    const struct dense_rows *rows;
    struct NAME(layout) layout;
    struct NAME(tile_scratch) scratch;
    const struct pass *pass;
    double intercept;
    REAL shift;
};

/* What the rows of a tile, the first of which is row `first`, are multiplied with; the sum of what
 * an entry of 1 adds. */
ALWAYS_INLINE int64_t NAME(tile_factors)(const struct NAME(columns_pass) * columns, int64_t first,
                                         int64_t count, REAL *tile, REAL *factors) {
    struct NAME(block) block;
    double p[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK];
    int64_t rounded[ROWS_PER_BLOCK];
    NAME(read_tile)(columns->rows, first, count, tile, &block);
    NAME(predict_tile)(tile, &columns->layout, columns->scratch.weights, columns->intercept,
                       block.scale, p);
    for (int i = 0; i < ROWS_PER_BLOCK && columns->rows->predictions && i < count; i++)
        columns->rows->predictions[first + i] = p[i];
    NAME(gradient_factors)(columns->rows, ROWS_PER_BLOCK, first, first + count, &block,
                           columns->pass->loss, p, s);
    if (columns->rows->clip_norms)
        NAME(read_clip_norms)(columns->rows, first, ROWS_PER_BLOCK, &block);
    NAME(clip_factors)(ROWS_PER_BLOCK, s, block.norm, columns->pass->inner_clip, factors);
    return NAME(rounded_factors)(ROWS_PER_BLOCK, factors, columns->shift, rounded);
}

/* Rows first .. end - 1, which are in n_tiles <= TILES_PER_LOAD tiles; the same sum. */
static int64_t NAME(add_tiles)(const struct NAME(columns_pass) * columns, int64_t first,
                               int64_t end, int n_tiles, REAL *tiles) {
    REAL factors[TILES_PER_LOAD * ROWS_PER_BLOCK] __attribute__((aligned(UNIT_BYTES)));
    const int64_t d = columns->rows->n_columns, size = d * ROWS_PER_BLOCK;
    UNSIGNED *accumulator = columns->scratch.accumulator;
    int64_t sum = 0;
    for (int t = 0; t < n_tiles; t++)
        sum += NAME(tile_factors)(columns, first + t * ROWS_PER_BLOCK,
                                  end - (first + t * ROWS_PER_BLOCK), tiles + t * size,
                                  factors + t * ROWS_PER_BLOCK);
    if (n_tiles == TILES_PER_LOAD)
        NAME(add_rounded_tiles)(tiles, factors, TILES_PER_LOAD, columns->shift, d, accumulator);
    else
        for (int t = 0; t < n_tiles; t++)
            NAME(add_rounded_tiles)(tiles + t * size, factors + t * ROWS_PER_BLOCK, 1,
                                    columns->shift, d, accumulator);
    return sum;
}

static void NAME(columns_clipped_gradient_sum)(const struct dense_rows *rows, int64_t begin,
                                               int64_t end, const struct pass *pass, void *out,
                                               void *workspace) {
    struct NAME(columns_pass) columns = {.rows = rows,
                                         .layout = NAME(layout_of)(rows->n_columns),
                                         .pass = pass,
                                         .intercept = intercept_of(rows, pass->w),
                                         .shift = ROUNDING_SHIFT * (REAL)pass->grid};
    columns.scratch = NAME(tile_scratch_in)(workspace, &columns.layout);
    const int64_t d = rows->n_columns, group_tiles = NAME(tiles_at_once)(d);
    int64_t *sum_out = out, intercept_sum = 0, added = 0;
    NAME(pack_weights)(&columns.layout, pass->w, columns.scratch.weights);
    memset(columns.scratch.accumulator, 0, (size_t)(d * ROWS_PER_BLOCK) * sizeof(REAL));
    for (int64_t group = begin; group < end; group += group_tiles * ROWS_PER_BLOCK) {
        const int64_t left = end - group, most = group_tiles * ROWS_PER_BLOCK;
        const int64_t count = left < most ? left : most;
        const int64_t n_tiles = (count + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK;
        NAME(copy_tiles)(rows->source->matrix, group, count, columns.scratch.tiles);
        for (int64_t t = 0; t < n_tiles; t += TILES_PER_LOAD) {
            const int tiles = n_tiles - t < TILES_PER_LOAD ? (int)(n_tiles - t) : TILES_PER_LOAD;
            intercept_sum += NAME(add_tiles)(&columns, group + t * ROWS_PER_BLOCK, group + count,
                                             tiles, columns.scratch.tiles + t * d * ROWS_PER_BLOCK);
        }
        added += n_tiles;
        if (added + group_tiles > ROWS_PER_FLUSH || group + count == end) {
            NAME(flush_tiles)(d, columns.scratch.accumulator, columns.shift, (UNSIGNED)added,
                              sum_out);
            added = 0;
        }
    }
    if (rows->intercept)
        sum_out[d] += intercept_sum;
}

#endif
