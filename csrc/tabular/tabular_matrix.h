/* A design matrix of numbers and codes: a block of numbers, and one small code per categorical
 * column in place of its one-hot columns, or of the numbers that a public map assigns to it. It
 * represents a dense matrix of doubles. */
#ifndef DPERM_TABULAR_MATRIX_H
#define DPERM_TABULAR_MATRIX_H

#include <stdatomic.h>
#include <stdint.h>

#include "dense/row_blocks.h"
#include "vector/lane_sums.h"

enum numeric_type { NUMERIC_F32 = 0, NUMERIC_F64 = 1, NUMERIC_U8 = 2, NUMERIC_U16 = 3 };

/* Slots are partial sums, as for dense rows: see lane_sums.h. */
enum { UNIT_DOUBLES = UNIT_BYTES / sizeof(double), SLOTS = ACCUMULATORS * UNIT_DOUBLES };

/* A run of numbers of a row whose slots are consecutive lanes of one accumulator. */
struct number_piece {
    int64_t first_number, first_column;
    int accumulator, first_lane, n_lanes;
};

/* A run of dense columns: pieces of numbers, then one-hot columns. */
struct tabular_segment {
    int64_t end_piece, end_one_hot; /* begins at the end of the previous segment */
};

/* A column of codes with a map: numbers first_number .. first_number + width - 1 of a row. */
struct mapped_column {
    int64_t place; /* among the columns of codes */
    int64_t size, width, first_number;
    const float *numbers; /* size + 1 rows of `width`, the last of zeros */
};

struct nonzero_columns;

/* State kept from one pass over all rows to the next. */
struct pass_memory {
    atomic_int passes;
    _Atomic(struct nonzero_columns *) nonzero; /* or NULL */
};

struct tabular_matrix {
    const void *numeric; /* n_rows * n_numeric, C order */
    const void *codes;   /* n_rows * n_categorical, C order, of code_bytes each: 1 or 2 */
    enum numeric_type numeric_type;
    int code_bytes, number_bytes;
    double step; /* an integer v of the numeric block represents v * step */
    int64_t n_numeric, n_categorical, n_columns;
    const int64_t *numeric_columns; /* n_numeric dense columns, ascending */
    /* Code v of column j is a 1 in dense column first_columns[j] + v; v = sizes[j] is all zeros.
     * With a map, code v is instead the numbers maps[j][v * widths[j] + k], k < widths[j], in dense
     * column first_columns[j] + k; row sizes[j] of the map holds zeros. */
    const int64_t *first_columns, *sizes; /* n_categorical, ascending */
    const int64_t *widths;                /* n_categorical; NULL if there are no maps */
    const float *const *maps; /* n_categorical, each NULL for a one-hot column; or NULL */

    /* Set by plan_tabular(). The numbers of a row are those stored, then those of the maps. A table
     * of entries has one for each code of the one-hot columns, v = sizes[j] included: code v of
     * column j is entry first_entries[j] + v. */
    int64_t n_numbers, n_mapped, n_one_hot;
    struct mapped_column *mapped;
    int64_t *one_hot;        /* places of one-hot columns among the columns of codes */
    int64_t *number_columns; /* n_numbers: the dense column of each */
    int64_t n_pieces, n_segments, n_entries;
    struct number_piece *pieces;
    struct tabular_segment *segments;
    int64_t *first_entries; /* n_categorical; 0 for one with a map, whose "entry" is its code */
    int32_t *slots;         /* entries_with_spare() */
    struct pass_memory *memory;
};

/* Tables of entries go on for as long as a code may lead: a code that another thread changes after
 * it was checked leads to a wrong entry, but not outside. */
static inline int64_t entries_with_spare(const struct tabular_matrix *table) {
    return table->n_entries + (table->code_bytes == 1 ? UINT8_MAX : UINT16_MAX);
}

/* The table of rows whose representation is TABULAR_ROWS. */
static inline const struct tabular_matrix *table_of(const struct dense_rows *rows) {
    return rows->source->matrix;
}

/* The category of a row: `at` = row * n_categorical + column. */
static inline int64_t code_at(const struct tabular_matrix *table, int64_t at) {
    return table->code_bytes == 1 ? ((const uint8_t *)table->codes)[at]
                                  : ((const uint16_t *)table->codes)[at];
}

/* The number of a row: `at` = row * n_numeric + k. */
static inline double number_at(const struct tabular_matrix *table, int64_t at) {
    switch (table->numeric_type) {
    case NUMERIC_F32:
        return (double)((const float *)table->numeric)[at];
    case NUMERIC_U8:
        return (double)((const uint8_t *)table->numeric)[at] * table->step;
    case NUMERIC_U16:
        return (double)((const uint16_t *)table->numeric)[at] * table->step;
    case NUMERIC_F64:
        return ((const double *)table->numeric)[at];
    }
    return 0.0;
}

/* What a code stands for; zeros for one out of range. */
static inline const float *mapped_numbers(const struct mapped_column *mapped, int64_t code) {
    return mapped->numbers + (code < mapped->size ? code : mapped->size) * mapped->width;
}

/* Returns 0, or -1 when memory ran out; free_tabular_plan() may be called in any case. */
int plan_tabular(struct tabular_matrix *table);
void free_tabular_plan(struct tabular_matrix *table);

/* Call before each pass over all n_rows rows. The second one finds the nonzero columns, in
 * n_threads threads: a table that is read twice will be read often. */
void prepare_pass(const struct tabular_matrix *table, int64_t n_rows, int n_threads);

/* What prepare_pass() has found, or NULL. */
const struct nonzero_columns *nonzero_columns_of(const struct tabular_matrix *table);

/* An expand_rows_fn (row_blocks.h): rows of doubles. */
void expand_tabular(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                    void *x_out);

#endif
