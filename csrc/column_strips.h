/* The entries of a sparse matrix a second time, in strips of neighbouring columns.
 *
 * Row by row, nearly every entry of a wide matrix leads to a sum that no cache near the core holds.
 * A strip is so narrow that its sums stay there until the last of its entries is added. Strips
 * share no sums: any thread may add any of them. */
#ifndef DPERM_COLUMN_STRIPS_H
#define DPERM_COLUMN_STRIPS_H

#include <stdatomic.h>

#include "sparse_matrix.h"

enum { SLAB_ROWS = 1 << 14 }; /* rows of a slab, at most 2^16: places count from its first row */

struct column_strips {
    enum reading reading; /* of places and values */
    int64_t n_strips, n_slabs;
    int64_t *first_column; /* n_strips + 1: strip t is columns first_column[t] .. [t + 1] - 1 */
    int64_t *starts;       /* n_strips * n_slabs + 1: entries of a strip, slab by slab */
    uint32_t *places;      /* n_entries: row in the slab * 2^16 + column in the strip */
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
