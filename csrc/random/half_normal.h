/*
 * Exact half-normal numbers |N(0, 1)| = k + x, from random bits and integer arithmetic alone: an
 * integer k and a fraction x in [0, 1), of which more digits can be drawn at any time.
 *
 * Sources: J. von Neumann, "Various techniques used in connection with random digits", 1951, for
 * acceptance; digits drawn as needed as in C. F. F. Karney, "Sampling exactly from the normal
 * distribution", ACM Transactions on Mathematical Software 42(1), 2016.
 */
#ifndef DPERM_HALF_NORMAL_H
#define DPERM_HALF_NORMAL_H

#include "random/lazy_uniform.h"
#include "random/random_bits.h"

/*
 * k + x: the absolute value of a standard normal number. The digits of x that were not drawn are
 * uniform and independent of everything so far: lazy_uniform_digit draws them. k is below 27. The
 * running time depends on the value.
 */
int half_normal_draw(struct random_bits *bits, unsigned *k, struct lazy_uniform *x);

#endif
