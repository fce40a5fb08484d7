#include "random/normals_float.h"

#include <string.h>

enum { WORDS = 512, FEW_PAIRS = 8 };

int fill_normals(struct random_bits *bits, scaled_normals_fn *normals, size_t words_per_pair,
                 double factor, double *out, size_t count) {
    uint64_t words[WORDS];
    double last[2 * WORDS];
    const size_t pairs = WORDS / words_per_pair;
    for (; count >= 2 * pairs; count -= 2 * pairs, out += 2 * pairs) {
        RANDOM_BITS_TRY(random_bits_words(bits, words, WORDS));
        normals(words, pairs, factor, out);
    }
    if (count > 0) {
        const size_t rest = (count + 2 * FEW_PAIRS - 1) / (2 * FEW_PAIRS) * FEW_PAIRS;
        RANDOM_BITS_TRY(random_bits_words(bits, words, words_per_pair * rest));
        normals(words, rest, factor, last);
        memcpy(out, last, count * sizeof *out);
    }
    return RANDOM_BITS_OK;
}

int normals_float_fill(struct random_bits *bits, const struct bulk_table *table, double factor,
                       double *out, size_t count) {
    return fill_normals(bits, table->quick_normals, 1, factor, out, count);
}
