/*
 * Method. With `digits` digits of a half-normal number k + x known, it lies in
 *
 *   [n, n + 1) / B,   n = k B + (the digits of x as an integer),   B = 2^(32 digits).
 *
 * The Euclidean norm of the d + 1 numbers of the radius therefore lies in [R, R + w] / B with
 * R = floor(sqrt(sum n^2)) and w = 1 + ceil(sqrt(d + 1)) (triangle inequality), and |z_j| in
 *
 *   [p R n,  p (R + w) (n + 1)) / (2^shift B^2),   s = p / 2^shift.
 *
 * If both ends round to the same integer, so does |z_j|, whatever its further digits. Otherwise the
 * number of digits is doubled: more digits of the same numbers are drawn, for the radius and for
 * the undecided entries. The result is a function of the real numbers whose leading digits are
 * drawn, and these have exactly the right distribution.
 */
#include "random/norm_laplace.h"
#include "random/half_normal.h"
#include "random/limbs.h"

/*
 * Sizes in limbs, for D digits. Integer parts are below 2^16 and there are fewer than 2^41 numbers:
 * sum n^2 < 2^(64 D + 73), so R + w < 2^(32 D + 38), p (R + w) < 2^(32 D + 102), and the product
 * with n + 1 is below 2^(64 D + 119).
 */
enum {
    MAX_NUMBER_LIMBS = LAZY_UNIFORM_DIGITS + 1,
    MAX_ROOT_LIMBS = LAZY_UNIFORM_DIGITS + 2,
    MAX_FACTOR_LIMBS = LAZY_UNIFORM_DIGITS + 4,
    MAX_PRODUCT_LIMBS = MAX_FACTOR_LIMBS + MAX_NUMBER_LIMBS
};

/* Signed numbers, stored by columns: memory for digits that are not drawn is never touched. */
struct numbers {
    size_t count;
    uint32_t *digit; /* digit i of number j is digit[i * count + j] */
    uint16_t *integer_part;
    uint8_t *known; /* digits drawn */
    uint8_t *negative;
};

static const size_t BYTES_PER_NUMBER =
    LAZY_UNIFORM_DIGITS * sizeof(uint32_t) + sizeof(uint16_t) + 2 * sizeof(uint8_t);

size_t norm_laplace_workspace_bytes(size_t dimension) {
    const size_t per_entry = 2 * BYTES_PER_NUMBER + sizeof(uint64_t);
    if (dimension > (SIZE_MAX - BYTES_PER_NUMBER) / per_entry)
        return 0;
    return dimension * per_entry + BYTES_PER_NUMBER;
}

static int draw_number(struct random_bits *bits, struct numbers *numbers, size_t j) {
    unsigned k;
    struct lazy_uniform x;
    uint32_t negative;
    RANDOM_BITS_TRY(half_normal_draw(bits, &k, &x));
    RANDOM_BITS_TRY(random_bits_take(bits, 1, &negative));
    numbers->integer_part[j] = (uint16_t)k;
    numbers->negative[j] = (uint8_t)negative;
    numbers->known[j] = (uint8_t)x.known;
    for (unsigned i = 0; i < x.known; i++)
        numbers->digit[i * numbers->count + j] = x.digit[i];
    return RANDOM_BITS_OK;
}

/* Draws digits of number j until `digits` are known. */
static int reveal(struct random_bits *bits, struct numbers *numbers, size_t j, unsigned digits) {
    for (unsigned i = numbers->known[j]; i < digits; i++)
        RANDOM_BITS_TRY(random_bits_take(bits, 32, &numbers->digit[i * numbers->count + j]));
    if (numbers->known[j] < digits)
        numbers->known[j] = (uint8_t)digits;
    return RANDOM_BITS_OK;
}

/*
 * The functions from here to round_entry_with are compiled twice: for any number of digits, and for
 * the usual number, for which the compiler unrolls the loops.
 */
enum { USUAL_DIGITS = 3 };
#define INLINED static inline __attribute__((always_inline))

/* n[0 .. digits]: the lower end of number j. */
INLINED void read_number(const struct numbers *numbers, size_t j, unsigned digits, uint32_t *n) {
    for (unsigned i = 0; i < digits; i++)
        n[digits - 1 - i] = numbers->digit[i * numbers->count + j];
    n[digits] = numbers->integer_part[j];
}

/* The factors of all entries: p R and p (R + w), of digits + 4 limbs. */
struct factor {
    uint32_t low[MAX_FACTOR_LIMBS], high[MAX_FACTOR_LIMBS];
};

/* The radius is the norm of numbers 0 .. count-1. */
INLINED void measure_radius_with(const struct numbers *numbers, size_t count, unsigned digits,
                                 uint64_t p, struct factor *factor) {
    uint32_t n[MAX_NUMBER_LIMBS], square[2 * MAX_ROOT_LIMBS], sum[2 * MAX_ROOT_LIMBS] = {0};
    for (size_t j = 0; j < count; j++) {
        read_number(numbers, j, digits, n);
        limbs_multiply(square, n, digits + 1, n, digits + 1);
        limbs_add(sum, 2 * (digits + 2), square, 2 * (digits + 1));
    }
    uint32_t root[MAX_ROOT_LIMBS];
    limbs_square_root(root, sum, digits + 2, square);

    uint64_t width = 1;
    while ((width - 1) * (width - 1) < count)
        width++;
    const uint32_t p_limbs[2] = {(uint32_t)p, (uint32_t)(p >> 32)};
    const uint32_t width_limbs[2] = {(uint32_t)width, (uint32_t)(width >> 32)};
    limbs_multiply(factor->low, root, digits + 2, p_limbs, 2);
    limbs_add(root, digits + 2, width_limbs, 2);
    limbs_multiply(factor->high, root, digits + 2, p_limbs, 2);
}

