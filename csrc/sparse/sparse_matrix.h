/* A compressed sparse matrix in canonical form. */
#ifndef DPERM_SPARSE_MATRIX_H
#define DPERM_SPARSE_MATRIX_H

#include "kernel_table.h"

enum index_type { INDEX_I32 = 0, INDEX_I64 = 1, N_INDEX_TYPES = 2 };

struct panel_store;

struct sparse_matrix {
    const void *values;    /* n_entries */
    const int64_t *starts; /* n_rows + 1: row i is entries starts[i] .. starts[i + 1] - 1 */
    const void *columns;   /* n_entries: int32 or int64, ascending within a row */
    int64_t n_rows, n_columns, n_entries;
    enum real_type type;
    enum index_type index;
    struct panel_store *store; /* see column_panels.h; or NULL */
};

/* What becomes of memory that is prefetched: it is read again soon; or once, and leaves the nearest
 * cache, or all of them, to others. */
enum reading { READ_AGAIN, READ_ONCE, READ_ONCE_PAST_CACHES };

/* How to read once. Where AMD's processors are told to pass the caches by, these keep more of what
 * is read again; those of Intel forget such memory before it is read. */
enum reading reading_once(void);

enum sparse_fault {
    SPARSE_SOUND = 0,
    SPARSE_NOT_CANONICAL = 1, /* columns of a row are not in order, or occur twice */
    SPARSE_OUT_OF_RANGE = 2   /* a column that is not there */
};

/* The worst fault among the rows; *row is the first one that has it. starts must be sound. */
enum sparse_fault sparse_check(const struct sparse_matrix *matrix, int64_t *row);

/* An expand_rows_fn (row_blocks.h): rows of the matrix's type. */
void expand_sparse(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                   void *x_out);

#endif
