#include "random/uniform_integers.h"

#include <string.h>

__extension__ typedef unsigned __int128 uint128;

/* Each repetition happens with probability below 1/2. */
enum { MAX_REJECTIONS = 1024 };

/*
 * The high half of x * bound, x uniform with 32 bits, is v for the x in [v 2^32, (v+1) 2^32) /
 * bound: floor(2^32 / bound) of them, or one more. Rejecting the x whose low half is below 2^32 mod
 * bound rejects exactly the surplus: every v keeps floor(2^32 / bound).
 */
static inline int finish_below_32(struct random_bits *bits, uint32_t x, uint32_t bound,
                                  uint32_t *value) {
    uint64_t product = (uint64_t)x * bound;
    if ((uint32_t)product < bound) {
        const uint32_t surplus = -bound % bound;
        for (int tries = 0; (uint32_t)product < surplus; tries++) {
            if (tries == MAX_REJECTIONS)
                return RANDOM_BITS_STUCK;
            RANDOM_BITS_TRY(random_bits_take(bits, 32, &x));
            product = (uint64_t)x * bound;
        }
    }
    *value = (uint32_t)(product >> 32);
    return RANDOM_BITS_OK;
}

static int below_64(struct random_bits *bits, uint64_t bound, uint64_t *value) {
    const uint64_t surplus = -bound % bound;
    for (int tries = 0; tries < MAX_REJECTIONS; tries++) {
        uint64_t x;
        RANDOM_BITS_TRY(random_bits_word(bits, &x));
        const uint128 product = (uint128)x * bound;
        *value = (uint64_t)(product >> 64);
        if ((uint64_t)product >= surplus)
            return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}

int uniform_integer(struct random_bits *bits, uint64_t bound, uint64_t *value) {
    if (bound > UINT32_MAX)
        return below_64(bits, bound, value);
    uint32_t x, small;
    RANDOM_BITS_TRY(random_bits_take(bits, 32, &x));
    RANDOM_BITS_TRY(finish_below_32(bits, x, (uint32_t)bound, &small));
    *value = small;
    return RANDOM_BITS_OK;
}

int uniform_integers_fill(struct random_bits *bits, uint64_t bound, int64_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        RANDOM_BITS_TRY(uniform_integer(bits, bound, &value));
        out[i] = (int64_t)value;
    }
    return RANDOM_BITS_OK;
}

enum { BATCH = 128 };

/*
 * chosen[b]: uniform in 0 .. last - b, for b = 0 .. batch-1. The bits of a batch are read together,
 * so that the entries to be swapped can be prefetched.
 */
static int draw_batch(struct random_bits *bits, uint64_t last, size_t batch, uint64_t *chosen) {
    if (last > UINT32_MAX - 1) {
        for (size_t b = 0; b < batch; b++)
            RANDOM_BITS_TRY(uniform_integer(bits, last + 1 - b, &chosen[b]));
        return RANDOM_BITS_OK;
    }
    uint32_t digits[BATCH];
    RANDOM_BITS_TRY(random_bits_digits(bits, digits, batch));
    for (size_t b = 0; b < batch; b++) {
        uint32_t value;
        RANDOM_BITS_TRY(finish_below_32(bits, digits[b], (uint32_t)(last + 1 - b), &value));
        chosen[b] = value;
    }
    return RANDOM_BITS_OK;
}

#define INDEX int32_t
#define PERMUTATION_FILL permutation_fill_32
#include "random/permutation.inc.h"
#undef INDEX
#undef PERMUTATION_FILL

#define INDEX int64_t
#define PERMUTATION_FILL permutation_fill_64
#include "random/permutation.inc.h"

/* A bitmap of the population is used if it is not much larger than a hash table of the sample. */
bool sample_is_ascending(uint64_t population, size_t size) {
    return population / 256 <= size;
}

size_t sample_workspace_words(uint64_t population, size_t size) {
    if (sample_is_ascending(population, size))
        return (size_t)(population / 64) + 1;
    size_t slots = 2;
    while (slots < 2 * size)
        slots *= 2;
    return slots;
}

/* A set of numbers: a bitmap, or a hash table of slots, a power of two, that hold a number + 1 or
 * 0. */
struct set {
    uint64_t *words;
    size_t n_words;
    bool is_bitmap;
};

/* Returns whether `value` is new. At least half of the slots are empty. */
static inline bool insert(const struct set *set, uint64_t value) {
    if (set->is_bitmap) {
        uint64_t *word = &set->words[value / 64];
        const uint64_t before = *word;
        *word |= UINT64_C(1) << value % 64;
        return *word != before;
    }
    const size_t mask = set->n_words - 1;
    size_t slot = (size_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
    for (; set->words[slot] != 0; slot = (slot + 1) & mask)
        if (set->words[slot] == value + 1)
            return false;
    set->words[slot] = value + 1;
    return true;
}

int sample_without_replacement(struct random_bits *bits, uint64_t population, size_t size,
                               int64_t *out, uint64_t *workspace) {
    const struct set set = {workspace, sample_workspace_words(population, size),
                            sample_is_ascending(population, size)};
    memset(workspace, 0, set.n_words * sizeof *workspace);
    /*
     * Floyd: after step `last` the set is uniform among the sets of its size in 0 .. last. Either
     * the new number is one of 0 .. last - 1 that is not in the set yet, or it is `last` itself.
     */
    size_t count = 0;
    for (uint64_t last = population - size; last < population; last++) {
        uint64_t value;
        RANDOM_BITS_TRY(uniform_integer(bits, last + 1, &value));
        if (!insert(&set, value)) {
            value = last;
            insert(&set, value);
        }
        out[count++] = (int64_t)value;
    }
    if (set.is_bitmap) {
        count = 0;
        for (size_t w = 0; w < set.n_words; w++)
            for (uint64_t rest = workspace[w]; rest != 0; rest &= rest - 1)
                out[count++] = (int64_t)(64 * (uint64_t)w + (unsigned)__builtin_ctzll(rest));
    }
    return RANDOM_BITS_OK;
}
