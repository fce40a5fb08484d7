/* Rounding to a grid by adding a shift.
 *
 * With shift = 1.5 * 2^m * grid (m = mantissa bits) the addition x + shift rounds x to the grid,
 * and the bit pattern of the sum is that of `shift` plus the integer round(x / grid). */
#ifndef DPERM_GRID_ROUNDING_H
#define DPERM_GRID_ROUNDING_H

#include "vector/bits.h"

#define SHIFT_F32 12582912.0F        /* 1.5 * 2^23: the shift of the grid of integers */
#define SHIFT_F64 6755399441055744.0 /* 1.5 * 2^52 */

/* round(x / grid) */
ALWAYS_INLINE int32_t grid_steps_f32(float x, float shift) {
    return (int32_t)(bits_f32(x + shift) - bits_f32(shift));
}

ALWAYS_INLINE int64_t grid_steps_f64(double x, double shift) {
    return (int64_t)(bits_f64(x + shift) - bits_f64(shift));
}

#endif
