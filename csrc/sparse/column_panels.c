/* See column_strips.h. */
#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/column_panels.h"
#include "memory/huge_pages.h"

enum {
    PASSES_BEFORE_STRIPS = 8,
    LEAST_COLUMNS = 1 << 14, /* sums of fewer stay in the cache anyway */
    MOST_STRIP_BYTES = 1 << 30,
    STRIP_PLACES = 1 << 15, /* at most: 256 KB of sums */
    FEWEST_STRIPS = 48,     /* of at most this part of the entries, where columns allow it */
    SLAB_ROWS = 1 << 14,    /* at most: 128 KB of products */
    FEWEST_SLABS = 16,      /* or a multiple, for the threads, but of no less than */
    LEAST_SLAB_ROWS = 1 << 10,
    ENTRIES_PER_TILE = 16 /* on average, or tiles are too small */
};

static int64_t real_bytes(const struct sparse_matrix *matrix) {
    return matrix->type == REAL_F32 ? sizeof(float) : sizeof(double);
}

static int64_t ceiling(int64_t value, int64_t divisor) {
    return (value + divisor - 1) / divisor;
}

static void cut_rows(const struct sparse_matrix *matrix, struct column_strips *strips) {
    const int64_t fewest = ceiling(matrix->n_rows, SLAB_ROWS);
    const int64_t even = ceiling(fewest, FEWEST_SLABS) * FEWEST_SLABS;
    const int64_t rows = ceiling(matrix->n_rows, even);
    strips->slab_rows = rows >= LEAST_SLAB_ROWS ? rows : ceiling(matrix->n_rows, fewest);
    strips->n_slabs = ceiling(matrix->n_rows, strips->slab_rows);
}

/* Rows *begin .. *end - 1 of a slab. */
static void rows_of_slab(const struct sparse_matrix *matrix, const struct column_strips *strips,
                         int64_t slab, int64_t *begin, int64_t *end) {
    *begin = slab * strips->slab_rows;
    *end = *begin + strips->slab_rows;
    if (*end > matrix->n_rows)
        *end = matrix->n_rows;
}

/* Once per type of indices: the entries on every line of sums, and those of a slab in every strip,
 * where strip[] has the strip of every line. */
#define COUNT_ENTRIES(INDEX)                                                                       \
    static void count_lines_##INDEX(const struct sparse_matrix *matrix,                            \
                                    const struct strip_order *order, int64_t *count) {             \
        const INDEX *column = matrix->columns;                                                     \
        for (int64_t k = 0; k < matrix->n_entries; k++)                                            \
            count[place_of_column(order, column[k]) / PLACES_PER_LINE]++;                          \
    }                                                                                              \
    static void count_tiles_##INDEX(const struct sparse_matrix *matrix,                            \
                                    const struct column_strips *strips, const int32_t *strip,      \
                                    int64_t slab, int64_t *count) {                                \
        const INDEX *column = matrix->columns;                                                     \
        int64_t begin, end;                                                                        \
        rows_of_slab(matrix, strips, slab, &begin, &end);                                          \
        for (int64_t k = matrix->starts[begin]; k < matrix->starts[end]; k++)                      \
            count[strip[place_of_column(&strips->order, column[k]) / PLACES_PER_LINE]]++;          \
    }
COUNT_ENTRIES(int32_t)
COUNT_ENTRIES(int64_t)

/* Once per type of values and indices: puts the entries of a slab where they belong; next[t] is
 * where the next one of strip t goes. */
#define PLACE_ENTRIES(REAL, INDEX, MOST)                                                           \
    static void place_##REAL##_##INDEX(const struct sparse_matrix *matrix,                         \
                                       const struct column_strips *strips, const int32_t *strip,   \
                                       int64_t slab, int64_t *next) {                              \
        const INDEX *column = matrix->columns;                                                     \
        const REAL *x = matrix->values;                                                            \
        REAL *values = strips->values;                                                             \
        int64_t begin, end;                                                                        \
        rows_of_slab(matrix, strips, slab, &begin, &end);                                          \
        for (int64_t i = begin; i < end; i++)                                                      \
            for (int64_t k = matrix->starts[i]; k < matrix->starts[i + 1]; k++) {                  \
                const int64_t place = place_of_column(&strips->order, column[k]);                  \
                const int64_t t = strip[place / PLACES_PER_LINE], at = next[t]++;                  \
                strips->entries[at] =                                                              \
                    (uint32_t)(i - begin) << 16 | (uint32_t)(place - strips->first_place[t]);      \
                values[at] = fabs((double)x[k]) <= (double)MOST ? x[k] : 0;                        \
            }                                                                                      \
    }
PLACE_ENTRIES(float, int32_t, FLT_MAX)
PLACE_ENTRIES(float, int64_t, FLT_MAX)
PLACE_ENTRIES(double, int32_t, DBL_MAX)
PLACE_ENTRIES(double, int64_t, DBL_MAX)

static void count_tiles(const struct sparse_matrix *matrix, const struct column_strips *strips,
                        const int32_t *strip, int64_t slab, int64_t *count) {
    (matrix->index == INDEX_I32 ? count_tiles_int32_t : count_tiles_int64_t)(matrix, strips, strip,
                                                                             slab, count);
}

static void place_entries(const struct sparse_matrix *matrix, const struct column_strips *strips,
                          const int32_t *strip, int64_t slab, int64_t *next) {
    const int narrow = matrix->index == INDEX_I32;
    if (matrix->type == REAL_F32)
        (narrow ? place_float_int32_t : place_float_int64_t)(matrix, strips, strip, slab, next);
    else
        (narrow ? place_double_int32_t : place_double_int64_t)(matrix, strips, strip, slab, next);
}

