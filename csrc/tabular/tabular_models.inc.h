/* Clipped gradient sums at several weight vectors over tabular rows. The models of a group are the
 * lanes of vectors: a category adds one vector of weights to the products of all of them, and each
 * row adds one vector to the sums of its categories. The bits are those of single passes.
 *
 * Needs: tabular/nonzero_models.inc.h, tabular/tabular_passes.inc.h. */

/* Models in a group, rows whose slots are filled together, and groups that share one read of the
 * rows' additions and categories. */
enum { GROUP = TERM_LANES, ROWS_TOGETHER = 4, GROUPS_TOGETHER = 2 };

_Static_assert(ROWS_PER_READ == ROWS_PER_BLOCK, "each row of a block is in a list");

/* The models in the lanes of a group; lanes past `count` are models whose weights are 0. */
struct model_group {
    int64_t first, count;
    double *number_weights; /* GROUP for each number */
    double *places;         /* GROUP for each place of row_additions.h, and so for each entry */
    uint64_t *number_sums;  /* the same: bit patterns, see add_rounded_rows(), of all rows added */
    int64_t *entry_sums;    /* integers; one entry more, for the intercept */
    double intercept[GROUP], inner_clip[GROUP], shift[GROUP];
    int one_clip;
    const int32_t *left_out; /* the fold that a model does not see, where there are folds */
};

/* One number or one integer for each model of a group and each row of a block. */
typedef double group_reals[ROWS_PER_BLOCK][GROUP] __attribute__((aligned(UNIT_BYTES)));
typedef int64_t group_integers[ROWS_PER_BLOCK][GROUP] __attribute__((aligned(UNIT_BYTES)));

struct table_models_scratch {
    struct table_scratch rows;
    struct model_group *groups;
    double *slots; /* GROUP for each slot of ROWS_TOGETHER rows, 0 between them */
    int64_t n_groups;
};

static int64_t entry_sums_bytes(const struct tabular_matrix *table) {
    return (table->n_entries + 1) * UNIT_BYTES;
}

static struct table_models_scratch
table_models_scratch_in(struct arena *arena, const struct tabular_matrix *table, int64_t n_models) {
    struct table_models_scratch scratch = {.rows = table_scratch_in(arena, table, NULL),
                                           .n_groups = (n_models + GROUP - 1) / GROUP};
    scratch.slots = arena_take(arena, ROWS_TOGETHER * SLOTS * UNIT_BYTES);
    scratch.groups = arena_take(arena, scratch.n_groups * (int64_t)sizeof *scratch.groups);
    for (int64_t g = 0; g < scratch.n_groups; g++) {
        struct model_group group = {.first = g * GROUP};
        group.count = n_models - group.first < GROUP ? n_models - group.first : GROUP;
        group.number_weights = arena_take(arena, table->n_numeric * UNIT_BYTES);
        group.places = arena_take(arena, max_places(table) * UNIT_BYTES);
        group.number_sums = arena_take(arena, table->n_numeric * UNIT_BYTES);
        group.entry_sums = arena_take(arena, entry_sums_bytes(table));
        if (scratch.groups)
            scratch.groups[g] = group;
    }
    return scratch;
}

static int64_t tabular_models_workspace_bytes(const struct dense_rows *rows,
                                              const struct pass *pass) {
    const struct tabular_matrix *table = table_of(rows);
    struct arena arena = {NULL, 0}, nonzero = {NULL, 0};
    table_models_scratch_in(&arena, table, pass->n_models);
    table_scratch_in(&nonzero, table, NULL);
    if (table->n_columns <= MAX_NONZERO_COLUMNS)
        tiles_in(&nonzero, table->n_columns, pass->n_models);
    return arena.bytes > nonzero.bytes ? arena.bytes : nonzero.bytes;
}

static void pack_group_weights(const struct tabular_matrix *table, const double *w, int lane,
                               struct model_group *group) {
    for (int64_t k = 0; k < table->n_numeric; k++)
        group->number_weights[k * GROUP + lane] = w[table->numeric_columns[k]];
    for (int64_t j = 0; j < table->n_categorical; j++)
        for (int64_t code = 0; code < table->sizes[j]; code++)
            group->places[(table->first_entries[j] + code) * GROUP + lane] =
                w[table->first_columns[j] + code];
}