/* rounded: floor(factor n / (2^shift B^2) + 1/2). Limbs below B^2 cannot change it. */
INLINED uint64_t round_product(const uint32_t *factor, const uint32_t *n, unsigned digits,
                               unsigned shift) {
    uint32_t product[MAX_PRODUCT_LIMBS];
    limbs_multiply(product, factor, digits + 4, n, digits + 1);
    const uint32_t *whole = product + 2 * digits;
    uint128 value = ((uint128)((uint64_t)whole[3] << 32 | whole[2]) << 64) |
                    ((uint64_t)whole[1] << 32 | whole[0]);
    value = (value + ((uint128)1 << (shift - 1))) >> shift;
    return rounded_gaussian_clamp(value);
}

/* Rounds the entry of number j; false if its known digits do not decide. */
INLINED bool round_entry_with(const struct numbers *numbers, size_t j, unsigned digits,
                              const struct factor *factor, unsigned shift, int64_t *rounded) {
    static const uint32_t one[1] = {1};
    uint32_t n[MAX_NUMBER_LIMBS];
    read_number(numbers, j, digits, n);
    const uint64_t low = round_product(factor->low, n, digits, shift);
    limbs_add(n, digits + 1, one, 1);
    const uint64_t high = round_product(factor->high, n, digits, shift);
    *rounded = numbers->negative[j] ? -(int64_t)low : (int64_t)low;
    return low == high;
}

static void measure_radius(const struct numbers *numbers, size_t count, unsigned digits, uint64_t p,
                           struct factor *factor) {
    if (digits == USUAL_DIGITS)
        measure_radius_with(numbers, count, USUAL_DIGITS, p, factor);
    else
        measure_radius_with(numbers, count, digits, p, factor);
}

static bool round_entry(const struct numbers *numbers, size_t j, unsigned digits,
                        const struct factor *factor, unsigned shift, int64_t *rounded) {
    return digits == USUAL_DIGITS
               ? round_entry_with(numbers, j, USUAL_DIGITS, factor, shift, rounded)
               : round_entry_with(numbers, j, digits, factor, shift, rounded);
}

/* Numbers 0 .. dimension give the radius, the `dimension` numbers after them the entries. */
static int draw_vector(struct random_bits *bits, struct rounded_gaussian_scale scale,
                       size_t dimension, unsigned digits, int64_t *out, struct numbers *numbers,
                       uint64_t *open) {
    const size_t radius_count = dimension + 1;
    struct factor factor;
    for (size_t j = 0; j < numbers->count; j++) {
        RANDOM_BITS_TRY(draw_number(bits, numbers, j));
        RANDOM_BITS_TRY(reveal(bits, numbers, j, digits));
    }
    measure_radius(numbers, radius_count, digits, scale.numerator, &factor);
    size_t n_open = 0;
    for (size_t j = 0; j < dimension; j++)
        if (!round_entry(numbers, radius_count + j, digits, &factor, scale.shift, &out[j]))
            open[n_open++] = j;

    while (n_open > 0) {
        if (digits == LAZY_UNIFORM_DIGITS)
            return RANDOM_BITS_STUCK;
        digits = digits > LAZY_UNIFORM_DIGITS / 2 ? LAZY_UNIFORM_DIGITS : 2 * digits;
        for (size_t j = 0; j < radius_count; j++)
            RANDOM_BITS_TRY(reveal(bits, numbers, j, digits));
        measure_radius(numbers, radius_count, digits, scale.numerator, &factor);
        size_t still_open = 0;
        for (size_t i = 0; i < n_open; i++) {
            const size_t j = open[i];
            RANDOM_BITS_TRY(reveal(bits, numbers, radius_count + j, digits));
            if (!round_entry(numbers, radius_count + j, digits, &factor, scale.shift, &out[j]))
                open[still_open++] = j;
        }
        n_open = still_open;
    }
    return RANDOM_BITS_OK;
}

int norm_laplace_fill(struct random_bits *bits, struct rounded_gaussian_scale scale,
                      size_t dimension, size_t vectors, unsigned first_digits, int64_t *out,
                      void *workspace) {
    uint64_t *open = workspace;
    struct numbers numbers = {.count = 2 * dimension + 1};
    numbers.digit = (uint32_t *)(open + dimension);
    numbers.integer_part = (uint16_t *)(numbers.digit + LAZY_UNIFORM_DIGITS * numbers.count);
    numbers.known = (uint8_t *)(numbers.integer_part + numbers.count);
    numbers.negative = numbers.known + numbers.count;
    for (size_t i = 0; i < vectors; i++)
        RANDOM_BITS_TRY(
            draw_vector(bits, scale, dimension, first_digits, out + i * dimension, &numbers, open));
    return RANDOM_BITS_OK;
}
