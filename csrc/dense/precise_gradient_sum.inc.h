/* The plain gradient sum of float rows in double arithmetic, for trainings whose proof counts
 * every rounding error: a few rows at a time are converted into the workspace, where the
 * kernel for doubles reads them. Double rows need nothing of the kind. */
enum { ROWS_CONVERTED = 32 };

static int64_t converted_bytes(int64_t n_columns) {
    const int64_t bytes = ROWS_CONVERTED * (n_columns + 1) * (int64_t)sizeof(double);
    return (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

static void precise_gradient_sum_f32(const struct dense_rows *rows, int64_t begin, int64_t end,
                                     struct loss loss, const double *w, double *sum_out,
                                     double *loss_out, void *workspace) {
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
        converted.counts = rows->counts ? rows->counts + first : NULL;
        converted.n_rows = count;
        gradient_sum_f64(&converted, 0, count, loss, w, sum_out, loss_out,
                         (char *)workspace + converted_bytes(d));
    }
}
