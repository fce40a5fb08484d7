/* The columns of rows in the order in which their products with weights are added up on a stack
 * with the bits of dense rows: see struct nonzero_column. */
#ifndef DPERM_COLUMN_ORDER_H
#define DPERM_COLUMN_ORDER_H

#include "tabular/nonzero_columns.h"

/* Dense columns in the order of the leaves of the tree of sums. */
struct column_order {
    int32_t *rank; /* of each dense column */
    uint8_t *leaf; /* of each rank */
};

/* Returns 0 when memory ran out; close_column_order() may be called in any case. */
int open_column_order(struct column_order *order, int64_t n_columns);
void close_column_order(struct column_order *order);

/* Appends the column of a rank to a list; returns its place there. */
typedef struct nonzero_column *write_column_fn(void *context, int32_t rank);

/* Writes the columns of n ascending ranks in order, and marks where their sums begin and end. */
void write_in_order(const struct column_order *order, const int32_t *ranks, int64_t n,
                    write_column_fn *write, void *context);

#endif
