/* The plain gradient sum of float rows in double arithmetic, for training whose privacy proof
 * bounds every rounding error: a few rows at a time are converted into the workspace for the kernel
 * for doubles. */
#ifndef DPERM_PRECISE_GRADIENT_SUM_H
#define DPERM_PRECISE_GRADIENT_SUM_H

#include "dense/gradient_sums.h"
#include "dense/workspaces.h"

static int64_t precise_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    return converted_bytes(rows->n_columns) + workspace_bytes(rows, pass);
}

static void precise_gradient_sum(const struct dense_rows *rows, int64_t begin, int64_t end,
                                 const struct pass *pass, void *out, void *workspace) {
    const int64_t d = rows->n_columns;
    double *x = workspace, *y = x + ROWS_CONVERTED * d;
    struct dense_rows converted = *rows;
    converted.x = x;
    converted.y = y;
    for (int64_t first = begin; first < end; first += ROWS_CONVERTED) {
        const int64_t count = end - first < ROWS_CONVERTED ? end - first : ROWS_CONVERTED;
        const float *from = (const float *)rows->x + first * d;
        for (int64_t k = 0; k < count * d; k++)
            x[k] = (double)from[k];
        for (int64_t i = 0; i < count; i++)
            y[i] = (double)((const float *)rows->y)[first + i];
        converted.norms = rows->norms + first;
        converted.multiplicity = rows->multiplicity ? rows->multiplicity + first : NULL;
        converted.weights = rows->weights ? rows->weights + first : NULL;
        converted.n_rows = count;
        gradient_sum_f64(&converted, 0, count, pass, out, (char *)workspace + converted_bytes(d));
    }
}

#endif
