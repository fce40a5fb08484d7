/*
 * Non-negative integers of a given number of 32-bit limbs, least significant first. Functions read
 * and write only the limbs given by their arguments; the caller ensures that results fit.
 */
#ifndef DPERM_LIMBS_H
#define DPERM_LIMBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* product[0 .. a_size+b_size-1] = a * b; overlaps neither. */
static inline __attribute__((always_inline)) void limbs_multiply(uint32_t *product,
                                                                 const uint32_t *a, size_t a_size,
                                                                 const uint32_t *b, size_t b_size) {
    memset(product, 0, (a_size + b_size) * sizeof *product);
    for (size_t i = 0; i < a_size; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < b_size; j++) {
            carry += (uint64_t)a[i] * b[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + b_size] = (uint32_t)carry;
    }
}

/* a += b, b_size <= a_size; a carry out of a is lost. */
static inline void limbs_add(uint32_t *a, size_t a_size, const uint32_t *b, size_t b_size) {
    uint64_t carry = 0;
    for (size_t i = 0; i < a_size && (i < b_size || carry != 0); i++) {
        carry += (uint64_t)a[i] + (i < b_size ? b[i] : 0);
        a[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* a <= b, both of `size` limbs. */
static inline bool limbs_at_most(const uint32_t *a, const uint32_t *b, size_t size) {
    for (size_t i = size; i-- > 0;)
        if (a[i] != b[i])
            return a[i] < b[i];
    return true;
}

/*
 * root[0 .. size-1] = floor(sqrt(a)), a of 2 * size limbs, bit by bit from the top. square: room
 * for 2 * size limbs.
 */
static inline void limbs_square_root(uint32_t *root, const uint32_t *a, size_t size,
                                     uint32_t *square) {
    memset(root, 0, size * sizeof *root);
    for (size_t bit = 32 * size; bit-- > 0;) {
        root[bit / 32] |= UINT32_C(1) << bit % 32;
        limbs_multiply(square, root, size, root, size);
        if (!limbs_at_most(square, a, 2 * size))
            root[bit / 32] &= ~(UINT32_C(1) << bit % 32);
    }
}

#endif
