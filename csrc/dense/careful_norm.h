/* The norm of a row whose squares may over- or underflow. */
#ifndef DPERM_CAREFUL_NORM_H
#define DPERM_CAREFUL_NORM_H

#include <float.h>
#include <math.h>

#include "vector/real_types.h"

/* The norm where a plain sum of squares over- or underflows: entries are first scaled by a power of
 * two. NaN if an entry is not finite. Entries are `stride` apart. */
static double NAME(careful_norm)(const REAL *x, int64_t stride, int64_t n_columns, int intercept) {
    double largest = intercept ? 1.0 : 0.0;
    for (int64_t j = 0; j < n_columns; j++) {
        const double magnitude = fabs((double)x[j * stride]);
        if (!(magnitude <= DBL_MAX))
            return NAN;
        largest = fmax(largest, magnitude);
    }
    if (largest == 0.0)
        return 0.0;
    int exponent;
    frexp(largest, &exponent);
    double sum = intercept ? ldexp(1.0, -2 * exponent) : 0.0;
    for (int64_t j = 0; j < n_columns; j++) {
        const double scaled = ldexp((double)x[j * stride], -exponent);
        sum += scaled * scaled;
    }
    /* A norm above DBL_MAX becomes infinite: no factor could scale that row below a clip. A
     * subnormal norm has lost precision; DBL_MIN is a safe upper bound. */
    return fmax(ldexp(sqrt(sum), exponent), DBL_MIN);
}

#endif
