/* The entries of a sparse matrix a second time, in tiles: panels of neighbouring columns, cut into
 * row panels of neighbouring rows.
 *
 * Row by row, nearly every entry of a wide matrix leads to a weight and to a sum that no cache near
 * the core holds. A panel is so narrow that its weights and sums stay there, and a row panel so
 * short that its products do. Panels share no sums and row panels share no products: any thread may
 * take any of them. Columns are neighbours in the order of column_permutation.h. */
#ifndef DPERM_COLUMN_PANELS_H
#define DPERM_COLUMN_PANELS_H

#include <stdatomic.h>

#include "sparse/sparse_matrix.h"
#include "sparse/column_permutation.h"

struct column_panels {
    struct column_permutation order;
    enum reading reading; /* of entries and values */
    int64_t n_panels, n_row_panels;
    int64_t rows_per_row_panel; /* at most 2^16: rows of an entry count from the first of its
                                   row panel */
    int64_t *first_place;       /* n_panels + 1: panel t is places first_place[t] .. [t + 1] - 1 */
    int64_t *first_panel;       /* n_slots + 1: panels of a leaf */
    int64_t *starts;   /* n_panels * n_row_panels + 1: entries of a panel, row panel by row panel */
    uint32_t *entries; /* row in the row panel * 2^16 + place in the panel */
    /* n_entries, of the matrix's type. 0 for a value that is not finite: its row never counts. */
    void *values;
};

/* The panels of a matrix, and when to make them. Starts as zeros. */
struct panel_store {
    _Atomic int64_t passes;
    _Atomic(struct column_panels *) panels;
};

/* To be called once per pass over all rows: the panels, or NULL for a pass row by row. They are
 * made after some passes, when they will have paid for the time that it takes, if the matrix is
 * wide and they are no more than MAX_PANEL_BYTES; where memory runs out there are none. May be
 * called from several threads at once. */
const struct column_panels *panels_for_pass(const struct sparse_matrix *matrix, int n_threads);

/* How many panels there are by now. */
int64_t count_panels(const struct panel_store *store);

void free_panels(struct panel_store *store);

#endif
