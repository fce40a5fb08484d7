/*
 * The method. Rows are in or out independently, with one probability, if and only if in each block
 * of rows the number that is in has the binomial law and, given this number, all sets of so many
 * rows are equally likely.
 *
 *   1. The number by inversion: a uniform number u in [0, 1) is compared with the probabilities of
 *      at most 0, 1, 2, .. rows; as many are in as probabilities are not above u. Digits of u and
 * of the probabilities are compared until they differ: the outcome is that of real numbers.
 *   2. The rows one by one: a uniform row of the block, drawn again if it was drawn before.
 *
 * The last block may end after the last row: what it holds of rows that do not exist is dropped,
 * which leaves the law of the others what it is.
 *
 * Bits are read 32 at a time, in this order: for each CHUNK blocks the first digit of each u and,
 * block by block, more digits of u while they decide nothing; then a digit for each row that is in,
 * whose leading log2_block bits are used, and at last those that are drawn again.
 */
#include "random/sparse_sample.h"

#include <string.h>

#include "random/lazy_uniform.h"

/* A row that is wanted is drawn with probability 1/64 at least, the smallest block having 64 rows.
 */
enum { MAX_REJECTIONS = 1 << 16 };

/* Blocks drawn together, and the most rows that they can hold. */
enum { CHUNK = 32, MAX_DRAWN = CHUNK * SPARSE_MAX_COUNTS };

/* *below: whether u is less than the probability of at most j rows. */
static int is_below(struct random_bits *bits, const struct block_counts *law, size_t j,
                    struct lazy_uniform *u, bool *below) {
    for (unsigned k = 0;; k++) {
        uint32_t digit;
        RANDOM_BITS_TRY(lazy_uniform_digit(bits, u, k, &digit));
        if (digit != law->digits[k * law->size + j]) {
            *below = digit < law->digits[k * law->size + j];
            return RANDOM_BITS_OK;
        }
    }
}

/* *count: how many are in, where the first digit of u does not tell. */
static int resolve_count(struct random_bits *bits, const struct block_counts *law,
                         uint32_t first_digit, uint32_t *count) {
    struct lazy_uniform u = {.known = 1, .digit = {first_digit}};
    bool below = false;
    for (*count = 0;; ++*count) {
        RANDOM_BITS_TRY(is_below(bits, law, *count, &u, &below));
        if (below)
            return RANDOM_BITS_OK;
    }
}

/* counts[0 .. blocks-1]: how many are in. *total: their sum. */
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

/* blocks[i]: the block of row i, for all rows of a chunk. Writes past the rows of a block and lets
 * the next block write over it: no loop whose length is random. */
static void name_blocks(const uint32_t *counts, size_t n_blocks, uint16_t *blocks) {
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < SPARSE_FIRST_COUNTS; i++)
            blocks[i] = (uint16_t)b;
        for (size_t i = SPARSE_FIRST_COUNTS; i < counts[b]; i++)
            blocks[i] = (uint16_t)b;
        blocks += counts[b];
    }
}

/* Set the bit of a row of a block; whether it was set before. */
static inline bool put_row(uint64_t *rows, unsigned log2_block, uint16_t block, uint32_t digit) {
    const uint32_t row = ((uint32_t)block << log2_block) + (digit >> (32 - log2_block));
    const uint64_t bit = UINT64_C(1) << row % 64, before = rows[row / 64];
    rows[row / 64] = before | bit;
    return (before & bit) != 0;
}

/* rows: a bit for each row of a chunk, set for those that are in. */
static int draw_rows(struct random_bits *bits, unsigned log2_block, size_t n_blocks,
                     const uint32_t *counts, size_t total, uint64_t *rows) {
    uint16_t blocks[MAX_DRAWN + SPARSE_FIRST_COUNTS], again[MAX_DRAWN];
    uint32_t digits[MAX_DRAWN];
    size_t n_again = 0;
    memset(rows, 0, (n_blocks << log2_block) / 8);
    name_blocks(counts, n_blocks, blocks);
    RANDOM_BITS_TRY(random_bits_digits(bits, digits, total));
    for (size_t i = 0; i < total; i++) {
        again[n_again] = blocks[i];
        n_again += put_row(rows, log2_block, blocks[i], digits[i]);
    }
    int rejections = 0;
    for (size_t i = 0; i < n_again;) {
        RANDOM_BITS_TRY(random_bits_digits(bits, digits, 1));
        if (!put_row(rows, log2_block, again[i], digits[0]))
            i++;
        else if (++rejections > MAX_REJECTIONS)
            return RANDOM_BITS_STUCK;
    }
    return RANDOM_BITS_OK;
}

/* Appends first + i for every bit i that is set. Up to two bits a word, nearly always enough,
 * without a branch. */
static size_t list_rows(const uint64_t *rows, size_t n_words, uint64_t first, int64_t *out) {
    size_t count = 0;
    for (size_t m = 0; m < n_words; m++) {
        uint64_t rest = rows[m];
        for (int i = 0; i < 2; i++) {
            out[count] =
                (int64_t)(first + 64 * m + (unsigned)__builtin_ctzll(rest | UINT64_C(1) << 63));
            count += rest != 0;
            rest &= rest - 1;
        }
        for (; rest != 0; rest &= rest - 1)
            out[count++] = (int64_t)(first + 64 * m + (unsigned)__builtin_ctzll(rest));
    }
    return count;
}

int sparse_sample(struct random_bits *bits, const struct block_counts *law,
                  struct sparse_progress *progress, int64_t *out, size_t capacity) {
    const unsigned log2_block = law->log2_block;
    uint32_t counts[CHUNK];
    uint64_t rows[CHUNK << (SPARSE_MAX_LOG2_BLOCK - 6)];
    while (progress->next_row < progress->n_rows && capacity - progress->count >= SPARSE_ROOM) {
        const uint64_t left = progress->n_rows - progress->next_row;
        const uint64_t blocks_left = ((left - 1) >> log2_block) + 1;
        const size_t n_blocks = blocks_left < CHUNK ? (size_t)blocks_left : CHUNK;
        size_t total;
        RANDOM_BITS_TRY(draw_counts(bits, law, n_blocks, counts, &total));
        RANDOM_BITS_TRY(draw_rows(bits, log2_block, n_blocks, counts, total, rows));
        progress->count += list_rows(rows, n_blocks << (log2_block - 6), progress->next_row,
                                     out + progress->count);
        progress->next_row += (uint64_t)n_blocks << log2_block;
    }
    if (progress->next_row > progress->n_rows)
        progress->next_row = progress->n_rows;
    while (progress->count > 0 && (uint64_t)out[progress->count - 1] >= progress->n_rows)
        progress->count--;
    return RANDOM_BITS_OK;
}
