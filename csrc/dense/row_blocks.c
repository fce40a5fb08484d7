/* See row_blocks.h. */
#include <string.h>

#include "dense/row_blocks.h"
#include "memory/aligned_memory.h"
#include "sgd/sgd_steps.h"

/* About half of a small L2 cache. Block lengths depend on the width of the matrix alone, so that
 * floating-point sums do not depend on the machine. Kernels process 16 or 64 rows at a time. */
enum { BLOCK_BYTES = 1 << 18, MIN_ROWS = 16, WHOLE_ROWS = 64 };

static int64_t rows_per_block(enum real_type type, const struct dense_rows *rows) {
    const int64_t fit = BLOCK_BYTES / (rows->n_columns * real_bytes(type));
    return fit < WHOLE_ROWS ? MIN_ROWS : fit / WHOLE_ROWS * WHOLE_ROWS;
}

/* The expanded rows of a block, and their targets, norms and so on. */
struct block_scratch {
    void *x, *y;
    double *norms, *weights, *clip_norms, *carried;
    int64_t *places, *order, *batch_ends;
    int64_t bytes;
};

/* The next piece of a scratch; with start NULL only its size is counted. */
static void *cut(char *start, struct block_scratch *scratch, int64_t bytes) {
    void *piece = start ? start + scratch->bytes : NULL;
    scratch->bytes += round_up(bytes, ALIGNMENT);
    return piece;
}

static struct block_scratch scratch_at(char *start, enum real_type type,
                                       const struct dense_rows *rows) {
    const int64_t count = rows_per_block(type, rows), dimension = rows->n_columns + rows->intercept;
    struct block_scratch scratch = {.bytes = 0};
    scratch.x = cut(start, &scratch, count * rows->n_columns * real_bytes(type));
    scratch.y = cut(start, &scratch, count * real_bytes(type));
    scratch.norms = cut(start, &scratch, count * (int64_t)sizeof(double));
    scratch.weights = cut(start, &scratch, count * (int64_t)sizeof(double));
    scratch.clip_norms = cut(start, &scratch, count * (int64_t)sizeof(double));
    scratch.carried = cut(start, &scratch, dimension * (int64_t)sizeof(double));
    scratch.places = cut(start, &scratch, count * (int64_t)sizeof(int64_t));
    scratch.order = cut(start, &scratch, count * (int64_t)sizeof(int64_t));
    scratch.batch_ends = cut(start, &scratch, count * (int64_t)sizeof(int64_t));
    return scratch;
}

int64_t block_scratch_bytes(enum real_type type, const struct dense_rows *rows) {
    return rows->source ? scratch_at(NULL, type, rows).bytes : 0;
}

struct row_blocks blocks_of(enum real_type type, const struct dense_rows *rows, int64_t begin,
                            int64_t end, void *scratch) {
    const struct row_blocks blocks = {
        .all = rows, .type = type, .next = begin, .range_end = end, .scratch = scratch};
    return blocks;
}

/* Gathers targets, norms, weights and lengths of the rows at `places` into the block's arrays. */
static void gather(const struct dense_rows *all, enum real_type type, const int64_t *places,
                   int64_t count, const struct block_scratch *scratch, struct dense_rows *rows) {
    for (int64_t k = 0; k < count; k++) {
        if (type == REAL_F32)
            ((float *)scratch->y)[k] = ((const float *)all->y)[places[k]];
        else
            ((double *)scratch->y)[k] = ((const double *)all->y)[places[k]];
        if (all->norms)
            scratch->norms[k] = all->norms[places[k]];
        if (all->weights)
            scratch->weights[k] = all->weights[places[k]];
        if (all->clip_norms)
            scratch->clip_norms[k] = all->clip_norms[places[k]];
    }
    rows->batch = NULL;
    rows->y = scratch->y;
    rows->norms = scratch->norms;
    rows->weights = all->weights ? scratch->weights : NULL;
    rows->clip_norms = all->clip_norms ? scratch->clip_norms : NULL;
}

/* Points at the targets and so on of a block whose row i is row first + i of all. */
static void shift(const struct dense_rows *all, enum real_type type, int64_t first,
                  struct dense_rows *rows) {
    rows->y = (const char *)all->y + first * real_bytes(type);
    rows->norms = all->norms ? all->norms + first : NULL;
    rows->multiplicity = all->multiplicity ? all->multiplicity + first : NULL;
    rows->weights = all->weights ? all->weights + first : NULL;
    rows->clip_norms = all->clip_norms ? all->clip_norms + first : NULL;
}

