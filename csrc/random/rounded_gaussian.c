/*
 * Method. With |Z| = k + x from half_normal_draw, enough bits of x are drawn to determine
 * floor(s (k + x) + 1/2), and then a sign.
 */
#include "random/half_normal.h"
#include "random/rounded_gaussian.h"

/*
 * rounded: floor(s (k + x) + 1/2), s = p / 2^shift.
 *
 * With the first 64 bits X of x, p (k + x) + 2^(shift-1) is at least A + p X / 2^64, A an integer,
 * and exceeds it by less than p / 2^64. Count in units of 2^-64 from there. The next multiple of
 * 2^shift is `gap` units away, and the unknown part of x amounts to less than p units: so the floor
 * is known once gap >= p. (p <= 2^63 < 2^(shift+64): at most one multiple can be passed.) Otherwise
 * another digit d of x makes the unit 2^32 times smaller and p d of the new units known. While the
 * floor is not known gap < p, so none of this needs more than 128 bits, however many digits are
 * drawn.
 */
static int round_scaled(struct random_bits *bits, struct rounded_gaussian_scale scale, unsigned k,
                        struct lazy_uniform *x, uint64_t *rounded) {
    const uint64_t p = scale.numerator;
    uint32_t digit;
    RANDOM_BITS_TRY(lazy_uniform_digit(bits, x, 1, &digit));
    const uint128 product = (uint128)p * ((uint64_t)x->digit[0] << 32 | digit);
    const uint128 known =
        (uint128)p * k + ((uint128)1 << (scale.shift - 1)) + (uint64_t)(product >> 64);
    const uint128 beyond_floor =
        (known & (((uint128)1 << scale.shift) - 1)) << 64 | (uint64_t)product;
    uint128 floor = known >> scale.shift;
    uint128 gap = ((uint128)1 << (scale.shift + 64)) - beyond_floor;
    for (unsigned i = 2; gap < p; i++) {
        RANDOM_BITS_TRY(lazy_uniform_digit(bits, x, i, &digit));
        gap <<= 32;
        const uint128 step = (uint128)p * digit;
        if (step >= gap) {
            floor += 1;
            break;
        }
        gap -= step;
    }
    *rounded = rounded_gaussian_clamp(floor);
    return RANDOM_BITS_OK;
}

static int draw(struct random_bits *bits, struct rounded_gaussian_scale scale, int64_t *value) {
    unsigned k;
    struct lazy_uniform x;
    uint32_t negative;
    uint64_t rounded;
    RANDOM_BITS_TRY(half_normal_draw(bits, &k, &x));
    RANDOM_BITS_TRY(round_scaled(bits, scale, k, &x, &rounded));
    RANDOM_BITS_TRY(random_bits_take(bits, 1, &negative));
    *value = negative ? -(int64_t)rounded : (int64_t)rounded;
    return RANDOM_BITS_OK;
}

int rounded_gaussian_fill(struct random_bits *bits, struct rounded_gaussian_scale scale,
                          int64_t *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        RANDOM_BITS_TRY(draw(bits, scale, &out[i]));
    return RANDOM_BITS_OK;
}
