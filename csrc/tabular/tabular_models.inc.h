/* Clipped gradient sums at several weight vectors over tabular rows as they are. A group of models
 * shares a unit, a lane for each: what a category adds to a product, or gets from a row, is a
 * vector for all of them. The bits are those of as many single passes.
 *
 * Needs: dense/clipped_gradient_sum.inc.h, dense/dense_rows.inc.h, tabular/tabular_rows.inc.h. */

/* Models in a group, and rows whose slots are filled together. */
enum { GROUP = UNIT_DOUBLES, ROWS_TOGETHER = 4 };

/* The models in the lanes of a group; lanes past `count` are models whose weights are 0. */
struct model_group {
    int64_t first, count;
    double *number_weights, *entry_weights; /* GROUP for each number and entry */
    uint64_t *number_sums; /* the same: bit patterns, see add_rounded_rows(), of all rows added */
    /* Integers; one entry more, for the intercept. Even rows and odd ones have sums of their own,
     * as an addition waits for the one before it to the same place. */
    int64_t *entry_sums;
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
    return 2 * (table->n_entries + 1) * UNIT_BYTES;
}

static struct table_models_scratch
table_models_scratch_in(void *workspace, const struct tabular_matrix *table, int64_t n_models) {
    struct table_models_scratch scratch = {.rows = table_scratch_in(workspace, table, NULL),
                                           .n_groups = (n_models + GROUP - 1) / GROUP};
    struct table_scratch *rows = &scratch.rows;
    scratch.slots = table_piece(rows, workspace, ROWS_TOGETHER * SLOTS * UNIT_BYTES);
    scratch.groups =
        table_piece(rows, workspace, scratch.n_groups * (int64_t)sizeof *scratch.groups);
    for (int64_t g = 0; g < scratch.n_groups; g++) {
        struct model_group group = {.first = g * GROUP};
        group.count = n_models - group.first < GROUP ? n_models - group.first : GROUP;
        group.number_weights = table_piece(rows, workspace, table->n_numeric * UNIT_BYTES);
        group.entry_weights = table_piece(rows, workspace, table->n_entries * UNIT_BYTES);
        group.number_sums = table_piece(rows, workspace, table->n_numeric * UNIT_BYTES);
        group.entry_sums = table_piece(rows, workspace, entry_sums_bytes(table));
        if (workspace)
            scratch.groups[g] = group;
    }
    return scratch;
}

static int64_t tabular_models_workspace_bytes(const struct dense_rows *rows,
                                              const struct pass *pass) {
    return table_models_scratch_in(NULL, table_of(rows), pass->n_models).rows.bytes;
}

static void pack_group_weights(const struct tabular_matrix *table, const double *w, int lane,
                               struct model_group *group) {
    for (int64_t k = 0; k < table->n_numeric; k++)
        group->number_weights[k * GROUP + lane] = w[table->numeric_columns[k]];
    for (int64_t j = 0; j < table->n_categorical; j++)
        for (int64_t code = 0; code < table->sizes[j]; code++)
            group->entry_weights[(table->first_entries[j] + code) * GROUP + lane] =
                w[table->first_columns[j] + code];
}

static void open_group(const struct dense_rows *rows, const struct pass *models,
                       struct model_group *group) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t dimension = rows->n_columns + rows->intercept;
    memset(group->number_weights, 0, (size_t)(table->n_numeric * UNIT_BYTES));
    memset(group->entry_weights, 0, (size_t)(table->n_entries * UNIT_BYTES));
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
                add_group_category(entries + j, c, group->entry_weights, table->slots, slots);
        }
        for (int row = 0; row < ROWS_TOGETHER; row++)
            fold_group(slots + row * SLOTS * GROUP, p[i + row]);
    }
}

/* From products of rows and weights to what rows are multiplied with in the sums. */
static void group_factors(const struct block_f64 *block, struct loss loss,
                          const struct model_group *group, struct in_models here, group_reals p,
                          group_reals s) {
    group_reals y, cap;
    double shared_cap[ROWS_PER_BLOCK];
    find_caps_f64(ROWS_PER_BLOCK, block->norm, group->inner_clip[0], shared_cap);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
            wide_f64 *product = (wide_f64 *)&p[i][v], *own_cap = (wide_f64 *)&cap[i][v];
            *product = block->scale[i] * (*product + *(const loose_wide *)(group->intercept + v));
            *(wide_f64 *)&y[i][v] = block->y[i] - (wide_f64){0};
            *own_cap = *(const loose_wide *)(group->inner_clip + v);
            if (group->one_clip)
                *own_cap = shared_cap[i] - (wide_f64){0};
            else
                *own_cap /= block->norm[i];
        }
    loss_derivatives(loss, GROUP * ROWS_PER_BLOCK, p[0], y[0], s[0]);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        for (int v = 0; v < GROUP; v += WIDE_DOUBLES)
            *(wide_f64 *)&s[i][v] *= block->scale[i];
    for (int i = 0; i < ROWS_PER_BLOCK && here.weight; i++)
        for (int lane = 0; lane < GROUP; lane++)
            s[i][lane] *= here.weight[i];
    for (int at = 0; at < ROWS_PER_BLOCK * GROUP; at += ROWS_PER_BLOCK) {
        double clamped[ROWS_PER_BLOCK];
        clamp_factors_f64(ROWS_PER_BLOCK, s[0] + at, cap[0] + at, clamped);
        memcpy(s[0] + at, clamped, sizeof clamped);
    }
    for (int i = 0; i < here.n_folds; i++)
        for (int lane = 0; lane < group->count; lane++)
            s[i][lane] = here.fold[i] == group->left_out[lane] ? 0.0 : s[i][lane];
}

