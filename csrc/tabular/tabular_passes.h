/* Passes over tabular rows without expanding them. Contracts and bits are those of the kernels for
 * dense rows of doubles, see kernel_table.h. */
#ifndef DPERM_TABULAR_PASSES_H
#define DPERM_TABULAR_PASSES_H

#include "dense/gradient_factors.h"
#include "dense/losses_on_line.h"
#include "dispatch/level.h"
#include "tabular/tabular_rows.h"

static int64_t tabular_workspace_bytes(const struct dense_rows *rows, const struct pass *pass) {
    struct arena arena = {NULL, 0};
    (void)pass;
    table_scratch_in(&arena, table_of(rows), NULL);
    return arena.bytes;
}

/* The nonzero columns, if they are known and the pass is over all rows. */
static const struct nonzero_columns *nonzero_columns_for(const struct dense_rows *rows) {
    return rows->batch ? NULL : nonzero_columns_of(table_of(rows));
}

/* sum_out += the integer sums of the numbers of `added` rows. */
static void flush_numbers(const struct tabular_matrix *table, const struct table_scratch *scratch,
                          double shift, uint64_t added, int64_t *sum_out) {
    const uint64_t surplus = bits_f64(shift) * added;
    for (int64_t k = 0; k < table->n_numbers; k++)
        sum_out[table->number_columns[k]] += (int64_t)(scratch->number_sums[k] - surplus);
    memset(scratch->number_sums, 0, (size_t)scratch->stride * sizeof *scratch->number_sums);
}

static void flush_entries(const struct tabular_matrix *table, const struct table_scratch *scratch,
                          int64_t *sum_out) {
    for (int64_t hot = 0; hot < table->n_one_hot; hot++) {
        const int64_t j = table->one_hot[hot];
        for (int64_t code = 0; code < table->sizes[j]; code++)
            sum_out[table->first_columns[j] + code] +=
                scratch->entry_sums[table->first_entries[j] + code];
    }
    for (int64_t k = 0; k < table->n_numbers; k++)
        sum_out[table->number_columns[k]] += scratch->number_repeats[k];
}

/* Adds the rows of a block, times s and rounded, to the sums of the pass; returns the sum for the
 * intercept. */
ALWAYS_INLINE int64_t add_table_block(const struct tabular_matrix *table,
                                      const struct table_scratch *scratch, const double *s,
                                      const int64_t *count, double shift,
                                      struct read_ahead *ahead) {
    int64_t rounded[ROWS_PER_BLOCK], intercept_sum = 0;
    rounded_factors_f64(ROWS_PER_BLOCK, s, shift, rounded);
    add_rounded_numbers(scratch, s, shift, ahead);
    if (count)
        add_number_repeats(scratch, table->n_numbers, s, count, shift);
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        rounded[i] *= count ? count[i] : 1;
        intercept_sum += rounded[i];
    }
    add_rounded_categories(table, scratch, rounded);
    return intercept_sum;
}

/* A block of rows and its predictions. */
struct predicted_block {
    struct block_f64 block;
    double p[ROWS_PER_BLOCK];
};

ALWAYS_INLINE void predict_nonzero_block(const struct dense_rows *rows, int64_t first, int64_t end,
                                         const struct table_scratch *scratch, double intercept,
                                         struct predicted_block *predicted) {
    struct read_ahead nothing = {0, 0};
    read_table_block(rows, first, end - first, scratch, &predicted->block, &nothing);
    predict_table_block(table_of(rows), first, scratch, 0, &predicted->block, intercept, &nothing,
                        predicted->p);
}

/* tabular_clipped_gradient_sum() by nonzero columns. The products of a block are computed after the
 * slopes of the block before it, to hide their latency, and before the sums of that block. */
