/* Normal numbers in floating point: fast, but idealised. See norm_laplace_float.h for what that
 * means, and rounded_gaussian.h for exact noise. */
#ifndef DPERM_NORMALS_FLOAT_H
#define DPERM_NORMALS_FLOAT_H

#include "dispatch/bulk_table.h"
#include "random/random_bits.h"

/* out[0 .. count-1] = factor * (independent standard normal numbers). Returns a status of
 * random_bits.h. */
int normals_float_fill(struct random_bits *bits, const struct bulk_table *table, double factor,
                       double *out, size_t count);

/* The same by a function of bulk_table.h that reads words_per_pair words for each pair. */
int fill_normals(struct random_bits *bits, scaled_normals_fn *normals, size_t words_per_pair,
                 double factor, double *out, size_t count);

#endif
