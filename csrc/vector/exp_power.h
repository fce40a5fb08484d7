/* exp and powers in double, from elementary operations only: loops over them vectorise, and every
 * lane has the bits of a scalar evaluation. Float versions: loss_values.inc.h. */
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

#endif
