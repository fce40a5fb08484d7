/* The kernels for dense rows of type double: compiled once per instruction set. */
#define REAL_IS_F32 0
#include "dense/dense_kernels.h"
