/* bulk_table.h for one instruction set: compiled once per set with its flags and KERNEL_LEVEL. */
#include <math.h>

#ifdef __AVX2__
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "dispatch/bulk_table.h"
#include "vector/bits.h"

#if defined(__AVX512BW__)

static void lanes_at_most(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                          uint64_t *masks) {
    const __m512i bound = _mm512_set1_epi8((char)threshold);
    for (size_t m = 0; m < n_masks; m++, lanes += 64)
        masks[m] = _mm512_cmple_epu8_mask(_mm512_loadu_si512(lanes), bound);
}

#elif defined(__AVX2__)

ALWAYS_INLINE uint64_t mask_of_32(const uint8_t *lanes, __m256i bound) {
    const __m256i values = _mm256_loadu_si256((const __m256i *)lanes);
    const __m256i kept = _mm256_cmpeq_epi8(_mm256_min_epu8(values, bound), values);
    return (uint32_t)_mm256_movemask_epi8(kept);
}

static void lanes_at_most(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                          uint64_t *masks) {
    const __m256i bound = _mm256_set1_epi8((char)threshold);
    for (size_t m = 0; m < n_masks; m++, lanes += 64)
        masks[m] = mask_of_32(lanes, bound) | mask_of_32(lanes + 32, bound) << 32;
}

#elif defined(__ARM_NEON) && defined(__aarch64__)

/* NEON has no movemask: each lane keeps the bit of its place among eight, and three rounds of
 * pairwise additions combine eight lanes into a byte. */
static void lanes_at_most(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                          uint64_t *masks) {
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bound = vdupq_n_u8(threshold), place = vld1q_u8(places);
    for (size_t m = 0; m < n_masks; m++, lanes += 64) {
        uint8x16_t bits[4];
        for (int i = 0; i < 4; i++)
            bits[i] = vandq_u8(vcleq_u8(vld1q_u8(lanes + 16 * i), bound), place);
        const uint8x16_t pairs =
            vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
        masks[m] = vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)), 0);
    }
}

#else

static void lanes_at_most(const uint8_t *lanes, size_t n_masks, uint8_t threshold,
                          uint64_t *masks) {
    for (size_t m = 0; m < n_masks; m++, lanes += 64) {
        uint64_t mask = 0;
        for (unsigned i = 0; i < 64; i++)
            mask |= (uint64_t)(lanes[i] <= threshold) << i;
        masks[m] = mask;
    }
}

#endif

/* Uniform on the multiples of 2^-52 in [1, 2), from the leading bits of the word. */
ALWAYS_INLINE double one_to_two(uint64_t word) {
    return from_bits_f64(word >> 12 | UINT64_C(0x3ff0000000000000));
}

/* -log(u) for u in [2^-52, 1], relative error below 1e-13: u = 2^e m with m in [sqrt(1/2),
 * sqrt(2)), log m = 2 atanh(s), s = (m - 1)/(m + 1), atanh(s)/s = 1 + s^2 a(s^2), a interpolated at
 * Chebyshev nodes on [0, (sqrt(2) - 1)^4]. */
ALWAYS_INLINE double minus_log(double u) {
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    const uint64_t bits = bits_f64(u);
    const uint64_t exponent = (bits - sqrt_half + (UINT64_C(64) << 52)) >> 52; /* e + 64 */
    const double e = from_bits_f64(exponent | UINT64_C(0x4330000000000000)) - 4503599627370560.0;
    const double f = from_bits_f64(bits - ((exponent - 64) << 52)) - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double z2 = z * z;
    double even = 0.09070096901432996;
    double odd = 0.08310908576429464;
    even = even * z2 + 0.1428571206916208;
    odd = odd * z2 + 0.11111431140054358;
    even = even * z2 + 0.3333333333333104;
    odd = odd * z2 + 0.20000000005603252;
    const double log_m = 2.0 * (s + s * (z * (even + odd * z)));
    return -(e * 0.6931471805599453 + log_m);
}

/*
 * Box-Muller: each pair is the point at distance sqrt(-2 log u) in direction a, with u and a
 * uniform. a = b + pi/4 with b in [-pi/4, pi/4), and both coordinates get random signs:
 *
 *   cos a = (cos b - sin b)/sqrt(2),   sin a = (cos b + sin b)/sqrt(2).
 *
 * sin and cos are interpolated in b^2 at Chebyshev nodes, absolute error below 5e-15.
 */
