/* Rows that are kept sparse, column by column or as tables, all passes over them, and the index of
 * records: for the programs of this folder, which say where arrays lie and what becomes of
 * results. */
#ifndef KEPT_ROWS_H
#define KEPT_ROWS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/column_panels.h"
#include "dense/columns_matrix.h"
#include "records/record_index.h"
#include "dense/row_blocks.h"
#include "passes/run_pass.h"
#include "sgd/sgd_steps.h"
#include "sparse/sparse_matrix.h"
#include "tabular/tabular_matrix.h"

struct program {
    void *(*room)(size_t bytes); /* for an array of exactly that size */
    double (*number)(void);      /* random, between -1 and 1 */
    void (*integers)(const char *what, const int64_t *values, int64_t count);
    void (*reals)(const char *what, const double *values, int64_t count);
};

struct kept_rows {
    struct row_source source;
    enum real_type type; /* of the dense rows that are meant */
    int64_t n_rows, n_columns;
    struct sparse_matrix sparse;
    struct panel_store panels;
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

/* Entry of row i; few rows have one that breaks rules. */
static double entry_of_row(const struct program *program, int64_t i) {
    return i % 97 == 13 ? NAN : i % 97 == 34 ? INFINITY : program->number();
}

static void *room_for_reals(const struct program *program, enum real_type type, int64_t count) {
    return program->room((size_t)count * (type == REAL_F32 ? sizeof(float) : sizeof(double)));
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

/* Full rows, empty ones, and others. */
static void make_sparse(const struct program *program, enum real_type type, enum index_type index,
                        int64_t n, int64_t d, struct kept_rows *kept) {
    struct sparse_matrix *sparse = &kept->sparse;
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
            put_real(type, values, at, entry_of_row(program, place / d));
            if (index == INDEX_I32)
                ((int32_t *)columns)[at++] = (int32_t)(place % d);
            else
                ((int64_t *)columns)[at++] = place % d;
        }
    free(stored);
    *sparse = (struct sparse_matrix){.values = values,
                                     .starts = starts,
                                     .columns = columns,
                                     .n_rows = n,
                                     .n_columns = d,
                                     .n_entries = starts[n],
                                     .type = type,
                                     .index = index};
    int64_t row = 0;
    stop_if(sparse_check(sparse, &row) != SPARSE_SOUND);
    kept->source = (struct row_source){
        .matrix = sparse, .expand = expand_sparse, .representation = SPARSE_ROWS};
    kept->type = type;
    kept->n_rows = n;
    kept->n_columns = d;
}

/* So wide that gradients are added up by panels of columns, in 16 row_panels of rows. Columns jump
 * by up to 2 * WIDE_COLUMNS / WIDE_PER_ROW, so that some rows have fewer entries. */
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
            put_real(type, values, k, entry_of_row(program, i));
    kept->panels = (struct panel_store){0};
    kept->sparse = (struct sparse_matrix){.values = values,
                                          .starts = starts,
                                          .columns = columns,
                                          .n_rows = WIDE_ROWS,
                                          .n_columns = WIDE_COLUMNS,
                                          .n_entries = at,
                                          .type = type,
                                          .index = INDEX_I32,
                                          .store = &kept->panels};
    kept->source = (struct row_source){
        .matrix = &kept->sparse, .expand = expand_sparse, .representation = SPARSE_ROWS};
    kept->type = type;
    kept->n_rows = WIDE_ROWS;
    kept->n_columns = WIDE_COLUMNS;
}

static void make_columns(const struct program *program, const struct kernel_table *kernels,
                         enum real_type type, int64_t n, int64_t d, struct kept_rows *kept) {
    const void **columns = program->room((size_t)d * sizeof *columns);
    for (int64_t j = 0; j < d; j++) {
        void *column = room_for_reals(program, type, n);
        for (int64_t i = 0; i < n; i++)
            put_real(type, column, i, entry_of_row(program, i));
        columns[j] = column;
    }
    kept->columns = (struct columns_matrix){columns, d};
    kept->source = (struct row_source){.matrix = &kept->columns,
                                       .expand = kernels->expand_columns[type],
                                       .representation = COLUMN_ROWS};
    kept->type = type;
    kept->n_rows = n;
    kept->n_columns = d;
}

static int64_t bytes_of_number(enum numeric_type type) {
    static const int64_t bytes[] = {sizeof(float), sizeof(double), 1, 2};
    return bytes[type];
}

static void put_number(const struct program *program, enum numeric_type type, void *numbers,
                       int64_t at, int64_t i) {
    const double value = i % 3 ? entry_of_row(program, i) : 0.0;
    if (type == NUMERIC_F32)
        ((float *)numbers)[at] = (float)value;
    else if (type == NUMERIC_F64)
        ((double *)numbers)[at] = value;
    else if (type == NUMERIC_U8)
        ((uint8_t *)numbers)[at] = (uint8_t)below(program, 256);
    else
        ((uint16_t *)numbers)[at] = (uint16_t)below(program, 300);
}