static void open_group(const struct dense_rows *rows, const struct pass *models,
                       struct model_group *group) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t dimension = rows->n_columns + rows->intercept;
    memset(group->number_weights, 0, (size_t)(table->n_numeric * UNIT_BYTES));
    memset(group->places, 0, (size_t)(table->n_entries * UNIT_BYTES));
    memset(group->number_sums, 0, (size_t)(table->n_numeric * UNIT_BYTES));
    memset(group->entry_sums, 0, (size_t)entry_sums_bytes(table));
    group->one_clip = 1;
    group->left_out = models->folds ? models->left_out + group->first : NULL;
    for (int lane = 0; lane < GROUP; lane++) {
        const int64_t k = group->first + (lane < group->count ? lane : 0);
        const double *w = models->w + k * dimension;
        group->intercept[lane] = lane < group->count && rows->intercept ? w[rows->n_columns] : 0.0;
        group->inner_clip[lane] = models->inner_clips[k];
        group->shift[lane] = ROUNDING_SHIFT * models->grids[k];
        group->one_clip &= group->inner_clip[lane] == group->inner_clip[0];
        if (lane < group->count)
            pack_group_weights(table, w, lane, group);
    }
}

/* slots += products of number k with its weights, for ROWS_TOGETHER rows. */
ALWAYS_INLINE void add_group_number(const double *number, int64_t stride, const double *weights,
                                    double *slots) {
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        const wide_f64 weight = *(const wide_f64 *)(weights + v);
        for (int i = 0; i < ROWS_TOGETHER; i++)
            *(wide_f64 *)(slots + i * SLOTS * GROUP + v) += number[i * stride] * weight;
    }
}

/* slots += weights of the categories of a column, for ROWS_TOGETHER rows. */
ALWAYS_INLINE void add_group_category(const int32_t *entries, int64_t n_categorical,
                                      const double *weights, const int32_t *slot, double *slots) {
    for (int i = 0; i < ROWS_TOGETHER; i++) {
        const int64_t entry = entries[i * n_categorical];
        double *to = slots + (i * SLOTS + slot[entry]) * GROUP;
        for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
            *(wide_f64 *)(to + v) += *(const wide_f64 *)(weights + entry * GROUP + v);
    }
}

/* p[m] = sum of a row's slots as dot() and fold() add them up; slots = 0. */
ALWAYS_INLINE void fold_group(double *slots, double *p) {
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        wide_f64 sum[UNIT_DOUBLES];
        for (int lane = 0; lane < UNIT_DOUBLES; lane++) {
            wide_f64 part[ACCUMULATORS];
            for (int a = 0; a < ACCUMULATORS; a++) {
                wide_f64 *slot = (wide_f64 *)(slots + (a * UNIT_DOUBLES + lane) * GROUP + v);
                part[a] = *slot;
                *slot = (wide_f64){0};
            }
            sum[lane] = (part[0] + part[1]) + (part[2] + part[3]);
        }
        for (int half = UNIT_DOUBLES / 2; half > 0; half /= 2)
            for (int lane = 0; lane < half; lane++)
                sum[lane] += sum[lane + half];
        *(wide_f64 *)(p + v) = sum[0];
    }
}

/* p[i][m] = <x_i, w_m> for the rows of a block: dot() with a vector of models in place of each
 * number. */
static void multiply_group(const struct tabular_matrix *table, const struct table_scratch *scratch,
                           const struct model_group *group, double *slots, group_reals p) {
    const int64_t stride = scratch->stride, c = table->n_categorical;
    for (int i = 0; i < ROWS_PER_BLOCK; i += ROWS_TOGETHER) {
        const double *numbers = scratch->numbers + i * stride;
        const int32_t *entries = scratch->entries + i * c;
        for (int64_t s = 0, k = 0, j = 0; s < table->n_segments; s++) {
            for (; k < table->segments[s].end_piece; k++) {
                const struct number_piece *piece = &table->pieces[k];
                const int slot = piece->accumulator * UNIT_DOUBLES + piece->first_lane;
                for (int64_t lane = 0; lane < piece->n_lanes; lane++)
                    add_group_number(numbers + piece->first_number + lane, stride,
                                     group->number_weights + (piece->first_number + lane) * GROUP,
                                     slots + (slot + lane) * GROUP);
            }
            for (; j < table->segments[s].end_category; j++)
                add_group_category(entries + j, c, group->places, table->slots, slots);
        }
        for (int row = 0; row < ROWS_TOGETHER; row++)
            fold_group(slots + row * SLOTS * GROUP, p[i + row]);
    }
}

