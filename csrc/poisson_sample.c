/*
 * The method. Row i has a 64-bit word W_i of its own, uniform and independent of all others, and is
 * in the sample if and only if W_i < Q: with probability Q / 2^64 exactly, whatever the other rows.
 *
 * The leading 8 bits of W_i, its lane, decide unless they equal those of Q:
 *
 *   lane < Q >> 56  =>  W_i < Q,      lane > Q >> 56  =>  W_i > Q.
 *
 * Only in the case of equality, once in 256 rows, the other 56 bits of W_i are drawn and compared
 * with the other 56 of Q. Bits that decide nothing need not exist: drawing them later, or never,
 * leaves the joint law of all decisions what it is with whole words.
 *
 * Bits are read in this order: the lanes of a block (padded to a multiple of 32 bits), then a word
 * for each equal lane of the block, row by row, of which the leading 56 bits are used.
 */
#include "poisson_sample.h"

static inline int resolve_tie(struct random_bits *bits, uint64_t threshold, bool *is_in) {
    uint64_t word;
    RANDOM_BITS_TRY(random_bits_word(bits, &word));
    *is_in = word >> 8 < (threshold & ((UINT64_C(1) << 56) - 1));
    return RANDOM_BITS_OK;
}

/* lanes: room for a block; those after the last row are set to 1, and compared like the others. */
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

#define INDEX int32_t
#define POISSON_SAMPLE poisson_sample_32
#include "poisson_sample.template.h"
#undef INDEX
#undef POISSON_SAMPLE

#define INDEX int64_t
#define POISSON_SAMPLE poisson_sample_64
#include "poisson_sample.template.h"
