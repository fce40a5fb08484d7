/* Plain gradient sums over sparse rows, with the bits of gradient_sum: first the factors of the
 * rows, then the columns, each of which adds up its entries in the order of rows. Columns are
 * independent of each other, so that threads can share them. */
#ifndef DPERM_SPARSE_PLAIN_H
#define DPERM_SPARSE_PLAIN_H

#include "dense/gradient_factors.h"
#include "loss/losses.h"
#include "sparse/sparse_block.h"

static void factors(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                    const struct pass *pass, double *factor_out, double *sums) {
    const struct slot_map map = slot_map_of(sparse->rows.n_columns, LANES);
    double factor_sum = 0.0, loss_sum = 0.0;
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct row row[ROWS_PER_BLOCK];
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK], value[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        const int64_t *count =
            NAME(read_multiplicity)(&sparse->rows, first, end, ROWS_PER_BLOCK, counts);
        predict_block(sparse, first, end, NULL, &map, row, &block, p);
        NAME(gradient_factors)(&sparse->rows, ROWS_PER_BLOCK, first, end, &block, pass->loss, p, s);
        NAME(limit_factors)(ROWS_PER_BLOCK, block.norm, pass->inner_clip, s);
        for (int i = 0; i < ROWS_PER_BLOCK && count; i++)
            s[i] *= (double)count[i];
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            const REAL factor = fabs(s[i]) <= (double)REAL_MAX ? (REAL)s[i] : (REAL)0;
            factor_sum += (double)factor;
            if (first + i < end)
                factor_out[first + i - begin] = (double)factor;
        }
        if (pass->with_loss) {
            loss_values_f64(pass->loss, p, block.y, 1, value);
            weigh(&sparse->rows, first, end, ROWS_PER_BLOCK, value);
            for (int i = 0; i < ROWS_PER_BLOCK && count; i++)
                value[i] *= (double)count[i];
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                loss_sum += value[i] <= DBL_MAX ? value[i] : 0.0;
        }
    }
    sums[0] += factor_sum;
    if (pass->with_loss)
        sums[1] += loss_sum;
}

/* The first place in [from, to) whose column is at least `least`, or `to`. */
ALWAYS_INLINE int64_t lower_bound(const INDEX *column, int64_t from, int64_t to, int64_t least) {
    while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        if (column[middle] < least)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Once per type of sums: sum[j] += from[j] and from[j] = 0 for the columns in [first, last) that
 * rows [begin, end) touch; the others are 0. */
#define MOVE_SUMS(NAME, TYPE)                                                                      \
    static void NAME(const struct sparse_rows *sparse, int64_t begin, int64_t end, int64_t first,  \
                     int64_t last, TYPE *restrict from, double *restrict sum) {                    \
        const INDEX *column = sparse->matrix->columns;                                             \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const int64_t stop = sparse->matrix->starts[i + 1];                                    \
            for (int64_t k = lower_bound(column, sparse->matrix->starts[i], stop, first);          \
                 k < stop && column[k] < last; k++) {                                              \
                const int64_t j = column_of(column, k, sparse->rows.n_columns);                    \
                sum[j] += (double)from[j];                                                         \
                from[j] = 0;                                                                       \
            }                                                                                      \
        }                                                                                          \
    }
MOVE_SUMS(move_reals, REAL)
MOVE_SUMS(move_doubles, double)
#undef MOVE_SUMS

static void add_columns(const struct sparse_rows *sparse, int64_t begin, int64_t end,
                        const double *factors, const struct sparse_columns *columns) {
    const INDEX *column = sparse->matrix->columns;
    const VALUE *x = sparse->rows.x;
    const int64_t group = columns->rows_per_flush;
    REAL *products = columns->products;
    for (int64_t from = begin; from < end; from += group) {
        const int64_t to = end - from < group ? end : from + group;
        for (int64_t i = from; i < to; i++) {
            const REAL factor = (REAL)factors[i];
            const int64_t stop = sparse->matrix->starts[i + 1];
            if (factor == 0)
                continue;
            for (int64_t k = lower_bound(column, sparse->matrix->starts[i], stop, columns->first);
                 k < stop && column[k] < columns->last; k++)
                products[column_of(column, k, sparse->rows.n_columns)] += factor * (REAL)x[k];
        }
        move_reals(sparse, from, to, columns->first, columns->last, products, columns->range_sum);
    }
    move_doubles(sparse, begin, end, columns->first, columns->last, columns->range_sum,
                 columns->sum_out);
}

#endif
