/*
 * Method. Rows are sampled independently with the same probability if and only if in each block of
 * rows the number of sampled rows is binomial and, given this number, all sets of that many rows
 * are equally likely.
 *
 *   1. The number by inversion: a uniform number u in [0, 1) is compared with the probabilities of
 * at most 0, 1, 2, .. rows; the number is that of the probabilities not above u. Digits of u and of
 *      the probabilities are compared until they differ, so that the outcome is that of real
 * numbers.
 *   2. The rows one by one: a uniform row of the block, redrawn if it was drawn before.
 *
 * The last block may extend past the last row: rows that do not exist are dropped, which does not
 * change the distribution of the others.
 *
 * Bits are read 32 at a time, in this order: for each CHUNK blocks the first digit of each u and,
 * block by block, further digits of u while undecided; then a digit for each sampled row, whose
 * leading log2_block bits are used, and finally those that are redrawn. Blocks are so large that
 * they have a few sampled rows: the running time is proportional to the sample, not to the rows.
 */
#include "random/sparse_sample.h"

#include "random/lazy_uniform.h"

/* A new row is drawn with probability at least 1/64, since the smallest block has 64 rows. */
enum { MAX_REJECTIONS = 1 << 16 };

/* Blocks drawn together, and the largest number of their sampled rows. */
enum { CHUNK = 32, MAX_DRAWN = CHUNK * SPARSE_MAX_COUNTS };

/* *count: the number of sampled rows if the first digit of u does not determine it. */
static int resolve_count(struct random_bits *bits, const struct block_counts *law,
                         uint32_t first_digit, uint32_t *count) {
    struct lazy_uniform u = {.known = 1, .digit = {first_digit}};
    bool below = false;
    for (*count = 0;; ++*count) {
        RANDOM_BITS_TRY(lazy_uniform_below(bits, &u, law->digits + *count, law->size,
                                           LAZY_UNIFORM_DIGITS, &below));
        if (below)
            return RANDOM_BITS_OK;
    }
}

/* counts[0 .. blocks-1]: numbers of sampled rows. *total: their sum. */
static int draw_counts(struct random_bits *bits, const struct block_counts *law, size_t blocks,
                       uint32_t *counts, size_t *total) {
    uint32_t digit[CHUNK];
    RANDOM_BITS_TRY(random_bits_digits(bits, digit, blocks));
    *total = 0;
    for (size_t b = 0; b < blocks; b++) {
        uint32_t not_above = 0, equal = 0;
        for (size_t j = 0; j < SPARSE_FIRST_COUNTS; j++) {
            not_above += law->digits[j] <= digit[b];
            equal |= law->digits[j] == digit[b];
        }
        counts[b] = not_above;
        if (equal || not_above == SPARSE_FIRST_COUNTS)
            RANDOM_BITS_TRY(resolve_count(bits, law, digit[b], &counts[b]));
        *total += counts[b];
    }
    return RANDOM_BITS_OK;
}

/* Inserts a row into the ascending rows[0 .. count-1] without unpredictable branches; returns
 * whether it was already there. */
static bool put_row(int64_t *rows, size_t count, int64_t row) {
    bool repeated = false;
    for (size_t j = count; j > 0; j--) {
        const int64_t other = rows[j - 1];
        repeated |= other == row;
        rows[j] = other < row ? row : other;
        row = other < row ? other : row;
    }
    rows[0] = row;
    return repeated;
}

/* Redraws duplicate rows of a block until all of rows[0 .. count-1] differ. */
static int draw_again(struct random_bits *bits, unsigned log2_block, uint64_t first, int64_t *rows,
                      size_t count) {
    size_t distinct = 0, tries = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || rows[i] != rows[i - 1])
            rows[distinct++] = rows[i];
    while (distinct < count) {
        uint32_t digit;
        RANDOM_BITS_TRY(random_bits_digits(bits, &digit, 1));
        const int64_t row = (int64_t)(first + (digit >> (32 - log2_block)));
        bool repeated = false;
        for (size_t i = 0; i < distinct; i++)
            repeated |= rows[i] == row;
        if (!repeated)
            put_row(rows, distinct++, row);
        else if (++tries > MAX_REJECTIONS)
            return RANDOM_BITS_STUCK;
    }
    return RANDOM_BITS_OK;
}

/* rows: the sampled rows, ascending, of blocks that begin with row `first`. */
static int draw_rows(struct random_bits *bits, unsigned log2_block, uint64_t first,
                     const uint32_t *counts, size_t n_blocks, size_t total, int64_t *rows) {
    uint32_t digits[MAX_DRAWN];
    bool repeated = false;
    RANDOM_BITS_TRY(random_bits_digits(bits, digits, total));
    for (size_t b = 0, at = 0; b < n_blocks; at += counts[b++])
        for (size_t i = 0; i < counts[b]; i++) {
            const uint64_t begin = first + ((uint64_t)b << log2_block);
            repeated |=
                put_row(rows + at, i, (int64_t)(begin + (digits[at + i] >> (32 - log2_block))));
        }
    for (size_t b = 0, at = 0; repeated && b < n_blocks; at += counts[b++])
        RANDOM_BITS_TRY(draw_again(bits, log2_block, first + ((uint64_t)b << log2_block), rows + at,
                                   counts[b]));
    return RANDOM_BITS_OK;
}

int sparse_sample(struct random_bits *bits, const struct block_counts *law,
                  struct sparse_progress *progress, int64_t *out, size_t capacity) {
    const unsigned log2_block = law->log2_block;
    uint32_t counts[CHUNK];
    while (progress->next_row < progress->n_rows && capacity - progress->count >= SPARSE_ROOM) {
        const uint64_t left = progress->n_rows - progress->next_row;
        const uint64_t blocks_left = ((left - 1) >> log2_block) + 1;
        const size_t n_blocks = blocks_left < CHUNK ? (size_t)blocks_left : CHUNK;
        size_t total;
        RANDOM_BITS_TRY(draw_counts(bits, law, n_blocks, counts, &total));
        RANDOM_BITS_TRY(draw_rows(bits, log2_block, progress->next_row, counts, n_blocks, total,
                                  out + progress->count));
        progress->count += total;
        progress->next_row += (uint64_t)n_blocks << log2_block;
    }
    if (progress->next_row > progress->n_rows)
        progress->next_row = progress->n_rows;
    while (progress->count > 0 && (uint64_t)out[progress->count - 1] >= progress->n_rows)
        progress->count--;
    return RANDOM_BITS_OK;
}
