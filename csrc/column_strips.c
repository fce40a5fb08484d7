/* See column_strips.h. */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "column_strips.h"
#include "large_memory.h"

enum {
    PASSES_BEFORE_STRIPS = 8,
    LEAST_COLUMNS = 1 << 14, /* sums of fewer stay in the cache anyway */
    MOST_STRIP_BYTES = 1 << 30,
    STRIP_COLUMNS = 1 << 15, /* at most: 256 KB of sums */
    FEWEST_STRIPS = 64,      /* of about equal numbers of entries, where columns allow it */
    COLUMNS_PER_LINE = 8,    /* sums on one cache line: never of two strips */
    ENTRIES_PER_START = 16   /* on average, or slabs are too short */
};

static int64_t real_bytes(const struct sparse_matrix *matrix) {
    return matrix->type == REAL_F32 ? sizeof(float) : sizeof(double);
}

static int64_t end_of_slab(const struct sparse_matrix *matrix, int64_t slab) {
    const int64_t end = (slab + 1) * SLAB_ROWS;
    return end < matrix->n_rows ? end : matrix->n_rows;
}

static int64_t lines_of(const struct sparse_matrix *matrix) {
    return (matrix->n_columns + COLUMNS_PER_LINE - 1) / COLUMNS_PER_LINE;
}

/* Once per type of indices: the entries on every line, and those of every strip in a slab. */
#define COUNT_ENTRIES(INDEX)                                                                       \
    static void count_lines_##INDEX(const struct sparse_matrix *matrix, int64_t *count) {          \
        const INDEX *column = matrix->columns;                                                     \
        for (int64_t k = 0; k < matrix->n_entries; k++)                                            \
            count[column[k] / COLUMNS_PER_LINE]++;                                                 \
    }                                                                                              \
    static void count_places_##INDEX(const struct sparse_matrix *matrix, const int64_t *strip,     \
                                     int64_t slab, int64_t n_slabs, int64_t *count) {              \
        const INDEX *column = matrix->columns;                                                     \
        const int64_t first = slab * SLAB_ROWS, end = end_of_slab(matrix, slab);                   \
        for (int64_t k = matrix->starts[first]; k < matrix->starts[end]; k++)                      \
            count[strip[column[k] / COLUMNS_PER_LINE] * n_slabs + slab]++;                         \
    }
COUNT_ENTRIES(int32_t)
COUNT_ENTRIES(int64_t)

/* Once per type of values and indices: puts the entries of a slab where they belong; next[] is
 * where the next one of each strip and slab goes. */
#define PLACE_ENTRIES(REAL, INDEX, MOST)                                                           \
    static void place_##REAL##_##INDEX(const struct sparse_matrix *matrix, const int64_t *strip,   \
                                       int64_t slab, int64_t *next,                                \
                                       struct column_strips *strips) {                             \
        const INDEX *column = matrix->columns;                                                     \
        const REAL *x = matrix->values;                                                            \
        REAL *values = strips->values;                                                             \
        const int64_t first = slab * SLAB_ROWS, end = end_of_slab(matrix, slab);                   \
        for (int64_t i = first; i < end; i++)                                                      \
            for (int64_t k = matrix->starts[i]; k < matrix->starts[i + 1]; k++) {                  \
                const int64_t t = strip[column[k] / COLUMNS_PER_LINE];                             \
                const int64_t at = next[t * strips->n_slabs + slab]++;                             \
                strips->places[at] =                                                               \
                    (uint32_t)(i - first) << 16 | (uint32_t)(column[k] - strips->first_column[t]); \
                values[at] = fabs((double)x[k]) <= (double)MOST ? x[k] : 0;                        \
            }                                                                                      \
    }
PLACE_ENTRIES(float, int32_t, FLT_MAX)
PLACE_ENTRIES(float, int64_t, FLT_MAX)
PLACE_ENTRIES(double, int32_t, DBL_MAX)
PLACE_ENTRIES(double, int64_t, DBL_MAX)

static void place_entries(const struct sparse_matrix *matrix, const int64_t *strip, int64_t slab,
                          int64_t *next, struct column_strips *strips) {
    const int narrow = matrix->index == INDEX_I32;
    if (matrix->type == REAL_F32)
        (narrow ? place_float_int32_t : place_float_int64_t)(matrix, strip, slab, next, strips);
    else
        (narrow ? place_double_int32_t : place_double_int64_t)(matrix, strip, slab, next, strips);
}

/* Cuts the columns: on entry line[] holds the number of entries of each line of sums, on return the
 * strip that it belongs to. first_column has room for a strip per line and one more. */
