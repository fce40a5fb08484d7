/* The passes of row_ranges.h over the rows of a sparse matrix that have kernels of their own
 * (sparse_rows.h), in n_threads threads. Results do not depend on n_threads and are those of
 * row_ranges.h for the same matrix, bit for bit. Memory: the dimension for each thread, or with
 * column_panels.h three times the dimension and a number for each row. Arguments are those of the
 * kernel; outputs are overwritten. Return 0, or -1 when memory ran out. */
#ifndef DPERM_SPARSE_PASSES_H
#define DPERM_SPARSE_PASSES_H

#include "kernel_table.h"

/* Whether rows are those of a sparse matrix. */
int is_sparse(const struct dense_rows *rows);

int sparse_row_norms(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, int n_threads, double *norms_out);

int sparse_clipped_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                                const struct dense_rows *rows, int n_threads, struct loss loss,
                                const double *w, double clip_in, double grid, int64_t *sum_out);

int sparse_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                        const struct dense_rows *rows, int n_threads, struct loss loss,
                        const double *w, int precise, double *sum_out,
                        double *loss_out /* or NULL */);

int sparse_clipped_loss_sums(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, struct loss loss,
                             const double *w, const double *direction, const double *steps,
                             int64_t n_steps, double clip, double grid, int64_t *sum_out);

int sparse_predictions(const struct kernel_table *kernels, enum real_type type,
                       const struct dense_rows *rows, int n_threads, const double *w,
                       double *p_out);

/* In this thread. */
struct sgd_settings;
struct sgd_block;
int sparse_sgd_block(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, const struct sgd_settings *settings,
                     const struct sgd_block *block, double *w, double *w_sum /* or NULL */);

#endif
