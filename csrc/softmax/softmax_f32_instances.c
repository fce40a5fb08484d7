/* The softmax kernels for rows of type float: compiled once per instruction set. */
#define REAL_IS_F32 1
#include "softmax/softmax_passes.h"
