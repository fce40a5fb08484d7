/* See column_panels.h. */
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
    PASSES_BEFORE_PANELS = 8,
    MIN_COLUMNS = 1 << 14, /* sums of fewer columns stay in the cache anyway */
    MAX_PANEL_BYTES = 1 << 30,
    PANEL_PLACES = 1 << 15,       /* at most: 256 KB of sums */
    MIN_PANELS = 48,              /* each with at most 1/48 of the entries, if columns allow */
    ROW_PANEL_ROWS = 1 << 14,     /* at most: 128 KB of products */
    MIN_ROW_PANELS = 16,          /* or a multiple, to balance threads */
    MIN_ROW_PANEL_ROWS = 1 << 10, /* takes precedence over MIN_ROW_PANELS */
    ENTRIES_PER_TILE = 16         /* fewest on average for panels to be worthwhile */
};

static int64_t ceiling(int64_t value, int64_t divisor) {
    return (value + divisor - 1) / divisor;
}

static void cut_rows(const struct sparse_matrix *matrix, struct column_panels *panels) {
    const int64_t fewest = ceiling(matrix->n_rows, ROW_PANEL_ROWS);
    const int64_t even = ceiling(fewest, MIN_ROW_PANELS) * MIN_ROW_PANELS;
    const int64_t rows = ceiling(matrix->n_rows, even);
    panels->rows_per_row_panel =
        rows >= MIN_ROW_PANEL_ROWS ? rows : ceiling(matrix->n_rows, fewest);
    panels->n_row_panels = ceiling(matrix->n_rows, panels->rows_per_row_panel);
}

/* Rows *begin .. *end - 1 of a row_panel. */
static void rows_of_row_panel(const struct sparse_matrix *matrix,
                              const struct column_panels *panels, int64_t row_panel, int64_t *begin,
                              int64_t *end) {
    *begin = row_panel * panels->rows_per_row_panel;
    *end = *begin + panels->rows_per_row_panel;
    if (*end > matrix->n_rows)
        *end = matrix->n_rows;
}

/* Once per type of indices: the entries on every line of sums, and those of a row panel in every
 * panel, where panel[] has the panel of every line. */
#define COUNT_ENTRIES(INDEX)                                                                       \
    static void count_lines_##INDEX(const struct sparse_matrix *matrix,                            \
                                    const struct column_permutation *order, int64_t *count) {      \
        const INDEX *column = matrix->columns;                                                     \
        for (int64_t k = 0; k < matrix->n_entries; k++)                                            \
            count[place_of_column(order, column[k]) / PLACES_PER_LINE]++;                          \
    }                                                                                              \
    static void count_tiles_##INDEX(const struct sparse_matrix *matrix,                            \
                                    const struct column_panels *panels, const int32_t *panel,      \
                                    int64_t row_panel, int64_t *count) {                           \
        const INDEX *column = matrix->columns;                                                     \
        int64_t begin, end;                                                                        \
        rows_of_row_panel(matrix, panels, row_panel, &begin, &end);                                \
        for (int64_t k = matrix->starts[begin]; k < matrix->starts[end]; k++)                      \
            count[panel[place_of_column(&panels->order, column[k]) / PLACES_PER_LINE]]++;          \
    }
COUNT_ENTRIES(int32_t)
COUNT_ENTRIES(int64_t)

/* Once per type of values and indices: copies the entries of a row panel to their tiles; next[t] is
 * where the next one of panel t goes. */
#define PLACE_ENTRIES(REAL, INDEX, MOST)                                                           \
    static void place_##REAL##_##INDEX(const struct sparse_matrix *matrix,                         \
                                       const struct column_panels *panels, const int32_t *panel,   \
                                       int64_t row_panel, int64_t *next) {                         \
        const INDEX *column = matrix->columns;                                                     \
        const REAL *x = matrix->values;                                                            \
        REAL *values = panels->values;                                                             \
        int64_t begin, end;                                                                        \
        rows_of_row_panel(matrix, panels, row_panel, &begin, &end);                                \
        for (int64_t i = begin; i < end; i++)                                                      \
            for (int64_t k = matrix->starts[i]; k < matrix->starts[i + 1]; k++) {                  \
                const int64_t place = place_of_column(&panels->order, column[k]);                  \
                const int64_t t = panel[place / PLACES_PER_LINE], at = next[t]++;                  \
                panels->entries[at] =                                                              \
                    (uint32_t)(i - begin) << 16 | (uint32_t)(place - panels->first_place[t]);      \
                values[at] = fabs((double)x[k]) <= (double)MOST ? x[k] : 0;                        \
            }                                                                                      \
    }
