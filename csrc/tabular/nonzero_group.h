/* Finds the nonzero columns of a group of blocks: see nonzero_columns.h. */
#ifndef DPERM_NONZERO_GROUP_H
#define DPERM_NONZERO_GROUP_H

#include "tabular/nonzero_columns.h"

/* Dense columns in the order of the leaves of the tree of sums, in which their products with
 * weights are added up on a stack with the bits of dense rows: see struct nonzero_column. */
struct column_order {
    int32_t *rank; /* of each dense column */
    uint8_t *leaf; /* of each rank */
};

/* Returns 0 when memory ran out; close_column_order() may be called in any case. */
int open_column_order(struct column_order *order, int64_t n_columns);
void close_column_order(struct column_order *order);

struct found_column;

/* One thread's group, and its current block. */
struct group_finder {
    const struct tabular_matrix *table;
    const struct column_order *order;
    int64_t n_rows;
    struct found_column *found;   /* by rank */
    uint64_t *is_nonzero;         /* one bit per rank */
    int32_t *ranks;               /* n_nonzero, ascending */
    int64_t n_nonzero, first_row; /* of the current block */
    unsigned char *any;           /* bitwise or of the numbers of all rows of the block */
    struct nonzero_column *columns, *next_column;
    char *numbers, *next_number;
};

/* For the n_rows rows of a table; returns as open_column_order(). */
int open_group_finder(struct group_finder *finder, const struct tabular_matrix *table,
                      const struct column_order *order, int64_t n_rows);
void close_group_finder(struct group_finder *finder);

/* The nonzero columns of the group whose first row is row `first`, to be freed by free_aligned();
 * NULL when memory ran out. */
struct nonzero_group *find_nonzero_group(struct group_finder *finder, int64_t first);

#endif
