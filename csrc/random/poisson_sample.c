/*
 * Method. Each row i has an independent uniform 64-bit word W_i, and is in the sample if and only
 * if W_i < Q: with probability exactly Q / 2^64, independently of the other rows.
 *
 * The leading 8 bits of W_i, its lane, decide unless they equal those of Q:
 *
 *   lane < Q >> 56  =>  W_i < Q,      lane > Q >> 56  =>  W_i > Q.
 *
 * Only on equality, once in 256 rows, the other 56 bits of W_i are drawn and compared with the
 * other 56 of Q. Bits that decide nothing need not be drawn: drawing them later, or never, does not
 * change the joint distribution of all decisions.
 *
 * Bits are read in this order: the lanes of a block (padded to a multiple of 32 bits), then a word
 * for each equal lane of the block, row by row, of which the leading 56 bits are used.
 */
#include "random/poisson_sample.h"

static inline int resolve_tie(struct random_bits *bits, uint64_t threshold, bool *is_in) {
    uint64_t word;
    RANDOM_BITS_TRY(random_bits_word(bits, &word));
    *is_in = word >> 8 < (threshold & ((UINT64_C(1) << 56) - 1));
    return RANDOM_BITS_OK;
}

/* lanes: one block; the bits of those after the last row are set and masked out after the
 * comparison. */
static int draw_masks(struct random_bits *bits, const struct bulk_table *table, size_t rows,
                      uint8_t threshold, uint8_t *lanes, uint64_t *masks) {
    const size_t n_masks = (rows + 63) / 64;
    RANDOM_BITS_TRY(random_bits_bytes(bits, lanes, rows));
    for (size_t i = rows; i < 64 * n_masks; i++)
        lanes[i] = UINT8_MAX;
    table->lanes_at_most(lanes, n_masks, threshold, masks);
    if (rows % 64 != 0)
        masks[n_masks - 1] &= (UINT64_C(1) << rows % 64) - 1;
    return RANDOM_BITS_OK;
}

int poisson_sample(struct random_bits *bits, const struct bulk_table *table,
                   struct poisson_progress *progress, int64_t *out, size_t capacity) {
    uint8_t lanes[POISSON_BLOCK];
    uint64_t masks[POISSON_BLOCK / 64];
    const uint8_t threshold = (uint8_t)(progress->threshold >> 56);
    size_t count = progress->count;
    while (progress->next_row < progress->n_rows && capacity - count >= POISSON_BLOCK) {
        const uint64_t first = progress->next_row, left = progress->n_rows - first;
        const size_t rows = left < POISSON_BLOCK ? (size_t)left : POISSON_BLOCK;
        RANDOM_BITS_TRY(draw_masks(bits, table, rows, threshold, lanes, masks));
        for (size_t m = 0; 64 * m < rows; m++)
            for (uint64_t rest = masks[m]; rest != 0; rest &= rest - 1) {
                const size_t row = 64 * m + (unsigned)__builtin_ctzll(rest);
                bool is_in = true;
                if (lanes[row] == threshold)
                    RANDOM_BITS_TRY(resolve_tie(bits, progress->threshold, &is_in));
                out[count] = (int64_t)(first + row);
                count += is_in;
            }
        progress->next_row = first + rows;
    }
    progress->count = count;
    return RANDOM_BITS_OK;
}
