/* Stochastic gradient descent on dense rows of type double: compiled once per instruction set. */
#define REAL_IS_F32 0 /* the arithmetic */
#define VALUE_IS_F32 0
#include "sgd/dense_sgd.h"
