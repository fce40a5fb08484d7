/*
 * Exact samples of round(z) for z in R^d with density proportional to exp(-||z||_2 / s), s
 * rational, from random bits and integer arithmetic alone.
 *
 * Source of the law: K. Chaudhuri, C. Monteleoni, A. D. Sarwate, "Differentially Private Empirical
 * Risk Minimization", JMLR 12, 2011; M. Hardt, K. Talwar, "On the Geometry of Differential
 * Privacy", STOC 2010 (K-norm mechanism). It is a scale mixture of Gaussians: z = s ||N'|| N with
 * independent standard normal N' in R^(d+1) and N in R^d. Of ||N'||^2 = t, chi-square with d+1
 * degrees of freedom, the density of z at distance r is a multiple of
 *
 *   int t^((d-1)/2) e^(-t/2) * t^(-d/2) e^(-r^2/(2 s^2 t)) dt
 *     = int t^(-1/2) e^(-t/2 - r^2/(2 s^2 t)) dt,
 *
 * an inverse Gaussian integral, and that is a multiple of exp(-r / s).
 */
#ifndef DPERM_NORM_LAPLACE_H
#define DPERM_NORM_LAPLACE_H

#include "random/random_bits.h"
#include "random/rounded_gaussian.h"

/* Bytes of workspace for vectors of `dimension` entries, 0 if they overflow size_t. About an eighth
 * is used, unless a rounding needs more bits than usual. */
size_t norm_laplace_workspace_bytes(size_t dimension);

/*
 * out: `vectors` independent vectors of `dimension` >= 1 entries each, entry j the integer nearest
 * to z_j, s = scale; magnitudes are cut off at ROUNDED_GAUSSIAN_LIMIT. dimension < 2^40.
 *
 * first_digits: initial number of 32-bit digits of each normal number, 1 .. LAZY_UNIFORM_DIGITS;
 * more are drawn while a rounding is undecided, so that the distribution does not depend on it.
 * With 3, an entry of magnitude 2^b is undecided with a probability of about 2^(b - 94).
 *
 * workspace: 8-byte aligned. The running time depends on the values. Returns a status of
 * random_bits.h; after a failure nothing in out may be used.
 */
int norm_laplace_fill(struct random_bits *bits, struct rounded_gaussian_scale scale,
                      size_t dimension, size_t vectors, unsigned first_digits, int64_t *out,
                      void *workspace);

#endif
