/* Losses of one prediction p and one target y, and their derivatives with respect to p, for blocks
 * of rows: compiled once per instruction set (loss_instances.c), with elementary operations only,
 * so that loops vectorise and every lane has the bits of a scalar evaluation. */
#ifndef DPERM_LOSSES_H
#define DPERM_LOSSES_H

#include "dispatch/level.h"
#include "loss/loss_kinds.h"
#include "vector/lanes.h"

#define derivatives_of_load OF_LEVEL(derivatives_of_load)
#define derivatives_of_block OF_LEVEL(derivatives_of_block)
#define single_loss_derivative OF_LEVEL(single_loss_derivative)
#define loss_curvatures OF_LEVEL(loss_curvatures)
#define loss_thirds OF_LEVEL(loss_thirds)
#define loss_values_f32 OF_LEVEL(loss_values_f32)
#define loss_values_f64 OF_LEVEL(loss_values_f64)

/* derivative[i] = d loss / d p at (p[i], y[i]) for ROWS_PER_LOAD rows, and for ROWS_PER_BLOCK. */
void derivatives_of_load(const struct loss *loss, const double *restrict p,
                         const double *restrict y, double *restrict derivative);
void derivatives_of_block(const struct loss *loss, const double *restrict p,
                          const double *restrict y, double *restrict derivative);

/* For n rows: ROWS_PER_LOAD, or a multiple of ROWS_PER_BLOCK. */
ALWAYS_INLINE void loss_derivatives(struct loss loss, int n, const double *p, const double *y,
                                    double *derivative) {
    if (n == ROWS_PER_LOAD)
        derivatives_of_load(&loss, p, y, derivative);
    for (int i = 0; i + ROWS_PER_BLOCK <= n; i += ROWS_PER_BLOCK)
        derivatives_of_block(&loss, p + i, y + i, derivative + i);
}

/* The same for one prediction. */
double single_loss_derivative(struct loss loss, double p, double y);

/* curvature[i] = d^2 loss / d p^2 at (p[i], y[i]), or with `upper` a bound, for ROWS_PER_BLOCK
 * rows: see loss_derivatives.h. */
void loss_curvatures(struct loss loss, int upper, const double *restrict p,
                     const double *restrict y, double *restrict curvature);

/* third[i] = d^3 loss / d p^3 at p[i] for n rows, of the logistic loss only. */
void loss_thirds(struct loss loss, int n, const double *p, double *third);

/* value[i] = loss at (p[i], y[i]) for whole blocks: several at a time hide the latency of one. */
void loss_values_f32(struct loss loss, const float *restrict p, const float *restrict y,
                     int n_blocks, float *restrict value);
void loss_values_f64(struct loss loss, const double *restrict p, const double *restrict y,
                     int n_blocks, double *restrict value);

#endif
