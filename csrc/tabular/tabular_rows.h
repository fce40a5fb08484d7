/* Blocks of tabular rows (tabular_matrix.h) for passes that never expand them: reading them, their
 * dot products with weights, and adding multiples of them up. The bits are those
 * of dense_block.h on the dense matrix. */
#ifndef DPERM_TABULAR_ROWS_H
#define DPERM_TABULAR_ROWS_H

#include "dense/dense_block.h"
#include "memory/aligned_memory.h"
#include "tabular/nonzero_rows.h"
#include "tabular/tabular_matrix.h"

enum { MAX_PIECES = 4, UNIT_WIDES = UNIT_BYTES / WIDE_BYTES };

/* The caller's workspace: tables of a pass, and the rows of a block. */
struct table_scratch {
    const struct nonzero_columns *nonzero; /* or NULL: what is read in place of the rows */
    const double *weights[2];              /* of the dense columns */
    double *piece_weights[2]; /* UNIT_DOUBLES a piece: weights, and 0 in the other lanes */
    double *entry_weights[2]; /* one an entry */
    double *numbers;          /* rows of `stride` doubles, 0 before the first and after the last */
    double *slots;            /* SLOTS a row, 0 between blocks */
    int32_t *entries;         /* n_categorical a row */
    int32_t *first_entries;   /* the same: what makes an entry of a code */
    uint64_t *number_sums;    /* stride: bit patterns */
    int64_t *number_repeats;  /* stride: integers of records beyond the first of a row */
    int64_t *entry_sums;      /* one an entry */
    wide_u64 *nonzero_sums;   /* of the intercept and the dense columns, lane by lane */
    int64_t stride;
};

static struct table_scratch table_scratch_in(struct arena *arena,
                                             const struct tabular_matrix *table,
                                             const struct nonzero_columns *nonzero) {
    const int64_t doubles = (int64_t)sizeof(double);
    struct table_scratch scratch = {.nonzero = nonzero,
                                    .stride = (table->n_numbers + UNIT_DOUBLES - 1) / UNIT_DOUBLES *
                                              UNIT_DOUBLES};
    for (int which = 0; which < 2; which++) {
        scratch.piece_weights[which] = arena_take(arena, table->n_pieces * UNIT_BYTES);
        scratch.entry_weights[which] = arena_take(arena, entries_with_spare(table) * doubles);
    }
    char *numbers = arena_take(arena, (ROWS_PER_BLOCK * scratch.stride * doubles) + 2 * UNIT_BYTES);
    scratch.numbers = numbers ? (double *)(numbers + UNIT_BYTES) : NULL;
    scratch.slots = arena_take(arena, ROWS_PER_BLOCK * SLOTS * doubles);
    const int64_t codes = ROWS_PER_BLOCK * table->n_categorical;
    scratch.entries = arena_take(arena, codes * (int64_t)sizeof(int32_t));
    scratch.first_entries = arena_take(arena, codes * (int64_t)sizeof(int32_t));
    scratch.number_sums = arena_take(arena, scratch.stride * doubles);
    scratch.number_repeats = arena_take(arena, scratch.stride * doubles);
    scratch.entry_sums = arena_take(arena, entries_with_spare(table) * doubles);
    scratch.nonzero_sums = arena_take(arena, (table->n_columns + 1) * WIDE_BYTES);
    if (nonzero)
        memset(scratch.nonzero_sums, 0, (size_t)((table->n_columns + 1) * WIDE_BYTES));
    else if (arena->memory) {
        memset(numbers, 0, (size_t)(ROWS_PER_BLOCK * scratch.stride * doubles + 2 * UNIT_BYTES));
        memset(scratch.number_sums, 0, (size_t)(scratch.stride * doubles));
        memset(scratch.number_repeats, 0, (size_t)(scratch.stride * doubles));
        memset(scratch.entry_sums, 0, (size_t)(table->n_entries * doubles));
        memset(scratch.slots, 0, ROWS_PER_BLOCK * SLOTS * sizeof(double));
        for (int64_t at = 0; at < codes; at++)
            scratch.first_entries[at] = (int32_t)table->first_entries[at % table->n_categorical];
    }
    return scratch;
}

