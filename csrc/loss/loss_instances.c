/* The losses: compiled once per instruction set. */
#include "loss/loss_derivatives.h"
#include "loss/loss_values.h"
