/* Passes over tabular rows as they are. See kernel_table.h: the contracts, and the bits, are those
 * of the kernels for dense rows of doubles. */

static int64_t tabular_workspace_bytes(const struct tabular_matrix *table) {
    return table_scratch_in(NULL, table).bytes;
}

/* sum_out += the integers of the numbers of `added` rows. */
static void flush_numbers(const struct tabular_matrix *table, const struct table_scratch *scratch,
                          double shift, uint64_t added, int64_t *sum_out) {
    uint64_t shift_bits;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    for (int64_t k = 0; k < table->n_numeric; k++)
        sum_out[table->numeric_columns[k]] +=
            (int64_t)(scratch->number_sums[k] - shift_bits * added);
    memset(scratch->number_sums, 0, (size_t)scratch->stride * sizeof *scratch->number_sums);
}

static void flush_entries(const struct tabular_matrix *table, const struct table_scratch *scratch,
                          int64_t *sum_out) {
    for (int64_t j = 0; j < table->n_categorical; j++)
        for (int64_t code = 0; code < table->sizes[j]; code++)
            sum_out[table->first_columns[j] + code] +=
                scratch->entry_sums[table->first_entries[j] + code];
}

static void tabular_clipped_gradient_sum(const struct dense_rows *rows, int64_t begin, int64_t end,
                                         struct loss loss, const double *w, double clip_in,
                                         double grid, int64_t *sum_out, void *workspace) {
    const struct tabular_matrix *table = rows->source->table;
    const struct table_scratch scratch = table_scratch_in(workspace, table);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const double shift = ROUNDING_SHIFT * grid;
    int64_t intercept_sum = 0;
    uint64_t added = 0;
    pack_table_weights(table, w, scratch.piece_weights[0], scratch.entry_weights[0]);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK], s[ROWS_PER_BLOCK], clipped[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK], rounded[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        predict_table_block(table, &scratch, 0, &block, intercept, &ahead, p);
        for (int i = 0; i < ROWS_PER_BLOCK && rows->predictions && first + i < end; i++)
            rows->predictions[first + i] = p[i];
        gradient_factors_f64(ROWS_PER_BLOCK, &block, loss, p, s);
        if (rows->clip_norms)
            read_clip_norms_f64(rows, first, ROWS_PER_BLOCK, &block);
        clip_factors_f64(ROWS_PER_BLOCK, s, block.norm, clip_in, clipped);
        rounded_factors_f64(ROWS_PER_BLOCK, clipped, shift, rounded);
        add_rounded_numbers(&scratch, clipped, shift, &ahead);
        const int64_t *count = read_counts_f64(rows, first, end, ROWS_PER_BLOCK, counts);
        if (count) {
            add_number_repeats(&scratch, table->n_numeric, clipped, count, shift);
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                rounded[i] *= count[i];
        }
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            intercept_sum += rounded[i];
        add_rounded_categories(&scratch, table->n_categorical, rounded);
        added += ROWS_PER_BLOCK;
        if (added == ROWS_PER_FLUSH || first + ROWS_PER_BLOCK >= end) {
            flush_numbers(table, &scratch, shift, added, sum_out);
            added = 0;
        }
    }
    flush_entries(table, &scratch, sum_out);
    for (int64_t k = 0; k < table->n_numeric; k++)
        sum_out[table->numeric_columns[k]] += scratch.number_repeats[k];
    if (rows->intercept)
        sum_out[rows->n_columns] += intercept_sum;
}

static void tabular_clipped_loss_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                      struct loss loss, const double *w, const double *direction,
                                      const double *steps, int64_t n_steps, double clip,
                                      double grid, int64_t *sum_out, void *workspace) {
    const struct tabular_matrix *table = rows->source->table;
    const struct table_scratch scratch = table_scratch_in(workspace, table);
    const double w_intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    const double d_intercept = rows->intercept ? direction[rows->n_columns] : 0.0;
    const int evenly = loss.kind == LOSS_LOGISTIC && evenly_spaced(steps, n_steps);
    const struct read_ahead nothing = {0, 0};
    struct line_pass_f64 line_pass;
    if (evenly)
        line_pass_open_f64(&line_pass, steps, n_steps);
    pack_table_weights(table, w, scratch.piece_weights[0], scratch.entry_weights[0]);
    pack_table_weights(table, direction, scratch.piece_weights[1], scratch.entry_weights[1]);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK], q[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        const int64_t *count = read_counts_f64(rows, first, end, ROWS_PER_BLOCK, counts);
        if (rows->predictions)
            for (int i = 0; i < ROWS_PER_BLOCK; i++)
                p[i] = first + i < end ? rows->predictions[first + i] : NAN;
        else
            predict_table_block(table, &scratch, 0, &block, w_intercept, &ahead, p);
        predict_table_block(table, &scratch, 1, &block, d_intercept, &ahead, q);
        if (evenly)
            line_pass_add_f64(&line_pass, loss, p, q, block.y, count, steps, n_steps, clip, grid,
                              nothing, sum_out);
        else
            add_losses_f64(loss, p, q, block.y, count, steps, n_steps, clip, grid, nothing,
                           sum_out);
    }
    if (evenly)
        logistic_line_flush_f64(line_pass.sums, n_steps, sum_out);
}

static void tabular_predictions(const struct dense_rows *rows, int64_t begin, int64_t end,
                                const double *w, double *p_out, void *workspace) {
    const struct tabular_matrix *table = rows->source->table;
    const struct table_scratch scratch = table_scratch_in(workspace, table);
    const double intercept = rows->intercept ? w[rows->n_columns] : 0.0;
    pack_table_weights(table, w, scratch.piece_weights[0], scratch.entry_weights[0]);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double p[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            table_ahead(rows, first + ROWS_PER_BLOCK, end, 2 * ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch, &block, &ahead);
        predict_table_block(table, &scratch, 0, &block, intercept, &ahead, p);
        for (int i = 0; i < ROWS_PER_BLOCK && first + i < end; i++)
            p_out[first + i - begin] = p[i];
    }
}
