/*
 * The distribution is that of scale * ||N'|| * N (norm_laplace.h). ||N'||^2 / 2 has a gamma
 * distribution of shape (d + 1) / 2 and is drawn directly by the method of G. Marsaglia, W. W.
 * Tsang, "A simple method for generating gamma variables", ACM Transactions on Mathematical
 * Software 26(3), 2000. So the factor of N is known before N, and every entry is written once.
 */
#include "random/norm_laplace_float.h"

#include <math.h>

#include "random/normals_float.h"

/* Both kinds of restart have probability below 1/10. */
enum { FEW_PAIRS = 8, MAX_RESTARTS = 1024 };

/* shape >= 1. (1 + c x)^3 with normal x is nearly right; the rejection test corrects it. */
static int draw_gamma(struct random_bits *bits, const struct bulk_table *table, double shape,
                      double *gamma) {
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (int restart = 0; restart < MAX_RESTARTS; restart++) {
        uint64_t words[2 * FEW_PAIRS], word;
        double normals[2 * FEW_PAIRS];
        RANDOM_BITS_TRY(random_bits_words(bits, words, 2 * FEW_PAIRS));
        RANDOM_BITS_TRY(random_bits_words(bits, &word, 1));
        table->scaled_normals(words, FEW_PAIRS, 1.0, normals);
        const double x = normals[0], root = 1.0 + c * x;
        const double u = ((double)(word >> 11) + 0.5) * 0x1p-53;
        if (root <= 0.0)
            continue;
        const double v = root * root * root;
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) {
            *gamma = d * v;
            return RANDOM_BITS_OK;
        }
    }
    return RANDOM_BITS_STUCK;
}

int norm_laplace_float_fill(struct random_bits *bits, const struct bulk_table *table, double scale,
                            size_t dimension, size_t vectors, double *out) {
    for (size_t i = 0; i < vectors; i++, out += dimension) {
        double gamma;
        RANDOM_BITS_TRY(draw_gamma(bits, table, 0.5 * ((double)dimension + 1.0), &gamma));
        RANDOM_BITS_TRY(fill_normals(bits, table->scaled_normals, 2, scale * sqrt(2.0 * gamma), out,
                                     dimension));
    }
    return RANDOM_BITS_OK;
}
