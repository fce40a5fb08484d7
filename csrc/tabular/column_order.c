/* See column_order.h. */
#include <stdlib.h>

#include "tabular/column_order.h"

enum { TREE_HEIGHT = 5 };
_Static_assert(1 << TREE_HEIGHT == SLOTS, "a leaf for each slot");

static void fill_column_order(int64_t n_columns, struct column_order *order) {
    const struct slot_map map = slot_map_of(n_columns, UNIT_DOUBLES);
    int32_t rank = 0;
    for (int leaf = 0; leaf < SLOTS; leaf++)
        for (int64_t column = 0; column < n_columns; column++)
            if (leaf_of_slot(dense_slot(&map, UNIT_DOUBLES, column), UNIT_DOUBLES) == leaf) {
                order->rank[column] = rank;
                order->leaf[rank++] = (uint8_t)leaf;
            }
}

int open_column_order(struct column_order *order, int64_t n_columns) {
    order->rank = malloc((size_t)n_columns * sizeof *order->rank);
    order->leaf = malloc((size_t)n_columns);
    if (!order->rank || !order->leaf)
        return 0;
    fill_column_order(n_columns, order);
    return 1;
}

void close_column_order(struct column_order *order) {
    free(order->rank);
    free(order->leaf);
}

/* Columns that were written. */
struct written {
    struct nonzero_column *first, *last;
};

/* Ranks begin .. end - 1, whose leaves are those of one subtree. The half with more columns comes
 * first: a single column is then added to it without the stack. */
static struct written write_subtree(const struct column_order *order, const int32_t *begin,
                                    const int32_t *end, int height, write_column_fn *write,
                                    void *context) {
    struct written all = {NULL, NULL};
    const int32_t *middle = begin;
    if (height == 0 || end - begin <= 1) {
        for (; begin < end; begin++) {
            all.last = write(context, *begin);
            all.first = all.first ? all.first : all.last;
        }
        return all;
    }
    while (middle < end && !(order->leaf[*middle] >> (height - 1) & 1))
        middle++;
    const int left_first = middle - begin >= end - middle;
    all = write_subtree(order, left_first ? begin : middle, left_first ? middle : end, height - 1,
                        write, context);
    const struct written second = write_subtree(
        order, left_first ? middle : begin, left_first ? end : middle, height - 1, write, context);
    if (second.last > second.first) {
        second.first->begins_sum = 1;
        second.last->merges++;
    }
    all.last = second.last ? second.last : all.last;
    return all;
}

void write_in_order(const struct column_order *order, const int32_t *ranks, int64_t n,
                    write_column_fn *write, void *context) {
    write_subtree(order, ranks, ranks + n, TREE_HEIGHT, write, context);
}
