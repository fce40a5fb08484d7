/*
 * Method. The density is proportional to
 *
 *   exp(-(k + x)^2 / 2) = exp(-k^2 / 2) * exp(-x (2k + x) / 2).
 *
 *   1. Draw k with probability proportional to exp(-k^2 / 2)        (draw_integer_part).
 *   2. Draw x uniform, keep it with probability exp(-x (2k + x) / 2), else start over at 1
 *                                                                  (accept_fraction).
 *
 * No step evaluates an exponential: by von Neumann's method, exp(-g) is the probability that a
 * sequence of simple events stops after an even number of them.
 */
#include "random/half_normal.h"

/*
 * Bounds on loops, reached only with a broken source. An event sequence of length 192 has
 * probability 1 / (2^192 192!); k > 2048 has probability exp(-1024) already in the proposal; a
 * restart has probability below 1/2 in either step.
 */
enum { MAX_EVENTS = 192, MAX_SUCCESSES = 2048, MAX_RESTARTS = 2048 };

/*
 * True with probability exp(-1/2). The sequence goes on at step K with probability 1 / (2K), so it
 * reaches step K with probability a_K = 1 / (2^(K-1) (K-1)!), and it stops at an odd step with
 * probability a_1 - a_2 + a_3 - ... = exp(-1/2).
 */
