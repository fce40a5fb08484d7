/* Clipped gradient sums at several weight vectors over the nonzero columns of tabular rows
 * (nonzero_columns.h), which are read once for several models. The bits are those of single passes.
 *
 * Needs: dense/clipped_gradient_sums.inc.h, tabular/nonzero_rows.inc.h, tabular/tabular_rows.inc.h.
 */

/* Models that are multiplied and added up together: MODELS_PER_TILE of them, or one of those left.
 */
struct nonzero_tile {
    int64_t first;
    int n_models;
    double *weights; /* n_models a column */
    wide_u64 *sums;  /* the same, lane by lane; then the intercept's */
    double shifts[MODELS_PER_TILE];
};

struct nonzero_models_scratch {
    struct table_scratch rows;
    struct nonzero_tile *tiles;
    int64_t n_tiles;
};

static struct nonzero_models_scratch
nonzero_models_scratch_in(void *workspace, const struct tabular_matrix *table,
                          const struct nonzero_columns *nonzero, int64_t n_models) {
    struct nonzero_models_scratch scratch = {.rows = table_scratch_in(workspace, table, nonzero),
                                             .n_tiles = n_models / MODELS_PER_TILE +
                                                        n_models % MODELS_PER_TILE};
    struct table_scratch *rows = &scratch.rows;
    scratch.tiles = table_piece(rows, workspace, scratch.n_tiles * (int64_t)sizeof *scratch.tiles);
    for (int64_t t = 0, first = 0; t < scratch.n_tiles; t++) {
        const int n = n_models - first < MODELS_PER_TILE ? 1 : MODELS_PER_TILE;
        struct nonzero_tile tile = {.first = first, .n_models = n};
        tile.weights = table_piece(rows, workspace, n * table->n_columns * (int64_t)sizeof(double));
        tile.sums = table_piece(rows, workspace, n * (table->n_columns + 1) * WIDE_BYTES);
        first += n;
        if (workspace)
            scratch.tiles[t] = tile;
    }
    return scratch;
}

static void open_nonzero_tile(const struct dense_rows *rows, const struct pass *models,
                              struct nonzero_tile *tile) {
    const int64_t n_columns = rows->n_columns, n = tile->n_models;
    for (int64_t m = 0; m < n; m++) {
        const double *w = models->w + (tile->first + m) * (n_columns + rows->intercept);
        tile->shifts[m] = ROUNDING_SHIFT * models->grids[tile->first + m];
        for (int64_t column = 0; column < n_columns; column++)
            tile->weights[column * n + m] = w[column];
    }
    memset(tile->sums, 0, (size_t)(n * (n_columns + 1) * WIDE_BYTES));
}

/* sum_out += the sums of a tile. */
static void flush_nonzero_tile(const struct dense_rows *rows, const struct nonzero_tile *tile,
                               int64_t *sum_out) {
    const int64_t dimension = rows->n_columns + rows->intercept;
    for (int64_t m = 0; m < tile->n_models; m++)
        for (int64_t column = 0; column < dimension; column++)
            for (int lane = 0; lane < WIDE_DOUBLES; lane++)
                sum_out[(tile->first + m) * dimension + column] +=
                    (int64_t)tile->sums[column * tile->n_models + m][lane];
}

static void nonzero_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                          const struct pass *models,
                                          const struct nonzero_columns *nonzero, int64_t *sum_out,
                                          void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    const struct nonzero_models_scratch scratch =
        nonzero_models_scratch_in(workspace, table, nonzero, models->n_models);
    for (int64_t t = 0; t < scratch.n_tiles; t++)
        open_nonzero_tile(rows, models, &scratch.tiles[t]);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        struct read_ahead nothing = {0, 0};
        double weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        read_table_block(rows, first, end - first, &scratch.rows, &block, &nothing);
        const int64_t *count = read_table_multiplicity(rows, first, end, counts);
        const struct in_models here = block_in_models(models, rows, first, end, weights);
        for (int64_t t = 0; t < scratch.n_tiles; t++) {
            const struct nonzero_tile *tile = &scratch.tiles[t];
            double p[MODELS_PER_TILE][ROWS_PER_BLOCK], clipped[MODELS_PER_TILE][ROWS_PER_BLOCK];
            multiply_nonzero_block(table, nonzero, first, tile->weights, tile->n_models, p);
            models_factors_f64(rows, &block, models, tile->first, tile->n_models, here, p, clipped);
            add_nonzero_block(table, nonzero, first, (const double (*)[ROWS_PER_BLOCK])clipped,
                              count, tile->shifts, tile->n_models, tile->sums);
        }
    }
    for (int64_t t = 0; t < scratch.n_tiles; t++)
        flush_nonzero_tile(rows, &scratch.tiles[t], sum_out);
}
