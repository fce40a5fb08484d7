/* The clipped and rounded loss of a record. */
#ifndef DPERM_ROUNDED_LOSS_H
#define DPERM_ROUNDED_LOSS_H

#include "vector/grid_rounding.h"

/* round(min(value, clip) / grid) for the shift of the grid. NaN counts as 0, because it fails every
 * comparison, and infinity as clip. */
ALWAYS_INLINE int64_t rounded_loss(double value, double clip, double shift) {
    double clipped = value > clip ? clip : value;
    clipped = clipped >= 0.0 ? clipped : 0.0;
    return grid_steps_f64(clipped, shift);
}

#endif
