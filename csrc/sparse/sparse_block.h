/* Blocks of sparse rows: reading them, and their products with weights. */
#ifndef DPERM_SPARSE_BLOCK_H
#define DPERM_SPARSE_BLOCK_H

#include "dense/dense_block.h"
#include "sparse/sparse_lane_sums.h"
#include "sparse/sparse_rows.h"
#include "vector/value_types.h"

enum {
    SPARSE_WEIGHTS_AHEAD = 128,   /* prefetch distance of weights, in entries */
    SPARSE_ENTRIES_AHEAD = 512,   /* prefetch distance of entries */
    SPARSE_ROWS_AHEAD = 64,       /* prefetch distance of norms, targets and starts of rows */
    SPARSE_NEAR_COLUMNS = 1 << 14 /* weights and sums of so few columns stay in the cache */
};

/* Prefetches `bytes` bytes that begin `distance` bytes after `at`: among random accesses, hardware
 * prefetchers do not recognise sequential reads of an array. */
ALWAYS_INLINE void prefetch_beyond(const void *at, int64_t distance, int64_t bytes,
                                   enum reading reading) {
    const uintptr_t first = (uintptr_t)at + (uintptr_t)distance;
    for (int64_t line = 0; line < bytes; line += UNIT_BYTES)
        if (reading == READ_AGAIN)
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 3);
        else if (reading == READ_ONCE)
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 2);
        else
            __builtin_prefetch((const void *)(first + (uintptr_t)line), 0, 0);
}

struct row {
    const VALUE *x;
    const INDEX *column;
    int64_t count, n_columns;
};

/* The column of an entry. It was checked when the matrix was given; if another thread has changed
 * it to one that there is not, it counts as column 0. Volatile: a second read might differ. */
ALWAYS_INLINE int64_t column_of(const INDEX *column, int64_t k, int64_t n_columns) {
    const int64_t j = ((const volatile INDEX *)column)[k];
    return __builtin_expect((uint64_t)j < (uint64_t)n_columns, 1) ? j : 0;
}

/* Reads row i of a pass as row b of a block, without entries and with norm NaN unless it counts.
 * Does not set its scale. */
ALWAYS_INLINE struct row read_row(const struct sparse_rows *sparse, int64_t i, int64_t end, int b,
                                  struct NAME(block) * block) {
    const struct dense_rows *rows = &sparse->rows;
    const int there = i < end;
    const int64_t place = !there ? 0 : rows->batch ? rows->batch[i] : i;
    const double norm = there ? rows->norms[place] : NAN;
    const double target = there ? (double)((const VALUE *)rows->y)[place] : NAN;
    const int counts = norm <= DBL_MAX && fabs(target) <= DBL_MAX; /* false for NaN */
    const int64_t start = sparse->matrix->starts[place];
    block->y[b] = counts ? target : 0.0;
    block->norm[b] = counts ? norm : NAN;
    struct row row;
    row.x = (const VALUE *)rows->x + start;
    row.column = (const INDEX *)sparse->matrix->columns + start;
    row.count = counts ? sparse->matrix->starts[place + 1] - start : 0;
    row.n_columns = rows->n_columns;
    return row;
}

/* Weights and sums to be prefetched for the columns of later entries: hardware prefetchers cannot
 * predict their addresses. The weights of a line search are pairs. */
struct ahead {
    const REAL *weights;
    int width;           /* reals per weight: 1 or 2 */
    const int64_t *sums; /* or NULL */
    const struct slot_map *map;
};

ALWAYS_INLINE void prefetch_weight(const struct ahead *ahead, int64_t column) {
    __builtin_prefetch(ahead->weights + column * ahead->width, 0, 3);
}

ALWAYS_INLINE void prefetch_sum(const struct ahead *ahead, int64_t column) {
    if (ahead->sums)
        __builtin_prefetch(ahead->sums + column, 1, 2);
}

/* Whether to prefetch weights for later entries, across the ends of rows: in whole passes, unless
 * all weights and sums stay in the cache. */
