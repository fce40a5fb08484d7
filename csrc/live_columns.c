/* See live_columns.h. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "aligned_memory.h"
#include "live_columns.h"

enum {
    ROWS = ROWS_PER_LIVE_BLOCK,
    BLOCKS_AT_ONCE = 64,    /* that a thread takes */
    MOST_COLUMNS = 1 << 12, /* sums of all of them stay in the cache */
    NO_NUMBERS = -1
};

/* In what order the columns of a block come. */
struct column_order {
    int32_t *rank;   /* of each dense column */
    int32_t *column; /* of each rank */
    uint8_t *leaf;   /* of each rank: where in the tree of sums its slot stands */
};

/* One thread's block: what is live in it, by rank. */
struct block_finder {
    const struct tabular_matrix *table;
    const struct column_order *order;
    int64_t n_rows, n_words;
    uint64_t *live;            /* a bit a rank */
    struct live_column *found; /* where the bit is set */
    int32_t *number;           /* the numeric column that has numbers of its own, or NO_NUMBERS */
};

/* fold() adds lanes l and l + 4 first, then l + 2, then l + 1, each lane being the sum of four
 * accumulators in pairs: leaves from left to right. */
static int leaf_of(int slot) {
    const int lane = slot % UNIT_DOUBLES, accumulator = slot / UNIT_DOUBLES;
    return (lane & 1) << 4 | (lane & 2) << 2 | (lane & 4) | accumulator;
}

static int open_order(struct column_order *order, int64_t n_columns) {
    order->rank = malloc((size_t)n_columns * sizeof *order->rank);
    order->column = malloc((size_t)n_columns * sizeof *order->column);
    order->leaf = malloc((size_t)n_columns);
    if (!order->rank || !order->column || !order->leaf)
        return 0;
    int32_t rank = 0;
    for (int leaf = 0; leaf < SLOTS; leaf++)
        for (int64_t column = 0; column < n_columns; column++)
            if (leaf_of(dense_slot(column, n_columns)) == leaf) {
                order->rank[column] = rank;
                order->column[rank] = (int32_t)column;
                order->leaf[rank++] = (uint8_t)leaf;
            }
    return 1;
}

static void close_order(struct column_order *order) {
    free(order->rank);
    free(order->column);
    free(order->leaf);
}

static int open_finder(struct block_finder *finder, const struct tabular_matrix *table,
                       const struct column_order *order, int64_t n_rows) {
    const size_t n_columns = (size_t)table->n_columns;
    finder->table = table;
    finder->order = order;
    finder->n_rows = n_rows;
    finder->n_words = (table->n_columns + 63) / 64;
    finder->live = malloc((size_t)finder->n_words * sizeof *finder->live);
    finder->found = malloc(n_columns * sizeof *finder->found);
    finder->number = malloc(n_columns * sizeof *finder->number);
    return finder->live && finder->found && finder->number;
}

static void close_finder(struct block_finder *finder) {
    free(finder->live);
    free(finder->found);
    free(finder->number);
}

static int64_t rows_of_block(const struct block_finder *finder, int64_t block) {
    const int64_t left = finder->n_rows - block * ROWS;
    return left < ROWS ? left : ROWS;
}

/* The entry of a dense column, made live if it was not. */
static struct live_column *live_entry(struct block_finder *finder, int64_t column) {
    const int32_t rank = finder->order->rank[column];
    struct live_column *entry = &finder->found[rank];
    const uint64_t bit = UINT64_C(1) << (rank & 63);
    if (!(finder->live[rank / 64] & bit)) {
        finder->live[rank / 64] |= bit;
        finder->number[rank] = NO_NUMBERS;
        *entry = (struct live_column){.value = 1.0F, .column = (uint16_t)column, .unit = UNIT_ONE};
    }
    return entry;
}

/* Numeric column k, of which `rows` are not 0: whether they all hold the same `value`. */
static void add_number(struct block_finder *finder, int64_t k, double value, unsigned rows,
                       int same) {
    const int64_t column = finder->table->numeric_columns[k];
    struct live_column *entry = live_entry(finder, column);
    entry->unit = UNIT_STEP;
    entry->value = (float)value;
    if (same && (double)entry->value == value)
        entry->rows = (uint16_t)rows;
    else
        finder->number[finder->order->rank[column]] = (int32_t)k;
}

#define FIND_NUMBERS(KIND, TYPE)                                                                   \
    static void find_numbers_##KIND(struct block_finder *finder, const TYPE *numbers,              \
                                    int64_t n_rows) {                                              \
        const int64_t n = finder->table->n_numeric;                                                \
        for (int64_t k = 0; k < n; k++) {                                                          \
            double value = 0.0;                                                                    \
            unsigned rows = 0, differ = 0;                                                         \
            for (int64_t i = 0; i < n_rows; i++) {                                                 \
                const double number = (double)numbers[i * n + k];                                  \
                const unsigned counts = (unsigned)(number != 0.0) & (unsigned)isfinite(number);    \
                value = value == 0.0 && counts ? number : value;                                   \
                differ |= counts & (unsigned)(number != value);                                    \
                rows |= counts << i;                                                               \
            }                                                                                      \
            if (rows)                                                                              \
                add_number(finder, k, value, rows, !differ);                                       \
        }                                                                                          \
    }

