/* Passes over the data for softmax losses. See kernel_table.h. */
#ifndef DPERM_SOFTMAX_PASSES_H
#define DPERM_SOFTMAX_PASSES_H

#include "dense/rounded_loss.h"
#include "dispatch/level.h"
#include "softmax/softmax_products.h"

/* sum_out[k] += sum over a group of round(factor_ik / grid), for the intercepts. */
ALWAYS_INLINE void NAME(add_rounded_factors)(const REAL *factors, int64_t n_classes, REAL shift,
                                             int64_t *sum_out) {
    for (int i = 0; i < ROWS_PER_GROUP; i++)
        for (int64_t k = 0; k < n_classes; k++)
            sum_out[k] += NAME(grid_steps)(factors[i * n_classes + k], shift);
}

/* Adds the further copies of rows with multiplicity above 1. */
static __attribute__((noinline)) void NAME(add_softmax_repeats)(const struct NAME(group) * group,
                                                                const REAL *factors,
                                                                const struct dense_rows *rows,
                                                                int64_t n_classes, REAL shift,
                                                                int64_t *sum_out) {
    const int64_t n_columns = rows->n_columns;
    for (int i = 0; i < ROWS_PER_GROUP; i++) {
        const REAL *s = factors + i * n_classes;
        const int64_t times = group->count[i] - 1;
        if (times == 0)
            continue;
        for (int64_t j = 0; j < n_columns; j++)
            NAME(add_rounded_multiple)(s, n_classes, group->row[i][j], shift, times,
                                       sum_out + j * n_classes);
        if (rows->intercept)
            NAME(add_rounded_multiple)(s, n_classes, 1, shift, times,
                                       sum_out + n_columns * n_classes);
    }
}

static void NAME(clipped_softmax_gradient_sum)(const struct dense_rows *rows, int64_t begin,
                                               int64_t end, const struct pass *pass, void *out,
                                               void *workspace) {
    const int64_t n_classes = pass->n_classes;
    int64_t *sum_out = out;
    const struct NAME(softmax_scratch) scratch = NAME(open_softmax)(rows, pass, workspace);
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->grid;
    int added = 0;
    for (int64_t first = begin; first < end; first += ROWS_PER_GROUP) {
        struct NAME(group) group;
        double factor[ROWS_PER_GROUP];
        NAME(read_scores)(rows, first, end, &scratch, &group);
        softmax_residuals(n_classes, group.y, scratch.scores, NULL);
        if (group.weighted)
            weigh_group(n_classes, group.weight, scratch.scores);
        softmax_clip_factors(n_classes, scratch.scores, group.scale, group.norm, pass->inner_clip,
                             factor);
        NAME(write_factors)(scratch.scores, factor, n_classes, scratch.factors);
        const struct read_ahead next = NAME(rows_ahead)(rows, first + ROWS_PER_GROUP,
                                                        ROWS_PER_GROUP, end, scratch.layout.units);
        NAME(add_group)(&group, &scratch, 1, shift, next);
        if (rows->intercept)
            NAME(add_rounded_factors)(scratch.factors, n_classes, shift,
                                      sum_out + rows->n_columns * n_classes);
        if (group.counted)
            NAME(add_softmax_repeats)(&group, scratch.factors, rows, n_classes, shift, sum_out);
        added += ROWS_PER_GROUP;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_GROUP >= end) {
            NAME(flush_rounded_classes)(&scratch, shift, added, sum_out);
            added = 0;
        }
    }
}

static void NAME(softmax_gradient_sum)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                       const struct pass *pass, void *out, void *workspace) {
    const int64_t n_classes = pass->n_classes;
    const int64_t size = (rows->n_columns + rows->intercept) * n_classes;
    double *sum_out = out;
    const struct NAME(softmax_scratch) scratch = NAME(open_softmax)(rows, pass, workspace);
    double *intercept_sum = sum_out + rows->n_columns * n_classes;
    for (int64_t first = begin; first < end; first += ROWS_PER_GROUP) {
        struct NAME(group) group;
        double value[ROWS_PER_GROUP];
        NAME(read_scores)(rows, first, end, &scratch, &group);
        softmax_residuals(n_classes, group.y, scratch.scores, pass->with_loss ? value : NULL);
        if (group.weighted)
            weigh_group(n_classes, group.weight, scratch.scores);
        if (group.weighted && pass->with_loss)
            weigh_group(1, group.weight, value);
        NAME(write_factors)(scratch.scores, group.scale, n_classes, scratch.factors);
        for (int i = 0; i < ROWS_PER_GROUP && group.counted; i++)
            for (int64_t k = 0; k < n_classes; k++)
                scratch.factors[i * n_classes + k] *= (REAL)group.count[i];
        const struct read_ahead next = NAME(rows_ahead)(rows, first + ROWS_PER_GROUP,
                                                        ROWS_PER_GROUP, end, scratch.layout.units);
        NAME(add_group)(&group, &scratch, 0, 0, next);
        NAME(flush_plain_classes)(&scratch, sum_out);
        for (int i = 0; i < ROWS_PER_GROUP && rows->intercept; i++)
            for (int64_t k = 0; k < n_classes; k++)
                intercept_sum[k] += (double)scratch.factors[i * n_classes + k];
        for (int i = 0; i < ROWS_PER_GROUP && pass->with_loss; i++)
            sum_out[size] +=
                value[i] <= DBL_MAX ? value[i] * (double)(group.counted ? group.count[i] : 1) : 0.0;
    }
}

