/* The rows of a table (tabular_matrix.h) in blocks, each a list of the dense columns that are not 0
 * in all of its rows. Passes read this in place of the table where it is short: of many columns few
 * are live in neighbouring rows, and of these most hold one value, which is kept once. */
#ifndef DPERM_LIVE_COLUMNS_H
#define DPERM_LIVE_COLUMNS_H

#include <stdint.h>

#include "tabular_matrix.h"

/* As many rows as kernels work on at a time; a sum that has one product of each row has at most
 * MOST_OPEN_SUMS - 1 others open: see below. */
enum { ROWS_PER_LIVE_BLOCK = 16, MOST_OPEN_SUMS = 6 };

/* The columns of a block come in an order in which the products with weights can be added up on a
 * stack and give the bits of dense rows: slots in the order of the tree in which dot() and fold()
 * of dense_rows.template.h add them up, columns of one slot in their own. A slot without live
 * columns holds 0, and is left out. */
struct live_column {
    float value;        /* of the rows in `rows`; the others are 0 */
    uint16_t rows;      /* bit i for row i of the block; 0: every row has a number of its own */
    uint16_t column;    /* of the dense matrix */
    uint8_t unit;       /* what a unit of `value` means: units[unit] */
    uint8_t begins_sum; /* the products so far go onto the stack, and a new sum begins */
    uint8_t merges;     /* with this product in it, as many sums of the stack are added to the last */
};

enum { UNIT_ONE = 0, UNIT_STEP = 1 };

struct live_columns {
    struct live_column *columns;
    char *numbers; /* as in the table, ROWS_PER_LIVE_BLOCK for each column whose rows have them */
    /* The columns of block b are first_columns[b] .. first_columns[b + 1] - 1; their numbers begin
     * behind those of first_numbers[b] columns. */
    int64_t *first_columns, *first_numbers;
    double units[2]; /* 1 and the table's step */
};

/* The live columns of n_rows rows; NULL when they would save nothing, or memory ran out. A number
 * that is not finite, of a row that does not count, is taken for 0. */
struct live_columns *find_live_columns(const struct tabular_matrix *table, int64_t n_rows,
                                       int n_threads);
void free_live_columns(struct live_columns *live); /* or NULL */

#endif