/* The numbers of a column, one below the other. */
#define COPY_NUMBERS(KIND, TYPE)                                                                   \
    static void copy_numbers_##KIND(const TYPE *numbers, int64_t n, int64_t n_rows, TYPE *to) {    \
        for (int64_t i = 0; i < ROWS; i++)                                                         \
            to[i] = i < n_rows && isfinite((double)numbers[i * n]) ? numbers[i * n] : (TYPE)0;     \
    }

#define FOR_EACH_TYPE(MACRO) MACRO(f32, float) MACRO(f64, double) MACRO(u8, uint8_t) MACRO(u16, uint16_t)
FOR_EACH_TYPE(FIND_NUMBERS)
FOR_EACH_TYPE(COPY_NUMBERS)

static void find_numbers(struct block_finder *finder, int64_t block) {
    const int64_t at = block * ROWS * finder->table->n_numeric;
    const int64_t n_rows = rows_of_block(finder, block);
    const void *numeric = finder->table->numeric;
    switch (finder->table->numeric_type) {
    case NUMERIC_F32:
        find_numbers_f32(finder, (const float *)numeric + at, n_rows);
        break;
    case NUMERIC_F64:
        find_numbers_f64(finder, (const double *)numeric + at, n_rows);
        break;
    case NUMERIC_U8:
        find_numbers_u8(finder, (const uint8_t *)numeric + at, n_rows);
        break;
    case NUMERIC_U16:
        find_numbers_u16(finder, (const uint16_t *)numeric + at, n_rows);
        break;
    }
}

static void copy_numbers(const struct block_finder *finder, int64_t block, int64_t k, char *to) {
    const int64_t n = finder->table->n_numeric, at = block * ROWS * n + k;
    const int64_t n_rows = rows_of_block(finder, block);
    const void *numeric = finder->table->numeric;
    switch (finder->table->numeric_type) {
    case NUMERIC_F32:
        copy_numbers_f32((const float *)numeric + at, n, n_rows, (float *)to);
        break;
    case NUMERIC_F64:
        copy_numbers_f64((const double *)numeric + at, n, n_rows, (double *)to);
        break;
    case NUMERIC_U8:
        copy_numbers_u8((const uint8_t *)numeric + at, n, n_rows, (uint8_t *)to);
        break;
    case NUMERIC_U16:
        copy_numbers_u16((const uint16_t *)numeric + at, n, n_rows, (uint16_t *)to);
        break;
    }
}

static void find_categories(struct block_finder *finder, int64_t block) {
    const struct tabular_matrix *table = finder->table;
    const int64_t c = table->n_categorical, n_rows = rows_of_block(finder, block);
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < c; j++) {
            const int64_t at = (block * ROWS + i) * c + j;
            const int64_t code = table->code_bytes == 1 ? ((const uint8_t *)table->codes)[at]
                                                        : ((const uint16_t *)table->codes)[at];
            if (code < table->sizes[j])
                live_entry(finder, table->first_columns[j] + code)->rows |= (uint16_t)(1U << i);
        }
}

static void find_block(struct block_finder *finder, int64_t block) {
    memset(finder->live, 0, (size_t)finder->n_words * sizeof *finder->live);
    find_numbers(finder, block);
    find_categories(finder, block);
}

/* The next live rank from `rank` on; n_columns if there is none. */
static int32_t next_live(const struct block_finder *finder, int32_t rank) {
    for (int64_t word = rank / 64; word < finder->n_words; word++, rank = (int32_t)(64 * word)) {
        const uint64_t left = finder->live[word] >> (rank & 63);
        if (left)
            return rank + __builtin_ctzll(left);
    }
    return (int32_t)finder->table->n_columns;
}

/* How many columns the block has, and how many of them numbers of their own, for sums over blocks.
 */
static void count_block(struct block_finder *finder, int64_t block, struct live_columns *live) {
    const int32_t end = (int32_t)finder->table->n_columns;
    int64_t n_columns = 0, n_numbers = 0;
    find_block(finder, block);
    for (int32_t rank = next_live(finder, 0); rank < end; rank = next_live(finder, rank + 1)) {
        n_columns++;
        n_numbers += finder->number[rank] != NO_NUMBERS;
    }
    live->first_columns[block + 1] = n_columns;
    live->first_numbers[block + 1] = n_numbers;
}

/* How many sums on the stack belong to the one at leaf stack[depth] when leaf `next` is the next
 * that is not 0: all that stand with it in the largest subtree without `next`. */
static int complete_sums(const int *stack, int depth, int next) {
    const int leaf = stack[depth];
    int height = 0, count = 0;
    while (leaf >> (height + 1) != next >> (height + 1))
        height++;
    while (count < depth && stack[depth - count - 1] >> height == leaf >> height)
        count++;
    return count;
}

