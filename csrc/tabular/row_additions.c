/* See row_additions.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tabular/nonzero_group.h"
#include "tabular/row_additions.h"
#include "vector/bits.h"

/* Products and sums are common if they occur in MIN_COUNT of the rows of a sample. */
enum {
    MAX_TERMS = 64,
    MAX_PLACES = (UINT16_MAX + 1) / TERM_LANES,
    MAX_COMMON = 2048,
    SAMPLED_ROWS = 4096,
    MIN_COUNT = 4
};

static int64_t n_terms(const struct tabular_matrix *table) {
    return table->n_numeric + table->n_categorical;
}

int64_t max_places(const struct tabular_matrix *table) {
    return table->n_entries + 1 + MAX_COMMON + LISTED_ROWS * (table->n_numeric + n_terms(table));
}

/* What becomes of a number and of two operands: the place, or another name, of the product with the
 * weight and of the sum. */
struct visitor {
    int32_t (*product)(void *context, int64_t number, double value);
    int32_t (*sum)(void *context, int32_t left, int32_t right);
    void *context;
};

/* Terms are added in the order of their columns' ranks. */
struct term {
    int32_t rank, place;
};

static void insert(struct term *terms, int64_t count, struct term term) {
    int64_t at = count;
    for (; at > 0 && term.rank < terms[at - 1].rank; at--)
        terms[at] = terms[at - 1];
    terms[at] = term;
}

/* The terms of a row that are not 0, in order. */
static int64_t list_terms(const struct tabular_matrix *table, const struct column_order *order,
                          int64_t row, const struct visitor *visitor, struct term *terms) {
    int64_t count = 0;
    for (int64_t k = 0; k < table->n_numeric; k++) {
        const double value = number_at(table, row * table->n_numeric + k);
        if (value != 0.0)
            insert(terms, count++,
                   (struct term){order->rank[table->numeric_columns[k]],
                                 visitor->product(visitor->context, k, value)});
    }
    for (int64_t j = 0; j < table->n_categorical; j++) {
        const int64_t code = code_at(table, row * table->n_categorical + j);
        if (code < table->sizes[j])
            insert(terms, count++,
                   (struct term){order->rank[table->first_columns[j] + code],
                                 (int32_t)(table->first_entries[j] + code)});
    }
    return count;
}

/* The stack of pending sums and terms. */
struct open_sums {
    int32_t place[MAX_TERMS];
    int parting[MAX_TERMS]; /* xor of a sum's first leaf and the leaf before it */
    int depth;
};

static void add_last_two(struct open_sums *sums, const struct visitor *visitor) {
    int32_t *last = &sums->place[--sums->depth];
    last[-1] = visitor->sum(visitor->context, last[-1], last[0]);
}

/* The place of a row's product with the weights. The highest bit in which two leaves differ gives
 * the height at which they part in the tree: a sum is complete before a term that parts from it
 * higher up. */
static int32_t visit_row(const struct tabular_matrix *table, const struct column_order *order,
                         int64_t row, const struct visitor *visitor) {
    struct term terms[MAX_TERMS];
    struct open_sums sums = {.depth = 0};
    const int64_t count = list_terms(table, order, row, visitor, terms);
    for (int64_t k = 0; k < count; k++) {
        const int parting = k > 0 ? order->leaf[terms[k - 1].rank] ^ order->leaf[terms[k].rank] : 0;
        while (sums.depth > 1 && sums.parting[sums.depth - 1] <= parting)
            add_last_two(&sums, visitor);
        sums.parting[sums.depth] = parting;
        sums.place[sums.depth++] = terms[k].place;
    }
    while (sums.depth > 1)
        add_last_two(&sums, visitor);
    return count ? sums.place[0] : (int32_t)table->n_entries;
}

/* Pairs that were counted, found by a hash table. */
struct pair {
    uint64_t left, right;
    int64_t count;
};

struct pairs {
    struct pair *pairs; /* in the order in which they were added */
    int32_t *at;        /* of a hash: the pair, or -1 */
    int64_t n_pairs, mask;
};

static int open_pairs(struct pairs *pairs, int64_t capacity) {
    pairs->n_pairs = 0;
    for (pairs->mask = 1; pairs->mask < 2 * capacity; pairs->mask *= 2)
        ;
    pairs->pairs = malloc((size_t)(capacity + 1) * sizeof *pairs->pairs);
    pairs->at = malloc((size_t)pairs->mask * sizeof *pairs->at);
    if (!pairs->pairs || !pairs->at)
        return 0;
    memset(pairs->at, -1, (size_t)pairs->mask * sizeof *pairs->at);
    pairs->mask--;
    return 1;
}

