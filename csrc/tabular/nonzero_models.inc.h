/* Clipped gradient sums at several weight vectors over the nonzero columns of tabular rows
 * (nonzero_columns.h), which are read once for several models. The bits are those of single passes.
 *
 * Needs: dense/clipped_gradient_sums.inc.h, dense/model_tiles.inc.h, tabular/tabular_rows.inc.h. */

static void nonzero_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                          const struct pass *models,
                                          const struct nonzero_columns *nonzero, int64_t *sum_out,
                                          void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    struct arena arena = {workspace, 0};
    const struct table_scratch scratch = table_scratch_in(&arena, table, nonzero);
    const struct model_tiles all = tiles_in(&arena, table->n_columns, models->n_models);
    open_tiles(rows, models, &all);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        struct read_ahead nothing = {0, 0};
        double weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        read_table_block(rows, first, end - first, &scratch, &block, &nothing);
        const int64_t *count = read_table_multiplicity(rows, first, end, counts);
        const struct in_models here = block_in_models(models, rows, first, end, weights);
        for (int64_t t = 0; t < all.n_tiles; t++) {
            const struct model_tile *tile = &all.tiles[t];
            double p[MODELS_PER_TILE][ROWS_PER_BLOCK], clipped[MODELS_PER_TILE][ROWS_PER_BLOCK];
            multiply_nonzero_block(table, nonzero, first, tile->weights, tile->n_models, p);
            models_factors_f64(rows, &block, models, tile->first, tile->n_models, here, p, clipped);
            add_nonzero_block(table, nonzero, first, (const double (*)[ROWS_PER_BLOCK])clipped,
                              count, tile->shifts, tile->n_models, tile->sums);
        }
    }
    flush_tiles(rows, &all, sum_out);
}
