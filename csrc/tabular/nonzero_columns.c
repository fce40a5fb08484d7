/* See nonzero_columns.h. */
#include <stdatomic.h>
#include <stdlib.h>

#include "memory/aligned_memory.h"
#include "tabular/nonzero_columns.h"
#include "tabular/nonzero_group.h"

enum {
    ROWS = ROWS_PER_NONZERO_BLOCK,
    BLOCKS = BLOCKS_PER_NONZERO_GROUP,
    FIRST_LOOK = 16 /* groups after which to check whether the search is worthwhile */
};

/* Progress of the threads. */
struct search {
    _Atomic int64_t next_group, n_done, n_columns, n_numbers;
    atomic_int given_up;
};

/* Whether passes over the nonzero columns are faster than over the table, by the cost per column of
 * a block in each, and take at most an eighth of the memory of dense rows. */
static int is_worthwhile(const struct tabular_matrix *table, const struct search *search) {
    const int64_t n_blocks = search->n_done * BLOCKS;
    const int64_t bytes = search->n_columns * (int64_t)sizeof(struct nonzero_column) +
                          search->n_numbers * ROWS * table->number_bytes;
    const int64_t dense_bytes = n_blocks * ROWS * table->n_columns * (int64_t)sizeof(double);
    return 4 * search->n_columns <= n_blocks * (3 * table->n_numbers + 20 * table->n_categorical) &&
           8 * bytes <= dense_bytes;
}

/* Processes groups until there are none left or the search is given up. */
static void search_groups(struct nonzero_columns *nonzero, struct group_finder *finder,
                          struct search *search) {
    int64_t g;
    while (!search->given_up && (g = search->next_group++) < nonzero->n_groups) {
        struct nonzero_group *group = find_nonzero_group(finder, g * BLOCKS * ROWS);
        nonzero->groups[g] = group;
        if (!group) {
            search->given_up = 1;
            return;
        }
        search->n_columns += group->first_column[BLOCKS];
        search->n_numbers += group->first_number[BLOCKS];
        const int64_t n_done = ++search->n_done;
        if ((n_done == FIRST_LOOK || n_done == nonzero->n_groups) &&
            !is_worthwhile(finder->table, search))
            search->given_up = 1;
    }
}

/* Returns whether all groups were processed. */
static int find_groups(struct nonzero_columns *nonzero, const struct tabular_matrix *table,
                       int64_t n_rows, int n_threads) {
    (void)n_threads; /* in a build without threads */
    struct column_order order;
    struct search search = {0};
    if (!open_column_order(&order, table->n_columns))
        search.given_up = 1;
#pragma omp parallel num_threads(n_threads)
    {
        struct group_finder finder;
        if (open_group_finder(&finder, table, &order, n_rows))
            search_groups(nonzero, &finder, &search);
        else
            search.given_up = 1;
        close_group_finder(&finder);
    }
    close_column_order(&order);
    return !search.given_up;
}

struct nonzero_columns *find_nonzero_columns(const struct tabular_matrix *table, int64_t n_rows,
                                             int n_threads) {
    struct nonzero_columns *nonzero = calloc(1, sizeof *nonzero);
    /* Numbers of maps are kept as those of the table, which must be able to hold them. */
    const int holds_maps = !table->n_mapped || table->numeric_type == NUMERIC_F32 ||
                           table->numeric_type == NUMERIC_F64;
    if (!nonzero || table->n_columns > MAX_NONZERO_COLUMNS || !holds_maps) {
        free(nonzero);
        return NULL;
    }
    nonzero->n_groups = (n_rows + BLOCKS * ROWS - 1) / (BLOCKS * ROWS);
    nonzero->groups = calloc((size_t)nonzero->n_groups + 1, sizeof *nonzero->groups);
    if (!nonzero->groups || !find_groups(nonzero, table, n_rows, n_threads)) {
        free_nonzero_columns(nonzero);
        return NULL;
    }
    for (int64_t g = 0; g < nonzero->n_groups; g++)
        nonzero->bytes += nonzero->groups[g]->bytes;
    return nonzero;
}

void free_nonzero_columns(struct nonzero_columns *nonzero) {
    if (!nonzero)
        return;
    for (int64_t g = 0; nonzero->groups && g < nonzero->n_groups; g++)
        free_aligned(nonzero->groups[g]);
    free(nonzero->groups);
    free(nonzero);
}
