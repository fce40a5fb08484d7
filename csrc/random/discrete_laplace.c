/*
 * Method. For v = u + 2^m b with u < 2^m, exp(-rate v) = exp(-rate u) exp(-rate 2^m)^b. So draw u
 * uniformly, accept it with probability exp(-rate u), and let b be the number of successes of
 * Bernoulli(exp(-rate 2^m)) before the first failure. 2^m is the power of two with rate 2^m in
 * [1/2, 1), or 1 for larger rates: both parts take less than two tries on average.
 */
#include "random/discrete_laplace.h"

/* Exceeded only with a broken source: probabilities exp(-1024) and below 2^-1024. */
enum { MAX_BLOCKS = 2048, MAX_RESTARTS = 2048 };

static unsigned log2_block(struct dyadic_rate rate) {
    unsigned length = 0;
    for (uint64_t rest = rate.numerator; rest != 0; rest >>= 1)
        length++;
    return rate.shift > length ? rate.shift - length : 0;
}

/* u < 2^m with probability proportional to exp(-rate u). */
static int draw_within_block(struct random_bits *bits, struct dyadic_rate rate, unsigned m,
                             uint64_t *u) {
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        bool kept;
        RANDOM_BITS_TRY(random_bits_below(bits, UINT64_C(1) << m, u));
        RANDOM_BITS_TRY(bernoulli_exp(bits, rate, *u, &kept));
        if (kept)
            return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}

int geometric_draw(struct random_bits *bits, struct dyadic_rate rate, int64_t *value) {
    const unsigned m = log2_block(rate);
    uint64_t u, blocks = 0;
    bool success;
    RANDOM_BITS_TRY(draw_within_block(bits, rate, m, &u));
    RANDOM_BITS_TRY(bernoulli_exp(bits, rate, UINT64_C(1) << m, &success));
    while (success) {
        if (++blocks > MAX_BLOCKS)
            return RANDOM_BITS_STUCK;
        RANDOM_BITS_TRY(bernoulli_exp(bits, rate, UINT64_C(1) << m, &success));
    }
    *value = blocks >= (uint64_t)DISCRETE_LAPLACE_LIMIT >> m ? DISCRETE_LAPLACE_LIMIT
                                                             : (int64_t)(u + (blocks << m));
    return RANDOM_BITS_OK;
}

int discrete_laplace_draw(struct random_bits *bits, struct dyadic_rate rate, int64_t *value) {
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        uint32_t negative;
        RANDOM_BITS_TRY(geometric_draw(bits, rate, value));
        RANDOM_BITS_TRY(random_bits_take(bits, 1, &negative));
        if (negative && *value == 0)
            continue; /* count 0 only once */
        *value = negative ? -*value : *value;
        return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}

int discrete_laplace_fill(struct random_bits *bits, struct dyadic_rate rate, bool two_sided,
                          int64_t *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        RANDOM_BITS_TRY(two_sided ? discrete_laplace_draw(bits, rate, &out[i])
                                  : geometric_draw(bits, rate, &out[i]));
    return RANDOM_BITS_OK;
}
