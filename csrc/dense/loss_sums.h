/* Clipped losses along a line, and predictions. See kernel_table.h. */
#ifndef DPERM_LOSS_SUMS_H
#define DPERM_LOSS_SUMS_H

#include "dense/dense_block.h"
#include "dense/losses_on_line.h"

/* p[i] = scale_i * (<x_i, w> + intercept), q[i] = <x_i, direction>. */
ALWAYS_INLINE void NAME(predict_both)(const struct NAME(block) * block,
                                      const struct NAME(scratch) * scratch, double intercept,
                                      const struct NAME(layout) * layout, double *p, double *q) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        REAL with_weights, with_direction;
        NAME(two_dots)(block->row[i], scratch->weights, scratch->direction, layout, &with_weights,
                       &with_direction);
        p[i] = (double)with_weights;
        q[i] = (double)with_direction;
    }
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
}

/* The same with predictions kept from an earlier pass. */
ALWAYS_INLINE void NAME(predict_from)(const struct dense_rows *rows, int64_t first, int64_t end,
                                      const struct NAME(block) * block,
                                      const struct NAME(scratch) * scratch,
                                      const struct NAME(layout) * layout, double *p, double *q) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        p[i] = first + i < end ? rows->predictions[first + i] : NAN;
        q[i] = (double)NAME(dot)(block->row[i], scratch->direction, layout);
    }
}

static void NAME(clipped_loss_sums)(const struct dense_rows *rows, int64_t begin, int64_t end,
                                    const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double w_intercept = intercept_of(rows, pass->w);
    const double d_intercept = intercept_of(rows, pass->direction);
    struct NAME(line_pass) line_pass;
    NAME(line_pass_open)(&line_pass, pass);
    const int64_t prefetches = line_pass.is_even
                                   ? WIDES_PER_BLOCK * pass->n_steps
                                   : (pass->n_steps + STEPS_PER_BATCH - 1) / STEPS_PER_BATCH;
    NAME(pack_weights)(&layout, pass->w, scratch.weights);
    NAME(pack_weights)(&layout, pass->direction, scratch.direction);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        double weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        const struct on_line on_line = {
            p, q, block.y, NAME(read_multiplicity)(rows, first, end, ROWS_PER_BLOCK, counts),
            read_weights(rows, first, end, ROWS_PER_BLOCK, weights)};
        if (rows->predictions)
            NAME(predict_from)(rows, first, end, &block, &scratch, &layout, p, q);
        else
            NAME(predict_both)(&block, &scratch, w_intercept, &layout, p, q);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            q[i] = block.scale[i] * (q[i] + d_intercept);
        const struct read_ahead next =
            NAME(rows_ahead)(rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, prefetches);
        NAME(add_block_on_line)(&line_pass, pass, &on_line, next, out);
    }
    NAME(line_pass_close)(&line_pass, pass, out);
}

static void NAME(predictions)(const struct dense_rows *rows, int64_t begin, int64_t end,
                              const struct pass *pass, void *out, void *workspace) {
    const struct NAME(layout) layout = NAME(layout_of)(rows->n_columns);
    const struct NAME(scratch) scratch = NAME(scratch_in)(workspace, &layout);
    const double intercept = intercept_of(rows, pass->w);
    double *p_out = out;
    NAME(pack_weights)(&layout, pass->w, scratch.weights);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct NAME(block) block;
        double p[ROWS_PER_BLOCK];
        NAME(read_block)(rows, first, end - first, &layout, &scratch, &block);
        NAME(predict_block)(rows, first + ROWS_PER_BLOCK, &block, scratch.weights, intercept,
                            &layout, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}

#endif