static void close_pairs(struct pairs *pairs) {
    free(pairs->pairs);
    free(pairs->at);
}

/* Where the hash table has a pair, or would have it. */
static int32_t *find_pair(const struct pairs *pairs, uint64_t left, uint64_t right) {
    uint64_t hash = (left * UINT64_C(0x9e3779b97f4a7c15)) ^ right;
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    for (hash ^= hash >> 32;; hash++) {
        int32_t *at = &pairs->at[hash & (uint64_t)pairs->mask];
        if (*at < 0 || (pairs->pairs[*at].left == left && pairs->pairs[*at].right == right))
            return at;
    }
}

static int32_t count_pair(struct pairs *pairs, uint64_t left, uint64_t right) {
    int32_t *at = find_pair(pairs, left, right);
    if (*at < 0) {
        *at = (int32_t)pairs->n_pairs;
        pairs->pairs[pairs->n_pairs++] = (struct pair){left, right, 0};
    }
    pairs->pairs[*at].count++;
    return *at;
}

/* A product is a number and the bits of its value, a sum the names of its operands: an entry, or
 * PRODUCT or SUM plus an index. */
enum { PRODUCT = 1 << 24, SUM = 1 << 25 };

struct expressions {
    struct pairs products, sums;
};

static int32_t count_product(void *context, int64_t number, double value) {
    struct expressions *sampled = context;
    return PRODUCT + count_pair(&sampled->products, (uint64_t)number, bits_f64(value));
}

static int32_t count_sum(void *context, int32_t left, int32_t right) {
    struct expressions *sampled = context;
    return SUM + count_pair(&sampled->sums, (uint64_t)left, (uint64_t)right);
}

static int open_expressions(struct expressions *expressions, int64_t n_products, int64_t n_sums) {
    const int products = open_pairs(&expressions->products, n_products);
    return open_pairs(&expressions->sums, n_sums) && products;
}

static void close_expressions(struct expressions *expressions) {
    close_pairs(&expressions->products);
    close_pairs(&expressions->sums);
}

static void sample_rows(const struct tabular_matrix *table, const struct column_order *order,
                        int64_t n_rows, struct expressions *sampled) {
    const struct visitor visitor = {count_product, count_sum, sampled};
    const int64_t step = (n_rows + SAMPLED_ROWS - 1) / SAMPLED_ROWS;
    for (int64_t row = 0; row < n_rows; row += step)
        visit_row(table, order, row, &visitor);
}

/* The place of an operand of a sampled sum; -1 if it is not common. places: of all sampled
 * products, then of all sampled sums. */
static int64_t place_of_operand(uint64_t name, const int32_t *places, int64_t n_products) {
    if (name >= SUM)
        return places[n_products + (int64_t)name - SUM];
    return name >= PRODUCT ? places[name - PRODUCT] : (int64_t)name;
}

/* Rows with infinite numbers do not count, and these numbers are read as 0. */
static int is_common_product(const struct pair *product) {
    return product->count >= MIN_COUNT && fabs(from_bits_f64(product->right)) <= DBL_MAX;
}

/* The common ones among the expressions of the sample; operands of common sums are places. Returns
 * 0 when memory ran out. */
static int keep_common(const struct tabular_matrix *table, const struct expressions *sampled,
                       struct expressions *common) {
    const struct pairs *products = &sampled->products, *sums = &sampled->sums;
    struct pairs *kept = &common->products;
    int32_t *places = malloc((size_t)(products->n_pairs + sums->n_pairs + 1) * sizeof *places);
    if (!places)
        return 0;
    int32_t first = (int32_t)table->n_entries + 1;
    for (int64_t k = 0; k < products->n_pairs; k++) {
        const struct pair *pair = &products->pairs[k];
        const int is_kept = is_common_product(pair) && kept->n_pairs < MAX_COMMON;
        places[k] = is_kept ? first + count_pair(kept, pair->left, pair->right) : -1;
    }
    first += (int32_t)kept->n_pairs;
    const int64_t room = MAX_COMMON - kept->n_pairs;
    kept = &common->sums;
    for (int64_t k = 0; k < sums->n_pairs; k++) {
        const struct pair *pair = &sums->pairs[k];
        const int64_t left = place_of_operand(pair->left, places, products->n_pairs);
        const int64_t right = place_of_operand(pair->right, places, products->n_pairs);
        const int is_kept =
            pair->count >= MIN_COUNT && left >= 0 && right >= 0 && kept->n_pairs < room;
        places[products->n_pairs + k] =
            is_kept ? first + count_pair(kept, (uint64_t)left, (uint64_t)right) : -1;
    }
    free(places);
    return 1;
}

