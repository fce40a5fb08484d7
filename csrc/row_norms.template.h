/* Euclidean norms of rows, in double, and the plain sum of entries. */

/* Squares of entries scaled by a power of two, for a row whose plain sum of
 * squares overflowed or lost digits to underflow. */
static double NAME(careful_norm)(const REAL *x, int64_t n_columns, int intercept) {
    double largest = intercept ? 1.0 : 0.0;
    for (int64_t j = 0; j < n_columns; j++)
        largest = fmax(largest, fabs((double)x[j]));
    if (largest == 0.0)
        return 0.0;
    int exponent;
    frexp(largest, &exponent);
    double sum = intercept ? ldexp(1.0, -2 * exponent) : 0.0;
    for (int64_t j = 0; j < n_columns; j++) {
        const double scaled = ldexp((double)x[j], -exponent);
        sum += scaled * scaled;
    }
    /* A norm above DBL_MAX becomes infinite: no factor could scale that row below a clip. A
     * subnormal norm has lost its digits; DBL_MIN is a safe bound in its place. */
    return fmax(ldexp(sqrt(sum), exponent), DBL_MIN);
}

static void NAME(row_norms)(const struct dense_rows *rows, int64_t begin, int64_t end,
                            double *norms_out) {
    const int64_t d = rows->n_columns;
    for (int64_t i = begin; i < end; i++) {
        const REAL *restrict x = (const REAL *)rows->x + i * d;
        /* Eight partial sums in a fixed order, whatever the vector width. */
        double partial[8] = {0}, poison[8] = {0};
        int64_t j = 0;
        for (; j + 8 <= d; j += 8)
            for (int l = 0; l < 8; l++) {
                const double value = (double)x[j + l];
                partial[l] += value * value;
                poison[l] += value * 0.0; /* NaN as soon as one entry is not finite */
            }
        for (int l = 0; j < d; j++, l++) {
            partial[l] += (double)x[j] * (double)x[j];
            poison[l] += (double)x[j] * 0.0;
        }
        double sum = 0.0, zero = 0.0;
        for (int l = 0; l < 8; l++) {
            sum += partial[l];
            zero += poison[l];
        }
        double norm = sqrt(sum + rows->intercept);
        if (zero != 0.0) /* NaN */
            norm = NAN;
        else if (!(sum > 1e-280 && sum < 1e280))
            norm = NAME(careful_norm)(x, d, rows->intercept);
        norms_out[i] = norm;
    }
}

static double NAME(entry_sum)(const struct dense_rows *rows, int64_t begin, int64_t end) {
    const REAL *restrict x = (const REAL *)rows->x + begin * rows->n_columns;
    const int64_t size = (end - begin) * rows->n_columns;
    VECTOR sum[8] = {{0}};
    int64_t at = 0;
    for (; at + 8 * VECTOR_LANES <= size; at += 8 * VECTOR_LANES)
        for (int v = 0; v < 8; v++)
            sum[v] += *(const VECTOR *)(x + at + v * VECTOR_LANES);
    double total = 0.0;
    for (int v = 0; v < 8; v++)
        for (int l = 0; l < VECTOR_LANES; l++)
            total += (double)sum[v][l];
    for (; at < size; at++)
        total += (double)x[at];
    return total;
}