/* Adds up places of each group, from place `to` on. */
ALWAYS_INLINE void add_places(const struct row_addition *additions, int64_t n_additions, int64_t to,
                              const struct model_group *groups, const int n_groups) {
    double *places[GROUPS_TOGETHER], *sums[GROUPS_TOGETHER];
    for (int g = 0; g < n_groups; g++) {
        places[g] = groups[g].places;
        sums[g] = places[g] + to * GROUP;
    }
    for (int64_t a = 0; a < n_additions; a++) {
        const int64_t left = additions[a].left, right = additions[a].right;
        for (int g = 0; g < n_groups; g++)
            for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
                *(wide_f64 *)(sums[g] + a * GROUP + v) = *(const wide_f64 *)(places[g] + left + v) +
                                                         *(const wide_f64 *)(places[g] + right + v);
    }
}

/* place `to` = value * weights of a number. */
ALWAYS_INLINE void multiply_number(double value, int64_t number, int64_t to,
                                   const struct model_group *group) {
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
        *(wide_f64 *)(group->places + to * GROUP + v) =
            value * *(const wide_f64 *)(group->number_weights + number * GROUP + v);
}

/* What many rows have in common. */
static void compute_common_places(const struct tabular_matrix *table,
                                  const struct row_additions *lists, struct model_group *group) {
    const int64_t products = table->n_entries + 1, sums = products + lists->n_common_products;
    memset(group->places + table->n_entries * GROUP, 0, UNIT_BYTES);
    for (int64_t k = 0; k < lists->n_common_products; k++)
        multiply_number(lists->common_products[k].value, lists->common_products[k].number,
                        products + k, group);
    add_places(lists->common_additions, lists->n_common_additions, sums, group, 1);
}

/* p[g][i] = <x_i, w_m> for the rows of a block and the models m of group g, by the block's lists.
 */
ALWAYS_INLINE void add_up_block(const struct tabular_matrix *table,
                                const struct table_scratch *scratch,
                                const struct row_additions *lists, int64_t first,
                                const struct model_group *groups, const int n_groups,
                                group_reals *p) {
    const struct listed_block *block = &lists->blocks[first / LISTED_ROWS];
    const struct row_product *products = lists->products + block->first_product;
    const struct row_addition *additions = lists->additions + block->first_addition;
    const double *numbers = scratch->numbers + first % ROWS_PER_BLOCK * scratch->stride;
    const int64_t own = n_common_places(table, lists);
    for (int64_t k = 0; k < block[1].first_product - block->first_product; k++) {
        const int64_t number = products[k].number;
        const double value = numbers[products[k].row * scratch->stride + number];
        for (int g = 0; g < n_groups; g++)
            multiply_number(value, number, own + k, &groups[g]);
    }
    add_places(additions, block[1].first_addition - block->first_addition,
               own + LISTED_ROWS * table->n_numeric, groups, n_groups);
    /* The sum of a dense row begins with 0, and so never is -0. */
    for (int i = 0; i < LISTED_ROWS; i++)
        for (int g = 0; g < n_groups; g++)
            for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
                *(wide_f64 *)&p[g][first % ROWS_PER_BLOCK + i][v] =
                    *(const wide_f64 *)(groups[g].places + block->sums[i] + v) + 0.0;
}

static void add_up_groups(const struct tabular_matrix *table, const struct table_scratch *scratch,
                          const struct row_additions *lists, int64_t first,
                          const struct model_group *groups, int64_t n_groups, group_reals *p) {
    for (int i = 0; i < ROWS_PER_BLOCK; i += LISTED_ROWS)
        if (n_groups == GROUPS_TOGETHER)
            add_up_block(table, scratch, lists, first + i, groups, GROUPS_TOGETHER, p);
        else
            add_up_block(table, scratch, lists, first + i, groups, 1, p);
}

