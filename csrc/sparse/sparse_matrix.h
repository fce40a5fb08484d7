/* A compressed sparse matrix in canonical form. */
#ifndef DPERM_SPARSE_MATRIX_H
#define DPERM_SPARSE_MATRIX_H

#include "kernel_table.h"

struct sparse_matrix {
    const void *values;    /* n_entries */
    const int64_t *starts; /* n_rows + 1: row i is entries starts[i] .. starts[i + 1] - 1 */
    const void *columns;   /* n_entries: int32 or int64, ascending within a row */
    int64_t n_rows, n_columns, n_entries;
    enum real_type type;
    enum index_type index;
};

/* Temporal locality of prefetched memory: read again soon; read once, kept out of L1; or read once,
 * non-temporal. */
enum reading { READ_AGAIN, READ_ONCE, READ_ONCE_PAST_CACHES };

/* How to prefetch data that is read once: non-temporal on AMD only, where it keeps more of the
 * reused data in the caches; Intel processors evict such lines before they are read. */
enum reading reading_once(void);

enum sparse_fault {
    SPARSE_SOUND = 0,
    SPARSE_NOT_CANONICAL = 1, /* columns of a row are unsorted or duplicated */
    SPARSE_OUT_OF_RANGE = 2   /* a column index out of range */
};

/* The worst fault of any row; *row is the first row that has it. starts must be valid. */
enum sparse_fault sparse_check(const struct sparse_matrix *matrix, int64_t *row);

/* An expand_rows_fn (row_blocks.h): rows of the matrix's type. */
void expand_sparse(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                   void *x_out);

#endif
