/* The parts of the samplers that run over arrays, once per instruction set. Same results in each.
 */
#ifndef DPERM_BULK_TABLE_H
#define DPERM_BULK_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Bit i of masks[m] is lanes[64 m + i] <= threshold. */
typedef void lanes_at_most_fn(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                              uint64_t *masks);

/*
 * out[0 .. 2*n_pairs-1] = factor * (standard normal numbers), in floating point, from 2 * n_pairs
 * uniform words. n_pairs is a multiple of 8. Magnitudes before the factor are below 8.6.
 *
 * Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Annals
 * of Mathematical Statistics 29, 1958.
 */
typedef void scaled_normals_fn(const uint64_t *words, size_t n_pairs, double factor, double *out);

/*
 * The same from n_pairs words: n_pairs is a multiple of 8. Radii are those of 2^40 uniform numbers
 * (magnitudes below 7.5), directions one of 2^24, each off by less than 1e-8 relatively.
 */
typedef void quick_normals_fn(const uint64_t *words, size_t n_pairs, double factor, double *out);

struct bulk_table {
    const char *instruction_set;
    lanes_at_most_fn *lanes_at_most;
    scaled_normals_fn *scaled_normals;
    quick_normals_fn *quick_normals;
};

/* The fastest table that this machine can run, or the one called `name`; NULL if that one is
 * unknown or cannot run here. */
const struct bulk_table *bulk_choose(const char *name);

/* The table that all threads take; set it before use. */
extern const struct bulk_table *_Atomic bulk_in_use;

#endif
