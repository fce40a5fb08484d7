/* The kernels for sparse rows of doubles with 32-bit column indices: compiled once per
 * instruction set. */
#define REAL_IS_F32 0
#define VALUE_IS_F32 0
#define INDEX_IS_I32 1
#define SPARSE_KERNELS sparse_kernels_f64_i32
#include "sparse/sparse_kernels.h"
