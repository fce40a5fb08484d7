/* Array loops of the samplers, compiled once per instruction set, with the same results in each. */
#ifndef DPERM_BULK_TABLE_H
#define DPERM_BULK_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Bit i of masks[m] is lanes[64 m + i] <= threshold. */
typedef void lanes_at_most_fn(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                              uint64_t *masks);

/*
 * out[0 .. 2*n_pairs-1] = factor * (standard normal numbers), in floating point, from 2 * n_pairs
 * uniform words. n_pairs is a multiple of 8. Magnitudes before scaling are below 8.6.
 *
 * Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Annals
 * of Mathematical Statistics 29, 1958.
 */
typedef void scaled_normals_fn(const uint64_t *words, size_t n_pairs, double factor, double *out);

/*
 * As scaled_normals, from n_pairs words only: each pair has one of 2^40 radii (magnitudes below
 * 7.5) and one of 2^24 directions, with a relative error below 1e-8.
 */

struct bulk_table {
    const char *instruction_set;
    lanes_at_most_fn *lanes_at_most;
    scaled_normals_fn *scaled_normals, *quick_normals;
};

/* The fastest table that this machine can run, or the one called `name`; NULL if that one is
 * unknown or cannot run here. */
const struct bulk_table *bulk_choose(const char *name);

/* The table that all threads use; set it before use. */
extern const struct bulk_table *_Atomic bulk_in_use;

#endif
