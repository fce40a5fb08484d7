/* Blocks of tabular rows by their nonzero columns (nonzero_columns.h): products with weights, and
 * sums of multiples of the rows. A lane of a vector is a row. Included where the double templates
 * are in force.
 *
 * Needs: tabular/number_vectors.inc.h. */

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
    default:
        return doubles_of_u16((const uint16_t *)numbers + at) * step;
    }
}

ALWAYS_INLINE int64_t bytes_of_number(enum numeric_type type) {
    switch (type) {
    case NUMERIC_U8:
        return sizeof(uint8_t);
    case NUMERIC_U16:
        return sizeof(uint16_t);
    case NUMERIC_F32:
        return sizeof(float);
    default:
        return sizeof(double);
    }
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

/* p[m][i] = <x_i, w_m>; w: n_models numbers a column. n_models is a constant. */
ALWAYS_INLINE void multiply_nonzero_numbers(struct nonzero_cursor cursor, enum numeric_type type,
                                            const double *w, const int n_models,
                                            double (*p)[ROWS_PER_BLOCK]) {
    wide_f64 stack[MAX_OPEN_SUMS][MODELS_PER_TILE][BLOCK_WIDES];
    wide_f64 sum[MODELS_PER_TILE][BLOCK_WIDES] = {{{0}}};
    int depth = 0;
    while (cursor.column < cursor.end) {
        const struct nonzero_column *column = cursor.column;
        const double *weights = w + column->column * n_models;
        wide_f64 entries[BLOCK_WIDES];
        next_nonzero_entries(&cursor, type, entries);
        if (column->begins_sum) {
            for (int m = 0; m < n_models; m++)
                for (int v = 0; v < BLOCK_WIDES; v++) {
                    stack[depth][m][v] = sum[m][v];
                    sum[m][v] = (wide_f64){0};
                }
            depth++;
        }
        for (int m = 0; m < n_models; m++)
            for (int v = 0; v < BLOCK_WIDES; v++)
                sum[m][v] += entries[v] * weights[m];
        for (int merge = column->merges; merge > 0; merge--) {
            depth--;
            for (int m = 0; m < n_models; m++)
                for (int v = 0; v < BLOCK_WIDES; v++)
                    sum[m][v] = stack[depth][m][v] + sum[m][v];
        }
    }
    for (int m = 0; m < n_models; m++)
        for (int v = 0; v < BLOCK_WIDES; v++)
            *(loose_wide *)(p[m] + v * WIDE_DOUBLES) = sum[m][v];
}

/* Whether a column is 1 in all rows of the block, as is the intercept. */
ALWAYS_INLINE int is_constant_one(const struct nonzero_column *column) {
    return column->rows == (1U << ROWS_PER_BLOCK) - 1 && column->value == 1.0;
}

/* sums[j][m] += round(s_mi (1, x_i)_j / grid_m), lane by lane, each count_i times unless count is
 * NULL; shifts: of the grids, see grid_rounding.h. n_models is a constant. */
ALWAYS_INLINE void add_nonzero_numbers(struct nonzero_cursor cursor, enum numeric_type type,
                                       const double (*s)[ROWS_PER_BLOCK], const int64_t *count,
                                       const double *shifts, const int n_models, wide_u64 *sums) {
    wide_f64 factor[MODELS_PER_TILE][BLOCK_WIDES];
    wide_u64 times[BLOCK_WIDES], ones[MODELS_PER_TILE], shift_bits[MODELS_PER_TILE];
    if (count)
        memcpy(times, count, sizeof times);
    for (int m = 0; m < n_models; m++) {
        shift_bits[m] = (wide_u64)(shifts[m] - (wide_f64){0});
        ones[m] = (wide_u64){0};
        for (int v = 0; v < BLOCK_WIDES; v++) {
            factor[m][v] = *(const loose_wide *)(s[m] + v * WIDE_DOUBLES);
            wide_u64 integers = (wide_u64)(factor[m][v] + shifts[m]) - shift_bits[m];
            if (count)
                integers *= times[v];
            ones[m] += integers;
        }
        sums[m] += ones[m];
    }
    while (cursor.column < cursor.end) {
        const struct nonzero_column *column = cursor.column;
        wide_u64 *sum = &sums[(column->column + 1) * n_models];
        wide_f64 entries[BLOCK_WIDES];
        next_nonzero_entries(&cursor, type, entries);
        if (is_constant_one(column)) {
            for (int m = 0; m < n_models; m++)
                sum[m] += ones[m];
            continue;
        }
        for (int m = 0; m < n_models; m++) {
            wide_u64 total = sum[m];
            for (int v = 0; v < BLOCK_WIDES; v++) {
                wide_u64 integers =
                    (wide_u64)(factor[m][v] * entries[v] + shifts[m]) - shift_bits[m];
                if (count)
                    integers *= times[v];
                total += integers;
            }
            sum[m] = total;
        }
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

/* For one model, or MODELS_PER_TILE of them. */
static __attribute__((noinline)) void
multiply_nonzero_block(const struct tabular_matrix *table, const struct nonzero_columns *nonzero,
                       int64_t first, const double *w, int n_models, double (*p)[ROWS_PER_BLOCK]) {
    const struct nonzero_cursor cursor = nonzero_block(table, nonzero, first);
#define MULTIPLY(TYPE) multiply_nonzero_numbers(cursor, TYPE, w, 1, p);
#define MULTIPLY_SEVERAL(TYPE) multiply_nonzero_numbers(cursor, TYPE, w, MODELS_PER_TILE, p);
    if (n_models == 1)
        FOR_NUMERIC_TYPE(MULTIPLY)
    else
        FOR_NUMERIC_TYPE(MULTIPLY_SEVERAL)
#undef MULTIPLY
#undef MULTIPLY_SEVERAL
}

/* The same. */
static __attribute__((noinline)) void
add_nonzero_block(const struct tabular_matrix *table, const struct nonzero_columns *nonzero,
                  int64_t first, const double (*s)[ROWS_PER_BLOCK], const int64_t *count,
                  const double *shifts, int n_models, wide_u64 *sums) {
    const struct nonzero_cursor cursor = nonzero_block(table, nonzero, first);
#define ADD(TYPE) add_nonzero_numbers(cursor, TYPE, s, NULL, shifts, 1, sums);
#define ADD_MULTIPLES(TYPE) add_nonzero_numbers(cursor, TYPE, s, count, shifts, 1, sums);
#define ADD_SEVERAL(TYPE) add_nonzero_numbers(cursor, TYPE, s, NULL, shifts, MODELS_PER_TILE, sums);
#define ADD_MULTIPLES_OF_SEVERAL(TYPE)                                                             \
    add_nonzero_numbers(cursor, TYPE, s, count, shifts, MODELS_PER_TILE, sums);
    if (n_models == 1 && !count)
        FOR_NUMERIC_TYPE(ADD)
    else if (n_models == 1)
        FOR_NUMERIC_TYPE(ADD_MULTIPLES)
    else if (!count)
        FOR_NUMERIC_TYPE(ADD_SEVERAL)
    else
        FOR_NUMERIC_TYPE(ADD_MULTIPLES_OF_SEVERAL)
#undef ADD
#undef ADD_MULTIPLES
#undef ADD_SEVERAL
#undef ADD_MULTIPLES_OF_SEVERAL
}
