/* The softmax kernels for rows of type double: compiled once per instruction set. */
#define REAL_IS_F32 0
#include "softmax/softmax_passes.h"
