/* The loss of one prediction p and target y, in float and in double: a line search evaluates many
 * per row, and floats take half the time. Elementary operations only, as in loss_derivatives.h. */
#ifndef DPERM_LOSS_VALUES_H
#define DPERM_LOSS_VALUES_H

#include "loss/loss_derivatives.h"

#define LOSS_REAL float
#define OF_REAL(name) name##_f32
#define LARGEST_EXP_ARGUMENT LARGEST_EXP_F32
#include "loss/loss_values.inc.h"
#undef LOSS_REAL
#undef OF_REAL
#undef LARGEST_EXP_ARGUMENT

#define LOSS_REAL double
#define OF_REAL(name) name##_f64
#define LARGEST_EXP_ARGUMENT LARGEST_EXP_F64
#include "loss/loss_values.inc.h"
#undef LOSS_REAL
#undef OF_REAL
#undef LARGEST_EXP_ARGUMENT

#endif
