/*
 * A uniform number in [0, 1) whose digits are drawn only when needed.
 *
 * Digits have 32 bits, the most significant first. Comparing two such numbers draws digits of both
 * until they differ, so that the outcome is that for real numbers: there are no ties.
 */
#ifndef DPERM_LAZY_UNIFORM_H
#define DPERM_LAZY_UNIFORM_H

#include "random/random_bits.h"

/* 32 * 32 bits: two equal numbers do not occur, see RANDOM_BITS_STUCK. */
enum { LAZY_UNIFORM_DIGITS = 32 };

struct lazy_uniform {
    unsigned known; /* digits drawn so far */
    uint32_t digit[LAZY_UNIFORM_DIGITS];
};

/* A new number with its first digit drawn (nearly every decision needs just one). */
static inline int lazy_uniform_start(struct random_bits *bits, struct lazy_uniform *u) {
    u->known = 1;
    return random_bits_take(bits, 32, &u->digit[0]);
}

/* digit: number `index` of u, drawn if it is not known yet. Digits are drawn in order. */
static inline int lazy_uniform_digit(struct random_bits *bits, struct lazy_uniform *u,
                                     unsigned index, uint32_t *digit) {
    if (index >= LAZY_UNIFORM_DIGITS)
        return RANDOM_BITS_STUCK;
    for (; u->known <= index; u->known++)
        RANDOM_BITS_TRY(random_bits_take(bits, 32, &u->digit[u->known]));
    *digit = u->digit[index];
    return RANDOM_BITS_OK;
}

/*
 * below: whether u is less than a number with the given digits, each `stride` after the one before.
 * If all of its `count` digits are those of u, the source is broken.
 */
static inline int lazy_uniform_below(struct random_bits *bits, struct lazy_uniform *u,
                                     const uint32_t *digits, size_t stride, unsigned count,
                                     bool *below) {
    for (unsigned i = 0; i < count; i++) {
        uint32_t digit;
        RANDOM_BITS_TRY(lazy_uniform_digit(bits, u, i, &digit));
        if (digit != digits[i * stride]) {
            *below = digit < digits[i * stride];
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}

/* less: whether a < b, for two different objects. */
static inline int lazy_uniform_less(struct random_bits *bits, struct lazy_uniform *a,
                                    struct lazy_uniform *b, bool *less) {
    uint32_t digit_a = a->digit[0], digit_b = b->digit[0];
    for (unsigned i = 1; digit_a == digit_b; i++) {
        RANDOM_BITS_TRY(lazy_uniform_digit(bits, a, i, &digit_a));
        RANDOM_BITS_TRY(lazy_uniform_digit(bits, b, i, &digit_b));
    }
    *less = digit_a < digit_b;
    return RANDOM_BITS_OK;
}

#endif
