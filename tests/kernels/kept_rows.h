/* Rows stored dense, sparse, column by column or as tables, for the programs of this folder, which
 * provide memory for arrays and consume the results. */
#ifndef KEPT_ROWS_H
#define KEPT_ROWS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dense/columns_matrix.h"
#include "dense/row_blocks.h"
#include "passes/run_pass.h"
#include "sgd/sgd_steps.h"
#include "sparse/sparse_matrix.h"
#include "tabular/tabular_matrix.h"

struct program {
    void *(*room)(size_t bytes); /* allocates an array of exactly that size */
    size_t *used;                /* memory in use; reset to a former value to free arrays */
    double (*number)(void);      /* random, between -1 and 1 */
    void (*integers)(const char *what, const int64_t *values, int64_t count);
    void (*reals)(const char *what, const double *values, int64_t count);
    /* run_pass() and run_sgd_block(), or replacements. */
    int (*pass)(const struct kernel_table *kernels, enum real_type type,
                const struct dense_rows *rows, const struct pass *pass, int n_threads, void *out);
    int (*descent)(const struct kernel_table *kernels, enum real_type type,
                   const struct dense_rows *rows, const struct sgd_settings *settings,
                   const struct sgd_block *block);
};

struct kept_rows {
    const void *x;                              /* of dense rows, or NULL */
    enum { USUAL, GRADIENTS, THOROUGH } extent; /* of the passes: see run_kept_rows() */
    struct row_source source;
    enum real_type type; /* of the dense rows that are represented */
    int64_t n_rows, n_columns;
    struct sparse_matrix sparse;
    struct columns_matrix columns;
    struct tabular_matrix table;
};

static void stop_if(int failed) {
    if (failed)
        exit(2);
}

static int64_t below(const struct program *program, int64_t limit) {
    const int64_t drawn = (int64_t)((program->number() + 1.0) * 0.5 * (double)limit);
    return drawn < limit ? drawn : limit - 1;
}

/* A stack of arrays, for programs without guard pages. */
static char memory[1 << 25];
static size_t memory_used;

static inline void *room_in_memory(size_t bytes) {
    void *array = memory + memory_used;
    memory_used += (bytes + 63) / 64 * 64;
    stop_if(memory_used > sizeof memory);
    return array;
}

/* Updates a fingerprint with some numbers. The sign of NaNs is ignored. */
static inline uint64_t fingerprint_of(uint64_t before, const void *numbers, int64_t count,
                                      int are_reals) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        double real;
        memcpy(&bits, (const char *)numbers + i * 8, sizeof bits);
        memcpy(&real, &bits, sizeof real);
        if (are_reals && real != real)
            bits = UINT64_C(0x7ff8000000000000);
        before = (before ^ bits) * UINT64_C(0x100000001b3) ^ before >> 29;
    }
    return before;
}

/* Entry (i, j), with more digits than grids resolve: rows have many different norms, and a few have
 * an exceptional entry. */
static double entry_of_row(const struct program *program, int64_t i, int64_t j, int64_t d) {
    static const double awkward[] = {NAN, INFINITY, -INFINITY, 3e38, 1e-40, 1e-45, -0.0};
    const double scale = i % 5 ? 1.0 : (double)(i % 13) * 0.25;
    const double entry = program->number() * scale + program->number() * 0x1p-30;
    return i % 21 == 13 && j == i % d ? awkward[i / 21 % 7] : entry;
}

static void *room_for_reals(const struct program *program, enum real_type type, int64_t count) {
    return program->room((size_t)(count * real_bytes(type)));
}

static void put_real(enum real_type type, void *array, int64_t at, double value) {
    if (type == REAL_F32)
        ((float *)array)[at] = (float)value;
    else
        ((double *)array)[at] = value;
}

static double *random_doubles(const struct program *program, int64_t count) {
    double *array = program->room((size_t)count * sizeof *array);
    for (int64_t i = 0; i < count; i++)
        array[i] = program->number();
    return array;
}

static int64_t *integer_room(const struct program *program, int64_t count) {
    int64_t *array = program->room((size_t)count * sizeof *array);
    memset(array, 0, (size_t)count * sizeof *array);
    return array;
}

static void set_shape(struct kept_rows *kept, enum real_type type, int64_t n, int64_t d) {
    kept->x = NULL;
    kept->extent = USUAL;
    kept->type = type;
    kept->n_rows = n;
    kept->n_columns = d;
}

static inline void make_dense(const struct program *program, enum real_type type, int64_t n,
                              int64_t d, struct kept_rows *kept) {
    void *x = room_for_reals(program, type, n * d);
    for (int64_t at = 0; at < n * d; at++)
        put_real(type, x, at, entry_of_row(program, at / d, at % d, d));
    set_shape(kept, type, n, d);
    kept->x = x;
}

