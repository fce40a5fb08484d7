/* Rows of a compressed sparse matrix, and the kernels that read them.
 *
 * Contracts are those of dense rows (kernel_table.h), and integers are the same bit for bit:
 * entries that are not stored are zeros, whose products add nothing. The product of a row and the
 * weights is accumulated in the partial sums that dot() uses for a dense row, each in the order of
 * columns. */
#ifndef DPERM_SPARSE_ROWS_H
#define DPERM_SPARSE_ROWS_H

#include "kernel_table.h"
#include "sparse/sparse_matrix.h"

/* Weights as the kernels read them: `packed` reals of the type of the arithmetic. */
struct sparse_weights {
    const void *packed; /* n_columns; in a line search n_columns pairs of weight and direction */
    double intercept, direction_intercept;
    int64_t infinite; /* number of infinite weights: times a zero that is not stored they make a
                         prediction NaN */
};

/* The rows, and the weights of a pass over them. */
struct sparse_rows {
    struct dense_rows rows; /* x: the values of the stored entries, row by row */
    const struct sparse_matrix *matrix;
    enum reading reading; /* of data that a pass reads once */
    struct sparse_weights weights;
};

/* As pass_fn. In clipped_loss_sums with kept predictions the weights are the direction alone. */
typedef void sparse_pass_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                            const struct pass *pass, void *out);

/* factor_out[i - begin] = loss'(p_i) min(1, row_norm / norms[i]) rounded to the type of the
 * arithmetic; sums[0] += the factors, and with_loss, sums[1] += the losses. */
typedef void sparse_factors_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                               const struct pass *pass, double *factor_out, double *sums);

/* Sums of factors[i] x_ij for the columns j from first to last - 1, in the order of gradient_sum
 * over the same range: products of rows_per_flush rows in the type of the arithmetic, then in
 * double. The three arrays have n_columns entries; the first two are zero before and after. */
struct sparse_columns {
    int64_t first, last;
    int64_t rows_per_flush;
    void *products; /* of the type of the arithmetic */
    double *range_sum, *sum_out;
};
typedef void sparse_add_columns_fn(const struct sparse_rows *rows, int64_t begin, int64_t end,
                                   const double *factors, const struct sparse_columns *columns);

/* As sgd_steps_fn. */
typedef void sparse_sgd_steps_fn(const struct sparse_rows *rows,
                                 const struct sgd_settings *settings, const struct sgd_block *block,
                                 void *workspace);
typedef int64_t sparse_sgd_workspace_bytes_fn(const struct sparse_rows *rows);

/* The kernels for one type of values and of indices, in one arithmetic. For float rows in double
 * arithmetic there are factors, add_columns and sgd_steps alone; sgd_steps is in double. */
struct sparse_kernels {
    sparse_pass_fn *row_norms, *predictions, *clipped_gradient_sum, *clipped_loss_sums;
    sparse_factors_fn *factors;
    sparse_add_columns_fn *add_columns;
    sparse_sgd_workspace_bytes_fn *sgd_workspace_bytes;
    sparse_sgd_steps_fn *sgd_steps;
    /* How gradient_sum splits a range, for add_columns and for factors. */
    int64_t rows_per_flush, rows_per_call;
};

#endif
