/* See nonzero_group.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory/aligned_memory.h"
#include "tabular/nonzero_group.h"

enum { ROWS = ROWS_PER_NONZERO_BLOCK, BLOCKS = BLOCKS_PER_NONZERO_GROUP, NO_NUMBERS = -1 };

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

/* A column that is nonzero in the current block. */
struct found_column {
    struct nonzero_column entry;
    int64_t numeric; /* the number of a row that each row has of its own, or NO_NUMBERS */
    const struct mapped_column *mapped; /* NULL if that number is stored */
};

static int64_t bytes_of_numbers(const struct tabular_matrix *table) {
    return table->n_numeric * table->number_bytes;
}

static int64_t words_of_ranks(const struct tabular_matrix *table) {
    return (table->n_columns + 63) / 64;
}

int open_group_finder(struct group_finder *finder, const struct tabular_matrix *table,
                      const struct column_order *order, int64_t n_rows) {
    const int64_t in_rows = table->n_numbers + ROWS * table->n_one_hot;
    const size_t most = (size_t)(in_rows < table->n_columns ? in_rows : table->n_columns);
    finder->table = table;
    finder->order = order;
    finder->n_rows = n_rows;
    finder->found = malloc((size_t)table->n_columns * sizeof *finder->found);
    finder->is_nonzero = malloc((size_t)words_of_ranks(table) * sizeof *finder->is_nonzero);
    finder->ranks = malloc((size_t)table->n_columns * sizeof *finder->ranks);
    finder->any = malloc((size_t)bytes_of_numbers(table) + 1);
    finder->columns = malloc(BLOCKS * most * sizeof *finder->columns);
    finder->numbers = malloc((size_t)(BLOCKS * ROWS * table->n_numbers * table->number_bytes) + 1);
    return finder->found && finder->is_nonzero && finder->ranks && finder->any && finder->columns &&
           finder->numbers;
}

void close_group_finder(struct group_finder *finder) {
    free(finder->found);
    free(finder->is_nonzero);
    free(finder->ranks);
    free(finder->any);
    free(finder->columns);
    free(finder->numbers);
}

/* The entry of dense column `column`, which is added if it was zero so far. */
static struct found_column *find_column(struct group_finder *finder, int64_t column) {
    const int32_t rank = finder->order->rank[column];
    const uint64_t bit = UINT64_C(1) << (rank & 63);
    struct found_column *found = &finder->found[rank];
    if (!(finder->is_nonzero[rank / 64] & bit)) {
        finder->is_nonzero[rank / 64] |= bit;
        found->entry = (struct nonzero_column){.value = 1.0, .column = (uint16_t)column};
        found->numeric = NO_NUMBERS;
    }
    return found;
}

/* Adds number k of a row, which is x in the block's rows and whose unit is `step`, unless all are
 * 0. */
static void add_numeric(struct group_finder *finder, int64_t k, const double *x, double step,
                        const struct mapped_column *mapped) {
    unsigned rows = 0, differ = 0;
    for (int i = 0; i < ROWS; i++)
        rows |= (unsigned)(x[i] != 0.0) << i;
    if (!rows)
        return;
    const double value = x[__builtin_ctz(rows)];
    for (int i = 0; i < ROWS; i++)
        differ |= (unsigned)(x[i] != 0.0) & (unsigned)(x[i] != value);
    struct found_column *found = find_column(finder, finder->table->number_columns[k]);
    found->entry.value = value * step;
    found->entry.rows = differ ? 0 : (uint16_t)rows;
    found->numeric = differ ? k : NO_NUMBERS;
    found->mapped = mapped;
}

/* Once per type of numbers: finds the nonzero columns from the bitwise or of all rows, and copies
 * the numbers of a column. */
#define NUMBERS_OF_TYPE(KIND, TYPE, BITS)                                                          \
    typedef BITS __attribute__((may_alias)) bits_##KIND;                                           \
    static TYPE finite_##KIND(TYPE number) {                                                       \
        return fabs((double)number) <= DBL_MAX ? number : (TYPE)0;                                 \
    }                                                                                              \
    static void any_bits_##KIND(const bits_##KIND *restrict bits, int64_t n, int64_t n_rows,       \
                                bits_##KIND *restrict any) {                                       \
        memset(any, 0, (size_t)n * sizeof *any);                                                   \
        for (int64_t i = 0; i < n_rows; i++)                                                       \
            for (int64_t k = 0; k < n; k++)                                                        \
                any[k] |= bits[i * n + k];                                                         \
    }                                                                                              \
    static void copy_numbers_##KIND(const void *numeric, int64_t n, int64_t n_rows, void *to) {    \
        for (int64_t i = 0; i < ROWS; i++)                                                         \
            ((TYPE *)to)[i] = i < n_rows ? finite_##KIND(((const TYPE *)numeric)[i * n]) : 0;      \
    }                                                                                              \
    static void find_numeric_##KIND(struct group_finder *finder, const void *numeric,              \
                                    int64_t n_rows) {                                              \
        const int64_t n = finder->table->n_numeric;                                                \
        bits_##KIND *any = (bits_##KIND *)finder->any;                                             \
        any_bits_##KIND(numeric, n, n_rows, any);                                                  \
        for (int64_t k = 0; k < n; k++)                                                            \
            if (any[k]) {                                                                          \
                TYPE number[ROWS];                                                                 \
                double x[ROWS];                                                                    \
                copy_numbers_##KIND((const TYPE *)numeric + k, n, n_rows, number);                 \
                for (int i = 0; i < ROWS; i++)                                                     \
                    x[i] = (double)number[i];                                                      \
                add_numeric(finder, k, x, finder->table->step, NULL);                              \
            }                                                                                      \
    }
