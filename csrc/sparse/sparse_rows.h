/* Rows of a compressed sparse matrix, and the kernels that read them.
 *
 * Everything is as for dense rows (kernel_table.h), and so is every integer, bit for bit: entries
 * that are not stored are zeros, whose products add nothing. A product of row and weights is
 * added up in the partial sums that dot() keeps for a dense row, each in the order of columns. */
#ifndef DPERM_SPARSE_ROWS_H
#define DPERM_SPARSE_ROWS_H

#include "sparse/column_panels.h"
#include "kernel_table.h"
#include "sparse/sparse_matrix.h"

struct sparse_rows {
    struct dense_rows rows; /* x: the values of the stored entries, row by row */
    const struct sparse_matrix *matrix;
    enum reading reading; /* of what a pass reads once */
};

/* Weights as the kernels read them: `packed` reals of the arithmetic's type. */
struct sparse_weights {
    const void *packed; /* n_columns; or for two_dots n_columns pairs of weight and direction */
    double intercept, direction_intercept;
    /* Weights beyond the largest real of the rows became infinite: times a zero that is not stored
     * they would make a prediction NaN. */
    int64_t infinite;
};

/* norms_out[i], as row_norms_fn. */
typedef void sparse_row_norms_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                                 double *norms_out);

/* As clipped_gradient_sum_fn. */
typedef void sparse_clipped_gradient_sum_fn(const struct sparse_rows *rows, int64_t begin,
                                            int64_t end, struct loss loss,
                                            const struct sparse_weights *w, double clip_in,
                                            double grid, int64_t *sum_out);

/* factor_out[i] = the s_i of clipped_gradient_sum_fn for the rows of a slab, 0 for rows that do not
 * count; reals of the rows' type, as the weights, which are in the order of the strips. Returns the
 * sum of round(s_i / grid). The workspace has room for slab_workspace_rows() times slab_rows reals;
 * rows are a whole pass's, each of which counts once. */
typedef int64_t sparse_clipped_factors_fn(const struct dense_rows *rows,
                                          const struct column_strips *strips, int64_t slab,
                                          struct loss loss, const void *w, double intercept,
                                          double clip_in, double grid, void *workspace,
                                          void *factor_out);

/* sum_out[place] = sum over all rows of round(factors[i] x_ij / grid), for the columns j of a
 * strip, in the order of the strips. */
typedef void sparse_sum_strip_fn(const struct column_strips *strips, int64_t strip,
                                 const void *factors, double grid, int64_t *sum_out);

/* As clipped_loss_sums_fn. With predictions, `packed` is the direction alone. */
typedef void sparse_clipped_loss_sums_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                                         struct loss loss, const struct sparse_weights *w,
                                         const double *steps, int64_t n_steps, double clip,
                                         double grid, int64_t *sum_out);

/* p_out[i - begin] = p_i. */
typedef void sparse_predictions_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                                   const struct sparse_weights *w, double *p_out);

/* factor_out[i - begin] = loss'(p_i) min(1, row_norm / norms[i]), exact in the arithmetic's type;
 * *sum_out += these, and unless loss_out is NULL, *loss_out += the losses. */
typedef void sparse_factors_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                               struct loss loss, const struct sparse_weights *w, double *factor_out,
                               double *sum_out, double *loss_out);

/* Sums of factors[i] x_ij for the columns j from first to last - 1, in the order of gradient_sum
 * over the same range: products of rows_per_flush rows in the arithmetic's type, then in double.
 * The three arrays have n_columns entries; the first two are zeros, and zeros again on return. */
struct sparse_columns {
    int64_t first, last;
    int64_t rows_per_flush;
    void *products; /* of the arithmetic's type */
    double *range_sum, *sum_out;
};
typedef void sparse_add_columns_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                                   const double *factors, const struct sparse_columns *columns);

/* As sgd_steps_fn. */
typedef void sparse_sgd_steps_fn(const struct sparse_rows *rows,
                                 const struct sgd_settings *settings, const struct sgd_block *block,
                                 double *w, double *w_sum, void *workspace);
typedef int64_t sparse_sgd_workspace_bytes_fn(const struct sparse_rows *rows);

#define BY_TYPE(kernel) kernel[N_REAL_TYPES][N_INDEX_TYPES]
struct sparse_kernels {
    sparse_row_norms_fn *BY_TYPE(row_norms);
    sparse_clipped_gradient_sum_fn *BY_TYPE(clipped_gradient_sum);
    sparse_clipped_factors_fn *clipped_factors[N_REAL_TYPES];
    sparse_sum_strip_fn *sum_strip[N_REAL_TYPES];
    sparse_clipped_loss_sums_fn *BY_TYPE(clipped_loss_sums);
    sparse_predictions_fn *BY_TYPE(predictions);
    /* In the arithmetic of the rows, and in double for any rows. */
    sparse_factors_fn *BY_TYPE(factors), *BY_TYPE(precise_factors);
    sparse_add_columns_fn *BY_TYPE(add_columns), *BY_TYPE(precise_add_columns);
    sparse_sgd_workspace_bytes_fn *sgd_workspace_bytes;
    sparse_sgd_steps_fn *BY_TYPE(sgd_steps);
    /* How gradient_sum and precise_gradient_sum cut a range: for add_columns, and for factors. */
    int64_t rows_per_flush[N_REAL_TYPES], precise_rows_per_flush[N_REAL_TYPES];
    int64_t precise_rows_per_call[N_REAL_TYPES];
};
#undef BY_TYPE

#endif
