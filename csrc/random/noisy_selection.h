/*
 * Selection with pure differential privacy: permute-and-flip and report-noisy-min, exact, on
 * integer scores.
 *
 * Sources: R. McKenna, D. Sheldon, "Permute-and-Flip: A new mechanism for differentially private
 * selection", NeurIPS 2020, algorithm 1; C. Dwork, A. Roth, "The Algorithmic Foundations of
 * Differential Privacy", 2014, Claim 3.9 (noisy max).
 */
#ifndef DPERM_NOISY_SELECTION_H
#define DPERM_NOISY_SELECTION_H

#include "random/exponential_mechanism.h"
#include "random/random_bits.h"

/* Both: small scores are likely; count >= 1; scores may be any int64; the running time depends on
 * the scores. Return a status of random_bits.h. */

/*
 * Candidates in random order; the first j is chosen for which a trial with probability
 * exp(-rate * (scores[j] - smallest score)) succeeds. order: room for `count` indices.
 */
int permute_and_flip(struct random_bits *bits, const int64_t *scores, size_t count,
                     struct dyadic_rate rate, size_t *order, size_t *chosen);

/*
 * The index of the smallest scores[j] - noise_j, the lowest such index in a tie. The noise is
 * discrete Laplace if two_sided, else geometric; rate: see discrete_laplace.h.
 *
 * The sign matters. Subtracting noise >= 0 lets worse candidates overtake. Adding it would hold
 * back the best ones, and a single candidate ahead of the m - 1 others by r would have a privacy
 * loss of (m - 1) * rate * r.
 */
int report_noisy_min(struct random_bits *bits, const int64_t *scores, size_t count,
                     struct dyadic_rate rate, bool two_sided, size_t *chosen);

#endif
