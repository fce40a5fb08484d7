/* Blocks of dense rows: reading them, their dot products with a weight vector, and sums of
 * multiples of them. */
#ifndef DPERM_DENSE_BLOCK_H
#define DPERM_DENSE_BLOCK_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel_table.h"
#include "vector/grid_rounding.h"
#include "vector/lanes.h"
#include "vector/real_types.h"

/* How columns are split into units of LANES. If the width is not a multiple of LANES, the last unit
 * covers the last LANES columns and overlaps the one before it; the repeated columns have weight 0
 * there and their sums are ignored, so that no row is read past its end. Rows narrower than a unit
 * are copied into a zero-padded one. */
struct NAME(layout) {
    int64_t n_columns, width; /* width = max(n_columns, LANES) */
    int64_t full_units, units;
    int64_t rows_near, rows_far; /* prefetch distances in a batch: see prefetched_of_batch() */
};

ALWAYS_INLINE struct NAME(layout) NAME(layout_of)(int64_t n_columns) {
    struct NAME(layout) layout;
    layout.n_columns = n_columns;
    layout.width = n_columns < LANES ? LANES : n_columns;
    layout.full_units = layout.width / LANES;
    layout.units = (layout.width + LANES - 1) / LANES;
    const int64_t fit = BATCH_BYTES_AHEAD / (layout.width * (int64_t)sizeof(REAL));
    layout.rows_far = fit > BATCH_ROWS_AHEAD ? BATCH_ROWS_AHEAD : fit < 3 ? 3 : fit;
    layout.rows_near = layout.rows_far / 3;
    return layout;
}

ALWAYS_INLINE int64_t NAME(unit_offset)(const struct NAME(layout) * layout, int64_t unit) {
    return unit < layout->full_units ? unit * LANES : layout->width - LANES;
}

/* The caller's workspace, see workspaces.h. */
struct NAME(scratch) {
    REAL *weights;     /* units * LANES, packed */
    REAL *direction;   /* units * LANES, packed */
    REAL *zero_row;    /* width zeros, read in place of a row that does not count */
    void *accumulator; /* units * LANES of REAL or UNSIGNED */
    REAL *narrow;      /* two blocks of ROWS_PER_BLOCK * LANES, for rows narrower than a unit */
};

SHARED struct NAME(scratch) NAME(scratch_in)(void *workspace, const struct NAME(layout) * layout) {
    struct NAME(scratch) scratch;
    const int64_t size = layout->units * LANES;
    scratch.weights = workspace;
    scratch.direction = scratch.weights + size;
    scratch.zero_row = scratch.direction + size;
    scratch.accumulator = scratch.zero_row + size;
    scratch.narrow = (REAL *)scratch.accumulator + size;
    memset(scratch.zero_row, 0, size * sizeof(REAL));
    memset(scratch.accumulator, 0, size * sizeof(REAL));
    memset(scratch.narrow, 0, 2 * ROWS_PER_BLOCK * UNIT_BYTES);
    return scratch;
}

SHARED void NAME(pack_weights)(const struct NAME(layout) * layout, const double *w, REAL *packed) {
    for (int64_t unit = 0; unit < layout->units; unit++) {
        const int64_t offset = NAME(unit_offset)(layout, unit);
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t column = offset + lane;
            const int counted = column >= unit * LANES && column < layout->n_columns;
            packed[unit * LANES + lane] = counted ? (REAL)w[column] : (REAL)0;
        }
    }
}

struct NAME(block) {
    const REAL *row[ROWS_PER_BLOCK];
    double y[ROWS_PER_BLOCK];
    double norm[ROWS_PER_BLOCK];  /* NaN: the row does not count */
    double scale[ROWS_PER_BLOCK]; /* min(1, row_norm / norm) */
};

/* Reads target and norm of row i of the block, which is row `place` unless past the end; returns
 * whether it counts. */
ALWAYS_INLINE int NAME(read_target)(const struct dense_rows *rows, int64_t place, int past_end,
                                    int i, struct NAME(block) * block) {
    const double norm = past_end ? NAN : rows->norms[place];
    const double target = past_end ? NAN : (double)((const REAL *)rows->y)[place];
    const int counts = norm <= DBL_MAX && fabs(target) <= DBL_MAX; /* false for NaN */
    block->y[i] = counts ? target : 0.0;
    block->norm[i] = counts ? norm : NAN;
    return counts;
}