static void pack_table_weights(const struct tabular_matrix *table, const double *w, int which,
                               struct table_scratch *scratch) {
    double *piece_weights = scratch->piece_weights[which];
    double *entry_weights = scratch->entry_weights[which];
    scratch->weights[which] = w;
    if (scratch->nonzero)
        return;
    memset(piece_weights, 0, (size_t)(table->n_pieces * UNIT_BYTES));
    for (int64_t k = 0; k < table->n_pieces; k++) {
        const struct number_piece *piece = &table->pieces[k];
        for (int lane = 0; lane < piece->n_lanes; lane++)
            piece_weights[k * UNIT_DOUBLES + piece->first_lane + lane] =
                w[piece->first_column + lane];
    }
    for (int64_t hot = 0; hot < table->n_one_hot; hot++) {
        const int64_t j = table->one_hot[hot];
        double *weights = entry_weights + table->first_entries[j];
        memcpy(weights, w + table->first_columns[j], (size_t)table->sizes[j] * sizeof *w);
        weights[table->sizes[j]] = 0.0;
    }
}

/* to[k] = from[k] as a double, whole vectors at a time; the last may cover some numbers again. */
#define CONVERT_NUMBERS(KIND, TYPE, TIMES_STEP)                                                    \
    ALWAYS_INLINE void convert_##KIND(const TYPE *restrict from, int64_t count, double step,       \
                                      double *restrict to) {                                       \
        (void)step;                                                                                \
        if (count < WIDE_DOUBLES) {                                                                \
            for (int64_t k = 0; k < count; k++)                                                    \
                to[k] = (double)from[k] TIMES_STEP;                                                \
            return;                                                                                \
        }                                                                                          \
        int64_t k = 0;                                                                             \
        for (; k + WIDE_DOUBLES <= count; k += WIDE_DOUBLES)                                       \
            *(wide_f64 *)(to + k) = doubles_of_##KIND(from + k) TIMES_STEP;                        \
        if (k < count) {                                                                           \
            k = count - WIDE_DOUBLES;                                                              \
            *(loose_wide *)(to + k) = doubles_of_##KIND(from + k) TIMES_STEP;                      \
        }                                                                                          \
    }
#define NO_STEP
#define TIMES *step
CONVERT_NUMBERS(f32, float, NO_STEP)
CONVERT_NUMBERS(f64, double, NO_STEP)
CONVERT_NUMBERS(u8, uint8_t, TIMES)
CONVERT_NUMBERS(u16, uint16_t, TIMES)
#undef NO_STEP
#undef TIMES

/* The numbers of rows `first` on, to be read ahead; nothing where a block would pass `end`, or of a
 * batch. What else belongs to these rows is prefetched at once. */
ALWAYS_INLINE struct read_ahead table_ahead(const struct dense_rows *rows, int64_t first,
                                            int64_t end, int64_t calls) {
    const struct tabular_matrix *table = table_of(rows);
    const int64_t bytes = table->n_numeric * table->number_bytes;
    struct read_ahead ahead = {(uintptr_t)table->numeric + (uintptr_t)(first * bytes), 0};
    if (first + ROWS_PER_BLOCK <= end && !rows->batch) {
        ahead.lines_per_call = (ROWS_PER_BLOCK * bytes / UNIT_BYTES + calls) / calls;
        for (int half = 0; half < ROWS_PER_BLOCK; half += 8) {
            __builtin_prefetch(rows->norms + first + half, 0, 3);
            __builtin_prefetch((const double *)rows->y + first + half, 0, 3);
        }
        __builtin_prefetch(
            (const char *)table->codes + first * table->n_categorical * table->code_bytes, 0, 3);
    }
    return ahead;
}

/* The rows of a block: row i is row place[i], or row first + i where places is NULL. */
struct table_places {
    const int64_t *place;
    int64_t first;
};

ALWAYS_INLINE int64_t place_of(const struct table_places *places, int i) {
    return places->place ? places->place[i] : places->first + i;
}

ALWAYS_INLINE void read_numbers(const struct tabular_matrix *table,
                                const struct table_places *places,
                                const struct table_scratch *scratch, struct read_ahead *ahead) {
    const int64_t count = table->n_numeric, stride = scratch->stride;
    const void *numeric = table->numeric;
    const double step = table->step;
    double *numbers = scratch->numbers;
#define CONVERT_ROWS(KIND, TYPE)                                                                   \
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {                                                     \
        read_ahead(ahead);                                                                         \
        convert_##KIND((const TYPE *)numeric + place_of(places, i) * count, count, step,           \
                       numbers + i * stride);                                                      \
    }                                                                                              \
    break;
    switch (table->numeric_type) {
    case NUMERIC_F32:
        CONVERT_ROWS(f32, float)
    case NUMERIC_F64:
        CONVERT_ROWS(f64, double)
    case NUMERIC_U8:
        CONVERT_ROWS(u8, uint8_t)
    case NUMERIC_U16:
        CONVERT_ROWS(u16, uint16_t)
    }
