/* Blocks of tabular rows by their nonzero columns (nonzero_columns.h): products with weights, and
 * sums of multiples of the rows. A lane of a vector is a row. */
#ifndef DPERM_NONZERO_ROWS_H
#define DPERM_NONZERO_ROWS_H

#include <string.h>

#include "tabular/nonzero_columns.h"
#include "tabular/number_vectors.h"

_Static_assert(ROWS_PER_NONZERO_BLOCK == ROWS_PER_BLOCK, "blocks are those of the passes");

enum { BLOCK_WIDES = ROWS_PER_BLOCK / WIDE_DOUBLES };

/* The remaining columns of a block, and their numbers; an integer v represents v * step. */
struct nonzero_cursor {
    const struct nonzero_column *column, *end;
    const char *numbers;
    double step;
};

ALWAYS_INLINE struct nonzero_cursor nonzero_block(const struct tabular_matrix *table,
                                                  const struct nonzero_columns *nonzero,
                                                  int64_t first_row) {
    const int64_t block = first_row / ROWS_PER_NONZERO_BLOCK;
    const struct nonzero_group *group = nonzero->groups[block / BLOCKS_PER_NONZERO_GROUP];
    const int64_t b = block % BLOCKS_PER_NONZERO_GROUP;
    const struct nonzero_cursor cursor = {
        group->columns + group->first_column[b], group->columns + group->first_column[b + 1],
        group->numbers + group->first_number[b] * ROWS_PER_NONZERO_BLOCK * table->number_bytes,
        table->step};
    return cursor;
}

/* `value` in the rows of vector v whose bit is set, 0 in the others. */
ALWAYS_INLINE wide_f64 nonzero_value(double value, unsigned rows, int v) {
#ifdef __AVX512F__
    return _mm512_maskz_mov_pd((__mmask8)(rows >> v * WIDE_DOUBLES), _mm512_set1_pd(value));
#else
    wide_u32 bit = {0}; /* in halves of doubles, because SSE2 has no 64-bit comparison */
    for (int half = 0; half < 2 * WIDE_DOUBLES; half++)
        bit[half] = 1U << (v * WIDE_DOUBLES + half / 2);
    const wide_u32 set = (wide_u32)(((rows - (wide_u32){0}) & bit) == bit);
    return (wide_f64)((wide_u32)(value - (wide_f64){0}) & set);
#endif
}

ALWAYS_INLINE wide_f64 nonzero_number(const void *numbers, enum numeric_type type, double step,
                                      int v) {
    const int at = v * WIDE_DOUBLES;
    switch (type) {
    case NUMERIC_F32:
        return doubles_of_f32((const float *)numbers + at);
    case NUMERIC_F64:
        return doubles_of_f64((const double *)numbers + at);
    case NUMERIC_U8:
        return doubles_of_u8((const uint8_t *)numbers + at) * step;
    case NUMERIC_U16:
        return doubles_of_u16((const uint16_t *)numbers + at) * step;
    }
    return (wide_f64){0};
}

ALWAYS_INLINE int64_t bytes_of_number(enum numeric_type type) {
    switch (type) {
    case NUMERIC_U8:
        return sizeof(uint8_t);
    case NUMERIC_U16:
        return sizeof(uint16_t);
    case NUMERIC_F32:
        return sizeof(float);
    case NUMERIC_F64:
        return sizeof(double);
    }
    return 0;
}

/* The block's entries of the next column. */
ALWAYS_INLINE void next_nonzero_entries(struct nonzero_cursor *cursor, enum numeric_type type,
                                        wide_f64 *entries) {
    const struct nonzero_column *column = cursor->column++;
    if (column->rows) {
        for (int v = 0; v < BLOCK_WIDES; v++)
            entries[v] = nonzero_value(column->value, column->rows, v);
    } else {
        for (int v = 0; v < BLOCK_WIDES; v++)
            entries[v] = nonzero_number(cursor->numbers, type, cursor->step, v);
        cursor->numbers += ROWS_PER_BLOCK * bytes_of_number(type);
    }
}

/* p[i] = <x_i, w>. */
ALWAYS_INLINE void multiply_nonzero_numbers(struct nonzero_cursor cursor, enum numeric_type type,
                                            const double *w, double *p) {
    wide_f64 stack[MAX_OPEN_SUMS][BLOCK_WIDES];
    wide_f64 sum[BLOCK_WIDES] = {{0}};
    int depth = 0;
    while (cursor.column < cursor.end) {
        const struct nonzero_column *column = cursor.column;
        const double weight = w[column->column];
        wide_f64 entries[BLOCK_WIDES];
        next_nonzero_entries(&cursor, type, entries);
        if (column->begins_sum) {
            for (int v = 0; v < BLOCK_WIDES; v++) {
                stack[depth][v] = sum[v];
                sum[v] = (wide_f64){0};
            }
            depth++;
        }
        for (int v = 0; v < BLOCK_WIDES; v++)
            sum[v] += entries[v] * weight;
        for (int merge = column->merges; merge > 0; merge--) {
            depth--;
            for (int v = 0; v < BLOCK_WIDES; v++)
                sum[v] = stack[depth][v] + sum[v];
        }
    }
    for (int v = 0; v < BLOCK_WIDES; v++)
        *(loose_wide *)(p + v * WIDE_DOUBLES) = sum[v];
}

