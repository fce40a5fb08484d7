/* See live_columns.h. */
#include <stdatomic.h>
#include <stdlib.h>

#include "memory/aligned_memory.h"
#include "tabular/nonzero_columns.h"
#include "tabular/nonzero_group.h"

enum {
    ROWS = ROWS_PER_LIVE_BLOCK,
    BLOCKS = BLOCKS_PER_LIVE_GROUP,
    MOST_COLUMNS = 1 << 12, /* sums of all of them stay in the cache */
    FIRST_LOOK = 16         /* groups after which it is clear enough whether they save something */
};

/* What several threads have found so far. */
struct search {
    _Atomic int64_t next_group, n_done, n_columns, n_numbers;
    atomic_int given_up;
};

/* Whether passes over the live columns are faster than over the table, by what a column of a block
 * takes in each, and they need no more than an eighth of the memory of dense rows. */
static int pays(const struct tabular_matrix *table, const struct search *search) {
    const int64_t n_blocks = search->n_done * BLOCKS;
    const int64_t bytes = search->n_columns * (int64_t)sizeof(struct live_column) +
                          search->n_numbers * ROWS * table->number_bytes;
    const int64_t dense_bytes = n_blocks * ROWS * table->n_columns * (int64_t)sizeof(double);
    return 4 * search->n_columns <= n_blocks * (3 * table->n_numeric + 20 * table->n_categorical) &&
           8 * bytes <= dense_bytes;
}

/* Groups that no other thread has taken, until there are none, or reason to give up. */
static void search_groups(struct live_columns *live, struct group_finder *finder,
                          struct search *search) {
    int64_t g;
    while (!search->given_up && (g = search->next_group++) < live->n_groups) {
        struct live_group *group = find_live_group(finder, g * BLOCKS * ROWS);
        live->groups[g] = group;
        if (!group) {
            search->given_up = 1;
            return;
        }
        search->n_columns += group->first_column[BLOCKS];
        search->n_numbers += group->first_number[BLOCKS];
        const int64_t n_done = ++search->n_done;
        if ((n_done == FIRST_LOOK || n_done == live->n_groups) && !pays(finder->table, search))
            search->given_up = 1;
    }
}

/* Whether all groups were found. */
static int find_groups(struct live_columns *live, const struct tabular_matrix *table,
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
            search_groups(live, &finder, &search);
        else
            search.given_up = 1;
        close_group_finder(&finder);
    }
    close_column_order(&order);
    return !search.given_up;
}

struct live_columns *find_live_columns(const struct tabular_matrix *table, int64_t n_rows,
                                       int n_threads) {
    struct live_columns *live = calloc(1, sizeof *live);
    if (!live || table->n_columns > MOST_COLUMNS) {
        free(live);
        return NULL;
    }
    live->n_groups = (n_rows + BLOCKS * ROWS - 1) / (BLOCKS * ROWS);
    live->groups = calloc((size_t)live->n_groups + 1, sizeof *live->groups);
    if (!live->groups || !find_groups(live, table, n_rows, n_threads)) {
        free_live_columns(live);
        return NULL;
    }
    for (int64_t g = 0; g < live->n_groups; g++)
        live->bytes += live->groups[g]->bytes;
    return live;
}

void free_live_columns(struct live_columns *live) {
    if (!live)
        return;
    for (int64_t g = 0; live->groups && g < live->n_groups; g++)
        free_aligned(live->groups[g]);
    free(live->groups);
    free(live);
}