static int bernoulli_exp_minus_half(struct random_bits *bits, bool *success) {
    for (uint64_t K = 1; K < MAX_EVENTS; K++) {
        uint64_t event;
        RANDOM_BITS_TRY(random_bits_below(bits, 2 * K, &event));
        if (event != 0) {
            *success = K % 2 == 1;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}

/*
 * Memo tables. A draw is a function of the bits that it reads, usually few. For each value of the
 * next bits a table holds the result and the number of bits read, or bits_read = 0 if the draw
 * reads more. A look-up returns exactly what the call would have returned, and leaves the stream in
 * the same state. With an empty table every draw makes the call.
 */
struct memo {
    uint8_t result, bits_read;
};
enum { EVENT_BITS = 8, INTEGER_PART_BITS = 12 };
static struct memo event_memo[1 << EVENT_BITS], integer_part_memo[1 << INTEGER_PART_BITS];

static inline struct memo look_up(const struct random_bits *bits, const struct memo *memo,
                                  unsigned width) {
    return memo[bits->reservoir & ((1u << width) - 1)];
}

static inline int recall_event(struct random_bits *bits, bool *success) {
    const struct memo known = look_up(bits, event_memo, EVENT_BITS);
    if (known.bits_read == 0 || known.bits_read > bits->available)
        return bernoulli_exp_minus_half(bits, success);
    *success = known.result;
    random_bits_drop(bits, known.bits_read);
    return RANDOM_BITS_OK;
}

/*
 * integer_part: k with probability proportional to exp(-k^2 / 2). The number of successes before
 * the first failure has probability proportional to exp(-k / 2); it is kept with probability exp(-k
 * (k-1) / 2), that is, if k (k-1) further trials succeed.
 */
static int draw_integer_part(struct random_bits *bits, unsigned *integer_part) {
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        unsigned k = 0;
        bool success;
        RANDOM_BITS_TRY(recall_event(bits, &success));
        while (success) {
            if (++k > MAX_SUCCESSES)
                return RANDOM_BITS_STUCK;
            RANDOM_BITS_TRY(recall_event(bits, &success));
        }
        bool accepted = true;
        for (unsigned trial = 0; k > 1 && trial < k * (k - 1) && accepted; trial++)
            RANDOM_BITS_TRY(recall_event(bits, &accepted));
        if (accepted) {
            *integer_part = k;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}

static int no_more_bytes(void *context, uint8_t *buffer, size_t size) {
    (void)context, (void)buffer, (void)size;
    return -1;
}

/* A stream that ends after the bits of a pattern; `unused` has four bytes. */
static struct random_bits only_bits(unsigned pattern, unsigned width, uint8_t *unused) {
    struct random_bits bits;
    random_bits_init(&bits, unused, 4, no_more_bytes, NULL);
    bits.reservoir = pattern;
    bits.available = width;
    return bits;
}

void half_normal_prepare(void) {
    uint8_t unused[4];
    for (unsigned pattern = 0; pattern < 1u << EVENT_BITS; pattern++) {
        struct random_bits bits = only_bits(pattern, EVENT_BITS, unused);
        bool success;
        if (bernoulli_exp_minus_half(&bits, &success) == RANDOM_BITS_OK)
            event_memo[pattern] = (struct memo){success, (uint8_t)(EVENT_BITS - bits.available)};
    }
    for (unsigned pattern = 0; pattern < 1u << INTEGER_PART_BITS; pattern++) {
        struct random_bits bits = only_bits(pattern, INTEGER_PART_BITS, unused);
        unsigned k;
        if (draw_integer_part(&bits, &k) == RANDOM_BITS_OK)
            integer_part_memo[pattern] =
                (struct memo){(uint8_t)k, (uint8_t)(INTEGER_PART_BITS - bits.available)};
    }
}

static inline int recall_integer_part(struct random_bits *bits, unsigned *k) {
    RANDOM_BITS_TRY(random_bits_require(bits, INTEGER_PART_BITS));
    const struct memo known = look_up(bits, integer_part_memo, INTEGER_PART_BITS);
    if (known.bits_read == 0)
        return draw_integer_part(bits, k);
    *k = known.result;
    random_bits_drop(bits, known.bits_read);
    return RANDOM_BITS_OK;
}

/*
 * True with probability (2k + x) / (2k + 2): one of 2k + 2 equally likely cases fails, one succeeds
 * with probability x, the others succeed.
 */
static inline int bernoulli_ratio(struct random_bits *bits, unsigned k, struct lazy_uniform *x,
                                  bool *success) {
    uint64_t choice;
    if (k == 0) {
        uint32_t bit;
        RANDOM_BITS_TRY(random_bits_take(bits, 1, &bit));
        choice = bit;
    } else {
        RANDOM_BITS_TRY(random_bits_below(bits, 2 * (uint64_t)k + 2, &choice));
    }
    *success = choice < 2 * (uint64_t)k;
    if (choice != 2 * (uint64_t)k)
        return RANDOM_BITS_OK;
    struct lazy_uniform r;
    RANDOM_BITS_TRY(lazy_uniform_start(bits, &r));
    return lazy_uniform_less(bits, &r, x, success);
}

/*
 * True with probability exp(-x h), h = (2k + x) / (2k + 2): the events are z_1 < x, z_2 < z_1, ...
 * for uniform z, each joined with an event of probability h. m or more of them happen in a row with
 * probability (x h)^m / m!, so their number is even with probability exp(-x h).
 */
static int bernoulli_exp_fraction(struct random_bits *bits, unsigned k, struct lazy_uniform *x,
                                  bool *success) {
    struct lazy_uniform z[2]; /* the newest, and the one before */
    struct lazy_uniform *smallest = x;
    for (unsigned m = 0; m < MAX_EVENTS; m++) {
        struct lazy_uniform *newest = &z[m % 2];
        bool goes_on;
        RANDOM_BITS_TRY(lazy_uniform_start(bits, newest));
        RANDOM_BITS_TRY(lazy_uniform_less(bits, newest, smallest, &goes_on));
        if (goes_on)
            RANDOM_BITS_TRY(bernoulli_ratio(bits, k, x, &goes_on));
        if (!goes_on) {
            *success = m % 2 == 0;
            return RANDOM_BITS_OK;
        }
        smallest = newest;
    }
    return RANDOM_BITS_STUCK;
}

/* True with probability exp(-x (2k + x) / 2), as k + 1 trials that must all succeed. */
static inline int accept_fraction(struct random_bits *bits, unsigned k, struct lazy_uniform *x,
                                  bool *accepted) {
    *accepted = true;
    for (unsigned trial = 0; trial <= k && *accepted; trial++)
        RANDOM_BITS_TRY(bernoulli_exp_fraction(bits, k, x, accepted));
    return RANDOM_BITS_OK;
}

int half_normal_draw(struct random_bits *bits, unsigned *k, struct lazy_uniform *x) {
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        bool accepted;
        RANDOM_BITS_TRY(recall_integer_part(bits, k));
        RANDOM_BITS_TRY(lazy_uniform_start(bits, x));
        RANDOM_BITS_TRY(accept_fraction(bits, *k, x, &accepted));
        if (accepted)
            return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}
