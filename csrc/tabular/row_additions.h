/* The additions in the product of each row of a table with weights, listed once for many passes
 * that multiply rows with several models.
 *
 * A row has a term for every number (the number times its weight) and for every category (its
 * weight). dot() and fold() of dense_rows.inc.h add the terms in a tree whose other leaves are 0.
 * Adding 0 changes no sum, so that the row's nonzero terms alone, added in the order of that tree,
 * give the same bits. This takes one addition less than there are terms, instead of one for each of
 * the SLOTS leaves of the tree.
 *
 * Many of these subexpressions are common: columns with few different values, or with values that
 * go together. Products and sums that occur in many rows are computed once for all of them. */
#ifndef DPERM_ROW_ADDITIONS_H
#define DPERM_ROW_ADDITIONS_H

#include <stdint.h>

#include "tabular/tabular_matrix.h"

/* LISTED_ROWS: rows whose additions form one list, so that its end is seldom mispredicted; there
 * are lists for a multiple of ROWS_PER_READ rows. */
enum { TERM_LANES = UNIT_DOUBLES, LISTED_ROWS = 8, ROWS_PER_READ = 16 };

/* Operands are places in an array of vectors: the weights of all entries, 0, common products,
 * common sums, then the products and the sums of a block of rows, in the order in which they are
 * computed. */
struct row_addition {
    uint16_t left, right; /* in units of a double, TERM_LANES each */
};

struct common_product {
    double value; /* of that number */
    int32_t number;
};

struct row_product {
    uint8_t row, number; /* of the block */
};

struct listed_block {
    int64_t first_product, first_addition;
    uint16_t sums[LISTED_ROWS]; /* the places of the rows' products with the weights */
};

struct row_additions {
    int64_t bytes;
    int64_t n_common_products, n_common_additions;
    struct common_product *common_products;
    struct row_addition *common_additions;
    struct listed_block *blocks; /* one more than there are: where the last one ends */
    struct row_product *products;
    struct row_addition *additions;
};

/* Places before those of a block. */
static inline int64_t n_common_places(const struct tabular_matrix *table,
                                      const struct row_additions *additions) {
    return table->n_entries + 1 + additions->n_common_products + additions->n_common_additions;
}

/* Upper bound on the number of places, whatever is listed. */
int64_t max_places(const struct tabular_matrix *table);

/* NULL if rows have too many or too few terms, the lists could take more than a quarter of the
 * memory of dense rows, or memory ran out. */
struct row_additions *list_row_additions(const struct tabular_matrix *table, int64_t n_rows,
                                         int n_threads);
void free_row_additions(struct row_additions *additions); /* or NULL */

#endif
