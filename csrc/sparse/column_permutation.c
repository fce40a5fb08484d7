/* See column_permutation.h. */
#include <float.h>
#include <math.h>

#include "sparse/column_permutation.h"

struct column_permutation column_permutation_of(int64_t n_columns, enum real_type type) {
    struct column_permutation order = {.n_columns = n_columns,
                                       .lanes = UNIT_BYTES / real_bytes(type)};
    int64_t slot_of_leaf[MAX_SLOTS], place = 0;
    order.map = slot_map_of(n_columns, order.lanes);
    order.n_slots = ACCUMULATORS * order.lanes;
    for (int64_t slot = 0; slot < order.n_slots; slot++)
        slot_of_leaf[leaf_of_slot(slot, order.lanes)] = slot;
    for (int64_t leaf = 0; leaf < order.n_slots; leaf++) {
        const int64_t slot = slot_of_leaf[leaf];
        order.first_place[leaf] = order.slot_place[slot] = place;
        place += order.map.in_fours / order.n_slots;
        for (int64_t column = order.map.in_fours; column < n_columns; column++)
            if (late_slot(&order.map, order.lanes, column) == slot)
                order.late_place[column - order.map.in_fours] = place++;
        place = (place + PLACES_PER_LINE - 1) / PLACES_PER_LINE * PLACES_PER_LINE;
    }
    order.first_place[order.n_slots] = order.n_places = place;
    return order;
}

/* The end of the whole groups among columns before `end`. */
static int64_t end_of_groups(const struct column_permutation *order, int64_t end) {
    const int64_t in_fours = end < order->map.in_fours ? end : order->map.in_fours;
    return in_fours / columns_per_group(order) * columns_per_group(order);
}

/* Once per type: transposes each group, a small matrix of rows of slots. */
#define ORDER_WEIGHTS(REAL, MOST)                                                                  \
    static int64_t order_##REAL(const struct column_permutation *order, const double *w,           \
                                int64_t begin, int64_t end, REAL *ordered) {                       \
        const int64_t n_slots = order->n_slots, whole = end_of_groups(order, end);                 \
        int64_t infinite = 0, column = begin;                                                      \
        for (; column < whole; column += columns_per_group(order))                                 \
            for (int64_t slot = 0; slot < n_slots; slot++) {                                       \
                REAL *to = ordered + order->slot_place[slot] + column / n_slots;                   \
                for (int64_t k = 0; k < PLACES_PER_LINE; k++) {                                    \
                    to[k] = (REAL)w[column + k * n_slots + slot];                                  \
                    infinite += !(fabs((double)to[k]) <= (double)MOST);                            \
                }                                                                                  \
            }                                                                                      \
        for (; column < end; column++) {                                                           \
            const REAL weight = (REAL)w[column];                                                   \
            ordered[place_of_column(order, column)] = weight;                                      \
            infinite += !(fabs((double)weight) <= (double)MOST);                                   \
        }                                                                                          \
        return infinite;                                                                           \
    }
ORDER_WEIGHTS(float, FLT_MAX)
ORDER_WEIGHTS(double, DBL_MAX)

int64_t permute_weights(const struct column_permutation *order, enum real_type type,
                        const double *w, int64_t begin, int64_t end, void *ordered) {
    return type == REAL_F32 ? order_float(order, w, begin, end, ordered)
                            : order_double(order, w, begin, end, ordered);
}

void restore_sums(const struct column_permutation *order, const int64_t *ordered, int64_t begin,
                  int64_t end, int64_t *sum_out) {
    const int64_t n_slots = order->n_slots, whole = end_of_groups(order, end);
    int64_t column = begin;
    for (; column < whole; column += columns_per_group(order))
        for (int64_t slot = 0; slot < n_slots; slot++) {
            const int64_t *from = ordered + order->slot_place[slot] + column / n_slots;
            for (int64_t k = 0; k < PLACES_PER_LINE; k++)
                sum_out[column + k * n_slots + slot] = from[k];
        }
    for (; column < end; column++)
        sum_out[column] = ordered[place_of_column(order, column)];
}
