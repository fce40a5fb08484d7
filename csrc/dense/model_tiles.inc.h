/* Weights and sums of models whose predictions for a block of rows are computed together, with a
 * row in each lane of a vector.
 *
 * Needs: tabular/nonzero_rows.inc.h. */

/* MODELS_PER_TILE models, or one of those left over. */
struct model_tile {
    int64_t first;
    int n_models;
    double *weights; /* n_models a column */
    wide_u64 *sums;  /* lane by lane: n_models for the intercept, then n_models a column */
    double shifts[MODELS_PER_TILE];
};

struct model_tiles {
    struct model_tile *tiles;
    int64_t n_tiles;
};

/* Tiles in the workspace behind what is in use. */
static struct model_tiles tiles_in(struct arena *arena, int64_t n_columns, int64_t n_models) {
    struct model_tiles all = {.n_tiles = n_models / MODELS_PER_TILE + n_models % MODELS_PER_TILE};
    all.tiles = arena_take(arena, all.n_tiles * (int64_t)sizeof *all.tiles);
    for (int64_t t = 0, first = 0; t < all.n_tiles; t++) {
        const int n = n_models - first < MODELS_PER_TILE ? 1 : MODELS_PER_TILE;
        struct model_tile tile = {.first = first, .n_models = n};
        tile.weights = arena_take(arena, n * n_columns * (int64_t)sizeof(double));
        tile.sums = arena_take(arena, n * (n_columns + 1) * WIDE_BYTES);
        first += n;
        if (all.tiles)
            all.tiles[t] = tile;
    }
    return all;
}

static void open_tiles(const struct dense_rows *rows, const struct pass *models,
                       const struct model_tiles *all) {
    const int64_t n_columns = rows->n_columns;
    for (int64_t t = 0; t < all->n_tiles; t++) {
        struct model_tile *tile = &all->tiles[t];
        const int64_t n = tile->n_models;
        for (int64_t m = 0; m < n; m++) {
            const double *w = models->w + (tile->first + m) * (n_columns + rows->intercept);
            tile->shifts[m] = ROUNDING_SHIFT * models->grids[tile->first + m];
            for (int64_t column = 0; column < n_columns; column++)
                tile->weights[column * n + m] = w[column];
        }
        memset(tile->sums, 0, (size_t)(n * (n_columns + 1) * WIDE_BYTES));
    }
}

/* sum_out += the sums of all models. */
static void flush_tiles(const struct dense_rows *rows, const struct model_tiles *all,
                        int64_t *sum_out) {
    const int64_t n_columns = rows->n_columns;
    for (int64_t t = 0; t < all->n_tiles; t++) {
        const struct model_tile *tile = &all->tiles[t];
        const int64_t n = tile->n_models;
        for (int64_t m = 0; m < n; m++) {
            int64_t *own = sum_out + (tile->first + m) * (n_columns + rows->intercept);
            for (int64_t column = 0; column < n_columns; column++)
                own[column] += sum_of_lanes(&tile->sums[(column + 1) * n + m]);
            if (rows->intercept)
                own[n_columns] += sum_of_lanes(&tile->sums[m]);
        }
    }
}