PLACE_ENTRIES(float, int32_t, FLT_MAX)
PLACE_ENTRIES(float, int64_t, FLT_MAX)
PLACE_ENTRIES(double, int32_t, DBL_MAX)
PLACE_ENTRIES(double, int64_t, DBL_MAX)

static void count_tiles(const struct sparse_matrix *matrix, const struct column_panels *panels,
                        const int32_t *panel, int64_t row_panel, int64_t *count) {
    (matrix->index == INDEX_I32 ? count_tiles_int32_t : count_tiles_int64_t)(matrix, panels, panel,
                                                                             row_panel, count);
}

static void place_entries(const struct sparse_matrix *matrix, const struct column_panels *panels,
                          const int32_t *panel, int64_t row_panel, int64_t *next) {
    const int narrow = matrix->index == INDEX_I32;
    if (matrix->type == REAL_F32)
        (narrow ? place_float_int32_t : place_float_int64_t)(matrix, panels, panel, row_panel,
                                                             next);
    else
        (narrow ? place_double_int32_t : place_double_int64_t)(matrix, panels, panel, row_panel,
                                                               next);
}

/* Splits the cache lines of a leaf into panels with about equally many entries: panel[] gets the
 * panel of every line. Returns the number of panels so far. */
static int64_t cut_leaf(int64_t first_line, int64_t end_line, int64_t enough, const int64_t *count,
                        int64_t n_panels, int64_t *first_place, int32_t *panel) {
    int64_t entries = 0, here = 0, first = first_line;
    for (int64_t line = first_line; line < end_line; line++)
        entries += count[line];
    const int64_t most = entries / (entries / enough + 1) + 1;
    for (int64_t line = first_line; line < end_line; line++) {
        const int full = here > 0 && here + count[line] > most + count[line] / 2;
        if (line > first && (full || (line - first) * PLACES_PER_LINE >= PANEL_PLACES)) {
            first_place[n_panels++] = first * PLACES_PER_LINE;
            first = line;
            here = 0;
        }
        here += count[line];
        panel[line] = (int32_t)n_panels;
    }
    if (first < end_line)
        first_place[n_panels++] = first * PLACES_PER_LINE;
    return n_panels;
}

static void cut_places(const struct sparse_matrix *matrix, const int64_t *count, int32_t *panel,
                       struct column_panels *panels) {
    const struct column_permutation *order = &panels->order;
    const int64_t enough = matrix->n_entries / MIN_PANELS + 1;
    int64_t n_panels = 0;
    for (int64_t leaf = 0; leaf < order->n_slots; leaf++) {
        panels->first_panel[leaf] = n_panels;
        n_panels = cut_leaf(order->first_place[leaf] / PLACES_PER_LINE,
                            order->first_place[leaf + 1] / PLACES_PER_LINE, enough, count, n_panels,
                            panels->first_place, panel);
    }
    panels->first_panel[order->n_slots] = panels->n_panels = n_panels;
    panels->first_place[n_panels] = order->n_places;
}

static void free_column_panels(struct column_panels *panels) {
    if (!panels)
        return;
    free(panels->first_place);
    free(panels->first_panel);
    free(panels->starts);
    free_aligned(panels->entries);
    free_aligned(panels->values);
    free(panels);
}

/* Turns the counts of each tile into starts, panel by panel; the counts become the places of the
 * next entries. */
static void start_tiles(struct column_panels *panels, int64_t *count) {
    int64_t before = 0;
    for (int64_t t = 0; t < panels->n_panels; t++)
        for (int64_t row_panel = 0; row_panel < panels->n_row_panels; row_panel++) {
            int64_t *tile = &count[row_panel * panels->n_panels + t];
            const int64_t here = *tile;
            panels->starts[t * panels->n_row_panels + row_panel] = *tile = before;
            before += here;
        }
    panels->starts[panels->n_panels * panels->n_row_panels] = before;
}