#undef CONVERT_ROWS
}

ALWAYS_INLINE void read_entries(const struct tabular_matrix *table,
                                const struct table_places *places,
                                const struct table_scratch *scratch) {
    const int64_t c = table->n_categorical;
    const int32_t *restrict first_entries = scratch->first_entries;
    int32_t *restrict entries = scratch->entries;
#define READ_CODES(TYPE)                                                                           \
    if (places->place)                                                                             \
        for (int i = 0; i < ROWS_PER_BLOCK; i++)                                                   \
            for (int64_t j = 0; j < c; j++)                                                        \
                entries[i * c + j] =                                                               \
                    first_entries[j] + ((const TYPE *)table->codes)[places->place[i] * c + j];     \
    else                                                                                           \
        for (int64_t at = 0; at < ROWS_PER_BLOCK * c; at++)                                        \
            entries[at] = first_entries[at] + ((const TYPE *)table->codes)[places->first * c + at];
    if (table->code_bytes == 1)
        READ_CODES(uint8_t)
    else
        READ_CODES(uint16_t)
#undef READ_CODES
}

/* to[k] = from[k], as convert_f32() for numbers that begin anywhere. */
ALWAYS_INLINE void copy_mapped(const float *restrict from, int64_t width, double *restrict to) {
    int64_t k = 0;
    for (; k + WIDE_DOUBLES <= width; k += WIDE_DOUBLES)
        *(loose_wide *)(to + k) = doubles_of_f32(from + k);
    for (; k < width; k++)
        to[k] = (double)from[k];
}

/* What the codes of mapped columns stand for, after the stored numbers. */
static __attribute__((noinline)) void read_mapped(const struct tabular_matrix *table,
                                                  const struct table_scratch *scratch) {
    for (int64_t m = 0; m < table->n_mapped; m++) {
        const struct mapped_column *mapped = &table->mapped[m];
        const int32_t *codes = scratch->entries + mapped->place;
        double *numbers = scratch->numbers + mapped->first_number;
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            copy_mapped(mapped_numbers(mapped, codes[i * table->n_categorical]), mapped->width,
                        numbers + i * scratch->stride);
    }
}

/* Numbers of rows that do not count are 0. */
static __attribute__((noinline)) void clear_rows(const struct block_f64 *block,
                                                 const struct table_scratch *scratch) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        if (!(block->norm[i] <= DBL_MAX))
            memset(scratch->numbers + i * scratch->stride, 0,
                   (size_t)scratch->stride * sizeof(double));
}

/* Rows of a batch, or the last few rows, with the first one in place of those past the end. */
static __attribute__((noinline)) void read_scattered_rows(const struct dense_rows *rows,
                                                          int64_t first, int64_t count,
                                                          const struct table_scratch *scratch,
                                                          struct block_f64 *block,
                                                          struct read_ahead *ahead) {
    int64_t place[ROWS_PER_BLOCK];
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const int64_t row = first + (i < count ? i : 0);
        place[i] = rows->batch ? rows->batch[row] : row;
        read_target_f64(rows, place[i], i >= count, i, block);
    }
    const struct table_places places = {place, 0};
    read_numbers(table_of(rows), &places, scratch, ahead);
    read_entries(table_of(rows), &places, scratch);
    read_mapped(table_of(rows), scratch);
    clear_rows(block, scratch);
}

/* Targets, norms and scales of ROWS_PER_BLOCK rows, if all of them count and none is too long, as
 * is the rule; else returns 0. */
ALWAYS_INLINE int read_plain_targets(const struct dense_rows *rows, int64_t first,
                                     struct block_f64 *block) {
    const double *norm = rows->norms + first, *y = (const double *)rows->y + first;
    const double row_norm = rows->row_norm;
    int64_t unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        unusual |= !(norm[i] <= row_norm) | !(fabs(y[i]) <= DBL_MAX);
        block->norm[i] = norm[i];
        block->y[i] = y[i];
        block->scale[i] = 1.0;
    }
    return !unusual;
}