NUMBERS_OF_TYPE(f32, float, uint32_t)
NUMBERS_OF_TYPE(f64, double, uint64_t)
NUMBERS_OF_TYPE(u8, uint8_t, uint8_t)
NUMBERS_OF_TYPE(u16, uint16_t, uint16_t)

typedef void find_numeric_fn(struct group_finder *finder, const void *numeric, int64_t n_rows);
typedef void copy_numbers_fn(const void *numeric, int64_t n, int64_t n_rows, void *to);
static find_numeric_fn *const find_numeric[] = {
    [NUMERIC_F32] = find_numeric_f32,
    [NUMERIC_F64] = find_numeric_f64,
    [NUMERIC_U8] = find_numeric_u8,
    [NUMERIC_U16] = find_numeric_u16,
};
static copy_numbers_fn *const copy_numbers[] = {
    [NUMERIC_F32] = copy_numbers_f32,
    [NUMERIC_F64] = copy_numbers_f64,
    [NUMERIC_U8] = copy_numbers_u8,
    [NUMERIC_U16] = copy_numbers_u16,
};

/* Adds the categories of column j in the block's rows; neighbouring rows often have the same one.
 */
static void find_categories(struct group_finder *finder, int64_t j, int64_t first, int64_t n_rows) {
    const struct tabular_matrix *table = finder->table;
    for (int64_t i = 0, next; i < n_rows; i = next) {
        const int64_t code = code_at(table, (first + i) * table->n_categorical + j);
        for (next = i + 1; next < n_rows; next++)
            if (code_at(table, (first + next) * table->n_categorical + j) != code)
                break;
        const unsigned rows = (1U << next) - (1U << i);
        if (code < table->sizes[j])
            find_column(finder, table->first_columns[j] + code)->entry.rows |= (uint16_t)rows;
    }
}

/* Number k of a map in the block's rows, 0 past the end. */
static void numbers_of_map(const struct tabular_matrix *table, const struct mapped_column *mapped,
                           int64_t k, int64_t first, int64_t n_rows, float *x) {
    for (int64_t i = 0; i < ROWS; i++)
        x[i] = i < n_rows
                   ? mapped_numbers(mapped, code_at(table, (first + i) * table->n_categorical +
                                                               mapped->place))[k]
                   : 0.0F;
}

/* Adds what a mapped column stands for in the block's rows: often nothing. */
static void find_mapped(struct group_finder *finder, const struct mapped_column *mapped,
                        int64_t first, int64_t n_rows) {
    const struct tabular_matrix *table = finder->table;
    int is_there = 0;
    for (int64_t i = 0; i < n_rows; i++)
        is_there |=
            code_at(table, (first + i) * table->n_categorical + mapped->place) < mapped->size;
    for (int64_t k = 0; is_there && k < mapped->width; k++) {
        float number[ROWS];
        double x[ROWS];
        numbers_of_map(table, mapped, k, first, n_rows, number);
        for (int i = 0; i < ROWS; i++)
            x[i] = (double)number[i];
        add_numeric(finder, mapped->first_number + k, x, 1.0, mapped);
    }
}

static int64_t rows_of_block(const struct group_finder *finder, int64_t first) {
    const int64_t left = finder->n_rows - first;
    return left < ROWS ? left : ROWS;
}

static void list_ranks(struct group_finder *finder) {
    finder->n_nonzero = 0;
    for (int64_t word = 0; word < words_of_ranks(finder->table); word++)
        for (uint64_t bits = finder->is_nonzero[word]; bits; bits &= bits - 1)
            finder->ranks[finder->n_nonzero++] = (int32_t)(64 * word + __builtin_ctzll(bits));
}

