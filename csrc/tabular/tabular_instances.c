/* The kernels for tabular rows: compiled once per instruction set. */
#define REAL_IS_F32 0
#include "tabular/tabular_passes.h"