static __attribute__((noinline)) void
nonzero_clipped_gradient_sum(const struct dense_rows *rows, int64_t begin, int64_t end,
                             const struct pass *pass, const struct table_scratch *scratch,
                             int64_t *sum_out) {
    const struct tabular_matrix *table = table_of(rows);
    const double intercept = intercept_of(rows, pass->w);
    const double shift = ROUNDING_SHIFT * pass->grid;
    struct predicted_block blocks[2], *now = &blocks[0], *next = &blocks[1];
    predict_nonzero_block(rows, begin, end, scratch, intercept, now);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        double clipped[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        clip_predictions_f64(rows, ROWS_PER_BLOCK, first, end, pass, &now->block, now->p, clipped);
        if (first + ROWS_PER_BLOCK < end)
            predict_nonzero_block(rows, first + ROWS_PER_BLOCK, end, scratch, intercept, next);
        add_nonzero_block(table, scratch->nonzero, first, clipped,
                          read_table_multiplicity(rows, first, end, counts), shift,
                          scratch->nonzero_sums);
        struct predicted_block *const done = now;
        now = next;
        next = done;
    }
    for (int64_t column = 0; column < table->n_columns; column++)
        sum_out[column] += sum_of_lanes(&scratch->nonzero_sums[column + 1]);
    if (rows->intercept)
        sum_out[table->n_columns] += sum_of_lanes(&scratch->nonzero_sums[0]);
}

static void tabular_clipped_gradient_sum(const struct dense_rows *rows, int64_t begin, int64_t end,
                                         const struct pass *pass, void *out, void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    struct arena arena = {workspace, 0};
    struct table_scratch scratch = table_scratch_in(&arena, table, nonzero_columns_for(rows));
    const double intercept = intercept_of(rows, pass->w);
    const double shift = ROUNDING_SHIFT * pass->grid;
    int64_t *sum_out = out, intercept_sum = 0;
    uint64_t added = 0;
    pack_table_weights(table, pass->w, 0, &scratch);
    if (scratch.nonzero) {
        nonzero_clipped_gradient_sum(rows, begin, end, pass, &scratch, sum_out);
        return;
    }
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK], clipped[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        predict_table_block(table, first, &scratch, 0, &block, intercept, &ahead, p);
        clip_predictions_f64(rows, ROWS_PER_BLOCK, first, end, pass, &block, p, clipped);
        const int64_t *count = read_table_multiplicity(rows, first, end, counts);
        intercept_sum += add_table_block(table, &scratch, clipped, count, shift, &ahead);
        added += ROWS_PER_BLOCK;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            flush_numbers(table, &scratch, shift, added, sum_out);
            added = 0;
        }
    }
    flush_entries(table, &scratch, sum_out);
    if (rows->intercept)
        sum_out[rows->n_columns] += intercept_sum;
}

static void tabular_clipped_loss_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                      const struct pass *pass, void *out, void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    struct arena arena = {workspace, 0};
    struct table_scratch scratch = table_scratch_in(&arena, table, nonzero_columns_for(rows));
    const double w_intercept = intercept_of(rows, pass->w);
    const double d_intercept = intercept_of(rows, pass->direction);
    const struct read_ahead nothing = {0, 0};
    struct line_pass_f64 line_pass;
    line_pass_open_f64(&line_pass, pass);
    pack_table_weights(table, pass->w, 0, &scratch);
    pack_table_weights(table, pass->direction, 1, &scratch);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        double weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        const struct on_line on_line = {p, q, block.y,
                                        read_table_multiplicity(rows, first, end, counts),
                                        read_weights(rows, first, end, ROWS_PER_BLOCK, weights)};
        if (rows->predictions)
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                p[i] = first + i < end ? rows->predictions[first + i] : NAN;
        else
            predict_table_block(table, first, &scratch, 0, &block, w_intercept, &ahead, p);
        predict_table_block(table, first, &scratch, 1, &block, d_intercept, &ahead, q);
        add_block_on_line_f64(&line_pass, pass, &on_line, nothing, out);
    }
    line_pass_close_f64(&line_pass, pass, out);
}

static void tabular_predictions(const struct dense_rows *rows, int64_t begin, int64_t end,
                                const struct pass *pass, void *out, void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    struct arena arena = {workspace, 0};
    struct table_scratch scratch = table_scratch_in(&arena, table, nonzero_columns_for(rows));
    const double intercept = intercept_of(rows, pass->w);
    double *p_out = out;
    pack_table_weights(table, pass->w, 0, &scratch);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        predict_table_block(table, first, &scratch, 0, &block, intercept, &ahead, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}

#define OVER_TABLE(kernel)                                                                         \
    [PASS_##kernel] = {tabular_##kernel, tabular_workspace_bytes, RANGES_OF_TABLE}

extern const struct route OF_LEVEL(tabular_routes)[N_PASSES];
const struct route OF_LEVEL(tabular_routes)[N_PASSES] = {
    OVER_TABLE(predictions),
    OVER_TABLE(clipped_gradient_sum),
    OVER_TABLE(clipped_loss_sums),
};

#endif
