/* Products of a group of rows with a matrix of weights, one column per class, and of residuals with
 * the rows. Weights and sums are stored tile by tile, see
 * class_tiles.h: [tile][unit][class in tile][lane]. */
#ifndef DPERM_SOFTMAX_PRODUCTS_H
#define DPERM_SOFTMAX_PRODUCTS_H

#include "dense/block_arguments.h"
#include "dense/dense_block.h"
#include "softmax/class_tiles.h"
#include "softmax/softmax_scores.h"

struct NAME(group) {
    const REAL *row[ROWS_PER_GROUP];
    double y[ROWS_PER_GROUP], norm[ROWS_PER_GROUP], scale[ROWS_PER_GROUP]; /* see struct block */
    int counted, weighted; /* whether some multiplicity is not 1; whether rows have weights */
    int64_t count[ROWS_PER_GROUP]; /* multiplicities, if `counted` */
    double weight[ROWS_PER_GROUP]; /* if `weighted` */
};

/* The caller's workspace, see softmax_workspace_bytes(). */
struct NAME(softmax_scratch) {
    struct NAME(layout) layout;
    int64_t n_classes;
    REAL *weights;                 /* n_classes * units * LANES, packed */
    REAL *direction;               /* the same, or the accumulator, of REAL or UNSIGNED */
    REAL *factors;                 /* ROWS_PER_GROUP * n_classes, row by row */
    double *scores, *score_slopes; /* n_classes * ROWS_PER_GROUP */
    double *intercepts, *slopes;   /* n_classes */
    struct NAME(scratch) block[2]; /* zero_row and narrow, for the two blocks of a group */
};

/* w is (n_columns + intercept, n_classes), C order. */
static void NAME(pack_classes)(const struct NAME(softmax_scratch) * scratch, const double *w,
                               int intercept, REAL *packed, double *intercepts) {
    const struct NAME(layout) *layout = &scratch->layout;
    const int64_t n_classes = scratch->n_classes;
    for (int64_t first = 0; first < n_classes; first += CLASSES_PER_TILE) {
        const int64_t width = tile_width(n_classes, first);
        for (int64_t unit = 0; unit < layout->units; unit++)
            for (int64_t k = 0; k < width; k++)
                for (int lane = 0; lane < LANES; lane++) {
                    const int64_t column = NAME(unit_offset)(layout, unit) + lane;
                    const int counted = column >= unit * LANES && column < layout->n_columns;
                    *packed++ = counted ? (REAL)w[column * n_classes + first + k] : (REAL)0;
                }
    }
    for (int64_t k = 0; k < n_classes; k++)
        intercepts[k] = intercept ? w[layout->n_columns * n_classes + k] : 0.0;
}

/* The scratch of a pass, with packed weights and zero sums. */
static struct NAME(softmax_scratch)
    NAME(open_softmax)(const struct dense_rows *rows, const struct pass *pass, void *workspace) {
    const int64_t n_classes = pass->n_classes;
    struct NAME(softmax_scratch)
        scratch = {.layout = NAME(layout_of)(rows->n_columns), .n_classes = n_classes};
    const int64_t size = scratch.layout.units * LANES, group_size = n_classes * ROWS_PER_GROUP;
    scratch.weights = workspace;
    scratch.direction = scratch.weights + n_classes * size;
    REAL *zero_row = scratch.direction + n_classes * size;
    REAL *narrow = zero_row + size;
    scratch.factors = narrow + ROWS_PER_GROUP * LANES;
    scratch.scores = (double *)(scratch.factors + group_size);
    scratch.score_slopes = scratch.scores + group_size;
    scratch.intercepts = scratch.score_slopes + group_size;
    scratch.slopes = scratch.intercepts + n_classes;
    memset(scratch.direction, 0, n_classes * size * sizeof(REAL));
    memset(zero_row, 0, (size + ROWS_PER_GROUP * LANES) * sizeof(REAL));
    for (int b = 0; b < 2; b++) {
        scratch.block[b].zero_row = zero_row;
        scratch.block[b].narrow = narrow + b * ROWS_PER_BLOCK * LANES;
    }
    NAME(pack_classes)(&scratch, pass->w, rows->intercept, scratch.weights, scratch.intercepts);
    return scratch;
}