ALWAYS_INLINE void NAME(read_scales)(const struct dense_rows *rows, int n,
                                     struct NAME(block) * block) {
    for (int i = 0; i < n; i++)
        block->scale[i] = block->norm[i] <= rows->row_norm ? 1.0 : rows->row_norm / block->norm[i];
}

ALWAYS_INLINE void NAME(read_row)(const struct dense_rows *rows, int64_t place, int past_end,
                                  const REAL *zero_row, int i, struct NAME(block) * block) {
    const int counts = NAME(read_target)(rows, place, past_end, i, block);
    block->row[i] = counts ? (const REAL *)rows->x + place * rows->n_columns : zero_row;
}

/* The same for n rows of a batch. Not inlined, to keep its loop out of that of whole passes. */
static __attribute__((noinline)) void NAME(read_batch_rows)(const struct dense_rows *rows,
                                                            int64_t first, int64_t count, int n,
                                                            const REAL *zero_row,
                                                            struct NAME(block) * block) {
    for (int i = 0; i < n; i++) {
        const int64_t place = i < count ? rows->batch[first + i] : 0;
        NAME(read_row)(rows, place, i >= count, zero_row, i, block);
    }
}

/* Reads rows first .. first + count - 1 as the first of n rows; the others do not count. Rows
 * narrower than a unit are copied to `narrow`. */
ALWAYS_INLINE void NAME(read_rows)(const struct dense_rows *rows, int64_t first, int64_t count,
                                   int n, const struct NAME(layout) * layout, const REAL *zero_row,
                                   REAL *narrow, struct NAME(block) * block) {
    if (rows->batch)
        NAME(read_batch_rows)(rows, first, count, n, zero_row, block);
    else
        for (int i = 0; i < n; i++)
            NAME(read_row)(rows, first + i, i >= count, zero_row, i, block);
    NAME(read_scales)(rows, n, block);
    if (layout->n_columns < LANES)
        for (int i = 0; i < n; i++) {
            REAL *padded = narrow + i * LANES;
            memcpy(padded, block->row[i], layout->n_columns * sizeof(REAL));
            block->row[i] = padded;
        }
}

ALWAYS_INLINE void NAME(read_block)(const struct dense_rows *rows, int64_t first, int64_t count,
                                    const struct NAME(layout) * layout,
                                    const struct NAME(scratch) * scratch,
                                    struct NAME(block) * block) {
    NAME(read_rows)(rows, first, count, ROWS_PER_BLOCK, layout, scratch->zero_row, scratch->narrow,
                    block);
}

/* Fills `count` with the multiplicities of the n rows of a block and returns it; NULL if all are 1.
 * Places past the end get 1. */
ALWAYS_INLINE const int64_t *NAME(read_multiplicity)(const struct dense_rows *rows, int64_t first,
                                                     int64_t end, int n, int64_t *count) {
    int64_t others = 0;
    if (!rows->multiplicity)
        return NULL;
    for (int i = 0; i < n; i++) {
        count[i] = first + i < end ? rows->multiplicity[first + i] : 1;
        others |= count[i] ^ 1;
    }
    return others ? count : NULL;
}

/* Replaces the norms of a block's rows by the lengths to be used when clipping. */
ALWAYS_INLINE void NAME(read_clip_norms)(const struct dense_rows *rows, int64_t first, int n,
                                         struct NAME(block) * block) {
    for (int i = 0; i < n; i++)
        if (block->norm[i] <= DBL_MAX) /* false for rows that do not count */
            block->norm[i] = rows->clip_norms[rows->batch ? rows->batch[first + i] : first + i];
}

/* Prefetches row i of a batch, if there is one: hardware prefetchers cannot predict its address. */
ALWAYS_INLINE void NAME(prefetch_row)(const struct dense_rows *rows, int64_t i) {
    if (!rows->batch || i >= rows->n_rows)
        return;
    const int64_t place = rows->batch[i], bytes = rows->n_columns * (int64_t)sizeof(REAL);
    const uintptr_t row = (uintptr_t)rows->x + (uintptr_t)(place * bytes);
    for (int64_t at = 0; at < bytes; at += UNIT_BYTES)
        __builtin_prefetch((const void *)(row + (uintptr_t)at), 0, 2);
    __builtin_prefetch((const void *)(row + (uintptr_t)(bytes - 1)), 0, 2);
    __builtin_prefetch(rows->norms + place, 0, 2);
    __builtin_prefetch((const REAL *)rows->y + place, 0, 2);
}