/* Whether a column is 1 in all rows of the block, as is the intercept. */
ALWAYS_INLINE int is_constant_one(const struct nonzero_column *column) {
    return column->rows == (1U << ROWS_PER_BLOCK) - 1 && column->value == 1.0;
}

/* sums[0] += round(s_i / grid) and sums[1 + j] += round(s_i x_ij / grid), lane by lane, each
 * count_i times unless count is NULL; shift: of the grid, see grid_rounding.h. */
ALWAYS_INLINE void add_nonzero_numbers(struct nonzero_cursor cursor, enum numeric_type type,
                                       const double *s, const int64_t *count, double shift,
                                       wide_u64 *sums) {
    const wide_u64 shift_bits = (wide_u64)(shift - (wide_f64){0});
    wide_f64 factor[BLOCK_WIDES];
    wide_u64 times[BLOCK_WIDES], ones = {0};
    if (count)
        memcpy(times, count, sizeof times);
    for (int v = 0; v < BLOCK_WIDES; v++) {
        factor[v] = *(const loose_wide *)(s + v * WIDE_DOUBLES);
        wide_u64 integers = (wide_u64)(factor[v] + shift) - shift_bits;
        if (count)
            integers *= times[v];
        ones += integers;
    }
    sums[0] += ones;
    while (cursor.column < cursor.end) {
        const struct nonzero_column *column = cursor.column;
        wide_u64 *sum = &sums[column->column + 1];
        wide_f64 entries[BLOCK_WIDES];
        next_nonzero_entries(&cursor, type, entries);
        if (is_constant_one(column)) {
            *sum += ones;
            continue;
        }
        wide_u64 total = *sum;
        for (int v = 0; v < BLOCK_WIDES; v++) {
            wide_u64 integers = (wide_u64)(factor[v] * entries[v] + shift) - shift_bits;
            if (count)
                integers *= times[v];
            total += integers;
        }
        *sum = total;
    }
}

static int64_t sum_of_lanes(const wide_u64 *sum) {
    uint64_t total = 0;
    for (int lane = 0; lane < WIDE_DOUBLES; lane++)
        total += (*sum)[lane];
    return (int64_t)total;
}

/* One loop per type of numbers, in which it is a constant. */
#define FOR_NUMERIC_TYPE(CALL)                                                                     \
    switch (table->numeric_type) {                                                                 \
    case NUMERIC_F32:                                                                              \
        CALL(NUMERIC_F32) break;                                                                   \
    case NUMERIC_F64:                                                                              \
        CALL(NUMERIC_F64) break;                                                                   \
    case NUMERIC_U8:                                                                               \
        CALL(NUMERIC_U8) break;                                                                    \
    case NUMERIC_U16:                                                                              \
        CALL(NUMERIC_U16) break;                                                                   \
    }

static __attribute__((noinline)) void multiply_nonzero_block(const struct tabular_matrix *table,
                                                             const struct nonzero_columns *nonzero,
                                                             int64_t first, const double *w,
                                                             double *p) {
    const struct nonzero_cursor cursor = nonzero_block(table, nonzero, first);
#define MULTIPLY(TYPE) multiply_nonzero_numbers(cursor, TYPE, w, p);
    FOR_NUMERIC_TYPE(MULTIPLY)
#undef MULTIPLY
}

static __attribute__((noinline)) void add_nonzero_block(const struct tabular_matrix *table,
                                                        const struct nonzero_columns *nonzero,
                                                        int64_t first, const double *s,
                                                        const int64_t *count, double shift,
                                                        wide_u64 *sums) {
    const struct nonzero_cursor cursor = nonzero_block(table, nonzero, first);
#define ADD(TYPE) add_nonzero_numbers(cursor, TYPE, s, NULL, shift, sums);
#define ADD_MULTIPLES(TYPE) add_nonzero_numbers(cursor, TYPE, s, count, shift, sums);
    if (count)
        FOR_NUMERIC_TYPE(ADD_MULTIPLES)
    else
        FOR_NUMERIC_TYPE(ADD)
#undef ADD
#undef ADD_MULTIPLES
}

#endif