ALWAYS_INLINE void NAME(read_group)(const struct dense_rows *rows, int64_t first, int64_t end,
                                    const struct NAME(softmax_scratch) * scratch,
                                    struct NAME(group) * group) {
    group->counted = 0;
    group->weighted = rows->weights != NULL;
    for (int b = 0; b < 2; b++) {
        const int at = b * ROWS_PER_BLOCK;
        struct NAME(block) block;
        group->counted |= NAME(read_multiplicity)(rows, first + at, end, ROWS_PER_BLOCK,
                                                  group->count + at) != NULL;
        NAME(read_block)(rows, first + at, end - first - at, &scratch->layout, &scratch->block[b],
                         &block);
        if (rows->clip_norms)
            NAME(read_clip_norms)(rows, first + at, ROWS_PER_BLOCK, &block);
        read_weights(rows, first + at, end, ROWS_PER_BLOCK, group->weight + at);
        memcpy(group->row + at, block.row, sizeof block.row);
        memcpy(group->y + at, block.y, sizeof block.y);
        memcpy(group->norm + at, block.norm, sizeof block.norm);
        memcpy(group->scale + at, block.scale, sizeof block.scale);
    }
}

/* product[k * ROWS_PER_GROUP + i] = <row i, weights of class k> for ROWS_PER_PRODUCT rows and the
 * classes of one tile. Each product has LANES partial sums, as in dot(). */
ALWAYS_INLINE void NAME(multiply_tile)(const REAL *const *row, const REAL *restrict tile,
                                       const struct NAME(layout) * layout, const int width,
                                       double *product) {
    VECTOR sums[ROWS_PER_PRODUCT][CLASSES_PER_TILE][VECTORS_PER_UNIT];
    for (int v = 0; v < VECTORS_PER_UNIT; v++) {
        const REAL *w = tile + v * VECTOR_LANES;
        VECTOR sum[ROWS_PER_PRODUCT][CLASSES_PER_TILE] = {{{0}}};
        for (int64_t unit = 0; unit < layout->units; unit++) {
            const int64_t offset = NAME(unit_offset)(layout, unit) + v * VECTOR_LANES;
            VECTOR x[ROWS_PER_PRODUCT];
            for (int i = 0; i < ROWS_PER_PRODUCT; i++)
                x[i] = *(const VECTOR *)(row[i] + offset);
            for (int k = 0; k < width; k++) {
                const VECTOR weight = *(const VECTOR *)(w + k * LANES);
                for (int i = 0; i < ROWS_PER_PRODUCT; i++)
                    sum[i][k] += x[i] * weight;
            }
            w += width * LANES;
        }
        for (int i = 0; i < ROWS_PER_PRODUCT; i++)
            for (int k = 0; k < width; k++)
                sums[i][k][v] = sum[i][k];
    }
    for (int i = 0; i < ROWS_PER_PRODUCT; i++)
        for (int k = 0; k < width; k++)
            product[k * ROWS_PER_GROUP + i] = (double)NAME(fold)(sums[i][k]);
}

/* scores[k * ROWS_PER_GROUP + i] = scale_i * (<x_i, w_k> + intercept_k). Prefetches rows of a batch
 * from `next` on. */
