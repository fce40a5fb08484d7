/* Passes over all rows, in many threads.
 *
 * Rows are split into ranges that depend on their number and the pass alone. Floating-point sums of
 * the ranges are added in order, and integer sums do not depend on any order, so that no result
 * depends on n_threads. */
#ifndef DPERM_RUN_PASS_H
#define DPERM_RUN_PASS_H

#include "kernel_table.h"

/* How the results of ranges are combined. */
enum combine { ADD_INTEGERS, ADD_REALS, WRITE_ROWS };

/* The result of a pass: an array of int64_t for ADD_INTEGERS, otherwise of double; with_loss,
 * followed by one more number. */
struct result {
    enum combine combine;
    int n_axes; /* 0 for a number */
    int64_t shape[2];
    int with_loss;
};

struct result result_of_pass(const struct dense_rows *rows, const struct pass *pass);
int64_t result_size(const struct result *result);

/* Overwrites `out`. Returns 0, or -1 when memory ran out. */
int run_pass(const struct kernel_table *kernels, enum real_type type, const struct dense_rows *rows,
             const struct pass *pass, int n_threads, void *out);

#endif