ALWAYS_INLINE int can_look_ahead(const struct sparse_rows *sparse, int64_t first, int64_t end) {
    const struct sparse_matrix *matrix = sparse->matrix;
    return !sparse->rows.batch && sparse->rows.n_columns > SPARSE_NEAR_COLUMNS &&
           first + ROWS_PER_BLOCK <= end &&
           matrix->n_entries - matrix->starts[first + ROWS_PER_BLOCK] >= SPARSE_WEIGHTS_AHEAD;
}

/* Prefetches starts, norms and targets of later rows. */
ALWAYS_INLINE void prefetch_rows(const struct sparse_rows *sparse, int64_t first) {
    const struct dense_rows *rows = &sparse->rows;
    const VALUE *y = rows->y;
    prefetch_beyond(sparse->matrix->starts + first, SPARSE_ROWS_AHEAD * sizeof(int64_t),
                    ROWS_PER_BLOCK * sizeof(int64_t), sparse->reading);
    prefetch_beyond(rows->norms + first, SPARSE_ROWS_AHEAD * sizeof(double),
                    ROWS_PER_BLOCK * sizeof(double), sparse->reading);
    prefetch_beyond(y + first, SPARSE_ROWS_AHEAD * sizeof *y, ROWS_PER_BLOCK * sizeof *y,
                    sparse->reading);
}

/* For each row, prefetches as many later entries; entries to be added to sums are read again. */
ALWAYS_INLINE void prefetch_entries(const struct row *row, const struct ahead *ahead,
                                    enum reading once) {
    const int64_t count = row->count < SPARSE_ENTRIES_AHEAD ? row->count : SPARSE_ENTRIES_AHEAD;
    const enum reading reading = ahead->sums ? READ_AGAIN : once;
    prefetch_beyond(row->x, SPARSE_ENTRIES_AHEAD * sizeof(VALUE), count * sizeof(VALUE), reading);
    prefetch_beyond(row->column, SPARSE_ENTRIES_AHEAD * sizeof(INDEX), count * sizeof(INDEX),
                    reading);
}

/* Prefetches later rows of a batch in three stages, each of which needs what the one before it
 * fetched: starts, norms and targets; entries; weights and sums. */
static __attribute__((noinline)) void prefetch_batch_row(const struct sparse_rows *sparse,
                                                         const struct ahead *ahead, int64_t i) {
    enum { PLACES = 8, ENTRIES = 4, TARGETS = 1, MAX_BYTES = 1024, MAX_ENTRIES = 256 };
    const struct dense_rows *rows = &sparse->rows;
    if (i + PLACES < rows->n_rows) {
        const int64_t place = rows->batch[i + PLACES];
        __builtin_prefetch(sparse->matrix->starts + place, 0, 2);
        __builtin_prefetch(rows->norms + place, 0, 2);
        __builtin_prefetch((const VALUE *)rows->y + place, 0, 2);
    }
    if (i + ENTRIES < rows->n_rows) {
        const int64_t place = rows->batch[i + ENTRIES], start = sparse->matrix->starts[place];
        const int64_t count = sparse->matrix->starts[place + 1] - start;
        const char *x = (const char *)((const VALUE *)rows->x + start);
        const char *column = (const char *)((const INDEX *)sparse->matrix->columns + start);
        for (int64_t at = 0; at < count * (int64_t)sizeof(VALUE) && at < MAX_BYTES; at += 64)
            __builtin_prefetch(x + at, 0, 2);
        for (int64_t at = 0; at < count * (int64_t)sizeof(INDEX) && at < MAX_BYTES; at += 64)
            __builtin_prefetch(column + at, 0, 2);
    }
    if (i + TARGETS < rows->n_rows) {
        const int64_t place = rows->batch[i + TARGETS], start = sparse->matrix->starts[place];
        const int64_t count = sparse->matrix->starts[place + 1] - start;
        const INDEX *column = (const INDEX *)sparse->matrix->columns + start;
        for (int64_t k = 0; k < count && k < MAX_ENTRIES; k++) {
            prefetch_weight(ahead, column[k]);
            prefetch_sum(ahead, column[k]);
        }
    }
}

/* The partial sums of <x, w>, and of <x, v> if weights are pairs. `look` is a compile-time
 * constant. */