static void NAME(score_group)(const struct dense_rows *rows, int64_t next,
                              const struct NAME(group) * group,
                              const struct NAME(softmax_scratch) * scratch, const REAL *packed,
                              const double *intercepts, double *scores) {
    const struct NAME(layout) *layout = &scratch->layout;
    const int64_t size = layout->units * LANES, n_classes = scratch->n_classes;
    for (int64_t first = 0; first < n_classes; first += CLASSES_PER_TILE)
        for (int i = 0; i < ROWS_PER_GROUP; i += ROWS_PER_PRODUCT) {
            for (int ahead = i; ahead < i + ROWS_PER_PRODUCT && first == 0; ahead++)
                NAME(prefetch_row)(rows, next + ahead);
#define MULTIPLY(WIDTH)                                                                            \
    NAME(multiply_tile)(group->row + i, packed + first * size, layout, WIDTH,                      \
                        scores + first * ROWS_PER_GROUP + i);
            FOR_TILE_WIDTH(tile_width(n_classes, first), MULTIPLY)
#undef MULTIPLY
        }
    for (int64_t k = 0; k < n_classes; k++)
        FOR_EACH_ROW(i)
    scores[k * ROWS_PER_GROUP + i] =
        group->scale[i] * (scores[k * ROWS_PER_GROUP + i] + intercepts[k]);
}

/* Reads a group of rows and computes its scores. */
ALWAYS_INLINE void NAME(read_scores)(const struct dense_rows *rows, int64_t first, int64_t end,
                                     const struct NAME(softmax_scratch) * scratch,
                                     struct NAME(group) * group) {
    NAME(read_group)(rows, first, end, scratch, group);
    NAME(score_group)(rows, first + ROWS_PER_GROUP, group, scratch, scratch->weights,
                      scratch->intercepts, scratch->scores);
}

/* factors[i * n_classes + k] = residual * factor_i in the row's type; non-finite and subnormal
 * values become 0, see clamp_factors(). */
ALWAYS_INLINE void NAME(write_factors)(const double *residuals, const double *factor,
                                       int64_t n_classes, REAL *factors) {
    for (int64_t k = 0; k < n_classes; k++)
        for (int i = 0; i < ROWS_PER_GROUP; i++) {
            const double value = residuals[k * ROWS_PER_GROUP + i] * factor[i];
            const double magnitude = fabs(value);
            const int passes = (magnitude <= (double)REAL_MAX) & (magnitude >= (double)REAL_MIN);
            factors[i * n_classes + k] = passes ? (REAL)value : (REAL)0;
        }
}

/* Adds factor_ik x_i over a group of rows, for one unit and the classes of a tile; if `rounded`,
 * bit patterns of factor_ik x_i + shift, see add_rounded_rows(). */
ALWAYS_INLINE void NAME(add_tile)(const REAL *const *row, int64_t offset, const REAL *factors,
                                  int64_t n_classes, const int width, const int rounded, REAL shift,
                                  void *accumulator) {
    for (int v = 0; v < VECTORS_PER_UNIT; v += VECTORS_PER_SUM) {
        UNSIGNED_VECTOR bits[CLASSES_PER_TILE][VECTORS_PER_SUM];
        VECTOR sum[CLASSES_PER_TILE][VECTORS_PER_SUM];
        REAL *place = (REAL *)accumulator + v * VECTOR_LANES;
        for (int k = 0; k < width; k++)
            for (int u = 0; u < VECTORS_PER_SUM; u++) {
                bits[k][u] = *(const UNSIGNED_VECTOR *)(place + k * LANES + u * VECTOR_LANES);
                sum[k][u] = *(const VECTOR *)(place + k * LANES + u * VECTOR_LANES);
            }
        for (int i = 0; i < ROWS_PER_GROUP; i++) {
            const REAL *at = row[i] + offset + v * VECTOR_LANES;
            VECTOR x[VECTORS_PER_SUM];
            for (int u = 0; u < VECTORS_PER_SUM; u++)
                x[u] = *(const VECTOR *)(at + u * VECTOR_LANES);
            for (int k = 0; k < width; k++) {
                const VECTOR factor = factors[i * n_classes + k] - (VECTOR){0};
                for (int u = 0; u < VECTORS_PER_SUM; u++)
                    if (rounded)
                        bits[k][u] += (UNSIGNED_VECTOR)(factor * x[u] + shift);
                    else
                        sum[k][u] += factor * x[u];
            }
        }
        for (int k = 0; k < width; k++)
            for (int u = 0; u < VECTORS_PER_SUM; u++)
                if (rounded)
                    *(UNSIGNED_VECTOR *)(place + k * LANES + u * VECTOR_LANES) = bits[k][u];
                else
                    *(VECTOR *)(place + k * LANES + u * VECTOR_LANES) = sum[k][u];
    }
}

