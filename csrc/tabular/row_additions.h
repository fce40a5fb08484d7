/* The additions in the product of each row of a table with weights, listed once for many passes
 * that multiply rows with several models.
 *
 * A row has a term for every number (the number times its weight) and for every category (its
 * weight). dot() and fold() of dense_rows.inc.h add the terms in a tree whose other leaves are 0.
 * Adding 0 changes no sum, so that the row's terms alone, added in the order of that tree, give the
 * same bits. This takes one addition less than there are terms, instead of one for each of the
 * SLOTS leaves of the tree. */
#ifndef DPERM_ROW_ADDITIONS_H
#define DPERM_ROW_ADDITIONS_H

#include <stdint.h>

#include "tabular/tabular_matrix.h"

/* Places in an array of vectors: the weights of all entries, the products of the row's numbers,
 * then the sums in the order in which they are computed. */
struct row_addition {
    uint16_t left, right; /* in units of a double, TERM_LANES each */
};

enum { TERM_LANES = UNIT_DOUBLES };

struct row_additions {
    int64_t per_row, bytes;
    struct row_addition *additions; /* per_row for each row */
};

/* Places in the array of terms and sums. */
static inline int64_t n_places(const struct tabular_matrix *table) {
    return table->n_entries + 2 * table->n_numeric + table->n_categorical;
}

/* NULL if rows have too many or too few terms, the lists would take more than a quarter of the
 * memory of dense rows, or memory ran out. */
struct row_additions *list_row_additions(const struct tabular_matrix *table, int64_t n_rows,
                                         int n_threads);
void free_row_additions(struct row_additions *additions); /* or NULL */

#endif