/* Points `kept` at a sparse matrix in memory. */
static void keep_sparse(const struct sparse_matrix *sparse, struct kept_rows *kept) {
    kept->sparse = *sparse;
    kept->source = (struct row_source){
        .matrix = &kept->sparse, .expand = expand_sparse, .representation = SPARSE_ROWS};
    set_shape(kept, sparse->type, sparse->n_rows, sparse->n_columns);
}

/* Full, empty and other rows. */
static void make_sparse(const struct program *program, enum real_type type, enum index_type index,
                        int64_t n, int64_t d, struct kept_rows *kept) {
    char *stored = malloc((size_t)(n * d));
    int64_t *starts = integer_room(program, n + 1), at = 0;
    stop_if(!stored);
    for (int64_t i = 0; i < n; i++) {
        starts[i + 1] = starts[i];
        for (int64_t j = 0; j < d; j++) {
            stored[i * d + j] = i % 7 != 3 && (i % 7 == 0 || program->number() < -0.3);
            starts[i + 1] += stored[i * d + j];
        }
    }
    void *values = room_for_reals(program, type, starts[n]);
    void *columns =
        program->room((size_t)starts[n] * (index == INDEX_I32 ? sizeof(int32_t) : sizeof(int64_t)));
    for (int64_t place = 0; place < n * d; place++)
        if (stored[place]) {
            put_real(type, values, at, entry_of_row(program, place / d, place % d, d));
            if (index == INDEX_I32)
                ((int32_t *)columns)[at++] = (int32_t)(place % d);
            else
                ((int64_t *)columns)[at++] = place % d;
        }
    free(stored);
    const struct sparse_matrix sparse = {values, starts, columns, n, d, starts[n], type, index};
    int64_t row = 0;
    stop_if(sparse_check(&sparse, &row) != SPARSE_SOUND);
    keep_sparse(&sparse, kept);
}

/* So wide that kernels prefetch weights for later entries. Column indices increase in
 * steps of up to 2 * WIDE_COLUMNS / WIDE_PER_ROW, so that some rows have fewer entries. */
enum { WIDE_ROWS = 16 * 1024 + 9, WIDE_COLUMNS = (1 << 14) + 77, WIDE_PER_ROW = 8 };

static void make_wide_sparse(const struct program *program, enum real_type type,
                             struct kept_rows *kept) {
    int32_t *drawn = malloc(WIDE_ROWS * WIDE_PER_ROW * sizeof *drawn);
    int64_t *starts = integer_room(program, WIDE_ROWS + 1), at = 0;
    stop_if(!drawn);
    for (int64_t i = 0; i < WIDE_ROWS; i++) {
        int64_t j = below(program, 100);
        for (int k = 0; k < WIDE_PER_ROW && j < WIDE_COLUMNS; k++) {
            drawn[at++] = (int32_t)j;
            j += 1 + below(program, 2 * WIDE_COLUMNS / WIDE_PER_ROW);
        }
        starts[i + 1] = at;
    }
    int32_t *columns = program->room((size_t)at * sizeof *columns);
    void *values = room_for_reals(program, type, at);
    memcpy(columns, drawn, (size_t)at * sizeof *columns);
    free(drawn);
    for (int64_t i = 0; i < WIDE_ROWS; i++)
        for (int64_t k = starts[i]; k < starts[i + 1]; k++)
            put_real(type, values, k, entry_of_row(program, i, columns[k], WIDE_COLUMNS));
    const struct sparse_matrix sparse = {values,       starts, columns, WIDE_ROWS,
                                         WIDE_COLUMNS, at,     type,    INDEX_I32};
    keep_sparse(&sparse, kept);
}

static void make_columns(const struct program *program, const struct kernel_table *kernels,
                         enum real_type type, int64_t n, int64_t d, struct kept_rows *kept) {
    const void **columns = program->room((size_t)d * sizeof *columns);
    for (int64_t j = 0; j < d; j++) {
        void *column = room_for_reals(program, type, n);
        for (int64_t i = 0; i < n; i++)
            put_real(type, column, i, entry_of_row(program, i, j, d));
        columns[j] = column;
    }
    kept->columns = (struct columns_matrix){columns, d};
    kept->source =
        (struct row_source){.matrix = &kept->columns,
                            .expand = kernels->dense[type]->expand_columns,
                            .representation = COLUMN_ROWS,
                            .find_norms = kernels->dense[type]->rows[PASS_row_norms].kernel};
    set_shape(kept, type, n, d);
}