/* Adds a group of rows to the sums in scratch->direction. */
ALWAYS_INLINE void NAME(add_group)(const struct NAME(group) * group,
                                   const struct NAME(softmax_scratch) * scratch, const int rounded,
                                   REAL shift, struct read_ahead next) {
    const struct NAME(layout) *layout = &scratch->layout;
    const int64_t n_classes = scratch->n_classes;
    const REAL *factors = scratch->factors;
    for (int64_t unit = 0; unit < layout->units; unit++) {
        const int64_t offset = NAME(unit_offset)(layout, unit);
        read_ahead(&next);
        for (int64_t first = 0; first < n_classes; first += CLASSES_PER_TILE) {
            const int64_t width = tile_width(n_classes, first);
            REAL *place = scratch->direction + (first * layout->units + unit * width) * LANES;
#define ADD(WIDTH)                                                                                 \
    NAME(add_tile)(group->row, offset, factors + first, n_classes, WIDTH, rounded, shift, place);
            FOR_TILE_WIDTH(width, ADD)
#undef ADD
        }
    }
}

/* Runs STATEMENT for each entry of the sums that counts: from `entry` to place `to`. */
#define FOR_EACH_SUM(STATEMENT)                                                                    \
    for (int64_t unit = 0; unit < layout->units; unit++)                                           \
        for (int lane = 0; lane < LANES; lane++) {                                                 \
            const int64_t column = NAME(unit_offset)(layout, unit) + lane;                         \
            if (column < unit * LANES || column >= layout->n_columns)                              \
                continue;                                                                          \
            for (int64_t first = 0; first < n_classes; first += CLASSES_PER_TILE) {                \
                const int64_t width = tile_width(n_classes, first);                                \
                const int64_t tile = (first * layout->units + unit * width) * LANES + lane;        \
                for (int64_t k = 0; k < width; k++) {                                              \
                    const int64_t entry = tile + k * LANES, to = column * n_classes + first + k;   \
                    STATEMENT                                                                      \
                }                                                                                  \
            }                                                                                      \
        }

/* sum_out += accumulator / its `added` shifts removed; accumulator = 0. */
static void NAME(flush_rounded_classes)(const struct NAME(softmax_scratch) * scratch, REAL shift,
                                        UNSIGNED added, int64_t *sum_out) {
    const struct NAME(layout) *layout = &scratch->layout;
    const int64_t n_classes = scratch->n_classes;
    UNSIGNED *accumulator = (UNSIGNED *)scratch->direction;
    const UNSIGNED surplus = NAME(bits)(shift) * added;
    FOR_EACH_SUM(sum_out[to] += (INTEGER)(accumulator[entry] - surplus);)
    memset(accumulator, 0, n_classes * layout->units * UNIT_BYTES);
}

static void NAME(flush_plain_classes)(const struct NAME(softmax_scratch) * scratch,
                                      double *sum_out) {
    const struct NAME(layout) *layout = &scratch->layout;
    const int64_t n_classes = scratch->n_classes;
    REAL *accumulator = scratch->direction;
    FOR_EACH_SUM(sum_out[to] += (double)accumulator[entry];)
    memset(accumulator, 0, n_classes * layout->units * UNIT_BYTES);
}
#undef FOR_EACH_SUM

#endif