/* Fills panels whose places are known; returns 0 when memory ran out. Row panels share no counts.
 */
static int fill_panels(const struct sparse_matrix *matrix, int n_threads, const int32_t *panel,
                       struct column_panels *panels) {
    const int64_t n_tiles = panels->n_panels * panels->n_row_panels;
    int64_t *count = calloc((size_t)n_tiles, sizeof *count);
    _Atomic int64_t panels_counted = 0, panels_placed = 0;
    (void)n_threads; /* in a build without threads */
    panels->starts = malloc((size_t)(n_tiles + 1) * sizeof *panels->starts);
    panels->entries = huge_page_memory((size_t)matrix->n_entries * sizeof *panels->entries);
    panels->values = huge_page_memory((size_t)(matrix->n_entries * real_bytes(matrix->type)));
    const int had = count && panels->starts && panels->entries && panels->values;
    if (had) {
#pragma omp parallel num_threads(n_threads)
        for (int64_t row_panel; (row_panel = panels_counted++) < panels->n_row_panels;)
            count_tiles(matrix, panels, panel, row_panel, count + row_panel * panels->n_panels);
        start_tiles(panels, count);
#pragma omp parallel num_threads(n_threads)
        for (int64_t row_panel; (row_panel = panels_placed++) < panels->n_row_panels;)
            place_entries(matrix, panels, panel, row_panel, count + row_panel * panels->n_panels);
    }
    free(count);
    return had;
}

static struct column_panels *make_panels(const struct sparse_matrix *matrix, int n_threads) {
    const struct column_permutation order = column_permutation_of(matrix->n_columns, matrix->type);
    const int64_t n_lines = order.n_places / PLACES_PER_LINE;
    struct column_panels *panels = calloc(1, sizeof *panels);
    int64_t *count = calloc((size_t)n_lines, sizeof *count);
    int32_t *panel = malloc((size_t)n_lines * sizeof *panel);
    int made = 0;
    if (panels) {
        panels->order = order;
        panels->reading = reading_once();
        panels->first_place = malloc((size_t)(n_lines + 1) * sizeof *panels->first_place);
        panels->first_panel = malloc((size_t)(order.n_slots + 1) * sizeof *panels->first_panel);
    }
    if (panels && count && panel && panels->first_place && panels->first_panel) {
        (matrix->index == INDEX_I32 ? count_lines_int32_t : count_lines_int64_t)(matrix, &order,
                                                                                 count);
        cut_places(matrix, count, panel, panels);
        cut_rows(matrix, panels);
        made = matrix->n_entries / ENTRIES_PER_TILE >= panels->n_panels * panels->n_row_panels &&
               fill_panels(matrix, n_threads, panel, panels);
    }
    free(count);
    free(panel);
    if (made)
        return panels;
    free_column_panels(panels);
    return NULL;
}

const struct column_panels *panels_for_pass(const struct sparse_matrix *matrix, int n_threads) {
    struct panel_store *store = matrix->store;
    const int64_t entry_bytes = (int64_t)sizeof(uint32_t) + real_bytes(matrix->type);
    if (!store || matrix->n_columns < MIN_COLUMNS ||
        matrix->n_entries > MAX_PANEL_BYTES / entry_bytes)
        return NULL;
    /* Exactly one pass gets this number. */
    if (atomic_fetch_add_explicit(&store->passes, 1, memory_order_relaxed) == PASSES_BEFORE_PANELS)
        atomic_store_explicit(&store->panels, make_panels(matrix, n_threads), memory_order_release);
    return atomic_load_explicit(&store->panels, memory_order_acquire);
}

int64_t count_panels(const struct panel_store *store) {
    const struct column_panels *panels = atomic_load_explicit(&store->panels, memory_order_acquire);
    return panels ? panels->n_panels : 0;
}

void free_panels(struct panel_store *store) {
    free_column_panels(atomic_load_explicit(&store->panels, memory_order_relaxed));
}
