/* See row_additions.h. */
#include <stdlib.h>

#include "tabular/row_additions.h"

enum { MAX_TERMS = 64, MAX_PLACES = (UINT16_MAX + 1) / TERM_LANES };

/* Terms are added in the order of leaves and, within a leaf, of columns. */
struct term {
    int32_t leaf, column;
    uint16_t place;
};

/* The terms of all entries and numbers, which do not depend on the row. */
struct term_order {
    const struct tabular_matrix *table;
    struct term *of_entries; /* n_entries */
    struct term *of_numbers; /* n_numeric */
};

static struct term term_of_column(const struct tabular_matrix *table, int64_t column,
                                  int64_t place) {
    const struct slot_map map = slot_map_of(table->n_columns, UNIT_DOUBLES);
    const int64_t slot = dense_slot(&map, UNIT_DOUBLES, column);
    return (struct term){(int32_t)leaf_of_slot(slot, UNIT_DOUBLES), (int32_t)column,
                         (uint16_t)(place * TERM_LANES)};
}

static int open_term_order(struct term_order *order, const struct tabular_matrix *table) {
    order->table = table;
    order->of_entries = malloc((size_t)(table->n_entries + 1) * sizeof *order->of_entries);
    order->of_numbers = malloc((size_t)(table->n_numeric + 1) * sizeof *order->of_numbers);
    if (!order->of_entries || !order->of_numbers)
        return 0;
    /* The code after the last category has weight 0, so that its place in the order is arbitrary.
     */
    for (int64_t j = 0, entry = 0; j < table->n_categorical; j++)
        for (int64_t code = 0; code <= table->sizes[j]; code++, entry++)
            order->of_entries[entry] = term_of_column(
                table, table->first_columns[j] + (code < table->sizes[j] ? code : 0), entry);
    for (int64_t k = 0; k < table->n_numeric; k++)
        order->of_numbers[k] =
            term_of_column(table, table->numeric_columns[k], table->n_entries + k);
    return 1;
}

static void close_term_order(struct term_order *order) {
    free(order->of_entries);
    free(order->of_numbers);
}

static int is_before(const struct term *one, const struct term *other) {
    return one->leaf != other->leaf ? one->leaf < other->leaf : one->column < other->column;
}

static void insert(struct term *terms, int64_t count, struct term term) {
    int64_t at = count;
    for (; at > 0 && is_before(&term, &terms[at - 1]); at--)
        terms[at] = terms[at - 1];
    terms[at] = term;
}

/* The terms of a row in the order of the tree. */
static int64_t list_terms(const struct term_order *order, int64_t row, struct term *terms) {
    const struct tabular_matrix *table = order->table;
    int64_t count = 0;
    for (int64_t k = 0; k < table->n_numeric; k++)
        insert(terms, count++, order->of_numbers[k]);
    for (int64_t j = 0; j < table->n_categorical; j++) {
        const int64_t code = code_at(table, row * table->n_categorical + j);
        insert(terms, count++, order->of_entries[table->first_entries[j] + code]);
    }
    return count;
}

/* The stack of pending sums and terms. */
struct open_sums {
    uint16_t place[MAX_TERMS];
    int32_t parting[MAX_TERMS]; /* xor of a sum's first leaf and the leaf before it */
    int depth;
};

/* Adds the last two into one sum at `place`. */
static struct row_addition add_last_two(struct open_sums *sums, int64_t place) {
    const int right = --sums->depth, left = right - 1;
    const struct row_addition addition = {sums->place[left], sums->place[right]};
    sums->place[left] = (uint16_t)(place * TERM_LANES);
    return addition;
}

/* The highest bit in which two leaves differ gives the height at which they part in the tree: a sum
 * is complete before a term that parts from it higher up. */
static void list_additions(const struct term *terms, int64_t count, int64_t first_sum,
                           struct row_addition *additions) {
    struct open_sums sums = {.depth = 0};
    int64_t place = first_sum;
    for (int64_t k = 0; k < count; k++) {
        const int32_t parting = k > 0 ? terms[k - 1].leaf ^ terms[k].leaf : 0;
        while (sums.depth > 1 && sums.parting[sums.depth - 1] <= parting)
            *additions++ = add_last_two(&sums, place++);
        sums.parting[sums.depth] = parting;
        sums.place[sums.depth++] = terms[k].place;
    }
    while (sums.depth > 1)
        *additions++ = add_last_two(&sums, place++);
}

static void list_all(const struct term_order *order, int64_t n_rows, int n_threads,
                     struct row_additions *additions) {
    const struct tabular_matrix *table = order->table;
    const int64_t first_sum = table->n_entries + table->n_numeric;
    (void)n_threads; /* in a build without threads */
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t row = 0; row < n_rows; row++) {
        struct term terms[MAX_TERMS];
        const int64_t count = list_terms(order, row, terms);
        list_additions(terms, count, first_sum, additions->additions + row * additions->per_row);
    }
}

struct row_additions *list_row_additions(const struct tabular_matrix *table, int64_t n_rows,
                                         int n_threads) {
    const int64_t n_terms = table->n_numeric + table->n_categorical;
    const int64_t bytes = (n_terms - 1) * (int64_t)sizeof(struct row_addition);
    if (n_terms < 2 || n_terms > MAX_TERMS || n_places(table) > MAX_PLACES ||
        4 * bytes > table->n_columns * (int64_t)sizeof(double))
        return NULL;
    struct term_order order;
    struct row_additions *additions = calloc(1, sizeof *additions);
    if (additions) {
        additions->per_row = n_terms - 1;
        additions->bytes = n_rows * bytes;
        additions->additions = malloc((size_t)additions->bytes + 1);
    }
    const int ordered = open_term_order(&order, table);
    if (additions && additions->additions && ordered) {
        list_all(&order, n_rows, n_threads, additions);
    } else {
        free_row_additions(additions);
        additions = NULL;
    }
    close_term_order(&order);
    return additions;
}

void free_row_additions(struct row_additions *additions) {
    if (!additions)
        return;
    free(additions->additions);
    free(additions);
}