ALWAYS_INLINE void add_products(const struct row *row, const struct ahead *ahead, int look,
                                int width, REAL (*slot)[SLOTS]) {
    const VALUE *restrict x = row->x;
    const INDEX *restrict column = row->column;
    const REAL *restrict w = ahead->weights;
    const struct slot_map *map = ahead->map;
    int64_t k = 0;
    if (row->count > 0 && column[row->count - 1] < map->in_fours)
#pragma GCC unroll 4
        for (; k < row->count; k++) {
            const int64_t j = column_of(column, k, row->n_columns);
            if (look) {
                prefetch_weight(ahead, column[k + SPARSE_WEIGHTS_AHEAD]);
                prefetch_sum(ahead, j);
            }
            for (int v = 0; v < width; v++)
                slot[v][(uint64_t)j % SLOTS] += (REAL)x[k] * w[width * j + v];
        }
    for (; k < row->count; k++) {
        const int64_t j = column_of(column, k, row->n_columns);
        const int64_t at =
            j < map->in_fours ? (int64_t)((uint64_t)j % SLOTS) : late_slot(map, LANES, j);
        if (look) {
            prefetch_weight(ahead, column[k + SPARSE_WEIGHTS_AHEAD]);
            prefetch_sum(ahead, j);
        }
        for (int v = 0; v < width; v++)
            slot[v][at] += (REAL)x[k] * w[width * j + v];
    }
}

/* product[v][i] = <x_i, w_v> with the bits of dot(). */
ALWAYS_INLINE void multiply_row(const struct row *row, int i, const struct ahead *ahead, int look,
                                int width, double **product) {
    _Alignas(UNIT_BYTES) REAL slot[2][SLOTS];
    memset(slot, 0, width * sizeof slot[0]);
    add_products(&row[i], ahead, look, width, slot);
    for (int v = 0; v < width; v++)
        product[v][i] = (double)NAME(fold_slots)(slot[v]);
}

/* Whether an infinite weight is multiplied by a zero that is not stored. */
static __attribute__((noinline)) int misses_infinite(const struct row *row,
                                                     const struct ahead *ahead, int64_t infinite) {
    for (int64_t k = 0; k < row->count; k++) {
        const REAL *w = ahead->weights + column_of(row->column, k, row->n_columns) * ahead->width;
        for (int v = 0; v < ahead->width; v++)
            infinite -= !(fabs((double)w[v]) <= (double)REAL_MAX);
    }
    return infinite > 0;
}

/* Reads a block and multiplies its rows with the `width` vectors of weights. */
ALWAYS_INLINE void multiply_block(const struct sparse_rows *sparse, int64_t first, int64_t end,
                                  const struct ahead *ahead, int width, struct row *row,
                                  struct NAME(block) * block, double **product) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        row[i] = read_row(sparse, first + i, end, i, block);
    NAME(read_scales)(&sparse->rows, ROWS_PER_BLOCK, block);
    if (can_look_ahead(sparse, first, end)) {
        prefetch_rows(sparse, first);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            prefetch_entries(&row[i], ahead, sparse->reading);
            multiply_row(row, i, ahead, 1, width, product);
        }
    } else
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            if (sparse->rows.batch)
                prefetch_batch_row(sparse, ahead, first + i);
            multiply_row(row, i, ahead, 0, width, product);
        }
    const int64_t infinite = sparse->weights.infinite;
    for (int i = 0; i < ROWS_PER_BLOCK && infinite > 0; i++)
        for (int v = 0; v < width && misses_infinite(&row[i], ahead, infinite); v++)
            product[v][i] = NAN;
}

/* Reads a block and predicts p[i] = scale_i * (<x_i, w> + intercept). `sums`: where its rows will
 * be added, or NULL. */
ALWAYS_INLINE void predict_block(const struct sparse_rows *sparse, int64_t first, int64_t end,
                                 const int64_t *sums, const struct slot_map *map, struct row *row,
                                 struct NAME(block) * block, double *p) {
    const struct ahead ahead = {sparse->weights.packed, 1, sums, map};
    multiply_block(sparse, first, end, &ahead, 1, row, block, (double *[]){p});
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + sparse->weights.intercept);
}

#endif
