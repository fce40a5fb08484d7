/*
 * Method. A half-normal number falls into a cell [m, m + 1) / 16. At the position xi in [0, 1) in
 * the cell, its density is proportional to
 *
 *   exp(-(m + xi)^2 / 512) = exp(-m^2 / 512) * exp(-xi (2m + xi) / 512).
 *
 *   1. Draw m with probability proportional to exp(-m^2 / 512), by inversion   (draw_cell).
 *   2. Draw xi uniform, keep it with probability exp(-xi (2m + xi) / 512), which is 0.976 on
 *      average, else start over at 1                                            (accept).
 *
 * Step 1 compares digits of a uniform number with those of a table, until they differ. Step 2
 * evaluates no exponential: by von Neumann's method, exp(-g) is the probability that a sequence of
 * simple events stops after an even number of them. So the outcome is that of real numbers.
 */
#include "random/half_normal.h"
#include "random/half_normal_cells.h"

/*
 * Bounds on loops, reached only with a broken source: a sequence of 192 events has probability
 * below 1 / 192!, and a restart below 1/32.
 */
enum { MAX_EVENTS = 192, MAX_RESTARTS = 128 };

/* The first cell from `cell` on whose cumulative probability exceeds a number that begins with
 * `first_digit`. */
static int resolve_cell(struct random_bits *bits, uint32_t first_digit, unsigned *cell) {
    struct lazy_uniform u = {.known = 1, .digit = {first_digit}};
    for (; *cell < HALF_NORMAL_CELLS; ++*cell) {
        bool below;
        RANDOM_BITS_TRY(lazy_uniform_below(bits, &u, &half_normal_cells[0][*cell],
                                           HALF_NORMAL_CELLS, HALF_NORMAL_DIGITS, &below));
        if (below)
            return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}

static inline int draw_cell(struct random_bits *bits, unsigned *cell) {
    const uint32_t *first_digits = half_normal_cells[0];
    uint32_t digit;
    RANDOM_BITS_TRY(random_bits_take(bits, 32, &digit));
    *cell = half_normal_first_cell[digit >> 24];
    while (first_digits[*cell] < digit) /* the last one is the largest digit */
        ++*cell;
    return first_digits[*cell] == digit ? resolve_cell(bits, digit, cell) : RANDOM_BITS_OK;
}

/* A fraction x that is uniform in the cell: 16 x = m + xi up to whole units. */
static inline int start_in_cell(struct random_bits *bits, unsigned cell, struct lazy_uniform *x) {
    uint32_t rest;
    RANDOM_BITS_TRY(random_bits_take(bits, 28, &rest));
    x->known = 1;
    x->digit[0] = (uint32_t)(cell % 16) << 28 | rest;
    return RANDOM_BITS_OK;
}

/* less: whether another uniform number of the cell is below x; drawn as *z. */
static inline int draw_below(struct random_bits *bits, unsigned cell, struct lazy_uniform *z,
                             struct lazy_uniform *x, bool *less) {
    RANDOM_BITS_TRY(start_in_cell(bits, cell, z));
    return lazy_uniform_less(bits, z, x, less);
}

/*
 * True with probability (2m + xi) / 512, m = cell % 256: of 512 equally likely cases 2m succeed and
 * one succeeds with probability xi.
 */
static inline int draw_rate(struct random_bits *bits, unsigned cell, struct lazy_uniform *x,
                            bool *success) {
    const uint32_t sure = 2 * (cell % 256);
    uint32_t choice;
    RANDOM_BITS_TRY(random_bits_take(bits, 9, &choice));
    *success = choice < sure;
    if (choice != sure)
        return RANDOM_BITS_OK;
    struct lazy_uniform z;
    return draw_below(bits, cell, &z, x, success);
}

/*
 * True with probability exp(-xi h), h = 1 if `whole`, else that of draw_rate. The events are z_1 <
 * xi, z_2 < z_1, ... for uniform z, each joined with an event of probability h. j or more of them
 * happen in a row with probability (xi h)^j / j!, so their number is even with probability exp(-xi
 * h).
 */
static inline int bernoulli_exp(struct random_bits *bits, bool whole, unsigned cell,
                                struct lazy_uniform *x, bool *success) {
    struct lazy_uniform z[2]; /* the newest, and the one before */
    struct lazy_uniform *smallest = x;
    for (unsigned j = 0; j < MAX_EVENTS; j++) {
        bool goes_on = whole;
        if (!whole)
            RANDOM_BITS_TRY(draw_rate(bits, cell, x, &goes_on));
        if (goes_on)
            RANDOM_BITS_TRY(draw_below(bits, cell, &z[j % 2], smallest, &goes_on));
        if (!goes_on) {
            *success = j % 2 == 0;
            return RANDOM_BITS_OK;
        }
        smallest = &z[j % 2];
    }
    return RANDOM_BITS_STUCK;
}

/* True with probability exp(-xi (2m + xi) / 512), where 2m = 512 wholes + 2 (m % 256). */
static inline int accept(struct random_bits *bits, unsigned cell, struct lazy_uniform *x,
                         bool *accepted) {
    *accepted = true;
    for (unsigned whole = 0; whole < cell / 256 && *accepted; whole++)
        RANDOM_BITS_TRY(bernoulli_exp(bits, true, cell, x, accepted));
    return *accepted ? bernoulli_exp(bits, false, cell, x, accepted) : RANDOM_BITS_OK;
}

int half_normal_draw(struct random_bits *bits, unsigned *k, struct lazy_uniform *x) {
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        unsigned cell;
        bool accepted;
        RANDOM_BITS_TRY(draw_cell(bits, &cell));
        RANDOM_BITS_TRY(start_in_cell(bits, cell, x));
        RANDOM_BITS_TRY(accept(bits, cell, x, &accepted));
        if (accepted) {
            *k = cell / 16;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}
