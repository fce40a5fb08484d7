/* A second copy of the entries of a sparse matrix, in tiles: column panels, each split into row
 * panels.
 *
 * Row by row, nearly every entry of a wide matrix needs a weight and a sum that are not in a cache
 * near the core. Column panels are so narrow that their weights and sums stay there, and row panels
 * so short that their products do. Column panels share no sums and row panels share no products, so
 * that any thread may process any of them. Columns are in the order of column_permutation.h. */
#ifndef DPERM_COLUMN_PANELS_H
#define DPERM_COLUMN_PANELS_H

#include <stdatomic.h>

#include "sparse/sparse_matrix.h"
#include "sparse/column_permutation.h"

struct column_panels {
    struct column_permutation order;
    enum reading reading; /* of entries and values */
    int64_t n_panels, n_row_panels;
    int64_t rows_per_row_panel; /* at most 2^16: the row of an entry is relative to its row panel */
    int64_t *first_place;       /* n_panels + 1: panel t is places first_place[t] .. [t + 1] - 1 */
    int64_t *first_panel;       /* n_slots + 1: panels of a leaf */
    int64_t *starts;   /* n_panels * n_row_panels + 1: entries of each tile, panel by panel */
    uint32_t *entries; /* row in the row panel * 2^16 + place in the panel */
    /* n_entries, of the matrix's type; 0 for non-finite values, whose rows never count */
    void *values;
};

/* The panels of a matrix and the number of passes so far. Starts zeroed. */
struct panel_store {
    _Atomic int64_t passes;
    _Atomic(struct column_panels *) panels;
};

/* Call once per pass over all rows: returns the panels, or NULL for a pass row by row. Panels are
 * built after some passes, so that the cost is amortised, if the matrix is wide enough and they
 * take at most MAX_PANEL_BYTES; there are none if memory ran out. Thread-safe. */
const struct column_panels *panels_for_pass(const struct sparse_matrix *matrix, int n_threads);

/* Number of panels so far. */
int64_t count_panels(const struct panel_store *store);

void free_panels(struct panel_store *store);

#endif
