/*
 * Exact half-normal numbers |N(0, 1)| = k + x, as an integer k and a fraction x in [0, 1) of which
 * more digits can be drawn at any time, from random bits and integer arithmetic alone.
 *
 * Source: C. F. F. Karney, "Sampling exactly from the normal distribution", ACM Transactions on
 * Mathematical Software 42(1), 2016, algorithms N and B. Bernoulli(exp(-1/2)) is drawn as in
 * Canonne, Kamath, Steinke 2020, algorithm 1, which needs small integers only.
 */
#ifndef DPERM_HALF_NORMAL_H
#define DPERM_HALF_NORMAL_H

#include "random/lazy_uniform.h"
#include "random/random_bits.h"

/*
 * Makes draws faster, and changes none of them. Call once, before there are threads; without this
 * call the samplers are correct and slower.
 */
void half_normal_prepare(void);

/*
 * k + x: the absolute value of a standard normal number. The digits of x that the draw did not need
 * are uniform and independent of everything so far: lazy_uniform_digit draws them. k is below 2^16.
 * The time depends on the value.
 */
int half_normal_draw(struct random_bits *bits, unsigned *k, struct lazy_uniform *x);

#endif