/* s[i] *= scale and weight of row i, then clamped to the inner clip over the norm of the row. */
ALWAYS_INLINE void clip_group(const struct block_f64 *block, const struct model_group *group,
                              const double *weight, group_reals s) {
    double shared_cap[ROWS_PER_BLOCK];
    const int one_clip = group->one_clip;
    find_caps_f64(ROWS_PER_BLOCK, block->norm, group->inner_clip[0], shared_cap);
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const double scale = block->scale[i], norm = block->norm[i];
        const double own = weight ? weight[i] : 1.0;
#pragma omp simd
        for (int lane = 0; lane < GROUP; lane++) {
            const double cap = one_clip ? shared_cap[i] : group->inner_clip[lane] / norm;
            s[i][lane] = clamped_f64(s[i][lane] * scale * own, cap);
        }
    }
}

/* Clipped factors s of the rows in the sums, from their products p with the weights; y[i]: the
 * target of row i in every lane. p is overwritten by the predictions. */
static void group_factors(const struct block_f64 *block, struct loss loss,
                          const struct model_group *group, struct in_models here,
                          const group_reals y, group_reals p, group_reals s) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
            wide_f64 *product = (wide_f64 *)&p[i][v];
            *product = block->scale[i] * (*product + *(const loose_wide *)(group->intercept + v));
        }
    loss_derivatives(loss, GROUP * ROWS_PER_BLOCK, p[0], y[0], s[0]);
    clip_group(block, group, here.weight, s);
    for (int i = 0; i < here.n_folds; i++)
        for (int lane = 0; lane < group->count; lane++)
            s[i][lane] = here.fold[i] == group->left_out[lane] ? 0.0 : s[i][lane];
}

/* rounded[i] = the integers that row i adds to its categories; their sum goes to the intercept. */
ALWAYS_INLINE void round_factors(const int64_t *count, const group_reals s, int64_t n_entries,
                                 struct model_group *group, group_integers rounded) {
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        const wide_f64 shift = *(const loose_wide *)(group->shift + v);
        wide_u64 *intercept = (wide_u64 *)(group->entry_sums + n_entries * GROUP + v);
        wide_u64 sum = *intercept;
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            wide_u64 integers = (wide_u64)(*(const wide_f64 *)&s[i][v] + shift) - (wide_u64)shift;
            if (count)
                integers *= (uint64_t)count[i];
            *(wide_u64 *)&rounded[i][v] = integers;
            sum += integers;
        }
        *intercept = sum;
    }
}

/* Adds the numbers of the rows of a block, times s and rounded, to the sums of a group. */
ALWAYS_INLINE void add_numbers_to_group(const struct table_scratch *scratch, int64_t n_numeric,
                                        const int64_t *count, const group_reals s,
                                        struct model_group *group) {
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        const wide_f64 shift = *(const loose_wide *)(group->shift + v);
        for (int64_t k = 0; k < n_numeric; k++) {
            wide_u64 *place = (wide_u64 *)(group->number_sums + k * GROUP + v);
            wide_u64 sum = *place;
            for (int i = 0; i < ROWS_PER_BLOCK; i++) {
                const double number = scratch->numbers[i * scratch->stride + k];
                const wide_u64 bits = (wide_u64)(*(const wide_f64 *)&s[i][v] * number + shift);
                sum += bits;
                if (count)
                    sum += (bits - (wide_u64)shift) * (uint64_t)(count[i] - 1);
            }
            *place = sum;
        }
    }
}

/* Adds rounded[g][i] to the sums of group g at the categories of row i. */
ALWAYS_INLINE void add_categories_to_groups(const struct tabular_matrix *table,
                                            const int32_t *entries, const group_integers *rounded,
                                            struct model_group *groups, const int n_groups) {
    const int64_t n_categorical = table->n_categorical;
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        int64_t *restrict sums[GROUPS_TOGETHER];
        wide_u64 integers[GROUPS_TOGETHER][GROUP / WIDE_DOUBLES];
        for (int g = 0; g < n_groups; g++) {
            sums[g] = groups[g].entry_sums;
            memcpy(integers[g], rounded[g][i], sizeof integers[g]);
        }
        for (int64_t j = 0; j < n_categorical; j++) {
            const int64_t at = (int64_t)entries[i * n_categorical + j] * GROUP;
            for (int g = 0; g < n_groups; g++)
                for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
                    *(wide_u64 *)(sums[g] + at + v) += integers[g][v / WIDE_DOUBLES];
        }
    }
}

