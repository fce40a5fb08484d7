#include "random/noisy_selection.h"
#include "random/discrete_laplace.h"

__extension__ typedef __int128 int128;

int permute_and_flip(struct random_bits *bits, const int64_t *scores, size_t count,
                     struct dyadic_rate rate, size_t *order, size_t *chosen) {
    const int64_t minimum = smallest_score(scores, count);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    /* The permutation is drawn only as far as it is used. */
    for (size_t i = 0; i < count; i++) {
        uint64_t step;
        bool accepted;
        RANDOM_BITS_TRY(random_bits_below(bits, count - i, &step));
        const size_t j = order[i + step];
        order[i + step] = order[i];
        RANDOM_BITS_TRY(accept_score(bits, rate, scores[j], minimum, &accepted));
        if (accepted) {
            *chosen = j;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK; /* never: a candidate with the smallest score is accepted */
}

int report_noisy_min(struct random_bits *bits, const int64_t *scores, size_t count,
                     struct dyadic_rate rate, bool two_sided, size_t *chosen) {
    int128 best = 0;
    for (size_t j = 0; j < count; j++) {
        int64_t noise;
        RANDOM_BITS_TRY(discrete_laplace_fill(bits, rate, two_sided, &noise, 1));
        const int128 noisy = (int128)scores[j] - noise;
        if (j == 0 || noisy < best) {
            best = noisy;
            *chosen = j;
        }
    }
    return RANDOM_BITS_OK;
}