/* Rows to prefetch while another is multiplied: `near` into L1 and, in a batch, `far` into L2,
 * which accepts more requests at once. */
struct NAME(prefetched) {
    const REAL *near, *far;
};

/* Rows `near` and `far` of a batch, to be prefetched while the row at `there` is multiplied;
 * `there` itself in place of rows past the last. For norms and targets, see prefetch_starts(). */
ALWAYS_INLINE struct NAME(prefetched)
    NAME(prefetched_of_batch)(const struct dense_rows *rows, int64_t near, int64_t far,
                              const REAL *there) {
    struct NAME(prefetched) prefetched = {there, there};
    const REAL *x = rows->x;
    if (near < rows->n_rows)
        prefetched.near = x + rows->batch[near] * rows->n_columns;
    if (far < rows->n_rows)
        prefetched.far = x + rows->batch[far] * rows->n_columns;
    return prefetched;
}

/* Prefetches the first cache line, norm and target of ROWS_IN_FLIGHT rows of a batch, or of those
 * there are, from row `first` on. Such rows are on pages that the TLB has not seen, and a prefetch
 * retires after its page walk: issued together, the walks overlap. */
ALWAYS_INLINE void NAME(prefetch_starts)(const struct dense_rows *rows, int64_t first) {
    const int64_t left = rows->n_rows - first, n = left < ROWS_IN_FLIGHT ? left : ROWS_IN_FLIGHT;
    const REAL *x = rows->x, *y = rows->y;
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = rows->batch[first + i];
        __builtin_prefetch(x + place * rows->n_columns, 0, 2);
        __builtin_prefetch(rows->norms + place, 0, 3);
        __builtin_prefetch(y + place, 0, 3);
    }
}

/* Addresses of the n rows from `next` on, to be prefetched while those of a block are multiplied;
 * the block's own rows if there are no more, or in a batch, for which see prefetched_of_batch(). */
ALWAYS_INLINE void NAME(rows_to_prefetch)(const struct dense_rows *rows, int64_t next, int64_t end,
                                          int n, const struct NAME(block) * block,
                                          const REAL **row) {
    const int there = next + n <= end && !rows->batch;
    for (int i = 0; i < n; i++)
        row[i] = there ? (const REAL *)rows->x + (next + i) * rows->n_columns : block->row[i];
}

/* Rows first .. first + count - 1, to be prefetched in `calls` calls of read_ahead(); nothing if
 * they pass `end`, or in a batch. */
ALWAYS_INLINE struct read_ahead NAME(rows_ahead)(const struct dense_rows *rows, int64_t first,
                                                 int64_t count, int64_t end, int64_t calls) {
    const int64_t row_bytes = rows->n_columns * (int64_t)sizeof(REAL);
    struct read_ahead ahead;
    ahead.at = (uintptr_t)rows->x + (uintptr_t)(first * row_bytes);
    const int there = first + count <= end && !rows->batch;
    ahead.lines_per_call = there ? count * row_bytes / UNIT_BYTES / calls + 1 : 0;
    return ahead;
}

/* Sum of the LANES partial sums of a unit, by halves: lane l + LANES/2 is added to lane l, and so
 * on. Copies into narrower vectors are register moves. */
ALWAYS_INLINE REAL NAME(fold)(VECTOR *unit) {
    for (int half = VECTORS_PER_UNIT / 2; half > 0; half /= 2)
        for (int v = 0; v < half; v++)
            unit[v] += unit[v + half];
    NAME(vec16) quarter;
#if VECTOR_BYTES >= 32
    NAME(vec32) low32;
    memcpy(&low32, unit, 32);
#if VECTOR_BYTES == 64
    NAME(vec32) high32;
    memcpy(&high32, (const char *)unit + 32, 32);
    low32 += high32;
#endif
    NAME(vec16) high16;
    memcpy(&quarter, &low32, 16);
    memcpy(&high16, (const char *)&low32 + 16, 16);
    quarter += high16;
#else
    memcpy(&quarter, unit, 16);
#endif
#if REAL_IS_F32
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
#else
    return quarter[0] + quarter[1];
#endif
}