/* Adds the rows of a block to the sums of groups that are together. */
static void add_block_to_groups(const struct tabular_matrix *table,
                                const struct table_scratch *scratch, const int64_t *count,
                                const group_reals *s, struct model_group *groups,
                                int64_t n_groups) {
    group_integers rounded[GROUPS_TOGETHER];
    for (int64_t g = 0; g < n_groups; g++) {
        round_factors(count, s[g], table->n_entries, &groups[g], rounded[g]);
        add_numbers_to_group(scratch, table->n_numeric, count, s[g], &groups[g]);
    }
    if (n_groups == GROUPS_TOGETHER)
        add_categories_to_groups(table, scratch->entries, rounded, groups, GROUPS_TOGETHER);
    else
        add_categories_to_groups(table, scratch->entries, rounded, groups, 1);
}

/* sum_out += the sums of a group, to whose numbers `added` rows were added. */
static void flush_group(const struct dense_rows *rows, const struct model_group *group,
                        uint64_t added, int64_t *sum_out) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t dimension = rows->n_columns + rows->intercept;
    for (int lane = 0; lane < group->count; lane++) {
        int64_t *sum = sum_out + (group->first + lane) * dimension;
        uint64_t shift_bits;
        memcpy(&shift_bits, &group->shift[lane], sizeof shift_bits);
        for (int64_t k = 0; k < table->n_numeric; k++)
            sum[table->numeric_columns[k]] +=
                (int64_t)(group->number_sums[k * GROUP + lane] - shift_bits * added);
        for (int64_t j = 0; j < table->n_categorical; j++)
            for (int64_t code = 0; code < table->sizes[j]; code++)
                sum[table->first_columns[j] + code] +=
                    group->entry_sums[(table->first_entries[j] + code) * GROUP + lane];
        if (rows->intercept)
            sum[rows->n_columns] += group->entry_sums[table->n_entries * GROUP + lane];
    }
}

static void tabular_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                          const struct pass *pass, void *out, void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    const struct nonzero_columns *nonzero = rows->batch ? NULL : nonzero_columns_for_models(table);
    if (nonzero) {
        nonzero_clipped_gradient_sums(rows, begin, end, pass, nonzero, out, workspace);
        return;
    }
    struct arena arena = {workspace, 0};
    const struct table_models_scratch scratch =
        table_models_scratch_in(&arena, table, pass->n_models);
    const struct row_additions *lists = rows->batch ? NULL : row_additions_of(table);
    uint64_t added = 0;
    memset(scratch.slots, 0, ROWS_TOGETHER * SLOTS * UNIT_BYTES);
    for (int64_t g = 0; g < scratch.n_groups; g++) {
        open_group(rows, pass, &scratch.groups[g]);
        if (lists)
            compute_common_places(table, lists, &scratch.groups[g]);
    }
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK, added += ROWS_PER_BLOCK) {
        struct block_f64 block;
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead = table_ahead(rows, first + ROWS_PER_BLOCK, end, ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch.rows, &block, &ahead);
        const int64_t *count = read_multiplicity_f64(rows, first, end, ROWS_PER_BLOCK, counts);
        double weights[ROWS_PER_BLOCK];
        const struct in_models here = block_in_models(pass, rows, first, end, weights);
        group_reals y;
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            for (int lane = 0; lane < GROUP; lane++)
                y[i][lane] = block.y[i];
        for (int64_t g = 0; g < scratch.n_groups; g += GROUPS_TOGETHER) {
            const int64_t left = scratch.n_groups - g;
            const int64_t together = left < GROUPS_TOGETHER ? left : GROUPS_TOGETHER;
            struct model_group *groups = &scratch.groups[g];
            group_reals p[GROUPS_TOGETHER], s[GROUPS_TOGETHER];
            if (lists)
                add_up_groups(table, &scratch.rows, lists, first, groups, together, p);
            for (int64_t k = 0; k < together; k++) {
                if (!lists)
                    multiply_group(table, &scratch.rows, &groups[k], scratch.slots, p[k]);
                group_factors(&block, pass->loss, &groups[k], here, y, p[k], s[k]);
            }
            add_block_to_groups(table, &scratch.rows, count, s, groups, together);
        }
    }
    for (int64_t g = 0; g < scratch.n_groups; g++)
        flush_group(rows, &scratch.groups[g], added, out);
}
