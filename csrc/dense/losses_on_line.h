/* Clipped losses of a block of rows along a line. */
#ifndef DPERM_LOSSES_ON_LINE_H
#define DPERM_LOSSES_ON_LINE_H

#include "dense/block_arguments.h"
#include "dense/rounded_loss.h"
#include "loss/logistic_line.h"
#include "loss/losses.h"

/* Sum over a block of rounded_loss(), each count_i times unless count is NULL. */
ALWAYS_INLINE int64_t NAME(rounded_loss_sum)(const REAL *value, const int64_t *count, double clip,
                                             double grid) {
    const double shift = SHIFT_F64 * grid;
    int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        sum += rounded_loss((double)value[i], clip, shift) * (count ? count[i] : 1);
    return sum;
}

/* Adds the losses of a block, a batch of steps at a time. */
ALWAYS_INLINE void NAME(add_losses)(const struct pass *pass, const struct on_line *block,
                                    struct read_ahead next, int64_t *sum_out) {
    REAL at[STEPS_PER_BATCH * ROWS_PER_BLOCK], value[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    REAL y[STEPS_PER_BATCH * ROWS_PER_BLOCK];
    const int64_t n_steps = pass->n_steps;
    for (int b = 0; b < STEPS_PER_BATCH; b++)
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            y[b * ROWS_PER_BLOCK + i] = (REAL)block->y[i];
    for (int64_t j = 0; j < n_steps; j += STEPS_PER_BATCH) {
        read_ahead(&next);
        for (int b = 0; b < STEPS_PER_BATCH; b++) {
            const double step = j + b < n_steps ? pass->steps[j + b] : 0.0;
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                at[b * ROWS_PER_BLOCK + i] = (REAL)(block->p[i] - step * block->q[i]);
        }
        NAME(loss_values)(pass->loss, at, y, STEPS_PER_BATCH, value);
        for (int k = 0; k < STEPS_PER_BATCH * ROWS_PER_BLOCK && block->weight; k++)
            value[k] *= (REAL)block->weight[k % ROWS_PER_BLOCK];
        for (int b = 0; b < STEPS_PER_BATCH && j + b < n_steps; b++)
            sum_out[j + b] += NAME(rounded_loss_sum)(value + b * ROWS_PER_BLOCK, block->count,
                                                     pass->clip, pass->grid);
    }
}

/* Adds round(min(value, clip) / grid) for the rows that do not fit a logistic line. */
static void NAME(add_unfit_losses)(const struct NAME(logistic_line) * line, const struct pass *pass,
                                   const struct on_line *block, int64_t *sum_out) {
    REAL y[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        y[i] = (REAL)block->y[i];
    for (int64_t j = 0; j < pass->n_steps; j++) {
        REAL at[ROWS_PER_BLOCK], value[ROWS_PER_BLOCK];
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            at[i] = (REAL)(block->p[i] - pass->steps[j] * block->q[i]);
        NAME(loss_values)(pass->loss, at, y, 1, value);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            value[i] = line->fits[i] ? 0 : value[i] * (block->weight ? (REAL)block->weight[i] : 1);
        sum_out[j] += NAME(rounded_loss_sum)(value, block->count, pass->clip, pass->grid);
    }
}

/* The state of a line search pass: evenly spaced steps of the logistic loss use
 * logistic_line.h. */
struct NAME(line_pass) {
    UNSIGNED_WIDE sums[LINE_MAX_STEPS];
    REAL steps[LINE_MAX_STEPS];
    int blocks, is_even;
};

static void NAME(line_pass_open)(struct NAME(line_pass) * line_pass, const struct pass *pass) {
    line_pass->is_even =
        pass->loss.kind == LOSS_LOGISTIC && evenly_spaced(pass->steps, pass->n_steps);
    if (!line_pass->is_even)
        return;
    memset(line_pass->sums, 0, sizeof line_pass->sums);
    line_pass->blocks = 0;
    for (int64_t j = 0; j < pass->n_steps; j++)
        line_pass->steps[j] = (REAL)pass->steps[j];
}

static void NAME(line_pass_close)(struct NAME(line_pass) * line_pass, const struct pass *pass,
                                  int64_t *sum_out) {
    if (line_pass->is_even)
        NAME(logistic_line_flush)(line_pass->sums, pass->n_steps, sum_out);
}

/* Rows with weights; count NULL: each counts once. */
static __attribute__((noinline)) void
NAME(weighted_line_add)(const struct NAME(logistic_line) * line,
                        const struct NAME(line_steps) * steps, const double *weight,
                        const int64_t *count, int64_t *sum_out) {
    _Alignas(64) REAL weights[ROWS_PER_BLOCK];
    const struct read_ahead nothing = {0, 0};
    int64_t once[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        weights[i] = (REAL)weight[i];
        once[i] = 1;
    }
    NAME(logistic_line_add)(line, steps, nothing, NULL, weights, count ? count : once, sum_out);
}

static void NAME(line_pass_add)(struct NAME(line_pass) * line_pass, const struct pass *pass,
                                const struct on_line *block, struct read_ahead next,
                                int64_t *sum_out) {
    const REAL shift = ROUNDING_SHIFT * (REAL)pass->grid;
    struct NAME(logistic_line) line;
    NAME(logistic_line_open)(&line, block->p, block->q, block->y, pass->steps, pass->n_steps);
    const struct NAME(line_steps)
        steps = {line_pass->steps, pass->n_steps, (REAL)pass->clip, shift};
    if (block->weight)
        NAME(weighted_line_add)(&line, &steps, block->weight, block->count, sum_out);
    else if (block->count)
        NAME(logistic_line_add)(&line, &steps, next, NULL, NULL, block->count, sum_out);
    else
        NAME(logistic_line_add)(&line, &steps, next, line_pass->sums, NULL, NULL, NULL);
    if (!line.all_fit)
        NAME(add_unfit_losses)(&line, pass, block, sum_out);
    if (++line_pass->blocks == LINE_BLOCKS_PER_FLUSH) {
        NAME(logistic_line_flush)(line_pass->sums, pass->n_steps, sum_out);
        line_pass->blocks = 0;
    }
}

/* Adds a block of a line search. */
ALWAYS_INLINE void NAME(add_block_on_line)(struct NAME(line_pass) * line_pass,
                                           const struct pass *pass, const struct on_line *block,
                                           struct read_ahead next, int64_t *sum_out) {
    if (line_pass->is_even)
        NAME(line_pass_add)(line_pass, pass, block, next, sum_out);
    else
        NAME(add_losses)(pass, block, next, sum_out);
}

#endif
