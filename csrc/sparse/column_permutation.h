/* A permutation of the columns of a sparse matrix: by slots (lane_sums.h), ordered as the leaves of
 * their tree, and in the original order within a slot. Neighbours in this order add to the same
 * partial sum of a row's product, so that one number per row is enough while they are processed.
 *
 * Slots begin at whole cache lines of sums; the places in between belong to no column. */
#ifndef DPERM_COLUMN_PERMUTATION_H
#define DPERM_COLUMN_PERMUTATION_H

#include "vector/lane_sums.h"
#include "kernel_table.h"

enum { MAX_SLOTS = ACCUMULATORS * UNIT_BYTES / sizeof(float), PLACES_PER_LINE = 8 };

struct column_permutation {
    struct slot_map map;
    int64_t n_columns, lanes, n_slots, n_places;
    int64_t first_place[MAX_SLOTS + 1]; /* of each leaf */
    int64_t slot_place[MAX_SLOTS];      /* where the leaf of each slot begins */
    int64_t late_place[MAX_SLOTS];      /* of columns from map.in_fours on */
};

struct column_permutation column_permutation_of(int64_t n_columns, enum real_type type);

static inline int64_t place_of_column(const struct column_permutation *order, int64_t column) {
    if (column >= order->map.in_fours)
        return order->late_place[column - order->map.in_fours];
    const uint64_t slots = (uint64_t)order->n_slots; /* a power of two */
    return order->slot_place[(uint64_t)column & (slots - 1)] + (int64_t)((uint64_t)column / slots);
}

/* Columns before map.in_fours are moved in groups of this many. */
static inline int64_t columns_per_group(const struct column_permutation *order) {
    return order->n_slots * PLACES_PER_LINE;
}

/* The largest number of pending sums while the tree is added up from left to right. */
static inline int64_t row_panel_workspace_rows(const struct column_permutation *order) {
    int64_t height = 0;
    while (order->n_slots >> height > 1)
        height++;
    return height + 1;
}

/* For columns from `begin`, a multiple of columns_per_group(), to end - 1. Returns how many weights
 * overflowed to infinity in the type. */
int64_t permute_weights(const struct column_permutation *order, enum real_type type,
                        const double *w, int64_t begin, int64_t end, void *ordered);
void restore_sums(const struct column_permutation *order, const int64_t *ordered, int64_t begin,
                  int64_t end, int64_t *sum_out);

#endif