/* Completes a block whose rows 0 .. count - 1 are at x. */
static void finish(const struct dense_rows *all, int64_t count, const struct block_scratch *scratch,
                   struct dense_rows *rows) {
    rows->source = NULL;
    rows->x = scratch->x;
    rows->n_rows = count;
    if (!all->norms && all->source->find_norms) {
        all->source->find_norms(rows, 0, count, NULL, scratch->norms, NULL);
        rows->norms = scratch->norms;
    }
}

int next_block(struct row_blocks *blocks) {
    const struct dense_rows *all = blocks->all;
    if (blocks->next >= blocks->range_end)
        return 0;
    blocks->rows = *all;
    blocks->first = blocks->next;
    if (!blocks->scratch) {
        blocks->begin = blocks->next;
        blocks->end = blocks->next = blocks->range_end;
        return 1;
    }
    const struct block_scratch scratch = scratch_at(blocks->scratch, blocks->type, all);
    const int64_t left = blocks->range_end - blocks->next, most = rows_per_block(blocks->type, all);
    const int64_t count = left < most ? left : most, first = blocks->next;
    const int64_t *places = all->batch ? all->batch + first : NULL;
    all->source->expand(all->source->matrix, places, first, count, scratch.x);
    if (places)
        gather(all, blocks->type, places, count, &scratch, &blocks->rows);
    else
        shift(all, blocks->type, first, &blocks->rows);
    finish(all, count, &scratch, &blocks->rows);
    blocks->rows.predictions = all->predictions ? all->predictions + first : NULL;
    blocks->begin = 0;
    blocks->end = count;
    blocks->next += count;
    return 1;
}

/* Expands records order[0 .. count - 1] into a matrix whose row k is record k. scratch->order[k] is
 * k, or -1 if order[k] is not a row. */
static struct dense_rows expand_order(const struct dense_rows *all, enum real_type type,
                                      const int64_t *order, int64_t count,
                                      const struct block_scratch *scratch) {
    struct dense_rows rows = *all;
    for (int64_t k = 0; k < count; k++) {
        const int there = (uint64_t)order[k] < (uint64_t)all->n_rows;
        scratch->places[k] = there ? order[k] : 0;
        scratch->order[k] = there ? k : -1;
    }
    all->source->expand(all->source->matrix, scratch->places, 0, count, scratch->x);
    gather(all, type, scratch->places, count, scratch, &rows);
    finish(all, count, scratch, &rows);
    return rows;
}

/* Runs as many whole steps at a time as have records that fit into a block, or a part of a batch
 * that is too long for one. */
void sgd_steps_by_blocks(const struct kernel_table *kernels, enum real_type type,
                         const struct dense_rows *rows, const struct sgd_settings *settings,
                         const struct sgd_block *block, void *workspace, void *scratch_space) {
    const struct block_scratch scratch = scratch_at(scratch_space, type, rows);
    const int64_t most = rows_per_block(type, rows), dimension = rows->n_columns + rows->intercept;
    struct sgd_block part = {.w = block->w,
                             .w_sum = block->w_sum,
                             .order = scratch.order,
                             .batch_ends = scratch.batch_ends,
                             .carried = scratch.carried};
    int64_t step = 0, start = 0;
    while (step < block->n_steps) {
        const int64_t first_step = step;
        for (; step < block->n_steps && step < first_step + most; step++) {
            if (block->batch_ends[step] > start + most)
                break;
            scratch.batch_ends[step - first_step] = block->batch_ends[step] - start;
        }
        part.n_steps = step - first_step;
        part.n_open = part.n_steps > 0 ? 0 : most;
        const int64_t end = part.n_steps > 0 ? block->batch_ends[step - 1] : start + most;
        const struct dense_rows expanded =
            expand_order(rows, type, block->order + start, end - start, &scratch);
        part.step_sizes = block->step_sizes + first_step;
        part.noise_integers =
            block->noise_integers ? block->noise_integers + first_step * dimension : NULL;
        part.noise = block->noise ? block->noise + first_step * dimension : NULL;
        kernels->sgd[type]->steps(&expanded, settings, &part, workspace);
        part.begun = part.n_open > 0;
        start = end;
    }
}