/* Cuts the lines of a leaf into strips of about as many entries each: strip[] gets the strip of
 * every line. Returns how many strips there are by now. */
static int64_t cut_leaf(int64_t first_line, int64_t end_line, int64_t enough, const int64_t *count,
                        int64_t n_strips, int64_t *first_place, int32_t *strip) {
    int64_t entries = 0, here = 0, first = first_line;
    for (int64_t line = first_line; line < end_line; line++)
        entries += count[line];
    const int64_t most = entries / (entries / enough + 1) + 1;
    for (int64_t line = first_line; line < end_line; line++) {
        const int full = here > 0 && here + count[line] > most + count[line] / 2;
        if (line > first && (full || (line - first) * PLACES_PER_LINE >= STRIP_PLACES)) {
            first_place[n_strips++] = first * PLACES_PER_LINE;
            first = line;
            here = 0;
        }
        here += count[line];
        strip[line] = (int32_t)n_strips;
    }
    if (first < end_line)
        first_place[n_strips++] = first * PLACES_PER_LINE;
    return n_strips;
}

static void cut_places(const struct sparse_matrix *matrix, const int64_t *count, int32_t *strip,
                       struct column_strips *strips) {
    const struct strip_order *order = &strips->order;
    const int64_t enough = matrix->n_entries / FEWEST_STRIPS + 1;
    int64_t n_strips = 0;
    for (int64_t leaf = 0; leaf < order->n_slots; leaf++) {
        strips->first_strip[leaf] = n_strips;
        n_strips = cut_leaf(order->first_place[leaf] / PLACES_PER_LINE,
                            order->first_place[leaf + 1] / PLACES_PER_LINE, enough, count, n_strips,
                            strips->first_place, strip);
    }
    strips->first_strip[order->n_slots] = strips->n_strips = n_strips;
    strips->first_place[n_strips] = order->n_places;
}

static void free_column_strips(struct column_strips *strips) {
    if (!strips)
        return;
    free(strips->first_place);
    free(strips->first_strip);
    free(strips->starts);
    free_aligned(strips->entries);
    free_aligned(strips->values);
    free(strips);
}

/* Tiles follow each other strip by strip: starts from the counts of each slab, which become the
 * places of its next entries. */
static void start_tiles(struct column_strips *strips, int64_t *count) {
    int64_t before = 0;
    for (int64_t t = 0; t < strips->n_strips; t++)
        for (int64_t slab = 0; slab < strips->n_slabs; slab++) {
            int64_t *tile = &count[slab * strips->n_strips + t];
            const int64_t here = *tile;
            strips->starts[t * strips->n_slabs + slab] = *tile = before;
            before += here;
        }
    strips->starts[strips->n_strips * strips->n_slabs] = before;
}

/* Fills strips that have their places; 0 when memory runs out. Slabs share no counts. */
static int fill_strips(const struct sparse_matrix *matrix, int n_threads, const int32_t *strip,
                       struct column_strips *strips) {
    const int64_t n_tiles = strips->n_strips * strips->n_slabs;
    int64_t *count = calloc((size_t)n_tiles, sizeof *count);
    _Atomic int64_t slabs_counted = 0, slabs_placed = 0;
    (void)n_threads; /* in a build without threads */
    strips->starts = malloc((size_t)(n_tiles + 1) * sizeof *strips->starts);
    strips->entries = large_memory((size_t)matrix->n_entries * sizeof *strips->entries);
    strips->values = large_memory((size_t)(matrix->n_entries * real_bytes(matrix)));
    const int had = count && strips->starts && strips->entries && strips->values;
    if (had) {
#pragma omp parallel num_threads(n_threads)
        for (int64_t slab; (slab = slabs_counted++) < strips->n_slabs;)
            count_tiles(matrix, strips, strip, slab, count + slab * strips->n_strips);
        start_tiles(strips, count);
#pragma omp parallel num_threads(n_threads)
        for (int64_t slab; (slab = slabs_placed++) < strips->n_slabs;)
            place_entries(matrix, strips, strip, slab, count + slab * strips->n_strips);
    }
    free(count);
    return had;
}

static struct column_strips *make_strips(const struct sparse_matrix *matrix, int n_threads) {
    const struct strip_order order = strip_order_of(matrix->n_columns, matrix->type);
    const int64_t n_lines = order.n_places / PLACES_PER_LINE;
    struct column_strips *strips = calloc(1, sizeof *strips);
    int64_t *count = calloc((size_t)n_lines, sizeof *count);
    int32_t *strip = malloc((size_t)n_lines * sizeof *strip);
    int made = 0;
    if (strips) {
        strips->order = order;
        strips->reading = reading_once();
        strips->first_place = malloc((size_t)(n_lines + 1) * sizeof *strips->first_place);
        strips->first_strip = malloc((size_t)(order.n_slots + 1) * sizeof *strips->first_strip);
    }
    if (strips && count && strip && strips->first_place && strips->first_strip) {
        (matrix->index == INDEX_I32 ? count_lines_int32_t : count_lines_int64_t)(matrix, &order,
                                                                                 count);
        cut_places(matrix, count, strip, strips);
        cut_rows(matrix, strips);
        made = matrix->n_entries / ENTRIES_PER_TILE >= strips->n_strips * strips->n_slabs &&
               fill_strips(matrix, n_threads, strip, strips);
    }
    free(count);
    free(strip);
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
