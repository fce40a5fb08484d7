/* Euclidean norms of rows, in double, and the plain sum of entries. */
#ifndef DPERM_ROW_NORMS_H
#define DPERM_ROW_NORMS_H

#include "dense/careful_norm.h"
#include "dense/dense_block.h"

/* VECTOR_BYTES / 8 entries as doubles. */
ALWAYS_INLINE vec_f64 NAME(as_doubles)(const REAL *x) {
#if REAL_IS_F32
    return __builtin_convertvector(*(const vec_half_f32 *)x, vec_f64);
#else
    return *(const vec_f64 *)x;
#endif
}

/* Sum of squares in double: 16 partial sums in a fixed order, whatever the vector width. */
ALWAYS_INLINE double NAME(sum_of_squares)(const REAL *restrict x, int64_t n_columns) {
    enum { PARTIAL_SUMS = 16, DOUBLES = VECTOR_BYTES / 8, VECTORS = PARTIAL_SUMS / DOUBLES };
    vec_f64 sum[VECTORS] = {{0}};
    int64_t j = 0;
    for (; j + PARTIAL_SUMS <= n_columns; j += PARTIAL_SUMS)
        for (int v = 0; v < VECTORS; v++) {
            const vec_f64 value = NAME(as_doubles)(x + j + v * DOUBLES);
            sum[v] += value * value;
        }
    double partial[PARTIAL_SUMS], total = 0.0;
    memcpy(partial, sum, sizeof partial);
    for (int l = 0; j < n_columns; j++, l++)
        partial[l] += (double)x[j] * (double)x[j];
    for (int l = 0; l < PARTIAL_SUMS; l++)
        total += partial[l];
    return total;
}

static void NAME(row_norms)(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const struct pass *pass, void *out, void *workspace) {
    (void)pass, (void)workspace;
    double *norms_out = out;
    const int64_t d = rows->n_columns;
    for (int64_t i = begin; i < end; i++) {
        const REAL *x = (const REAL *)rows->x + i * d;
        const double sum = NAME(sum_of_squares)(x, d);
        const int plain = sum > 1e-280 && sum < 1e280; /* false for NaN */
        norms_out[i - begin] =
            plain ? sqrt(sum + rows->intercept) : NAME(careful_norm)(x, 1, d, rows->intercept);
    }
}

static void NAME(entry_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                            const struct pass *pass, void *out, void *workspace) {
    (void)pass, (void)workspace;
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
    *(double *)out += total;
}

#endif
