/* Loads of the numbers of a table as vectors of doubles. */
#ifndef DPERM_NUMBER_VECTORS_H
#define DPERM_NUMBER_VECTORS_H

#include <stdint.h>

#include "vector/lanes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { WIDE_DOUBLES = WIDE_BYTES / sizeof(double) };

/* A wide vector that starts at any double. */
typedef double loose_wide __attribute__((vector_size(WIDE_BYTES), aligned(8), may_alias));

/* The intrinsics below are one instruction each; compilers generate many for the generic code. */
typedef float some_floats __attribute__((vector_size(4 * WIDE_DOUBLES), aligned(4), may_alias));
typedef uint8_t some_u8 __attribute__((vector_size(WIDE_DOUBLES), aligned(1), may_alias));
typedef uint16_t some_u16 __attribute__((vector_size(2 * WIDE_DOUBLES), aligned(2), may_alias));
typedef int32_t some_i32 __attribute__((vector_size(4 * WIDE_DOUBLES), aligned(4)));

ALWAYS_INLINE wide_f64 doubles_of_f64(const double *from) {
    return *(const loose_wide *)from;
}

#if defined(__AVX512F__)
ALWAYS_INLINE wide_f64 doubles_of_f32(const float *from) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(from));
}

ALWAYS_INLINE wide_f64 doubles_of_u8(const uint8_t *from) {
    return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}

ALWAYS_INLINE wide_f64 doubles_of_u16(const uint16_t *from) {
    return _mm512_cvtepi32_pd(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)));
}
#elif defined(__AVX2__)
ALWAYS_INLINE wide_f64 doubles_of_f32(const float *from) {
    return _mm256_cvtps_pd(_mm_loadu_ps(from));
}

ALWAYS_INLINE wide_f64 doubles_of_u8(const uint8_t *from) {
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_loadu_si32(from)));
}

ALWAYS_INLINE wide_f64 doubles_of_u16(const uint16_t *from) {
    return _mm256_cvtepi32_pd(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)from)));
}
#else
ALWAYS_INLINE wide_f64 doubles_of_f32(const float *from) {
    return __builtin_convertvector(*(const some_floats *)from, wide_f64);
}

ALWAYS_INLINE wide_f64 doubles_of_u8(const uint8_t *from) {
    return __builtin_convertvector(__builtin_convertvector(*(const some_u8 *)from, some_i32),
                                   wide_f64);
}

ALWAYS_INLINE wide_f64 doubles_of_u16(const uint16_t *from) {
    return __builtin_convertvector(__builtin_convertvector(*(const some_u16 *)from, some_i32),
                                   wide_f64);
}
#endif

#endif
