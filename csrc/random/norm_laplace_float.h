/*
 * Norm-Laplace noise in floating point: fast, but idealised. Its values are doubles that depend on
 * the rounding of every step, so that the proof does not cover the program that adds them to a
 * private value; see norm_laplace.h for exact noise.
 */
#ifndef DPERM_NORM_LAPLACE_FLOAT_H
#define DPERM_NORM_LAPLACE_FLOAT_H

#include "dispatch/bulk_table.h"
#include "random/random_bits.h"

/*
 * out: `vectors` independent vectors of `dimension` >= 1 entries each, density proportional to
 * exp(-||z||_2 / scale) up to rounding. Returns a status of random_bits.h.
 */
int norm_laplace_float_fill(struct random_bits *bits, const struct bulk_table *table, double scale,
                            size_t dimension, size_t vectors, double *out);

#endif
