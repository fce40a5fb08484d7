/* The kernels of kernel_table.h over all rows, in n_threads threads.
 *
 * Rows are cut into ranges that depend on their number alone, each range has its own
 * partial sums, and these are added in order: the result does not depend on
 * n_threads, for exact and for floating-point sums alike. Arguments are those of
 * the kernel; outputs are overwritten. Return 0, or -1 when memory ran out. */
#ifndef DPERM_ROW_RANGES_H
#define DPERM_ROW_RANGES_H

#include "kernel_table.h"

int all_row_norms(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, int n_threads, double *norms_out);

int all_clipped_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, struct loss loss,
                             const double *w, double clip_in, double grid, int64_t *sum_out);

int all_clipped_gradient_sums(const struct kernel_table *kernels, enum real_type type,
                              const struct dense_rows *rows, int n_threads, struct loss loss,
                              const struct models *models, int64_t *sum_out);

int all_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, int n_threads, struct loss loss,
                     const double *w, int precise, double *sum_out, double *loss_out /* or NULL */);

int all_clipped_loss_sums(const struct kernel_table *kernels, enum real_type type,
                          const struct dense_rows *rows, int n_threads, struct loss loss,
                          const double *w, const double *direction, const double *steps,
                          int64_t n_steps, double clip, double grid, int64_t *sum_out);

int all_coordinate_loss_sums(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, struct loss loss,
                             const double *w, double stride, double clip, double grid,
                             int64_t *sum_out);

int all_predictions(const struct kernel_table *kernels, enum real_type type,
                    const struct dense_rows *rows, int n_threads, const double *w, double *p_out);

int all_entry_sum(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, int n_threads, double *sum_out);

int all_gram_sum(const struct kernel_table *kernels, enum real_type type,
                 const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                 int64_t *sum_out);

int all_moment_sums(const struct kernel_table *kernels, enum real_type type,
                    const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                    double clip, int64_t *sum_out);

int all_norms_through(const struct kernel_table *kernels, enum real_type type,
                      const struct dense_rows *rows, int n_threads, const struct integer_rows *form,
                      const double *matrix, int64_t n_out, double *norms_out);

int all_clipped_softmax_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                                     const struct dense_rows *rows, int n_threads,
                                     int64_t n_classes, const double *w, double clip_in,
                                     double grid, int64_t *sum_out);

int all_softmax_gradient_sum(const struct kernel_table *kernels, enum real_type type,
                             const struct dense_rows *rows, int n_threads, int64_t n_classes,
                             const double *w, double *sum_out, double *loss_out /* or NULL */);

int all_clipped_softmax_loss_sums(const struct kernel_table *kernels, enum real_type type,
                                  const struct dense_rows *rows, int n_threads, int64_t n_classes,
                                  const double *w, const double *direction, const double *steps,
                                  int64_t n_steps, double clip, double grid, int64_t *sum_out);

int all_class_scores(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, int n_threads, int64_t n_classes,
                     const double *w, double *p_out);

/* Steps of stochastic gradient descent (sgd_steps.h), one after the other: in this thread. */
struct sgd_settings;
struct sgd_block;
int one_sgd_block(const struct kernel_table *kernels, enum real_type type,
                  const struct dense_rows *rows, const struct sgd_settings *settings,
                  const struct sgd_block *block, double *w, double *w_sum /* or NULL */);

/* Rows in each range of a pass over all rows but the last. */
int64_t rows_in_range(int64_t n_rows);

/* 1 when this build has threads. */
int has_threads(void);

/* How many the OpenMP library would take if it was not told; 1 without it. */
int most_threads(void);

/* Ends the threads of the last pass, which would spin for the next one: what is read meanwhile
 * needs their cores. The next pass starts threads of its own. Does nothing where OpenMP cannot. */
void end_threads(void);

#endif
