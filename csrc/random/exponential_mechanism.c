#include "random/exponential_mechanism.h"

__extension__ typedef unsigned __int128 uint128;

/* Exceeded only with a broken source: probabilities 1 / 192!, exp(-1024) and exp(-1024). */
enum { MAX_EVENTS = 192, MAX_WHOLE_SUCCESSES = 1024, MAX_TRIALS_PER_CANDIDATE = 1024 };

/* True with probability fraction / 2^shift, fraction < 2^shift. */
static int bernoulli_dyadic(struct random_bits *bits, uint128 fraction, unsigned shift,
                            bool *success) {
    uint64_t high, low;
    RANDOM_BITS_TRY(random_bits_word(bits, &high));
    RANDOM_BITS_TRY(random_bits_word(bits, &low));
    const uint128 uniform = (((uint128)high << 64) | low) & (((uint128)1 << shift) - 1);
    *success = uniform < fraction;
    return RANDOM_BITS_OK;
}

/*
 * True with probability exp(-g). Step K is followed by step K + 1 with probability g / K, an event
 * of probability 1 / K together with one of probability g. Step K is therefore reached with
 * probability a_K = g^(K-1) / (K-1)!, and the walk ends at an odd step with probability a_1 - a_2 +
 * a_3 - ...
 *
 * g = fraction / 2^shift < 1, or g = 1 if is_one.
 */
static int bernoulli_exp_at_most_one(struct random_bits *bits, uint128 fraction, unsigned shift,
                                     bool is_one, bool *success) {
    for (uint64_t K = 1; K < MAX_EVENTS; K++) {
        uint64_t choice;
        RANDOM_BITS_TRY(random_bits_below(bits, K, &choice));
        bool goes_on = choice == 0;
        if (goes_on && !is_one)
            RANDOM_BITS_TRY(bernoulli_dyadic(bits, fraction, shift, &goes_on));
        if (!goes_on) {
            *success = K % 2 == 1;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}

int bernoulli_exp(struct random_bits *bits, struct dyadic_rate rate, uint64_t distance,
                  bool *success) {
    /* Both factors are below 2^64, so the product fits. */
    const uint128 exponent = (uint128)rate.numerator * distance;
    const uint128 fraction = exponent & (((uint128)1 << rate.shift) - 1);
    *success = true;
    /* Ends at the first failure, after 1.6 rounds on average however large the exponent is. */
    const uint128 whole = exponent >> rate.shift;
    for (uint128 round = 0; round < whole && *success; round++) {
        if (round == MAX_WHOLE_SUCCESSES)
            return RANDOM_BITS_STUCK;
        RANDOM_BITS_TRY(bernoulli_exp_at_most_one(bits, 0, 0, true, success));
    }
    if (*success && fraction > 0)
        RANDOM_BITS_TRY(bernoulli_exp_at_most_one(bits, fraction, rate.shift, false, success));
    return RANDOM_BITS_OK;
}

int bernoulli_exp_fill(struct random_bits *bits, struct dyadic_rate rate, uint8_t *out,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool success;
        RANDOM_BITS_TRY(bernoulli_exp(bits, rate, 1, &success));
        out[i] = success;
    }
    return RANDOM_BITS_OK;
}

int64_t smallest_score(const int64_t *scores, size_t count) {
    int64_t minimum = scores[0];
    for (size_t j = 1; j < count; j++)
        if (scores[j] < minimum)
            minimum = scores[j];
    return minimum;
}

int accept_score(struct random_bits *bits, struct dyadic_rate rate, int64_t score, int64_t minimum,
                 bool *accepted) {
    /* Unsigned subtraction: exact even where the signed difference would overflow. */
    return bernoulli_exp(bits, rate, (uint64_t)score - (uint64_t)minimum, accepted);
}

int exponential_mechanism(struct random_bits *bits, const int64_t *scores, size_t count,
                          struct dyadic_rate rate, size_t *chosen) {
    const int64_t minimum = smallest_score(scores, count);
    for (size_t pass = 0; pass < MAX_TRIALS_PER_CANDIDATE; pass++) {
        for (size_t trial = 0; trial < count; trial++) {
            uint64_t j;
            bool accepted;
            RANDOM_BITS_TRY(random_bits_below(bits, count, &j));
            RANDOM_BITS_TRY(accept_score(bits, rate, scores[j], minimum, &accepted));
            if (accepted) {
                *chosen = (size_t)j;
                return RANDOM_BITS_OK;
            }
        }
    }
    return RANDOM_BITS_STUCK;
}