/* Adds the rows of a block to the sums of a group. */
static void add_block_to_group(const struct tabular_matrix *table,
                               const struct table_scratch *scratch, const int64_t *count,
                               group_reals s, struct model_group *group) {
    const int64_t n_categorical = table->n_categorical, stride = scratch->stride;
    group_integers rounded;
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        const wide_f64 shift = *(const loose_wide *)(group->shift + v);
        wide_u64 *intercept = (wide_u64 *)(group->entry_sums + table->n_entries * GROUP + v);
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
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        int64_t *sums = group->entry_sums + (i % 2) * (table->n_entries + 1) * GROUP;
        for (int64_t j = 0; j < n_categorical; j++)
            for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
                const int64_t entry = scratch->entries[i * n_categorical + j];
                *(wide_u64 *)(sums + entry * GROUP + v) += *(const wide_u64 *)&rounded[i][v];
            }
    }
    for (int v = 0; v < GROUP; v += WIDE_DOUBLES) {
        const wide_f64 shift = *(const loose_wide *)(group->shift + v);
        for (int64_t k = 0; k < table->n_numeric; k++) {
            wide_u64 *place = (wide_u64 *)(group->number_sums + k * GROUP + v);
            wide_u64 sum = *place;
            for (int i = 0; i < ROWS_PER_BLOCK; i++) {
                const double number = scratch->numbers[i * stride + k];
                const wide_u64 bits = (wide_u64)(*(const wide_f64 *)&s[i][v] * number + shift);
                sum += bits;
                if (count)
                    sum += (bits - (wide_u64)shift) * (uint64_t)(count[i] - 1);
            }
            *place = sum;
        }
    }
}

/* sum_out += the sums of a group, to whose numbers `added` rows were added. */
static void flush_group(const struct dense_rows *rows, const struct model_group *group,
                        uint64_t added, int64_t *sum_out) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t dimension = rows->n_columns + rows->intercept;
    const int64_t *even = group->entry_sums, *odd = even + (table->n_entries + 1) * GROUP;
    for (int lane = 0; lane < group->count; lane++) {
        int64_t *sum = sum_out + (group->first + lane) * dimension;
        uint64_t shift_bits;
        memcpy(&shift_bits, &group->shift[lane], sizeof shift_bits);
        for (int64_t k = 0; k < table->n_numeric; k++)
            sum[table->numeric_columns[k]] +=
                (int64_t)(group->number_sums[k * GROUP + lane] - shift_bits * added);
        for (int64_t j = 0; j < table->n_categorical; j++)
            for (int64_t code = 0; code < table->sizes[j]; code++) {
                const int64_t at = (table->first_entries[j] + code) * GROUP + lane;
                sum[table->first_columns[j] + code] += even[at] + odd[at];
            }
        if (rows->intercept)
            sum[rows->n_columns] += group->entry_sums[table->n_entries * GROUP + lane];
    }
}

static void tabular_clipped_gradient_sums(const struct dense_rows *rows, int64_t begin, int64_t end,
                                          const struct pass *pass, void *out, void *workspace) {
    const struct tabular_matrix *table = table_of(rows);
    const struct table_models_scratch scratch =
        table_models_scratch_in(workspace, table, pass->n_models);
    uint64_t added = 0;
    memset(scratch.slots, 0, ROWS_TOGETHER * SLOTS * UNIT_BYTES);
    for (int64_t g = 0; g < scratch.n_groups; g++)
        open_group(rows, pass, &scratch.groups[g]);
    for (int64_t first = begin; first < end; first += ROWS_PER_BLOCK, added += ROWS_PER_BLOCK) {
        struct block_f64 block;
        int64_t counts[ROWS_PER_BLOCK];
        struct read_ahead ahead = table_ahead(rows, first + ROWS_PER_BLOCK, end, ROWS_PER_BLOCK);
        read_table_block(rows, first, end - first, &scratch.rows, &block, &ahead);
        const int64_t *count = read_multiplicity_f64(rows, first, end, ROWS_PER_BLOCK, counts);
        double weights[ROWS_PER_BLOCK];
        const struct in_models here = block_in_models(pass, rows, first, end, weights);
        for (int64_t g = 0; g < scratch.n_groups; g++) {
            struct model_group *group = &scratch.groups[g];
            group_reals p, s;
            multiply_group(table, &scratch.rows, group, scratch.slots, p);
            group_factors(&block, pass->loss, group, here, p, s);
            add_block_to_group(table, &scratch.rows, count, s, group);
        }
    }
    for (int64_t g = 0; g < scratch.n_groups; g++)
        flush_group(rows, &scratch.groups[g], added, out);
}