static int find_common(const struct tabular_matrix *table, const struct column_order *order,
                       int64_t n_rows, struct expressions *common) {
    const int64_t sampled_rows = n_rows < SAMPLED_ROWS ? n_rows : SAMPLED_ROWS;
    struct expressions sampled;
    int found =
        open_expressions(&sampled, sampled_rows * table->n_numeric, sampled_rows * n_terms(table));
    if (found) {
        sample_rows(table, order, n_rows, &sampled);
        found = keep_common(table, &sampled, common);
    }
    close_expressions(&sampled);
    return found;
}

/* A block whose lists are being written. */
struct block_writer {
    const struct tabular_matrix *table;
    const struct expressions *common;
    struct row_product *products;
    struct row_addition *additions;
    int64_t n_products, n_additions;
    int row;
};

static int64_t first_own_place(const struct block_writer *block) {
    return block->table->n_entries + 1 + block->common->products.n_pairs +
           block->common->sums.n_pairs;
}

static int32_t write_product(void *context, int64_t number, double value) {
    struct block_writer *block = context;
    const int32_t common = *find_pair(&block->common->products, (uint64_t)number, bits_f64(value));
    if (common >= 0)
        return (int32_t)(block->table->n_entries + 1 + common);
    block->products[block->n_products] = (struct row_product){(uint8_t)block->row, (uint8_t)number};
    return (int32_t)(first_own_place(block) + block->n_products++);
}

static int32_t write_sum(void *context, int32_t left, int32_t right) {
    struct block_writer *block = context;
    const int64_t own = first_own_place(block);
    if (left < own && right < own) {
        const int32_t common = *find_pair(&block->common->sums, (uint64_t)left, (uint64_t)right);
        if (common >= 0)
            return (int32_t)(block->table->n_entries + 1 + block->common->products.n_pairs +
                             common);
    }
    block->additions[block->n_additions] =
        (struct row_addition){(uint16_t)(left * TERM_LANES), (uint16_t)(right * TERM_LANES)};
    return (int32_t)(own + LISTED_ROWS * block->table->n_numeric + block->n_additions++);
}

static int64_t n_blocks(int64_t n_rows) {
    return (n_rows + ROWS_PER_READ - 1) / ROWS_PER_READ * (ROWS_PER_READ / LISTED_ROWS);
}

/* Writes the lists of all blocks, each where it would begin if the ones before were of full length.
 */
static void write_blocks(const struct tabular_matrix *table, const struct column_order *order,
                         int64_t n_rows, int n_threads, const struct expressions *common,
                         struct row_additions *lists) {
    const int64_t most_products = LISTED_ROWS * table->n_numeric;
    const int64_t most_additions = LISTED_ROWS * (n_terms(table) - 1);
    (void)n_threads; /* in a build without threads */
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t b = 0; b < n_blocks(n_rows); b++) {
        struct listed_block *block = &lists->blocks[b];
        struct block_writer writer = {.table = table,
                                      .common = common,
                                      .products = lists->products + b * most_products,
                                      .additions = lists->additions + b * most_additions};
        const struct visitor visitor = {write_product, write_sum, &writer};
        for (; writer.row < LISTED_ROWS; writer.row++) {
            const int64_t row = b * LISTED_ROWS + writer.row;
            const int64_t place =
                row < n_rows ? visit_row(table, order, row, &visitor) : table->n_entries;
            block->sums[writer.row] = (uint16_t)(place * TERM_LANES);
        }
        block->first_product = writer.n_products; /* their number, until close_gaps() */
        block->first_addition = writer.n_additions;
    }
}