/* The same for any rows from `first` on; places past `count` are rows that do not count. */
static __attribute__((noinline)) void read_unusual_targets(const struct dense_rows *rows,
                                                           int64_t first, int64_t count,
                                                           struct block_f64 *block) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        read_target_f64(rows, first + i, i >= count, i, block);
    read_scales_f64(rows, ROWS_PER_BLOCK, block);
}

/* As read_multiplicity(), which it calls for the last few rows. */
ALWAYS_INLINE const int64_t *read_table_multiplicity(const struct dense_rows *rows, int64_t first,
                                                     int64_t end, int64_t *counts) {
    if (!rows->multiplicity || first + ROWS_PER_BLOCK > end)
        return read_multiplicity_f64(rows, first, end, ROWS_PER_BLOCK, counts);
    const int64_t *count = rows->multiplicity + first;
    int64_t others = 0;
#pragma omp simd reduction(| : others)
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        others |= count[i] ^ 1;
    return others ? count : NULL;
}

/* Rows first .. first + count - 1; places past `count` are rows that do not count. */
ALWAYS_INLINE void read_table_block(const struct dense_rows *rows, int64_t first, int64_t count,
                                    const struct table_scratch *scratch, struct block_f64 *block,
                                    struct read_ahead *ahead) {
    if (!scratch->nonzero && (rows->batch || count < ROWS_PER_BLOCK)) {
        read_scattered_rows(rows, first, count, scratch, block, ahead);
        read_scales_f64(rows, ROWS_PER_BLOCK, block);
        return;
    }
    const int plain = count >= ROWS_PER_BLOCK && read_plain_targets(rows, first, block);
    if (!plain)
        read_unusual_targets(rows, first, count, block);
    if (scratch->nonzero)
        return;
    const struct table_places places = {NULL, first};
    read_numbers(table_of(rows), &places, scratch, ahead);
    read_entries(table_of(rows), &places, scratch);
    if (table_of(rows)->n_mapped)
        read_mapped(table_of(rows), scratch);
    if (!plain)
        clear_rows(block, scratch);
}

/* slots += products of the numbers of `count` pieces with the same accumulator. */
ALWAYS_INLINE void add_pieces(const struct number_piece *piece, const int count,
                              const double *weights, const double *numbers, int64_t stride,
                              double *slots) {
    double *to = slots + piece->accumulator * UNIT_DOUBLES;
    const double *from[MAX_PIECES];
    for (int k = 0; k < count; k++)
        from[k] = numbers + piece[k].first_number - piece[k].first_lane;
    for (int v = 0; v < UNIT_WIDES; v++) {
        wide_f64 weight[MAX_PIECES];
        for (int k = 0; k < count; k++)
            weight[k] = *(const wide_f64 *)(weights + k * UNIT_DOUBLES + v * WIDE_DOUBLES);
        for (int i = 0; i < ROWS_PER_BLOCK; i++) {
            wide_f64 *place = (wide_f64 *)(to + i * SLOTS + v * WIDE_DOUBLES);
            wide_f64 sum = *place;
            for (int k = 0; k < count; k++)
                sum += *(const loose_wide *)(from[k] + i * stride + v * WIDE_DOUBLES) * weight[k];
            *place = sum;
        }
    }
}

/* Pieces k .. end - 1, as many at a time as share their accumulator. */
ALWAYS_INLINE void add_numbers(const struct tabular_matrix *table, int64_t k, int64_t end,
                               const double *weights, const double *numbers, int64_t stride,
                               double *slots) {
    while (k < end) {
        const struct number_piece *piece = &table->pieces[k];
        const double *weight = weights + k * UNIT_DOUBLES;
        int count = 1;
        while (count < MAX_PIECES && k + count < end &&
               piece[count].accumulator == piece->accumulator)
            count++;
        k += count;
        switch (count) {
        case 1:
            add_pieces(piece, 1, weight, numbers, stride, slots);
            break;
        case 2:
            add_pieces(piece, 2, weight, numbers, stride, slots);
            break;
        case 3:
            add_pieces(piece, 3, weight, numbers, stride, slots);
            break;
        default:
            add_pieces(piece, MAX_PIECES, weight, numbers, stride, slots);
        }
    }
}

/* slots += weights of the categories of a column. */
ALWAYS_INLINE void add_category(const int32_t *entries, int64_t n_categorical,
                                const double *weights, const int32_t *slot, double *slots) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        const int32_t entry = entries[i * n_categorical];
        slots[i * SLOTS + slot[entry]] += weights[entry];
    }
}