static void fill_block(struct block_finder *finder, int64_t block, struct live_columns *live) {
    enum { NO_LEAF = 2 * SLOTS };
    const int32_t end = (int32_t)finder->table->n_columns;
    const int64_t bytes = ROWS * finder->table->number_bytes;
    struct live_column *to = live->columns + live->first_columns[block];
    char *numbers = live->numbers + live->first_numbers[block] * bytes;
    int stack[SLOTS], depth = -1;
    find_block(finder, block);
    for (int32_t rank = next_live(finder, 0), next; rank < end; rank = next) {
        next = next_live(finder, rank + 1);
        const int leaf = finder->order->leaf[rank];
        const int next_leaf = next < end ? finder->order->leaf[next] : NO_LEAF;
        *to = finder->found[rank];
        to->begins_sum = depth >= 0 && stack[depth] != leaf;
        if (depth < 0 || to->begins_sum)
            stack[++depth] = leaf;
        to->merges = next_leaf == leaf ? 0 : (uint8_t)complete_sums(stack, depth, next_leaf);
        depth -= to->merges;
        to++;
        if (finder->number[rank] != NO_NUMBERS) {
            copy_numbers(finder, block, finder->number[rank], numbers);
            numbers += bytes;
        }
    }
}

typedef void visit_fn(struct block_finder *finder, int64_t block, struct live_columns *live);

/* Whether every block was visited: not if memory ran out. */
static int visit_blocks(visit_fn *visit, const struct tabular_matrix *table,
                        const struct column_order *order, int64_t n_rows, int n_threads,
                        struct live_columns *live) {
    const int64_t n_blocks = (n_rows + ROWS - 1) / ROWS;
    _Atomic int64_t next = 0;
    atomic_int failed = 0;
#pragma omp parallel num_threads(n_threads)
    {
        struct block_finder finder;
        if (!open_finder(&finder, table, order, n_rows))
            failed = 1;
        for (int64_t first; !failed && (first = atomic_fetch_add(&next, BLOCKS_AT_ONCE)) < n_blocks;)
            for (int64_t block = first; block < first + BLOCKS_AT_ONCE && block < n_blocks; block++)
                visit(&finder, block, live);
        close_finder(&finder);
    }
    return !failed;
}

/* Whether passes over the live columns are faster than over the table, by what a column of a block
 * takes in both, and take no more than half of its memory. */
static int pays(const struct tabular_matrix *table, int64_t n_blocks, int64_t n_columns,
                int64_t n_numbers) {
    const int64_t column_bytes = (int64_t)sizeof(struct live_column);
    const int64_t bytes = n_columns * column_bytes + n_numbers * ROWS * table->number_bytes;
    const int64_t row_bytes =
        table->n_numeric * table->number_bytes + table->n_categorical * table->code_bytes;
    return n_columns <= n_blocks * (table->n_numeric + 4 * table->n_categorical) &&
           2 * bytes <= n_blocks * ROWS * row_bytes;
}

/* From the numbers of columns in blocks to where they begin; room for all of them. */
static int make_room(const struct tabular_matrix *table, int64_t n_blocks,
                     struct live_columns *live) {
    for (int64_t block = 0; block < n_blocks; block++) {
        live->first_columns[block + 1] += live->first_columns[block];
        live->first_numbers[block + 1] += live->first_numbers[block];
    }
    const int64_t n_columns = live->first_columns[n_blocks];
    const int64_t n_numbers = live->first_numbers[n_blocks];
    if (!pays(table, n_blocks, n_columns, n_numbers))
        return 0;
    live->columns = malloc((size_t)(n_columns + 1) * sizeof *live->columns);
    live->numbers = aligned_memory((size_t)((n_numbers + 1) * ROWS * table->number_bytes));
    return live->columns && live->numbers;
}

static int fill(struct live_columns *live, const struct tabular_matrix *table, int64_t n_rows,
                int n_threads) {
    const int64_t n_blocks = (n_rows + ROWS - 1) / ROWS;
    struct column_order order;
    live->first_columns = calloc((size_t)n_blocks + 1, sizeof *live->first_columns);
    live->first_numbers = calloc((size_t)n_blocks + 1, sizeof *live->first_numbers);
    const int filled = open_order(&order, table->n_columns) && live->first_columns &&
                       live->first_numbers &&
                       visit_blocks(count_block, table, &order, n_rows, n_threads, live) &&
                       make_room(table, n_blocks, live) &&
                       visit_blocks(fill_block, table, &order, n_rows, n_threads, live);
    close_order(&order);
    return filled;
}

struct live_columns *find_live_columns(const struct tabular_matrix *table, int64_t n_rows,
                                       int n_threads) {
    if (table->n_columns > MOST_COLUMNS)
        return NULL;
    struct live_columns *live = calloc(1, sizeof *live);
    if (!live)
        return NULL;
    live->units[UNIT_ONE] = 1.0;
    live->units[UNIT_STEP] = table->step;
    if (fill(live, table, n_rows, n_threads))
        return live;
    free_live_columns(live);
    return NULL;
}

void free_live_columns(struct live_columns *live) {
    if (!live)
        return;
    free(live->columns);
    free_aligned(live->numbers);
    free(live->first_columns);
    free(live->first_numbers);
    free(live);
}