/* Moves the lists together. */
static void close_gaps(const struct tabular_matrix *table, int64_t n_rows,
                       struct row_additions *lists) {
    const int64_t most_products = LISTED_ROWS * table->n_numeric;
    const int64_t most_additions = LISTED_ROWS * (n_terms(table) - 1);
    int64_t products = 0, additions = 0;
    for (int64_t b = 0; b <= n_blocks(n_rows); b++) {
        struct listed_block *block = &lists->blocks[b];
        const int64_t n_products = block->first_product, n_additions = block->first_addition;
        block->first_product = products;
        block->first_addition = additions;
        if (b == n_blocks(n_rows))
            break;
        memmove(lists->products + products, lists->products + b * most_products,
                (size_t)n_products * sizeof *lists->products);
        memmove(lists->additions + additions, lists->additions + b * most_additions,
                (size_t)n_additions * sizeof *lists->additions);
        products += n_products;
        additions += n_additions;
    }
    void *shorter = realloc(lists->products, (size_t)products * sizeof *lists->products + 1);
    lists->products = shorter ? shorter : lists->products;
    shorter = realloc(lists->additions, (size_t)additions * sizeof *lists->additions + 1);
    lists->additions = shorter ? shorter : lists->additions;
    lists->bytes = products * (int64_t)sizeof *lists->products +
                   additions * (int64_t)sizeof *lists->additions +
                   n_blocks(n_rows) * (int64_t)sizeof *lists->blocks;
}

static void copy_common(const struct expressions *common, struct row_additions *lists) {
    lists->n_common_products = common->products.n_pairs;
    lists->n_common_additions = common->sums.n_pairs;
    for (int64_t k = 0; k < lists->n_common_products; k++) {
        const struct pair *pair = &common->products.pairs[k];
        lists->common_products[k] =
            (struct common_product){from_bits_f64(pair->right), (int32_t)pair->left};
    }
    for (int64_t k = 0; k < lists->n_common_additions; k++) {
        const struct pair *pair = &common->sums.pairs[k];
        lists->common_additions[k] = (struct row_addition){(uint16_t)(pair->left * TERM_LANES),
                                                           (uint16_t)(pair->right * TERM_LANES)};
    }
}

/* Memory for lists of full length; NULL when it ran out. */
static struct row_additions *open_lists(const struct tabular_matrix *table, int64_t n_rows) {
    const size_t blocks = (size_t)n_blocks(n_rows), rows = blocks * LISTED_ROWS;
    struct row_additions *lists = calloc(1, sizeof *lists);
    if (!lists)
        return NULL;
    lists->common_products = malloc(MAX_COMMON * sizeof *lists->common_products);
    lists->common_additions = malloc(MAX_COMMON * sizeof *lists->common_additions);
    lists->blocks = malloc((blocks + 1) * sizeof *lists->blocks);
    lists->products = malloc(rows * (size_t)table->n_numeric * sizeof *lists->products + 1);
    lists->additions = malloc(rows * (size_t)(n_terms(table) - 1) * sizeof *lists->additions + 1);
    if (lists->common_products && lists->common_additions && lists->blocks && lists->products &&
        lists->additions)
        return lists;
    free_row_additions(lists);
    return NULL;
}

/* Whether rows have a suitable number of terms, and dense ones are at least four times as long. */
static int are_worth_listing(const struct tabular_matrix *table) {
    const int64_t bytes = table->n_numeric * (int64_t)sizeof(struct row_product) +
                          (n_terms(table) - 1) * (int64_t)sizeof(struct row_addition);
    return n_terms(table) >= 2 && n_terms(table) <= MAX_TERMS && max_places(table) <= MAX_PLACES &&
           4 * bytes <= table->n_columns * (int64_t)sizeof(double);
}

struct row_additions *list_row_additions(const struct tabular_matrix *table, int64_t n_rows,
                                         int n_threads) {
    if (!are_worth_listing(table))
        return NULL;
    struct column_order order;
    struct expressions common;
    struct row_additions *lists = open_lists(table, n_rows);
    int made = open_column_order(&order, table->n_columns);
    made = open_expressions(&common, MAX_COMMON, MAX_COMMON) && made && lists;
    if (made)
        made = find_common(table, &order, n_rows, &common);
    if (made) {
        copy_common(&common, lists);
        write_blocks(table, &order, n_rows, n_threads, &common, lists);
        close_gaps(table, n_rows, lists);
    } else {
        free_row_additions(lists);
        lists = NULL;
    }
    close_column_order(&order);
    close_expressions(&common);
    return lists;
}

void free_row_additions(struct row_additions *lists) {
    if (!lists)
        return;
    free(lists->common_products);
    free(lists->common_additions);
    free(lists->blocks);
    free(lists->products);
    free(lists->additions);
    free(lists);
}