/* Prefetches the cache lines at which a unit of the rows begins. */
ALWAYS_INLINE void NAME(prefetch_unit)(enum prefetching prefetching,
                                       struct NAME(prefetched) prefetched, int64_t unit) {
    if (prefetching != PREFETCH_NOTHING)
        __builtin_prefetch(prefetched.near + unit * LANES, 0, 3);
    if (prefetching == PREFETCH_BATCH)
        __builtin_prefetch(prefetched.far + unit * LANES, 0, 2);
}

/* <x, w> for packed w, four units at a time, each with its own partial sums. Prefetches other rows
 * at the same pace, because many requests at once would stall. `prefetching` is a compile-time
 * constant. */
ALWAYS_INLINE REAL NAME(dot_prefetching)(enum prefetching prefetching, const REAL *restrict x,
                                         const REAL *restrict w, const struct NAME(layout) * layout,
                                         struct NAME(prefetched) prefetched) {
    VECTOR sum[4][VECTORS_PER_UNIT] = {{{0}}};
    int64_t unit = 0;
    for (; unit + 4 <= layout->full_units; unit += 4)
        for (int u = 0; u < 4; u++) {
            NAME(prefetch_unit)(prefetching, prefetched, unit + u);
            for (int v = 0; v < VECTORS_PER_UNIT; v++) {
                const int64_t at = (unit + u) * LANES + v * VECTOR_LANES;
                sum[u][v] += *(const VECTOR *)(x + at) * *(const VECTOR *)(w + at);
            }
        }
    for (; unit < layout->units; unit++) {
        NAME(prefetch_unit)(prefetching, prefetched, unit);
        for (int v = 0; v < VECTORS_PER_UNIT; v++) {
            const int64_t at = NAME(unit_offset)(layout, unit) + v * VECTOR_LANES;
            sum[0][v] +=
                *(const VECTOR *)(x + at) * *(const VECTOR *)(w + unit * LANES + v * VECTOR_LANES);
        }
    }
    if (prefetching == PREFETCH_BATCH) /* rows begin and end within cache lines */
        __builtin_prefetch(prefetched.far + layout->n_columns - 1, 0, 2);
    for (int v = 0; v < VECTORS_PER_UNIT; v++)
        sum[0][v] = (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
    return NAME(fold)(sum[0]);
}

ALWAYS_INLINE REAL NAME(dot)(const REAL *restrict x, const REAL *restrict w,
                             const struct NAME(layout) * layout) {
    const struct NAME(prefetched) nothing = {NULL, NULL};
    return NAME(dot_prefetching)(PREFETCH_NOTHING, x, w, layout, nothing);
}

/* <x, w> and <x, v> with one read of x, and the bits of two calls of dot(). */
ALWAYS_INLINE void NAME(two_dots)(const REAL *restrict x, const REAL *restrict w,
                                  const REAL *restrict v, const struct NAME(layout) * layout,
                                  REAL *with_w, REAL *with_v) {
    VECTOR sum[2][4][VECTORS_PER_UNIT] = {{{{0}}}};
    int64_t unit = 0;
    for (; unit + 4 <= layout->full_units; unit += 4)
        for (int u = 0; u < 4; u++)
            for (int k = 0; k < VECTORS_PER_UNIT; k++) {
                const int64_t at = (unit + u) * LANES + k * VECTOR_LANES;
                const VECTOR here = *(const VECTOR *)(x + at);
                sum[0][u][k] += here * *(const VECTOR *)(w + at);
                sum[1][u][k] += here * *(const VECTOR *)(v + at);
            }
    for (; unit < layout->units; unit++)
        for (int k = 0; k < VECTORS_PER_UNIT; k++) {
            const int64_t packed = unit * LANES + k * VECTOR_LANES;
            const VECTOR here =
                *(const VECTOR *)(x + NAME(unit_offset)(layout, unit) + k * VECTOR_LANES);
            sum[0][0][k] += here * *(const VECTOR *)(w + packed);
            sum[1][0][k] += here * *(const VECTOR *)(v + packed);
        }
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < VECTORS_PER_UNIT; k++)
            sum[s][0][k] = (sum[s][0][k] + sum[s][1][k]) + (sum[s][2][k] + sum[s][3][k]);
    *with_w = NAME(fold)(sum[0][0]);
    *with_v = NAME(fold)(sum[1][0]);
}