static void scaled_normals(const uint64_t *words, size_t n_pairs, double factor, double *out) {
    const uint64_t sign = UINT64_C(1) << 63;
    for (size_t start = 0; start < n_pairs; start += 8)
#pragma omp simd
        for (size_t i = start; i < start + 8; i++) {
            const double u = 2.0 - one_to_two(words[i]);
            const uint64_t word = words[n_pairs + i];
            const double b = (one_to_two(word) - 1.5) * 1.5707963267948966;
            const double b2 = b * b;
            double sine = b2 * -2.475655877198039e-08 + 2.7555271893389817e-06;
            double cosine = b2 * 2.0630454379662294e-09 - 2.755523388484742e-07;
            sine = sine * b2 - 0.0001984126329839051;
            cosine = cosine * b2 + 2.4801578538562985e-05;
            sine = sine * b2 + 0.00833333332387815;
            cosine = cosine * b2 - 0.0013888888869978658;
            sine = sine * b2 - 0.16666666666616686;
            cosine = cosine * b2 + 0.041666666666472306;
            sine = (sine * b2 + 0.9999999999999957) * b;
            cosine = cosine * b2 - 0.4999999999999925;
            cosine = cosine * b2 + 1.0;
            const double length = factor * sqrt(minus_log(u));
            const double x = length * (cosine - sine);
            const double y = length * (cosine + sine);
            out[i] = from_bits_f64(bits_f64(x) ^ (word << 63 & sign));
            out[n_pairs + i] = from_bits_f64(bits_f64(y) ^ (word << 62 & sign));
        }
}

/* The same from one word per pair, 40 bits for u and 24 for the direction, with polynomials of
 * lower degree. */
static void quick_normals(const uint64_t *words, size_t n_pairs, double factor, double *out) {
    const uint64_t sign = UINT64_C(1) << 63, one = UINT64_C(0x3ff0000000000000);
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    for (size_t start = 0; start < n_pairs; start += 8)
#pragma omp simd
        for (size_t i = start; i < start + 8; i++) {
            const uint64_t word = words[i];
            const uint64_t u = bits_f64(2.0 - from_bits_f64(word >> 24 << 12 | one));
            const double b = (from_bits_f64((word & 0x3fffff) << 30 | one) - (1.5 - 0x1p-23)) *
                             1.5707963267948966;
            const uint64_t exponent = (u - sqrt_half + (UINT64_C(64) << 52)) >> 52;
            const double e =
                from_bits_f64(exponent | UINT64_C(0x4330000000000000)) - 4503599627370560.0;
            const double f = from_bits_f64(u - ((exponent - 64) << 52)) - 1.0;
            const double s = f / (2.0 + f), z = s * s;
            const double series = (0.14789974698427777 * z + 0.1999439028290738) * z;
            const double log_m = 2.0 * (s + s * (z * (series + 0.3333334251978893)));
            const double length = factor * sqrt(-(e * 0.6931471805599453 + log_m));
            const double q = b * b;
            double sine = -0.00019503904250895923 * q + 0.008332035785598355;
            double cosine = 2.4379831242318767e-05 * q + -0.0013886617999512476;
            sine = sine * q + -0.16666650673996808;
            cosine = cosine * q + 0.041666616692526255;
            sine = (sine * q + 0.9999999969177037) * b;
            cosine = cosine * q + -0.49999999614857493;
            cosine = cosine * q + 0.9999999999524891;
            const double x = length * (cosine - sine);
            const double y = length * (cosine + sine);
            out[i] = from_bits_f64(bits_f64(x) ^ (word << 41 & sign));
            out[n_pairs + i] = from_bits_f64(bits_f64(y) ^ (word << 40 & sign));
        }
}

#define PASTE(a, b) a##b
#define STRINGIFY(a) #a
#define TABLE_NAME(level) PASTE(bulk_table_, level)
#define LEVEL_STRING(level) STRINGIFY(level)

extern const struct bulk_table TABLE_NAME(KERNEL_LEVEL);
const struct bulk_table TABLE_NAME(KERNEL_LEVEL) = {
    .instruction_set = LEVEL_STRING(KERNEL_LEVEL),
    .lanes_at_most = lanes_at_most,
    .scaled_normals = scaled_normals,
    .quick_normals = quick_normals,
};
