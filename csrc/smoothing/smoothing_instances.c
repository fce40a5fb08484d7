/* The kernels of circulant_solve.h: compiled once per instruction set. */
#include "smoothing/smooth_chunk.h"
