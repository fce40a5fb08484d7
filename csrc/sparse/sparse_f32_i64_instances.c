/* The kernels for sparse rows of floats with 64-bit column indices: compiled once per
 * instruction set. */
#define REAL_IS_F32 1
#define VALUE_IS_F32 1
#define INDEX_IS_I32 0
#define SPARSE_KERNELS sparse_kernels_f32_i64
#include "sparse/sparse_kernels.h"