/* p[i] = <x_i, w>; prefetches the first half of the next block of a batch, from `next` on. */
static __attribute__((noinline)) void
NAME(dot_batch_rows)(const struct dense_rows *rows, int64_t next, const struct NAME(block) * block,
                     const REAL *w, const struct NAME(layout) * layout, double *p) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        if (i % 2 == 0)
            NAME(prefetch_row)(rows, next + i / 2);
        p[i] = (double)NAME(dot)(block->row[i], w, layout);
    }
}

/* p[i] = scale_i * (<x_i, w> + intercept). Prefetches rows of a batch from `next` on. */
ALWAYS_INLINE void NAME(predict_block)(const struct dense_rows *rows, int64_t next,
                                       const struct NAME(block) * block, const REAL *w,
                                       double intercept, const struct NAME(layout) * layout,
                                       double *p) {
    if (rows->batch)
        NAME(dot_batch_rows)(rows, next, block, w, layout, p);
    else
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            p[i] = (double)NAME(dot)(block->row[i], w, layout);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
}

/* ROWS_PER_LOAD rows to be added with their factors: copies, which stores to the sums cannot alias.
 */
struct NAME(rows_to_add) {
    const REAL *row[ROWS_PER_LOAD];
    VECTOR factor[ROWS_PER_LOAD];
};

ALWAYS_INLINE struct NAME(rows_to_add) NAME(rows_to_add)(const REAL *const *row, const REAL *s) {
    struct NAME(rows_to_add) rows;
    for (int i = 0; i < ROWS_PER_LOAD; i++) {
        rows.row[i] = row[i];
        rows.factor[i] = s[i] - (VECTOR){0};
    }
    return rows;
}

/* accumulator += bit patterns of s_i x_i + shift (grid_rounding.h), units [unit, end): sums of
 * rounded integers, plus the bits of `shift` for each row. They wrap around, hence unsigned. */
ALWAYS_INLINE void NAME(add_rounded_rows)(const struct NAME(rows_to_add) * rows, REAL shift,
                                          const struct NAME(layout) * layout, int64_t unit,
                                          int64_t end, UNSIGNED *accumulator) {
    for (; unit < end; unit++)
        for (int v = 0; v < VECTORS_PER_UNIT; v++) {
            const int64_t at = NAME(unit_offset)(layout, unit) + v * VECTOR_LANES;
            UNSIGNED_VECTOR *place =
                (UNSIGNED_VECTOR *)(accumulator + unit * LANES + v * VECTOR_LANES);
            UNSIGNED_VECTOR sum = *place;
            for (int i = 0; i < ROWS_PER_LOAD; i++)
                sum += (UNSIGNED_VECTOR)(rows->factor[i] * *(const VECTOR *)(rows->row[i] + at) +
                                         shift);
            *place = sum;
        }
}

/* accumulator += s_i x_i in floating point, units [unit, end). */
ALWAYS_INLINE void NAME(add_rows)(const struct NAME(rows_to_add) * rows,
                                  const struct NAME(layout) * layout, int64_t unit, int64_t end,
                                  REAL *accumulator) {
    for (; unit < end; unit++)
        for (int v = 0; v < VECTORS_PER_UNIT; v++) {
            const int64_t at = NAME(unit_offset)(layout, unit) + v * VECTOR_LANES;
            VECTOR *place = (VECTOR *)(accumulator + unit * LANES + v * VECTOR_LANES);
            VECTOR sum = *place;
            for (int i = 0; i < ROWS_PER_LOAD; i++)
                sum += rows->factor[i] * *(const VECTOR *)(rows->row[i] + at);
            *place = sum;
        }
}

/* sum_out[j] += times * round(s x_j / grid), the integer that add_rounded_rows adds. */
ALWAYS_INLINE void NAME(add_rounded_multiple)(const REAL *restrict x, int64_t size, REAL s,
                                              REAL shift, int64_t times,
                                              int64_t *restrict sum_out) {
#pragma omp simd
    for (int64_t j = 0; j < size; j++)
        sum_out[j] += times * (int64_t)NAME(grid_steps)(s * x[j], shift);
}

#endif
