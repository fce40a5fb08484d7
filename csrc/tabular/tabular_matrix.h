/* A design matrix of numbers and categories: a block of numbers, and one small code per categorical
 * column in place of a group of 0/1 columns. It stands for a dense matrix of doubles. */
#ifndef DPERM_TABULAR_MATRIX_H
#define DPERM_TABULAR_MATRIX_H

#include <stdatomic.h>
#include <stdint.h>

#include "dense/row_blocks.h"
#include "vector/lane_sums.h"

enum numeric_type { NUMERIC_F32 = 0, NUMERIC_F64 = 1, NUMERIC_U8 = 2, NUMERIC_U16 = 3 };

/* Slots are those of dense rows, see lane_sums.h. */
enum { UNIT_DOUBLES = UNIT_BYTES / sizeof(double), SLOTS = ACCUMULATORS * UNIT_DOUBLES };

/* Neighbours among the numbers of a row whose slots are neighbours in one accumulator. */
struct number_piece {
    int64_t first_number, first_column;
    int accumulator, first_lane, n_lanes;
};

/* A run of dense columns: pieces of numbers, then categorical columns. */
struct tabular_segment {
    int64_t end_piece, end_category; /* they begin where the last segment ends */
};

struct nonzero_columns;
struct row_additions;

/* What passes over all rows leave for later ones. */
struct pass_memory {
    atomic_int passes, passes_of_models;
    _Atomic(struct nonzero_columns *) nonzero; /* or NULL */
    _Atomic(struct row_additions *) additions; /* or NULL */
};

struct tabular_matrix {
    const void *numeric; /* n_rows * n_numeric, C order */
    const void *codes;   /* n_rows * n_categorical, C order, of code_bytes each: 1 or 2 */
    enum numeric_type numeric_type;
    int code_bytes, number_bytes;
    double step; /* an integer v of the numeric block means v * step */
    int64_t n_numeric, n_categorical, n_columns;
    const int64_t *numeric_columns; /* n_numeric dense columns, ascending */
    /* Code v of column j is a 1 in dense column first_columns[j] + v; v = sizes[j] is no 1. */
    const int64_t *first_columns, *sizes; /* n_categorical, ascending */

    /* What plan_tabular() makes of it. A table of entries has one for each code, v = sizes[j]
     * included: code v of column j is entry first_entries[j] + v. */
    int64_t n_pieces, n_segments, n_entries;
    struct number_piece *pieces;
    struct tabular_segment *segments;
    int64_t *first_entries; /* n_categorical */
    int32_t *slots;         /* n_entries */
    struct pass_memory *memory;
};

/* Of rows whose representation is TABULAR_ROWS. */
static inline const struct tabular_matrix *table_of(const struct dense_rows *rows) {
    return rows->source->matrix;
}

/* Returns 0, or -1 when memory ran out; free_tabular_plan() may be called in any case. */
int plan_tabular(struct tabular_matrix *table);
void free_tabular_plan(struct tabular_matrix *table);

/* Called before a pass over all n_rows rows, in n_threads threads: the second one finds the nonzero
 * columns, the second one of several models the additions of each row, as a table that is read
 * twice will be read often. */
void prepare_pass(const struct tabular_matrix *table, int64_t n_rows, int64_t n_models,
                  int n_threads);

/* What it found, or NULL. */
const struct nonzero_columns *nonzero_columns_of(const struct tabular_matrix *table);
const struct row_additions *row_additions_of(const struct tabular_matrix *table);

/* An expand_rows_fn (row_blocks.h): rows of doubles. */
void expand_tabular(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                    void *x_out);

#endif
