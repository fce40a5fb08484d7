/* The entries of a sparse matrix a second time, in tiles: strips of neighbouring columns, cut into
 * slabs of neighbouring rows.
 *
 * Row by row, nearly every entry of a wide matrix leads to a weight and to a sum that no cache near
 * the core holds. A strip is so narrow that its weights and sums stay there, and a slab so short
 * that its products do. Strips share no sums and slabs share no products: any thread may take any
 * of them. Columns are neighbours in the order of strip_order.h. */
#ifndef DPERM_COLUMN_PANELS_H
#define DPERM_COLUMN_PANELS_H

#include <stdatomic.h>

#include "sparse/sparse_matrix.h"
#include "sparse/column_permutation.h"

struct column_strips {
    struct strip_order order;
    enum reading reading; /* of entries and values */
    int64_t n_strips, n_slabs;
    int64_t slab_rows;    /* at most 2^16: rows of an entry count from the first of its slab */
    int64_t *first_place; /* n_strips + 1: strip t is places first_place[t] .. [t + 1] - 1 */
    int64_t *first_strip; /* n_slots + 1: strips of a leaf */
    int64_t *starts;      /* n_strips * n_slabs + 1: entries of a strip, slab by slab */
    uint32_t *entries;    /* row in the slab * 2^16 + place in the strip */
    /* n_entries, of the matrix's type. 0 for a value that is not finite: its row never counts. */
    void *values;
};

/* The strips of a matrix, and when to make them. Starts as zeros. */
struct strip_store {
    _Atomic int64_t passes;
    _Atomic(struct column_strips *) strips;
};

/* To be called once per pass over all rows: the strips, or NULL for a pass row by row. They are
 * made after some passes, when they will have paid for the time that it takes, if the matrix is
 * wide and they are no more than MOST_STRIP_BYTES; where memory runs out there are none. May be
 * called from several threads at once. */
const struct column_strips *strips_for_pass(const struct sparse_matrix *matrix, int n_threads);

/* How many strips there are by now. */
int64_t count_strips(const struct strip_store *store);

void free_strips(struct strip_store *store);

#endif