/* Numbers and categories by turns, codes that are no category included. close_table() ends it. */
static void make_table(const struct program *program, enum numeric_type type, int code_bytes,
                       int64_t n, int64_t n_numeric, int64_t n_categorical,
                       struct kept_rows *kept) {
    int64_t *places = integer_room(program, n_numeric), d = 0;
    int64_t *first = integer_room(program, n_categorical);
    int64_t *sizes = integer_room(program, n_categorical);
    for (int64_t k = 0, j = 0; k < n_numeric || j < n_categorical;) {
        if (k < n_numeric)
            places[k++] = d++;
        if (k < n_numeric && k % 5 == 2)
            continue; /* neighbours */
        if (j < n_categorical) {
            first[j] = d;
            sizes[j] = 1 + 7 * j % 12;
            d += sizes[j++];
        }
    }
    void *numbers = program->room((size_t)(n * n_numeric * bytes_of_number(type)));
    void *codes = program->room((size_t)(n * n_categorical * code_bytes));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < n_numeric; k++)
            put_number(program, type, numbers, i * n_numeric + k, i);
        for (int64_t j = 0; j < n_categorical; j++) {
            const int64_t code = below(program, sizes[j] + 1);
            if (code_bytes == 1)
                ((uint8_t *)codes)[i * n_categorical + j] = (uint8_t)code;
            else
                ((uint16_t *)codes)[i * n_categorical + j] = (uint16_t)code;
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
    stop_if(plan_tabular(table));
    kept->source = (struct row_source){
        .matrix = table, .expand = expand_tabular, .representation = TABULAR_ROWS};
    kept->type = REAL_F64;
    kept->n_rows = n;
    kept->n_columns = d;
}

static void close_table(struct kept_rows *kept) {
    free_tabular_plan(&kept->table);
}

/* -- passes -- */

enum { KEPT_STEPS = 6, KEPT_CLASSES = 3, KEPT_MODELS = 10 };

static const struct loss LOGISTIC = {LOSS_LOGISTIC, 0.0, INFINITY};
static const struct loss HUBER = {LOSS_HUBER, 0.5, INFINITY};

/* One pass after the other over the same rows. */
struct passes {
    const struct program *program;
    const struct kernel_table *kernels;
    enum real_type type;
    int n_threads;
    struct dense_rows rows;
    int64_t dimension;
    double *w, *direction, *steps, *p;
};

/* Makes a pass, and tells the program what came out. */
static void *run_one(const struct passes *passes, const struct dense_rows *rows, const char *what,
                     struct pass pass) {
    const struct program *program = passes->program;
    const struct result result = result_of_pass(rows, &pass);
    const int64_t size = result_size(&result);
    int64_t *out = integer_room(program, size);
    stop_if(run_pass(passes->kernels, passes->type, rows, &pass, passes->n_threads, out));
    if (result.combine == ADD_INTEGERS)
        program->integers(what, out, size);
    else
        program->reals(what, (const double *)out, size);
    return out;
}

/* With the arguments that most passes read. */
static struct pass usual_pass(const struct passes *passes, enum pass_kind kind) {
    struct pass pass = {.kind = kind, .loss = LOGISTIC, .w = passes->w, .with_loss = 1};
    pass.direction = passes->direction;
    pass.steps = passes->steps;
    pass.n_steps = KEPT_STEPS;
    pass.inner_clip = 0.5;
    pass.clip = 0.75;
    pass.grid = 0x1p-22;
    return pass;
}

static void run_sums(const struct passes *passes, struct dense_rows rows) {
    static const double evenly[KEPT_STEPS] = {0, 1, 2, 3, 4, 5};
    for (int kind = 0; kind < 2; kind++) {
        struct pass pass = usual_pass(passes, PASS_clipped_gradient_sum);
        pass.loss = kind ? HUBER : LOGISTIC;
        pass.steps = kind ? evenly : passes->steps;
        rows.predictions = passes->p;
        run_one(passes, &rows, "gradient", pass);
        pass.kind = PASS_clipped_loss_sums;
        for (int with = 0; with < 2 && !rows.batch; with++) {
            rows.predictions = with ? passes->p : NULL;
            run_one(passes, &rows, "line", pass);
        }
        rows.predictions = NULL;
        pass.kind = PASS_gradient_sum;
        for (pass.precise = 0; pass.precise < 2 && !rows.batch; pass.precise++)
            run_one(passes, &rows, "plain sum and loss", pass);
    }
    struct pass axes = usual_pass(passes, PASS_coordinate_loss_sums);
    axes.stride = 0.25;
    axes.clip = 0.5;
    axes.grid = 0x1p-40;
    if (!rows.batch)
        run_one(passes, &rows, "axes", axes);
}

