/* Bit patterns of floating-point numbers. */
#ifndef DPERM_BITS_H
#define DPERM_BITS_H

#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* A function in a header that not every file with the header calls. */
#define SHARED static __attribute__((unused))

ALWAYS_INLINE uint32_t bits_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ALWAYS_INLINE uint64_t bits_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ALWAYS_INLINE float from_bits_f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ALWAYS_INLINE double from_bits_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
