/* exp and powers in double and in float, from elementary operations only: loops over them
 * vectorise, and every lane has the bits of a scalar evaluation. */
#ifndef DPERM_EXP_POWER_H
#define DPERM_EXP_POWER_H

#include <float.h>
#include <stdint.h>

#include "vector/grid_rounding.h"
#include "vector/lanes.h"

#define LARGEST_EXP_F64 708.0 /* arguments of exp: at most this far from 0 */

/* 2^k from shifted = k + SHIFT_F64, -1022 <= k <= 1024 (infinity): the low bits of `shifted` are k.
 */
ALWAYS_INLINE double two_to_f64(double shifted) {
    return from_bits_f64((bits_f64(shifted) + 1023) << 52);
}

/* exp(x) for -708 <= x <= 708, relative error below 4e-16; smaller x is clamped, NaN stays NaN.
 * x = k log 2 + r, |r| <= log(2)/2; exp(r) - 1 = r + r^2 c(r) with c interpolating
 * (exp(r) - 1 - r)/r^2 at Chebyshev nodes, relative error 2.3e-16. */
ALWAYS_INLINE double exp_f64(double x) {
    x = x < -LARGEST_EXP_F64 ? -LARGEST_EXP_F64 : x;
    double shifted = x * 1.4426950408889634 + SHIFT_F64;
    double k = shifted - SHIFT_F64;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    /* Even and odd coefficients separately: half as long a chain of dependent operations. */
    double r2 = r * r;
    double even = 2.7620088445409746e-07;
    double odd = 2.510038549551032e-08;
    even = even * r2 + 2.4801521295954376e-05;
    odd = odd * r2 + 2.7557268459997064e-06;
    even = even * r2 + 0.0013888888917213717;
    odd = odd * r2 + 0.00019841269863053618;
    even = even * r2 + 0.04166666666662413;
    odd = odd * r2 + 0.008333333333330062;
    even = even * r2 + 0.5000000000000001;
    odd = odd * r2 + 0.16666666666666669;
    const double reduced = (even + odd * r) * r2 + r;
    return (reduced + 1.0) * two_to_f64(shifted);
}

/* x^p for x >= 0 and 0 < p <= 2, relative error below 2e-15 where the result is normal; NaN and
 * infinity stay.
 *
 * x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1)/(m + 1), atanh(s)/s =
 * 1 + s^2 a(s^2), a interpolated at Chebyshev nodes on [0, (sqrt(2) - 1)^4]. The product k p is
 * exact, computed from the 26 leading bits of p and the rest: its integer part goes to the
 * exponent, which leaves a small argument for exp. */
ALWAYS_INLINE double power_f64(double x, double p) {
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    const double p_high = from_bits_f64(bits_f64(p) & UINT64_C(0xfffffffff8000000));
    const double base = x > 0.0 ? x : 1.0; /* products that underflow are slow */
    const int tiny = base < DBL_MIN;
    const uint64_t bits = bits_f64(tiny ? base * 0x1p54 : base);
    const uint64_t exponent = (bits - sqrt_half + (UINT64_C(2048) << 52)) >> 52; /* k + 2048 */
    const double m = from_bits_f64(bits - ((exponent - 2048) << 52));
    double k = from_bits_f64(exponent | UINT64_C(0x4330000000000000)) - 4503599627370496.0;
    k -= tiny ? 2048.0 + 54.0 : 2048.0;

    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double z2 = z * z;
    double even = 0.07308224842521703;
    double odd = 0.07665860800278021;
    even = even * z2 + 0.09091444562630861;
    odd = odd * z2 + 0.1111110556739754;
    even = even * z2 + 0.14285714312987743;
    odd = odd * z2 + 0.19999999999949752;
    even = even * z2 + 0.3333333333333335;
    double log_m = 2.0 * (s + s * (z * (even + odd * z)));

    double product = k * p_high;
    double whole = (product + SHIFT_F64) - SHIFT_F64;
    double rest = (product - whole) + k * (p - p_high);
    whole = whole < -2000.0 ? -2000.0 : whole; /* the result is 0 either way */
    double half = 0.5 * whole + SHIFT_F64;     /* 2^whole as a product of two doubles */
    double other = (whole - (half - SHIFT_F64)) + SHIFT_F64;
    double result = exp_f64(rest * 0.6931471805599453 + p * log_m);
    result = (result * two_to_f64(half)) * two_to_f64(other);
    return x > 0.0 && x <= DBL_MAX ? result : x; /* 0, infinity, NaN */
}

