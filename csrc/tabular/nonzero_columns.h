/* The rows of a table (tabular_matrix.h) in blocks, each a list of the dense columns that are
 * nonzero in some row of the block. Passes read this in place of the table where it is shorter: in
 * neighbouring rows few of many columns are nonzero, and most of these hold a single value, which
 * is stored once. */
#ifndef DPERM_NONZERO_COLUMNS_H
#define DPERM_NONZERO_COLUMNS_H

#include <stdint.h>

#include "tabular/tabular_matrix.h"

enum {
    ROWS_PER_NONZERO_BLOCK = 16, /* as many as kernels process at a time */
    BLOCKS_PER_NONZERO_GROUP = 32,
    MAX_NONZERO_COLUMNS = 1 << 12, /* of the table: sums of so many columns stay in the cache */
    MAX_OPEN_SUMS = 5              /* depth of the stack, see below */
};

/* The columns of a block are ordered so that products with weights can be added up on a stack with
 * the bits of dense rows: within a slot in the original order, and slots in the order of the tree
 * in which dot() and fold() of dense_block.h add them up. Slots without nonzero columns are 0
 * and left out. */
struct nonzero_column {
    double value;       /* of the rows in `rows`; the others are 0 */
    uint16_t rows;      /* bit i for row i of the block; 0: each row has its own number */
    uint16_t column;    /* of the dense matrix */
    uint8_t begins_sum; /* push the sum so far onto the stack and begin a new one */
    uint8_t merges;     /* after adding this product, add so many sums from the stack */
};

/* A group of blocks. Block b has columns first_column[b] .. first_column[b + 1] - 1, whose numbers
 * follow those of the first first_number[b] columns with numbers. */
struct nonzero_group {
    int64_t bytes; /* in total */
    const struct nonzero_column *columns;
    const char *numbers; /* as in the table, ROWS_PER_NONZERO_BLOCK for each column that has them */
    uint32_t first_column[BLOCKS_PER_NONZERO_GROUP + 1], first_number[BLOCKS_PER_NONZERO_GROUP + 1];
};

struct nonzero_columns {
    int64_t n_groups, bytes;
    struct nonzero_group **groups;
};

/* The nonzero columns of n_rows rows; NULL if they are not worthwhile or memory ran out. Non-finite
 * numbers, whose rows do not count, are replaced by 0. */
struct nonzero_columns *find_nonzero_columns(const struct tabular_matrix *table, int64_t n_rows,
                                             int n_threads);
void free_nonzero_columns(struct nonzero_columns *nonzero); /* or NULL */

#endif
