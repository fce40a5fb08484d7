/* Laplacian smoothing: solves (I - sigma L) u = v on a ring of d places, L the second difference
 *
 *     (L u)_i = u_(i-1) - 2 u_i + u_(i+1),    indices modulo d,
 *
 * in O(d) time. With a = 2 sigma / (2 sigma + 1 + r), r = sqrt(4 sigma + 1), the inverse is the sum
 * of two recurrences, one in each direction:
 *
 *     u_i = (F_i + a B_(i+1)) / r,    F_i = v_i + a F_(i-1),    B_i = v_i + a B_(i+1).
 *
 * A recurrence is slow because each step waits for the one before. Here the ring is split into
 * chunks whose carries are computed first, from the powers of a, and within a chunk eight places
 * are computed at a time from eight entries and one carry. Chunks depend on d alone, so that the
 * bits of the result do not depend on the number of threads. */
#ifndef DPERM_CIRCULANT_SOLVE_H
#define DPERM_CIRCULANT_SOLVE_H

#include "kernel_table.h"

/* Solves for n_vectors vectors, one after the other in v and u, each of d >= 1 entries; sigma >= 0,
 * finite. v and u do not overlap. Returns 0, or -1 when memory ran out. */
int circulant_solve(const struct kernel_table *kernels, int n_threads, double sigma,
                    const double *v, int64_t n_vectors, int64_t d, double *u);

#endif