/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; adds an error below 2e-16. */
ALWAYS_INLINE double atanh_series_f64(double z) {
    double z2 = z * z;
    double even = 0.08435350330548605;
    double odd = 0.05161334635249541;
    even = even * z2 + 0.0675117123587855;
    odd = odd * z2 + 0.07686637438179002;
    even = even * z2 + 0.09091130554209872;
    odd = odd * z2 + 0.11111106278964857;
    even = even * z2 + 0.14285714338330496;
    odd = odd * z2 + 0.19999999999780063;
    even = even * z2 + 0.33333333333333487;
    return even + odd * z;
}

#define LARGEST_EXP_F32 87.0F

ALWAYS_INLINE float two_to_f32(float shifted) {
    return from_bits_f32((bits_f32(shifted) + 127) << 23);
}

/* exp(x) for -87 <= x <= 87, relative error below 3e-7; smaller x is clamped, NaN stays NaN. Same
 * method as exp_f64; the polynomial is good to 8e-9. */
ALWAYS_INLINE float exp_f32(float x) {
    x = x < -87.0F ? -87.0F : x;
    float shifted = x * 1.44269504F + SHIFT_F32;
    float k = shifted - SHIFT_F32;
    float r = (x - k * 0.693359375F) - k * -2.12194440e-4F;
    float r2 = r * r;
    float even = 0.00139262508F * r2 + 0.0416665542F;
    float odd = 0.00836323288F * r2 + 0.166665767F;
    float reduced = ((even * r2 + odd * r) + 0.5F) * r2 + r;
    return (reduced + 1.0F) * two_to_f32(shifted);
}

/* x^p for x >= 0 and 0 < p <= 2 as in power_f64, relative error below 1e-6. p is split into its
 * leading 12 bits and the rest. */
ALWAYS_INLINE float power_f32(float x, double p) {
    const uint32_t sqrt_half = 0x3f3504f3;
    const float p_high = from_bits_f32(bits_f32((float)p) & 0xfffff000);
    const float p_low = (float)(p - (double)p_high);
    const float base = x > 0.0F ? x : 1.0F;
    const int tiny = base < FLT_MIN;
    const uint32_t bits = bits_f32(tiny ? base * 0x1p24F : base);
    const uint32_t exponent = (bits - sqrt_half + (UINT32_C(256) << 23)) >> 23; /* k + 256 */
    const float m = from_bits_f32(bits - ((exponent - 256) << 23));
    float k = (float)(int32_t)exponent - (tiny ? 256.0F + 24.0F : 256.0F);

    float s = (m - 1.0F) / (m + 1.0F);
    float z = s * s;
    float a = (0.147899747F * z + 0.199943903F) * z + 0.333333425F;
    float log_m = 2.0F * (s + s * (z * a));

    float product = k * p_high;
    float whole = (product + SHIFT_F32) - SHIFT_F32;
    float rest = (product - whole) + k * p_low;
    whole = whole < -250.0F ? -250.0F : whole;
    float half = 0.5F * whole + SHIFT_F32;
    float other = (whole - (half - SHIFT_F32)) + SHIFT_F32;
    float result = exp_f32(rest * 0.693147181F + (float)p * log_m);
    result = (result * two_to_f32(half)) * two_to_f32(other);
    return x > 0.0F && x <= FLT_MAX ? result : x;
}

/* a(z) with atanh(s)/s = 1 + z a(z), z = s^2 in [0, 1/9]; adds an error below 2e-8. */
ALWAYS_INLINE float atanh_series_f32(float z) {
    float z2 = z * z;
    return (0.13425749F * z2 + 0.200037803F) * z + (0.141183099F * z2 + 0.333333202F);
}

#endif