/* Ten models: more than two tiles of four, and two groups of eight. */
static void run_kept_models(const struct passes *passes, struct dense_rows rows) {
    const struct program *program = passes->program;
    double *clips = random_doubles(program, KEPT_MODELS);
    double *grids = random_doubles(program, KEPT_MODELS);
    int32_t *folds = program->room((size_t)rows.n_rows * sizeof *folds);
    int32_t *left_out = program->room(KEPT_MODELS * sizeof *left_out);
    struct pass pass = usual_pass(passes, PASS_clipped_gradient_sums);
    pass.w = random_doubles(program, KEPT_MODELS * passes->dimension);
    pass.n_models = KEPT_MODELS;
    pass.inner_clips = clips;
    pass.grids = grids;
    pass.left_out = left_out;
    for (int k = 0; k < KEPT_MODELS; k++) {
        clips[k] = k % 5 ? 0.5 : 0.25;
        grids[k] = k % 3 ? 0x1p-22 : 0x1p-21;
        left_out[k] = k % 4;
    }
    for (int64_t i = 0; i < rows.n_rows; i++)
        folds[i] = (int32_t)(below(program, 6) - 1);
    run_one(passes, &rows, "gradients of models", pass);
    pass.folds = folds;
    run_one(passes, &rows, "gradients of models", pass);
}

static void run_kept_moments(const struct passes *passes) {
    const int64_t d = passes->dimension, n_out = (d + 15) / 16 * 16;
    double *matrix = random_doubles(passes->program, d * n_out);
    struct pass pass = usual_pass(passes, PASS_gram_sum);
    pass.inner_clip = 1.5;
    pass.grid = 0x1p-18;
    pass.target_factor = 0.5;
    run_one(passes, &passes->rows, "products", pass);
    pass.w = NULL;
    pass.target_factor = 0.0;
    pass.kind = PASS_moment_sums;
    pass.clip = 0x1p30;
    run_one(passes, &passes->rows, "moments", pass);
    for (int64_t i = 0; i < d * n_out; i++)
        matrix[i] = rint(matrix[i] * 0x1p18);
    pass.kind = PASS_norms_through;
    pass.matrix = matrix;
    pass.n_out = n_out;
    run_one(passes, &passes->rows, "norms through a matrix", pass);
}

static void run_kept_softmax(const struct passes *passes) {
    const struct program *program = passes->program;
    const int64_t n = passes->rows.n_rows, size = passes->dimension * KEPT_CLASSES;
    struct dense_rows rows = passes->rows;
    void *classes = room_for_reals(program, passes->type, n);
    struct pass pass = usual_pass(passes, PASS_row_norms);
    pass.n_classes = KEPT_CLASSES;
    pass.w = random_doubles(program, size);
    pass.direction = random_doubles(program, size);
    for (int64_t i = 0; i < n; i++)
        put_real(passes->type, classes, i, (double)below(program, KEPT_CLASSES));
    rows.y = classes;
    for (int kind = 0; kind < N_PASSES; kind++)
        if (passes->kernels->routes[SOFTMAX_ROWS][kind].kernel[passes->type]) {
            pass.kind = (enum pass_kind)kind;
            run_one(passes, &rows, "softmax", pass);
        }
}

/* Batches of two records, one of which is not a row. */
static void run_kept_sgd(const struct passes *passes) {
    const struct program *program = passes->program;
    const int64_t n = passes->rows.n_rows, d = passes->dimension, n_steps = (n + 1) / 2;
    int64_t *order = integer_room(program, n), *ends = integer_room(program, n_steps);
    double *w = random_doubles(program, d), *w_sum = random_doubles(program, d);
    const struct sgd_settings settings = {{LOSS_LOGISTIC, 0.0, INFINITY}, 0.5, 0.0, 2.0, 0.01,
                                          passes->rows.n_columns,         2.0};
    struct sgd_block block = {
        .w = w, .w_sum = w_sum, .n_steps = n_steps, .order = order, .batch_ends = ends};
    for (int64_t i = 0; i < n; i++)
        order[i] = i == n / 2 ? n : below(program, n);
    for (int64_t t = 0; t < n_steps; t++)
        ends[t] = 2 * t + 2 < n ? 2 * t + 2 : n;
    block.step_sizes = random_doubles(program, n_steps);
    block.noise = random_doubles(program, n_steps * d);
    memcpy(w, passes->w, (size_t)d * sizeof *w);
    stop_if(run_sgd_block(passes->kernels, passes->type, &passes->rows, &settings, &block));
    program->reals("descent", w, d);
    program->reals("its sum", w_sum, d);
}

