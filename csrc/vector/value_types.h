/* The types of the stored numbers, and of the column indices of a sparse matrix: the file defines
 * VALUE_IS_F32, and INDEX_IS_I32 if it reads indices, as 1 or 0. Floats may be read for double
 * arithmetic. */
#ifndef DPERM_VALUE_TYPES_H
#define DPERM_VALUE_TYPES_H

#include <stdint.h>

#ifndef VALUE_IS_F32
#error "define VALUE_IS_F32 as 1 or 0"
#endif

#if VALUE_IS_F32
#define VALUE float
#else
#define VALUE double
#endif

#ifdef INDEX_IS_I32
#if INDEX_IS_I32
#define INDEX int32_t
#else
#define INDEX int64_t
#endif
#endif

#endif