/* p[i] = <x_i, w>. */
static void multiply_table_block(const struct tabular_matrix *table,
                                 const struct table_scratch *scratch, int which,
                                 struct read_ahead *ahead, double *p) {
    const double *weights = scratch->piece_weights[which], *numbers = scratch->numbers;
    const int64_t stride = scratch->stride;
    double *slots = scratch->slots;
    for (int64_t s = 0, k = 0, hot = 0; s < table->n_segments; s++) {
        add_numbers(table, k, table->segments[s].end_piece, weights, numbers, stride, slots);
        k = table->segments[s].end_piece;
        for (; hot < table->segments[s].end_one_hot; hot++)
            add_category(scratch->entries + table->one_hot[hot], table->n_categorical,
                         scratch->entry_weights[which], table->slots, slots);
    }
    for (int i = 0; i < ROWS_PER_BLOCK; i++) {
        VECTOR sum[VECTORS_PER_UNIT];
        read_ahead(ahead);
        for (int v = 0; v < VECTORS_PER_UNIT; v++) {
            VECTOR *at = (VECTOR *)(slots + i * SLOTS + v * VECTOR_LANES);
            sum[v] = (at[0] + at[VECTORS_PER_UNIT]) +
                     (at[2 * VECTORS_PER_UNIT] + at[3 * VECTORS_PER_UNIT]);
            for (int a = 0; a < ACCUMULATORS; a++)
                at[a * VECTORS_PER_UNIT] = (VECTOR){0};
        }
        p[i] = fold_f64(sum);
    }
}

/* p[i] = scale_i * (<x_i, w> + intercept) for the block of rows that begins with row `first`. */
static void predict_table_block(const struct tabular_matrix *table, int64_t first,
                                const struct table_scratch *scratch, int which,
                                const struct block_f64 *block, double intercept,
                                struct read_ahead *ahead, double *p) {
    if (scratch->nonzero)
        multiply_nonzero_block(table, scratch->nonzero, first, scratch->weights[which], p);
    else
        multiply_table_block(table, scratch, which, ahead, p);
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        p[i] = block->scale[i] * (p[i] + intercept);
}

/* sums += bit patterns of s_i x_i + shift for the numbers x of a block, see add_rounded_rows(). */
ALWAYS_INLINE void add_rounded_numbers(const struct table_scratch *scratch, const double *s,
                                       double shift, struct read_ahead *ahead) {
    const int64_t stride = scratch->stride;
    uint64_t *sums = scratch->number_sums;
    for (int first = 0; first < ROWS_PER_BLOCK; first += ROWS_PER_LOAD) {
        const double *numbers = scratch->numbers + first * stride;
        wide_f64 factor[ROWS_PER_LOAD];
        for (int i = 0; i < ROWS_PER_LOAD; i++)
            factor[i] = s[first + i] - (wide_f64){0};
        for (int64_t k = 0; k < stride; k += WIDE_DOUBLES) {
            wide_u64 sum = *(const wide_u64 *)(sums + k);
            read_ahead(ahead);
            for (int i = 0; i < ROWS_PER_LOAD; i++)
                sum +=
                    (wide_u64)(factor[i] * *(const wide_f64 *)(numbers + i * stride + k) + shift);
            *(wide_u64 *)(sums + k) = sum;
        }
    }
}

/* What the numbers of rows that count more than once, or not at all, add beyond the first time. */
static __attribute__((noinline)) void add_number_repeats(const struct table_scratch *scratch,
                                                         int64_t n_numbers, const double *s,
                                                         const int64_t *count, double shift) {
    for (int i = 0; i < ROWS_PER_BLOCK; i++)
        if (count[i] != 1 && s[i] != 0.0)
            add_rounded_multiple_f64(scratch->numbers + i * scratch->stride, n_numbers, s[i], shift,
                                     count[i] - 1, scratch->number_repeats);
}

/* sums += rounded_i at the entries of the categories of row i. */
ALWAYS_INLINE void add_rounded_categories(const struct tabular_matrix *table,
                                          const struct table_scratch *scratch,
                                          const int64_t *rounded) {
    int64_t *sums = scratch->entry_sums;
    for (int64_t hot = 0; hot < table->n_one_hot; hot++) {
        const int32_t *entries = scratch->entries + table->one_hot[hot];
        for (int i = 0; i < ROWS_PER_BLOCK; i++)
            sums[entries[i * table->n_categorical]] += rounded[i];
    }
}

#endif
