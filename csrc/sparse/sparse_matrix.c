/* See sparse_matrix.h. */
#include <stdatomic.h>
#include <string.h>

#include "dispatch/instruction_sets.h"
#include "sparse/sparse_matrix.h"

static enum reading reading_here(void) {
#ifdef HAVE_X86_LEVELS
    return made_by_amd() ? READ_ONCE_PAST_CACHES : READ_ONCE;
#else
    return READ_ONCE;
#endif
}

/* Cached: cpuid is slow in virtual machines. */
enum reading reading_once(void) {
    static _Atomic int known = READ_AGAIN; /* not yet */
    int reading = atomic_load_explicit(&known, memory_order_relaxed);
    if (reading == READ_AGAIN) {
        reading = (int)reading_here();
        atomic_store_explicit(&known, reading, memory_order_relaxed);
    }
    return (enum reading)reading;
}

/* Once per type of indices: checks the columns of a row. */
#define CHECK_COLUMNS(INDEX)                                                                       \
    static enum sparse_fault check_##INDEX(const INDEX *columns, int64_t start, int64_t end,       \
                                           int64_t n_columns) {                                    \
        int within = 1, ascending = 1;                                                             \
        for (int64_t k = start; k < end; k++)                                                      \
            within &= columns[k] >= 0 && columns[k] < n_columns;                                   \
        for (int64_t k = start + 1; k < end; k++)                                                  \
            ascending &= columns[k - 1] < columns[k];                                              \
        return !within ? SPARSE_OUT_OF_RANGE : ascending ? SPARSE_SOUND : SPARSE_NOT_CANONICAL;    \
    }
CHECK_COLUMNS(int32_t)
CHECK_COLUMNS(int64_t)

enum sparse_fault sparse_check(const struct sparse_matrix *matrix, int64_t *row) {
    enum sparse_fault worst = SPARSE_SOUND;
    for (int64_t i = 0; i < matrix->n_rows && worst < SPARSE_OUT_OF_RANGE; i++) {
        const int64_t start = matrix->starts[i], end = matrix->starts[i + 1];
        const enum sparse_fault fault =
            matrix->index == INDEX_I32
                ? check_int32_t(matrix->columns, start, end, matrix->n_columns)
                : check_int64_t(matrix->columns, start, end, matrix->n_columns);
        if (fault > worst) {
            worst = fault;
            *row = i;
        }
    }
    return worst;
}

/* Once per type of values and indices: x_out[column] = value for the entries of a row. */
#define PUT_ENTRIES(REAL, INDEX)                                                                   \
    static void put_##REAL##_##INDEX(const struct sparse_matrix *matrix, int64_t start,            \
                                     int64_t end, REAL *x_out) {                                   \
        const REAL *values = matrix->values;                                                       \
        for (int64_t k = start; k < end; k++) {                                                    \
            const int64_t j = ((const volatile INDEX *)matrix->columns)[k];                        \
            if ((uint64_t)j < (uint64_t)matrix->n_columns) /* see column_of() */                   \
                x_out[j] = values[k];                                                              \
        }                                                                                          \
    }
PUT_ENTRIES(float, int32_t)
PUT_ENTRIES(float, int64_t)
PUT_ENTRIES(double, int32_t)
PUT_ENTRIES(double, int64_t)

static void put_row(const struct sparse_matrix *matrix, int64_t place, void *x_out) {
    const int64_t start = matrix->starts[place], end = matrix->starts[place + 1];
    const int narrow = matrix->index == INDEX_I32;
    if (matrix->type == REAL_F32)
        narrow ? put_float_int32_t(matrix, start, end, x_out)
               : put_float_int64_t(matrix, start, end, x_out);
    else
        narrow ? put_double_int32_t(matrix, start, end, x_out)
               : put_double_int64_t(matrix, start, end, x_out);
}

void expand_sparse(const void *source, const int64_t *places, int64_t first, int64_t count,
                   void *x_out) {
    const struct sparse_matrix *matrix = source;
    const int64_t row_bytes = matrix->n_columns * real_bytes(matrix->type);
    memset(x_out, 0, (size_t)(count * row_bytes));
    for (int64_t k = 0; k < count; k++)
        put_row(matrix, places ? places[k] : first + k, (char *)x_out + k * row_bytes);
}
