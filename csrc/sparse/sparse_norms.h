/* Norms of sparse rows, with the bits of row_norms. */
#ifndef DPERM_SPARSE_NORMS_H
#define DPERM_SPARSE_NORMS_H

#include <float.h>
#include <math.h>

#include "dense/careful_norm.h"
#include "sparse/sparse_block.h"

static double norm_of(const VALUE *x, const INDEX *column, int64_t count, int intercept) {
    double partial[16] = {0}, total = 0.0;
    for (int64_t k = 0; k < count; k++)
        partial[(uint64_t)column[k] % 16] += (double)x[k] * (double)x[k];
    for (int l = 0; l < 16; l++)
        total += partial[l];
    const int plain = total > 1e-280 && total < 1e280; /* false for NaN */
    return plain ? sqrt(total + intercept) : NAME(careful_norm)(x, 1, count, intercept);
}

static void row_norms(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                      const struct pass *pass, void *out) {
    double *norms_out = out;
    (void)pass;
    for (int64_t i = begin; i < end; i++) {
        const int64_t start = sparse->matrix->starts[i];
        norms_out[i - begin] = norm_of(
            (const VALUE *)sparse->rows.x + start, (const INDEX *)sparse->matrix->columns + start,
            sparse->matrix->starts[i + 1] - start, sparse->rows.intercept);
    }
}

#endif