static void find_block(struct group_finder *finder, int64_t first) {
    const struct tabular_matrix *table = finder->table;
    finder->first_row = first;
    const int64_t n_rows = rows_of_block(finder, first);
    memset(finder->is_nonzero, 0, (size_t)words_of_ranks(table) * sizeof *finder->is_nonzero);
    find_numeric[table->numeric_type](
        finder, (const char *)table->numeric + first * bytes_of_numbers(table), n_rows);
    for (int64_t hot = 0; hot < table->n_one_hot; hot++)
        find_categories(finder, table->one_hot[hot], first, n_rows);
    for (int64_t m = 0; m < table->n_mapped; m++)
        find_mapped(finder, &table->mapped[m], first, n_rows);
    list_ranks(finder);
}

/* The numbers of a column in the block's rows, in the type of the table. */
static void write_numbers(struct group_finder *finder, const struct found_column *found) {
    const struct tabular_matrix *table = finder->table;
    const int64_t first = finder->first_row, n_rows = rows_of_block(finder, first);
    if (found->mapped) {
        float number[ROWS];
        numbers_of_map(table, found->mapped, found->numeric - found->mapped->first_number, first,
                       n_rows, number);
        if (table->numeric_type == NUMERIC_F32)
            memcpy(finder->next_number, number, sizeof number);
        else
            for (int i = 0; i < ROWS; i++)
                ((double *)finder->next_number)[i] = (double)number[i];
    } else {
        const char *numbers = (const char *)table->numeric + first * bytes_of_numbers(table) +
                              found->numeric * table->number_bytes;
        copy_numbers[table->numeric_type](numbers, table->n_numeric, n_rows, finder->next_number);
    }
    finder->next_number += ROWS * table->number_bytes;
}

/* Appends the column of a rank to the list of the block; returns its place there. */
static struct nonzero_column *write_column(struct group_finder *finder, int32_t rank) {
    const struct found_column *found = &finder->found[rank];
    *finder->next_column = found->entry;
    if (found->numeric != NO_NUMBERS)
        write_numbers(finder, found);
    return finder->next_column++;
}

/* Columns that were written. */
struct written {
    struct nonzero_column *first, *last;
};

/* Ranks begin .. end - 1, whose leaves are those of one subtree. The half with more columns comes
 * first: a single column is then added to it without the stack. */
static struct written write_subtree(struct group_finder *finder, const int32_t *begin,
                                    const int32_t *end, int height) {
    struct written all = {NULL, NULL};
    const int32_t *middle = begin;
    if (height == 0 || end - begin <= 1) {
        for (; begin < end; begin++) {
            all.last = write_column(finder, *begin);
            all.first = all.first ? all.first : all.last;
        }
        return all;
    }
    while (middle < end && !(finder->order->leaf[*middle] >> (height - 1) & 1))
        middle++;
    const int left_first = middle - begin >= end - middle;
    all = write_subtree(finder, left_first ? begin : middle, left_first ? middle : end, height - 1);
    const struct written second =
        write_subtree(finder, left_first ? middle : begin, left_first ? end : middle, height - 1);
    if (second.last > second.first) {
        second.first->begins_sum = 1;
        second.last->merges++;
    }
    all.last = second.last ? second.last : all.last;
    return all;
}

/* Copies the group that the finder has written into a single allocation; NULL when memory ran out.
 */
static struct nonzero_group *finished_group(const struct group_finder *finder,
                                            const struct nonzero_group *header) {
    const int64_t number_bytes = finder->next_number - finder->numbers;
    const int64_t column_bytes =
        (finder->next_column - finder->columns) * (int64_t)sizeof *finder->columns;
    const int64_t numbers_at = round_up(sizeof *header, ALIGNMENT);
    const int64_t columns_at = numbers_at + round_up(number_bytes, ALIGNMENT);
    const int64_t bytes = columns_at + round_up(column_bytes + 1, ALIGNMENT);
    char *memory = aligned_memory((size_t)bytes);
    struct nonzero_group *group = (struct nonzero_group *)memory;
    if (!memory)
        return NULL;
    *group = *header;
    group->bytes = bytes;
    group->numbers = memcpy(memory + numbers_at, finder->numbers, (size_t)number_bytes);
    group->columns =
        (struct nonzero_column *)memcpy(memory + columns_at, finder->columns, (size_t)column_bytes);
    return group;
}

struct nonzero_group *find_nonzero_group(struct group_finder *finder, int64_t first) {
    struct nonzero_group header = {.columns = NULL};
    const int64_t number_bytes = ROWS * (int64_t)finder->table->number_bytes;
    finder->next_column = finder->columns;
    finder->next_number = finder->numbers;
    for (int b = 0; b < BLOCKS; b++) {
        const int64_t row = first + b * ROWS;
        if (row < finder->n_rows) {
            find_block(finder, row);
            write_subtree(finder, finder->ranks, finder->ranks + finder->n_nonzero, TREE_HEIGHT);
        }
        header.first_column[b + 1] = (uint32_t)(finder->next_column - finder->columns);
        header.first_number[b + 1] =
            (uint32_t)((finder->next_number - finder->numbers) / number_bytes);
    }
    return finished_group(finder, &header);
}
