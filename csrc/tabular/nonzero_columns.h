/* The rows of a table (tabular_matrix.h) in blocks, each a list of the dense columns that are not 0
 * in all of its rows. Passes read this in place of the table where it is short: of many columns few
 * are nonzero in neighbouring rows, and of these most hold one value, which is kept once. */
#ifndef DPERM_NONZERO_COLUMNS_H
#define DPERM_NONZERO_COLUMNS_H

#include <stdint.h>

#include "tabular/tabular_matrix.h"

enum {
    ROWS_PER_NONZERO_BLOCK = 16, /* as many as kernels work on at a time */
    BLOCKS_PER_NONZERO_GROUP = 32,
    MAX_OPEN_SUMS = 5 /* on the stack, see below */
};

/* The columns of a block come in an order in which the products with weights can be added up on a
 * stack and give the bits of dense rows: the columns of a slot in their own order, and slots as the
 * tree says in which dot() and fold() of dense_rows.inc.h add them up. A slot without nonzero
 * columns holds 0, and is left out. */
struct nonzero_column {
    double value;       /* of the rows in `rows`; the others are 0 */
    uint16_t rows;      /* bit i for row i of the block; 0: every row has a number of its own */
    uint16_t column;    /* of the dense matrix */
    uint8_t begins_sum; /* the sum so far goes onto the stack, and a new one begins */
    uint8_t merges;     /* with this product in it, so many sums from the stack are added */
};

/* A group of blocks. Block b has columns first_column[b] .. first_column[b + 1] - 1, whose numbers
 * begin behind those of first_number[b] columns. */
struct nonzero_group {
    int64_t bytes; /* of all this */
    const struct nonzero_column *columns;
    const char *numbers; /* as in the table, ROWS_PER_NONZERO_BLOCK for each column that has them */
    uint32_t first_column[BLOCKS_PER_NONZERO_GROUP + 1], first_number[BLOCKS_PER_NONZERO_GROUP + 1];
};

struct nonzero_columns {
    int64_t n_groups, bytes;
    struct nonzero_group **groups;
};

/* The nonzero columns of n_rows rows; NULL when they would save nothing, or memory ran out. A
 * number that is not finite, of a row that does not count, is taken for 0. */
struct nonzero_columns *find_nonzero_columns(const struct tabular_matrix *table, int64_t n_rows,
                                             int n_threads);
void free_nonzero_columns(struct nonzero_columns *nonzero); /* or NULL */

#endif
