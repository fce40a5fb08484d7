/* The macros that describe the types of a sparse template, in addition to real_types.inc.h for the
 * arithmetic. Define VALUE_IS_F32 and INDEX_IS_I32 as 1 or 0 before including this file. */
#undef VALUE
#undef INDEX
#undef SPARSE

#if VALUE_IS_F32
#define VALUE float
#else
#define VALUE double
#endif

#if INDEX_IS_I32
#define INDEX int32_t
#else
#define INDEX int64_t
#endif

/* SPARSE(x): x_sparse_<values>_<indices>, and "_wide" where floats are read for double arithmetic.
 */
#if VALUE_IS_F32 && REAL_IS_F32 && INDEX_IS_I32
#define SPARSE(x) x##_sparse_f32_i32
#elif VALUE_IS_F32 && REAL_IS_F32
#define SPARSE(x) x##_sparse_f32_i64
#elif VALUE_IS_F32 && INDEX_IS_I32
#define SPARSE(x) x##_sparse_wide_i32
#elif VALUE_IS_F32
#define SPARSE(x) x##_sparse_wide_i64
#elif INDEX_IS_I32
#define SPARSE(x) x##_sparse_f64_i32
#else
#define SPARSE(x) x##_sparse_f64_i64
#endif