/* All passes over the rows: once each, then with counts and in a batch where that is possible. */
static void run_kept_rows(const struct program *program, const struct kernel_table *kernels,
                          const struct kept_rows *kept, int intercept, int n_threads) {
    const int64_t n = kept->n_rows, d = kept->n_columns + intercept;
    void *y = room_for_reals(program, kept->type, n);
    struct passes passes = {.program = program,
                            .kernels = kernels,
                            .type = kept->type,
                            .n_threads = n_threads,
                            .dimension = d,
                            .w = random_doubles(program, d),
                            .direction = random_doubles(program, d),
                            .steps = random_doubles(program, KEPT_STEPS),
                            .p = random_doubles(program, n)};
    passes.rows = (struct dense_rows){.y = y,
                                      .n_rows = n,
                                      .n_columns = kept->n_columns,
                                      .intercept = intercept,
                                      .row_norm = 1.0,
                                      .source = &kept->source};
    for (int64_t i = 0; i < n; i++)
        put_real(kept->type, y, i, i % 211 == 17 ? NAN : program->number() < 0.0 ? -1.0 : 1.0);
    passes.rows.norms =
        run_one(&passes, &passes.rows, "norms", (struct pass){.kind = PASS_row_norms});
    run_sums(&passes, passes.rows);
    run_kept_models(&passes, passes.rows);
    run_one(&passes, &passes.rows, "predictions", usual_pass(&passes, PASS_predictions));
    run_kept_moments(&passes);
    run_kept_softmax(&passes);
    run_kept_sgd(&passes);
    int64_t *counts = integer_room(program, n), *batch = integer_room(program, (n + 1) / 2);
    struct dense_rows some = passes.rows;
    for (int64_t i = 0; i < n; i++)
        counts[i] = 1 + i * i % 3;
    for (int64_t i = 0; i < n; i += 2)
        batch[i / 2] = i;
    some.multiplicity = counts;
    run_sums(&passes, some);
    run_kept_models(&passes, some);
    some.multiplicity = NULL;
    some.batch = batch;
    some.n_rows = (n + 1) / 2;
    run_sums(&passes, some);
}

/* Gradients before there are panels, while they are made, and by panels: all are the same. */
static void run_wide_gradients(const struct program *program, const struct kernel_table *kernels,
                               struct kept_rows *kept, int n_threads) {
    enum { GRADIENTS = 12 };
    double *norms = random_doubles(program, WIDE_ROWS);
    const struct pass norm_pass = {.kind = PASS_row_norms};
    const struct pass pass = {.kind = PASS_clipped_gradient_sum,
                              .loss = LOGISTIC,
                              .w = random_doubles(program, WIDE_COLUMNS + 1),
                              .inner_clip = 0.5,
                              .grid = 0x1p-22};
    int64_t *first = integer_room(program, WIDE_COLUMNS + 1);
    int64_t *sum = integer_room(program, WIDE_COLUMNS + 1);
    void *y = room_for_reals(program, kept->type, WIDE_ROWS);
    for (int64_t i = 0; i < WIDE_ROWS; i++)
        put_real(kept->type, y, i, program->number() < 0.0 ? -1.0 : 1.0);
    struct dense_rows rows = {.y = y,
                              .norms = norms,
                              .n_rows = WIDE_ROWS,
                              .n_columns = WIDE_COLUMNS,
                              .intercept = 1,
                              .row_norm = 1.0,
                              .source = &kept->source};
    stop_if(run_pass(kernels, kept->type, &rows, &norm_pass, n_threads, norms));
    rows.predictions = random_doubles(program, WIDE_ROWS);
    for (int k = 0; k < GRADIENTS; k++) {
        stop_if(run_pass(kernels, kept->type, &rows, &pass, n_threads, k ? sum : first));
        stop_if(k && memcmp(first, sum, (WIDE_COLUMNS + 1) * sizeof *sum) != 0);
    }
    stop_if(count_panels(&kept->panels) == 0);
    program->integers("wide gradient", first, WIDE_COLUMNS + 1);
    program->reals("its predictions", rows.predictions, WIDE_ROWS);
    free_panels(&kept->panels);
}

/* Which of n rows records belong to; some rows have none. */
static void run_record_index(const struct program *program, int64_t n) {
    int64_t *ends = integer_room(program, n), n_records = 0;
    for (int64_t i = 0; i < n; i++)
        ends[i] = n_records += below(program, 4) * (i % 5 ? 1 : 9);
    struct record_index index = {.ends = ends, .n_rows = n, .n_records = n_records};
    index.guide = integer_room(program, record_guide_size(&index));
    record_guide_fill(&index);
    int64_t *records = integer_room(program, n_records + 2);
    int64_t *rows = integer_room(program, n_records + 2);
    for (int64_t i = 0; i < n_records + 2; i++)
        records[i] = i - 1;
    rows_of_records(&index, records, n_records + 2, rows);
    program->integers("rows of records", rows, n_records + 2);
}

#endif