static int64_t bytes_of_number(enum numeric_type type) {
    static const int64_t bytes[] = {sizeof(float), sizeof(double), 1, 2};
    return bytes[type];
}

static void put_number(const struct program *program, enum numeric_type type, void *numbers,
                       int64_t at, int64_t i, int64_t k) {
    const double value = i % 3 ? entry_of_row(program, i, k, 4) : 0.0;
    if (type == NUMERIC_F32)
        ((float *)numbers)[at] = (float)value;
    else if (type == NUMERIC_F64)
        ((double *)numbers)[at] = value;
    else if (type == NUMERIC_U8)
        ((uint8_t *)numbers)[at] = (uint8_t)below(program, 256);
    else
        ((uint16_t *)numbers)[at] = (uint16_t)below(program, 300);
}

struct table_shape {
    int64_t n, n_numeric, n_categorical;
    int64_t run_length; /* of rows that differ in the first number alone */
    int has_maps;       /* every second column of codes has one */
};

static const float *random_map(const struct program *program, int64_t size, int64_t width) {
    float *map = program->room((size_t)((size + 1) * width) * sizeof *map);
    for (int64_t at = 0; at < (size + 1) * width; at++)
        map[at] = at < size * width ? (float)program->number() : 0.0F;
    return map;
}

/* Alternating numbers and categories, including codes of no category. Freed by close_table(). */
static void make_table(const struct program *program, enum numeric_type type, int code_bytes,
                       struct table_shape shape, struct kept_rows *kept) {
    const int64_t n = shape.n, n_numeric = shape.n_numeric, n_categorical = shape.n_categorical;
    int64_t *places = integer_room(program, n_numeric), d = 0;
    int64_t *first = integer_room(program, n_categorical);
    int64_t *sizes = integer_room(program, n_categorical);
    int64_t *widths = integer_room(program, n_categorical);
    const float **maps = program->room((size_t)n_categorical * sizeof *maps);
    for (int64_t k = 0, j = 0; k < n_numeric || j < n_categorical;) {
        if (k < n_numeric)
            places[k++] = d++;
        if (k < n_numeric && k % 5 == 2)
            continue; /* neighbours */
        if (j < n_categorical) {
            first[j] = d;
            sizes[j] = 1 + 7 * j % 12;
            widths[j] = shape.has_maps && j % 2 == 0 ? 1 + 5 * j : sizes[j];
            maps[j] = widths[j] == sizes[j] ? NULL : random_map(program, sizes[j], widths[j]);
            d += widths[j++];
        }
    }
    const size_t row_bytes = (size_t)(n_numeric * bytes_of_number(type));
    const size_t code_row_bytes = (size_t)(n_categorical * code_bytes);
    char *numbers = program->room((size_t)n * row_bytes);
    char *codes = program->room((size_t)n * code_row_bytes);
    for (int64_t i = 0; i < n; i++) {
        char *row = numbers + (size_t)i * row_bytes, *code_row = codes + (size_t)i * code_row_bytes;
        for (int64_t k = 0; k < n_numeric; k++)
            put_number(program, type, row, k, i, k);
        if (i % shape.run_length) {
            const size_t first = n_numeric ? (size_t)bytes_of_number(type) : 0;
            memcpy(row + first, row + first - row_bytes, row_bytes - first);
            memcpy(code_row, code_row - code_row_bytes, code_row_bytes);
            continue;
        }
        for (int64_t j = 0; j < n_categorical; j++) {
            const int64_t code = below(program, sizes[j] + 1);
            if (code_bytes == 1)
                ((uint8_t *)code_row)[j] = (uint8_t)code;
            else
                ((uint16_t *)code_row)[j] = (uint16_t)code;
        }
    }
    struct tabular_matrix *table = &kept->table;
    memset(table, 0, sizeof *table);
    table->numeric = numbers;
    table->codes = codes;
    table->numeric_type = type;
    table->code_bytes = code_bytes;
    table->number_bytes = (int)bytes_of_number(type);
    table->step = type == NUMERIC_U8 || type == NUMERIC_U16 ? 0x1p-8 : 1.0;
    table->n_numeric = n_numeric;
    table->n_categorical = n_categorical;
    table->n_columns = d;
    table->numeric_columns = places;
    table->first_columns = first;
    table->sizes = sizes;
    table->widths = widths;
    table->maps = maps;
    stop_if(plan_tabular(table));
    kept->source = (struct row_source){
        .matrix = table, .expand = expand_tabular, .representation = TABULAR_ROWS};
    set_shape(kept, REAL_F64, n, d);
}

static void close_table(struct kept_rows *kept) {
    free_tabular_plan(&kept->table);
}

#endif
