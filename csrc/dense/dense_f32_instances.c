/* The kernels for dense rows of type float: compiled once per instruction set. */
#define REAL_IS_F32 1
#include "dense/dense_kernels.h"
