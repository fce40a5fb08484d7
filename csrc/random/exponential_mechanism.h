/*
 * Exact Bernoulli(exp(-g)) for rational g, and the exponential mechanism built on it, from random
 * bits and integer arithmetic alone.
 *
 * Source: C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy",
 * 2020, algorithm 1 (Bernoulli(exp(-g))); F. McSherry, K. Talwar, "Mechanism Design via
 * Differential Privacy", 2007 (the mechanism).
 */
#ifndef DPERM_EXPONENTIAL_MECHANISM_H
#define DPERM_EXPONENTIAL_MECHANISM_H

#include "random/random_bits.h"

/* numerator / 2^shift, 0 <= shift <= 127. */
struct dyadic_rate {
    uint64_t numerator;
    unsigned shift;
};

/* success: true with probability exp(-rate * distance). */
int bernoulli_exp(struct random_bits *bits, struct dyadic_rate rate, uint64_t distance,
                  bool *success);

/* out[0 .. count-1]: independent, 1 with probability exp(-rate) and 0 otherwise. */
int bernoulli_exp_fill(struct random_bits *bits, struct dyadic_rate rate, uint8_t *out,
                       size_t count);

int64_t smallest_score(const int64_t *scores, size_t count);

/* accepted: true with probability exp(-rate * (score - minimum)). */
int accept_score(struct random_bits *bits, struct dyadic_rate rate, int64_t score, int64_t minimum,
                 bool *accepted);

/*
 * chosen: index j with probability proportional to exp(-rate * scores[j]): small scores are likely.
 * count >= 1; scores may be any int64. Takes at most `count` trials on average, each of a few
 * draws; the running time depends on the scores. Returns a status of random_bits.h.
 */
int exponential_mechanism(struct random_bits *bits, const int64_t *scores, size_t count,
                          struct dyadic_rate rate, size_t *chosen);

#endif
