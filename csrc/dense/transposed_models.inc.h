/* Clipped gradient sums at several weight vectors over dense rows of doubles with few columns. Each
 * block of rows is transposed, so that a lane of a vector is a row: no lane is left idle, and none
 * are added up for each row and model. The bits are those of single passes.
 *
 * Needs: dense/clipped_gradient_sums.inc.h, dense/model_tiles.inc.h. */

/* numbers[k] = the entries of the k-th listed column in the rows of a block. */
ALWAYS_INLINE void transpose_block(const struct block_f64 *block,
                                   const struct nonzero_column *columns, int64_t n_columns,
                                   struct read_ahead *ahead, double *numbers) {
    for (int64_t k = 0; k < n_columns; k++) {
        const int64_t column = columns[k].column;
        read_ahead(ahead);
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            numbers[k * ROWS_PER_BLOCK + i] = block->row[i][column];
    }
}

struct transposed_scratch {
    struct nonzero_column *columns;
    double *numbers; /* ROWS_PER_BLOCK a column */
    struct model_tiles models;
};

static struct transposed_scratch transposed_scratch_in(struct arena *arena, int64_t n_columns,
                                                       int64_t n_models) {
    struct transposed_scratch scratch;
    scratch.columns = arena_take(arena, n_columns * (int64_t)sizeof *scratch.columns);
    scratch.numbers = arena_take(arena, n_columns * ROWS_PER_BLOCK * (int64_t)sizeof(double));
    scratch.models = tiles_in(arena, n_columns, n_models);
    return scratch;
}

/* Adds the rows of a block to the sums of a tile. n_models is a constant. */
ALWAYS_INLINE void add_transposed_block(const struct dense_rows *rows,
                                        const struct block_f64 *block, const struct pass *models,
                                        struct in_models here, const int64_t *count,
                                        struct nonzero_cursor cursor, const int n_models,
                                        const struct model_tile *tile) {
    double p[MODELS_PER_TILE][ROWS_PER_BLOCK], clipped[MODELS_PER_TILE][ROWS_PER_BLOCK];
    multiply_nonzero_numbers(cursor, NUMERIC_F64, tile->weights, n_models, p);
    models_factors_f64(rows, block, models, tile->first, n_models, here, p, clipped);
    const double (*factors)[ROWS_PER_BLOCK] = (const double (*)[ROWS_PER_BLOCK])clipped;
    if (count)
        add_nonzero_numbers(cursor, NUMERIC_F64, factors, count, tile->shifts, n_models,
                            tile->sums);
    else
        add_nonzero_numbers(cursor, NUMERIC_F64, factors, NULL, tile->shifts, n_models, tile->sums);
}

static void transposed_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin,
                                             int64_t end, const struct pass *models, void *out,
                                             void *workspace) {
    const int64_t n_columns = rows->n_columns;
    const struct layout_f64 layout = layout_of_f64(n_columns);
    const struct scratch_f64 scratch = scratch_in_f64(workspace, &layout);
    struct arena arena = {workspace, whole_units(workspace_bytes(rows, models))};
    const struct transposed_scratch own =
        transposed_scratch_in(&arena, n_columns, models->n_models);
    list_all_columns(n_columns, own.columns);
    open_tiles(rows, models, &own.models);
    const struct nonzero_cursor cursor = {own.columns, own.columns + n_columns,
                                          (const char *)own.numbers, 1.0};
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK) {
        struct block_f64 block;
        double weights[ROWS_PER_BLOCK];
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead =
            rows_ahead_f64(rows, first + ROWS_PER_BLOCK, ROWS_PER_BLOCK, end, n_columns);
        read_block_f64(rows, first, end - first, &layout, &scratch, &block);
        const int64_t *count = read_multiplicity_f64(rows, first, end, ROWS_PER_BLOCK, counts);
        const struct in_models here = block_in_models(models, rows, first, end, weights);
        transpose_block(&block, own.columns, n_columns, &ahead, own.numbers);
        for (int64_t t = 0; t < own.models.n_tiles; t++) {
            const struct model_tile *tile = &own.models.tiles[t];
            if (tile->n_models == 1)
                add_transposed_block(rows, &block, models, here, count, cursor, 1, tile);
            else
                add_transposed_block(rows, &block, models, here, count, cursor, MODELS_PER_TILE,
                                     tile);
        }
    }
    flush_tiles(rows, &own.models, out);
}

/* Long rows are faster row by row, and few models not worth transposing rows for. */
static int are_transposed(const struct dense_rows *rows, const struct pass *models) {
    return rows->n_columns <= MAX_LISTED_COLUMNS && models->n_models >= MODELS_PER_TILE;
}

static void any_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                      const struct pass *models, void *out, void *workspace) {
    if (are_transposed(rows, models))
        transposed_clipped_gradient_sums(rows, begin, end, models, out, workspace);
    else
        clipped_gradient_sums_f64(rows, begin, end, models, out, workspace);
}