static void NAME(clipped_softmax_loss_sums)(const struct dense_rows *rows, int64_t begin,
                                            int64_t end, const struct pass *pass, void *out,
                                            void *workspace) {
    const double shift = SHIFT_F64 * pass->grid;
    const int64_t n_classes = pass->n_classes;
    int64_t *sum_out = out;
    const struct NAME(softmax_scratch) scratch = NAME(open_softmax)(rows, pass, workspace);
    NAME(pack_classes)(&scratch, pass->direction, rows->intercept, scratch.direction,
                       scratch.slopes);
    for (int64_t first = begin; first < end; first += ROWS_PER_GROUP) {
        struct NAME(group) group;
        double value[ROWS_PER_GROUP];
        NAME(read_scores)(rows, first, end, &scratch, &group);
        NAME(score_group)(rows, first + ROWS_PER_GROUP, &group, &scratch, scratch.direction,
                          scratch.slopes, scratch.score_slopes);
        for (int64_t j = 0; j < pass->n_steps; j++) {
            int64_t sum = 0;
            softmax_losses(n_classes, group.y, scratch.scores, scratch.score_slopes, pass->steps[j],
                           value);
            if (group.weighted)
                weigh_group(1, group.weight, value);
#pragma omp simd reduction(+ : sum)
            for (int i = 0; i < ROWS_PER_GROUP; i++)
                sum += rounded_loss(value[i], pass->clip, shift) *
                       (group.counted ? group.count[i] : 1);
            sum_out[j] += sum;
        }
    }
}

static void NAME(class_scores)(const struct dense_rows *rows, int64_t begin, int64_t end,
                               const struct pass *pass, void *out, void *workspace) {
    const int64_t n_classes = pass->n_classes;
    double *p_out = out;
    const struct NAME(softmax_scratch) scratch = NAME(open_softmax)(rows, pass, workspace);
    for (int64_t first = begin; first < end; first += ROWS_PER_GROUP) {
        struct NAME(group) group;
        NAME(read_scores)(rows, first, end, &scratch, &group);
        for (int i = 0; i < ROWS_PER_GROUP && first + i < end; i++)
            for (int64_t k = 0; k < n_classes; k++)
                p_out[(first + i - begin) * n_classes + k] = scratch.scores[k * ROWS_PER_GROUP + i];
    }
}

/* Weights and sums of every class, a row of zeros, a group of narrow rows; factors, scores and
 * intercepts. */
static int64_t softmax_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t n_classes = pass->n_classes, doubles = n_classes * (3 * ROWS_PER_GROUP + 2);
    return (2 * n_classes + 1) * UNIT_BYTES * NAME(layout_of)(rows->n_columns).units +
           ROWS_PER_GROUP * UNIT_BYTES + doubles * (int64_t)sizeof(double);
}

#define OVER_CLASSES(pass, kernel)                                                                 \
    [PASS_##pass] = {NAME(kernel), softmax_workspace_bytes, RANGES_OF_CLASSES}

extern const struct route OF_LEVEL(NAME(softmax_routes))[N_PASSES];
const struct route OF_LEVEL(NAME(softmax_routes))[N_PASSES] = {
    OVER_CLASSES(predictions, class_scores),
    OVER_CLASSES(clipped_gradient_sum, clipped_softmax_gradient_sum),
    OVER_CLASSES(gradient_sum, softmax_gradient_sum),
    OVER_CLASSES(clipped_loss_sums, clipped_softmax_loss_sums),
};

#endif
