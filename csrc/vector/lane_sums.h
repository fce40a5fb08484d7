/* The partial sums, or slots, of a dense row's product with the weights.
 *
 * The kernels for dense rows add products up in ACCUMULATORS accumulators of `lanes` lanes, see
 * dot() and unit_offset() in dense_block.h. Column j has the same slot in every row. A row
 * that is not dense gets the bits of the dense one when it adds its products up slot by slot in the
 * order of columns, as 0 changes no sum, and then the slots up as fold() does. */
#ifndef DPERM_LANE_SUMS_H
#define DPERM_LANE_SUMS_H

#include <stdint.h>

#define UNIT_BYTES 64 /* of the lanes of an accumulator */

enum { ACCUMULATORS = 4 };

struct slot_map {
    int64_t in_fours;  /* columns before this one: one unit of lanes for each accumulator in turn */
    int64_t in_units;  /* columns from there up to this one: units for the first accumulator */
    int64_t last_unit; /* the others: the unit that covers the last columns, from this one on */
};

static inline struct slot_map slot_map_of(int64_t n_columns, int64_t lanes) {
    const int64_t width = n_columns < lanes ? lanes : n_columns, full_units = width / lanes;
    const struct slot_map map = {full_units / ACCUMULATORS * ACCUMULATORS * lanes,
                                 full_units * lanes, width - lanes};
    return map;
}

/* The slot of a column from in_fours on. */
static inline int64_t late_slot(const struct slot_map *map, int64_t lanes, int64_t column) {
    return column < map->in_units ? column % lanes : column - map->last_unit;
}

static inline int64_t dense_slot(const struct slot_map *map, int64_t lanes, int64_t column) {
    return column < map->in_fours ? column % (ACCUMULATORS * lanes) : late_slot(map, lanes, column);
}

/* Sums of slots are the nodes of a binary tree: fold() adds lanes l and l + lanes / 2 first, and so
 * on by halves, each lane being the sum of its accumulators in pairs. The leaf of a slot, from left
 * to right. */
static inline int64_t leaf_of_slot(int64_t slot, int64_t lanes) {
    int64_t lane = slot % lanes, reversed = 0;
    for (int64_t half = 1; half < lanes; half *= 2, lane /= 2)
        reversed = 2 * reversed + lane % 2;
    return reversed * ACCUMULATORS + slot / lanes;
}

#endif
