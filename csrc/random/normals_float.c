#include "random/normals_float.h"

#include <string.h>

enum { PAIRS = 512, FEW_PAIRS = 8 };

int normals_float_fill(struct random_bits *bits, const struct bulk_table *table, double factor,
                       double *out, size_t count) {
    uint64_t words[PAIRS];
    double last[2 * PAIRS];
    for (; count >= 2 * PAIRS; count -= 2 * PAIRS, out += 2 * PAIRS) {
        RANDOM_BITS_TRY(random_bits_words(bits, words, PAIRS));
        table->quick_normals(words, PAIRS, factor, out);
    }
    const size_t pairs = (count + 2 * FEW_PAIRS - 1) / (2 * FEW_PAIRS) * FEW_PAIRS;
    if (count > 0) {
        RANDOM_BITS_TRY(random_bits_words(bits, words, pairs));
        table->quick_normals(words, pairs, factor, last);
        memcpy(out, last, count * sizeof *out);
    }
    return RANDOM_BITS_OK;
}