static int64_t cut_columns(const struct sparse_matrix *matrix, int64_t *line,
                           int64_t *first_column) {
    const int64_t enough = matrix->n_entries / FEWEST_STRIPS, n_lines = lines_of(matrix);
    int64_t t = 0, entries = 0;
    first_column[0] = 0;
    for (int64_t l = 0; l < n_lines; l++) {
        const int64_t column = l * COLUMNS_PER_LINE, here = line[l];
        if (column > first_column[t] &&
            (entries + here > enough || column - first_column[t] >= STRIP_COLUMNS)) {
            first_column[++t] = column;
            entries = 0;
        }
        entries += here;
        line[l] = t;
    }
    first_column[t + 1] = matrix->n_columns;
    return t + 1;
}

static void free_column_strips(struct column_strips *strips) {
    if (!strips)
        return;
    free(strips->first_column);
    free(strips->starts);
    free_aligned(strips->places);
    free_aligned(strips->values);
    free(strips);
}

/* Fills strips that have their columns; 0 when they are not to be had. */
static int fill_strips(const struct sparse_matrix *matrix, int n_threads, const int64_t *strip,
                       struct column_strips *strips) {
    const int64_t n_starts = strips->n_strips * strips->n_slabs;
    (void)n_threads; /* in a build without threads */
    if (n_starts > matrix->n_entries / ENTRIES_PER_START)
        return 0;
    strips->reading = reading_once();
    strips->starts = calloc((size_t)n_starts + 1, sizeof *strips->starts);
    strips->places = large_memory((size_t)matrix->n_entries * sizeof *strips->places);
    strips->values = large_memory((size_t)(matrix->n_entries * real_bytes(matrix)));
    if (!strips->starts || !strips->places || !strips->values)
        return 0;
    /* starts[m + 1] is first the number of entries of part m, then the place of its next entry, and
     * so at last where part m + 1 begins. */
    int64_t *count = strips->starts + 1, before = 0;
    /* Slabs share neither counts nor places. */
    _Atomic int64_t slabs_counted = 0, slabs_placed = 0;
#pragma omp parallel num_threads(n_threads)
    for (int64_t slab; (slab = slabs_counted++) < strips->n_slabs;)
        (matrix->index == INDEX_I32 ? count_places_int32_t : count_places_int64_t)(
            matrix, strip, slab, strips->n_slabs, count);
    for (int64_t m = 0; m < n_starts; m++) {
        const int64_t here = count[m];
        count[m] = before;
        before += here;
    }
#pragma omp parallel num_threads(n_threads)
    for (int64_t slab; (slab = slabs_placed++) < strips->n_slabs;)
        place_entries(matrix, strip, slab, count, strips);
    return 1;
}

static struct column_strips *make_strips(const struct sparse_matrix *matrix, int n_threads) {
    const int64_t n_lines = lines_of(matrix);
    struct column_strips *strips = calloc(1, sizeof *strips);
    int64_t *line = calloc((size_t)n_lines, sizeof *line);
    int made = 0;
    if (strips)
        strips->first_column = malloc((size_t)(n_lines + 1) * sizeof *strips->first_column);
    if (strips && line && strips->first_column) {
        (matrix->index == INDEX_I32 ? count_lines_int32_t : count_lines_int64_t)(matrix, line);
        strips->n_strips = cut_columns(matrix, line, strips->first_column);
        strips->n_slabs = (matrix->n_rows + SLAB_ROWS - 1) / SLAB_ROWS;
        made = fill_strips(matrix, n_threads, line, strips);
    }
    free(line);
    if (made)
        return strips;
    free_column_strips(strips);
    return NULL;
}

const struct column_strips *strips_for_pass(const struct sparse_matrix *matrix, int n_threads) {
    struct strip_store *store = matrix->store;
    const int64_t entry_bytes = (int64_t)sizeof(uint32_t) + real_bytes(matrix);
    if (!store || matrix->n_columns < LEAST_COLUMNS ||
        matrix->n_entries > MOST_STRIP_BYTES / entry_bytes)
        return NULL;
    /* One pass alone gets this number. */
    if (atomic_fetch_add_explicit(&store->passes, 1, memory_order_relaxed) == PASSES_BEFORE_STRIPS)
        atomic_store_explicit(&store->strips, make_strips(matrix, n_threads), memory_order_release);
    return atomic_load_explicit(&store->strips, memory_order_acquire);
}

int64_t count_strips(const struct strip_store *store) {
    const struct column_strips *strips = atomic_load_explicit(&store->strips, memory_order_acquire);
    return strips ? strips->n_strips : 0;
}

void free_strips(struct strip_store *store) {
    free_column_strips(atomic_load_explicit(&store->strips, memory_order_relaxed));
}
