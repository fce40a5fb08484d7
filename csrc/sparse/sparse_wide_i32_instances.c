/* The kernels for sparse rows of floats, in double arithmetic, with 32-bit column indices: compiled
 * once per instruction set. */
#define REAL_IS_F32 0
#define VALUE_IS_F32 1
#define INDEX_IS_I32 1
#define SPARSE_KERNELS sparse_kernels_wide_i32
#include "sparse/sparse_kernels.h"
