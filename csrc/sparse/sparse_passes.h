/* The passes with kernels for sparse rows (sparse_rows.h). Results do not depend on n_threads and
 * are those of other representations of the same matrix (run_pass.h), bit for bit. Memory: the
 * dimension per thread. */
#ifndef DPERM_SPARSE_PASSES_H
#define DPERM_SPARSE_PASSES_H

#include "kernel_table.h"

/* As run_pass(). */
typedef int whole_pass_fn(const struct kernel_table *kernels, enum real_type type,
                          const struct dense_rows *rows, const struct pass *pass, int n_threads,
                          void *out);

/* NULL where there is none. */
extern whole_pass_fn *const sparse_passes[N_PASSES];

/* Steps of stochastic gradient descent, as run_sgd_block(). */
struct sgd_settings;
struct sgd_block;
int sparse_sgd_block(const struct kernel_table *kernels, enum real_type type,
                     const struct dense_rows *rows, const struct sgd_settings *settings,
                     const struct sgd_block *block);

#endif
