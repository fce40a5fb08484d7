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
#include "passes/row_ranges.h"
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
    struct strip_store strips;
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
    kept->source = (struct row_source){.matrix = sparse, .expand = expand_sparse, .sparse = sparse};
    kept->type = type;
    kept->n_rows = n;
    kept->n_columns = d;
}

/* So wide that gradients are added up by strips of columns, in 16 slabs of rows. Columns jump by up
 * to 2 * WIDE_COLUMNS / WIDE_PER_ROW, so that some rows have fewer entries. */
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
    kept->strips = (struct strip_store){0};
    kept->sparse = (struct sparse_matrix){.values = values,
                                          .starts = starts,
                                          .columns = columns,
                                          .n_rows = WIDE_ROWS,
                                          .n_columns = WIDE_COLUMNS,
                                          .n_entries = at,
                                          .type = type,
                                          .index = INDEX_I32,
                                          .store = &kept->strips};
    kept->source = (struct row_source){
        .matrix = &kept->sparse, .expand = expand_sparse, .sparse = &kept->sparse};
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
                                       .columns = &kept->columns};
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
    kept->source = (struct row_source){.matrix = table, .expand = expand_tabular, .table = table};
    kept->type = REAL_F64;
    kept->n_rows = n;
    kept->n_columns = d;
}

static void close_table(struct kept_rows *kept) {
    free_tabular_plan(&kept->table);
}

/* -- passes -- */

enum { KEPT_STEPS = 6, KEPT_CLASSES = 3, KEPT_MODELS = 10 };

/* One pass after the other over the same rows. */
struct passes {
    const struct program *program;
    const struct kernel_table *kernels;
    enum real_type type;
    int n_threads;
    struct dense_rows rows;
    int64_t dimension;
    double *w, *direction, *steps, *sum, *p;
};

static void run_sums(const struct passes *passes, struct dense_rows rows) {
    const struct program *program = passes->program;
    const struct kernel_table *kernels = passes->kernels;
    const struct loss losses[] = {{LOSS_LOGISTIC, 0.0, INFINITY}, {LOSS_HUBER, 0.5, INFINITY}};
    const int64_t d = passes->dimension;
    const double evenly[KEPT_STEPS] = {0, 1, 2, 3, 4, 5};
    int64_t *integers = integer_room(program, 2 * d + 1);
    int64_t *scores = integer_room(program, KEPT_STEPS);
    double total = 0.0;
    for (int kind = 0; kind < 2; kind++) {
        const struct loss loss = losses[kind];
        rows.predictions = passes->p;
        stop_if(all_clipped_gradient_sum(kernels, passes->type, &rows, passes->n_threads, loss,
                                         passes->w, 0.5, 0x1p-22, integers));
        program->integers("gradient", integers, d);
        for (int with = 0; with < 2 && !rows.batch; with++) {
            rows.predictions = with ? passes->p : NULL;
            stop_if(all_clipped_loss_sums(
                kernels, passes->type, &rows, passes->n_threads, loss, passes->w, passes->direction,
                kind ? evenly : passes->steps, KEPT_STEPS, 0.75, 0x1p-22, scores));
            program->integers("line", scores, KEPT_STEPS);
        }
        rows.predictions = NULL;
        for (int precise = 0; precise < 2 && !rows.batch; precise++) {
            stop_if(all_gradient_sum(kernels, passes->type, &rows, passes->n_threads, loss,
                                     passes->w, precise, passes->sum, &total));
            program->reals("plain sum", passes->sum, d);
            program->reals("its loss", &total, 1);
        }
    }
    if (rows.batch)
        return;
    stop_if(all_coordinate_loss_sums(kernels, passes->type, &rows, passes->n_threads, losses[0],
                                     passes->w, 0.25, 0.5, 0x1p-40, integers));
    program->integers("axes", integers, 2 * d + 1);
}

/* Ten models: more than two tiles of four, and two groups of eight. */
static void run_kept_models(const struct passes *passes, struct dense_rows rows) {
    const struct program *program = passes->program;
    const struct loss loss = {LOSS_LOGISTIC, 0.0, INFINITY};
    const int64_t size = KEPT_MODELS * passes->dimension;
    double *w = random_doubles(program, size), *clips = random_doubles(program, KEPT_MODELS);
    double *grids = random_doubles(program, KEPT_MODELS);
    int32_t *folds = program->room((size_t)rows.n_rows * sizeof *folds);
    int32_t *left_out = program->room(KEPT_MODELS * sizeof *left_out);
    int64_t *sums = integer_room(program, size);
    for (int k = 0; k < KEPT_MODELS; k++) {
        clips[k] = k % 5 ? 0.5 : 0.25;
        grids[k] = k % 3 ? 0x1p-22 : 0x1p-21;
        left_out[k] = k % 4;
    }
    for (int64_t i = 0; i < rows.n_rows; i++)
        folds[i] = (int32_t)(below(program, 6) - 1);
    for (int with = 0; with < 2; with++) {
        const struct models models = {KEPT_MODELS, w, clips, grids, with ? folds : NULL, left_out};
        stop_if(all_clipped_gradient_sums(passes->kernels, passes->type, &rows, passes->n_threads,
                                          loss, &models, sums));
        program->integers("gradients of models", sums, size);
    }
}

static void run_kept_moments(const struct passes *passes) {
    const struct program *program = passes->program;
    const struct dense_rows *rows = &passes->rows;
    const int64_t d = passes->dimension, n_out = (d + 15) / 16 * 16;
    int64_t *triangle = integer_room(program, (d + 1) * (d + 2) / 2);
    int64_t *moments = integer_room(program, 2 * d);
    double *matrix = random_doubles(program, d * n_out);
    const struct integer_rows form = {.loss = {LOSS_LOGISTIC, 0.0, INFINITY},
                                      .w = passes->w,
                                      .bound_in = 1.5,
                                      .grid = 0x1p-18,
                                      .target_factor = 0.5};
    struct integer_rows whole = form;
    whole.w = NULL;
    whole.target_factor = 0.0;
    for (int64_t i = 0; i < d * n_out; i++)
        matrix[i] = rint(matrix[i] * 0x1p18);
    stop_if(all_gram_sum(passes->kernels, passes->type, rows, passes->n_threads, &form, triangle));
    program->integers("products", triangle, (d + 1) * (d + 2) / 2);
    stop_if(all_moment_sums(passes->kernels, passes->type, rows, passes->n_threads, &whole, 0x1p30,
                            moments));
    program->integers("moments", moments, 2 * d);
    stop_if(all_norms_through(passes->kernels, passes->type, rows, passes->n_threads, &whole,
                              matrix, n_out, passes->p));
    program->reals("lengths", passes->p, rows->n_rows);
}

static void run_kept_softmax(const struct passes *passes) {
    const struct program *program = passes->program;
    const int64_t n = passes->rows.n_rows, size = passes->dimension * KEPT_CLASSES;
    struct dense_rows rows = passes->rows;
    void *classes = room_for_reals(program, passes->type, n);
    double *w = random_doubles(program, size), *direction = random_doubles(program, size);
    double *p = random_doubles(program, n * KEPT_CLASSES), total = 0.0;
    int64_t *integers = integer_room(program, size), *scores = integer_room(program, KEPT_STEPS);
    for (int64_t i = 0; i < n; i++)
        put_real(passes->type, classes, i, (double)below(program, KEPT_CLASSES));
    rows.y = classes;
    stop_if(all_clipped_softmax_gradient_sum(passes->kernels, passes->type, &rows,
                                             passes->n_threads, KEPT_CLASSES, w, 0.5, 0x1p-22,
                                             integers));
    program->integers("softmax gradient", integers, size);
    stop_if(all_clipped_softmax_loss_sums(passes->kernels, passes->type, &rows, passes->n_threads,
                                          KEPT_CLASSES, w, direction, passes->steps, KEPT_STEPS,
                                          0.75, 0x1p-22, scores));
    program->integers("softmax line", scores, KEPT_STEPS);
    stop_if(all_class_scores(passes->kernels, passes->type, &rows, passes->n_threads, KEPT_CLASSES,
                             w, p));
    program->reals("class scores", p, n * KEPT_CLASSES);
    stop_if(all_softmax_gradient_sum(passes->kernels, passes->type, &rows, passes->n_threads,
                                     KEPT_CLASSES, w, direction, &total));
    program->reals("plain softmax sum", direction, size);
}

/* Batches of two records, one of which is not a row. */
static void run_kept_sgd(const struct passes *passes) {
    const struct program *program = passes->program;
    const int64_t n = passes->rows.n_rows, d = passes->dimension, n_steps = (n + 1) / 2;
    int64_t *order = integer_room(program, n), *ends = integer_room(program, n_steps);
    double *w_sum = random_doubles(program, d);
    const struct sgd_settings settings = {{LOSS_LOGISTIC, 0.0, INFINITY}, 0.5, 0.0, 2.0, 0.01,
                                          passes->rows.n_columns,         2.0};
    struct sgd_block block = {.n_steps = n_steps, .order = order, .batch_ends = ends};
    for (int64_t i = 0; i < n; i++)
        order[i] = i == n / 2 ? n : below(program, n);
    for (int64_t t = 0; t < n_steps; t++)
        ends[t] = 2 * t + 2 < n ? 2 * t + 2 : n;
    block.step_sizes = random_doubles(program, n_steps);
    block.noise = random_doubles(program, n_steps * d);
    memcpy(passes->sum, passes->w, (size_t)d * sizeof *passes->w);
    stop_if(one_sgd_block(passes->kernels, passes->type, &passes->rows, &settings, &block,
                          passes->sum, w_sum));
    program->reals("descent", passes->sum, d);
    program->reals("its sum", w_sum, d);
}

/* All passes over the rows: once each, then with counts and in a batch where that is possible. */
static void run_kept_rows(const struct program *program, const struct kernel_table *kernels,
                          const struct kept_rows *kept, int intercept, int n_threads) {
    const int64_t n = kept->n_rows, d = kept->n_columns + intercept;
    double *norms = random_doubles(program, n);
    void *y = room_for_reals(program, kept->type, n);
    struct passes passes = {.program = program,
                            .kernels = kernels,
                            .type = kept->type,
                            .n_threads = n_threads,
                            .dimension = d,
                            .w = random_doubles(program, d),
                            .direction = random_doubles(program, d),
                            .steps = random_doubles(program, KEPT_STEPS),
                            .sum = random_doubles(program, d),
                            .p = random_doubles(program, n)};
    passes.rows = (struct dense_rows){.y = y,
                                      .norms = norms,
                                      .n_rows = n,
                                      .n_columns = kept->n_columns,
                                      .intercept = intercept,
                                      .row_norm = 1.0,
                                      .source = &kept->source};
    for (int64_t i = 0; i < n; i++)
        put_real(kept->type, y, i, i % 211 == 17 ? NAN : program->number() < 0.0 ? -1.0 : 1.0);
    stop_if(all_row_norms(kernels, kept->type, &passes.rows, n_threads, norms));
    program->reals("norms", norms, n);
    run_sums(&passes, passes.rows);
    run_kept_models(&passes, passes.rows);
    stop_if(all_predictions(kernels, kept->type, &passes.rows, n_threads, passes.w, passes.p));
    program->reals("predictions", passes.p, n);
    run_kept_moments(&passes);
    run_kept_softmax(&passes);
    run_kept_sgd(&passes);
    int64_t *counts = integer_room(program, n), *batch = integer_room(program, (n + 1) / 2);
    struct dense_rows some = passes.rows;
    for (int64_t i = 0; i < n; i++)
        counts[i] = 1 + i * i % 3;
    for (int64_t i = 0; i < n; i += 2)
        batch[i / 2] = i;
    some.counts = counts;
    run_sums(&passes, some);
    run_kept_models(&passes, some);
    some.counts = NULL;
    some.batch = batch;
    some.n_rows = (n + 1) / 2;
    run_sums(&passes, some);
}

/* Gradients before there are strips, while they are made, and by strips: all are the same. */
static void run_wide_gradients(const struct program *program, const struct kernel_table *kernels,
                               struct kept_rows *kept, int n_threads) {
    enum { GRADIENTS = 12 };
    const struct loss loss = {LOSS_LOGISTIC, 0.0, INFINITY};
    double *norms = random_doubles(program, WIDE_ROWS), *p = random_doubles(program, WIDE_ROWS);
    double *w = random_doubles(program, WIDE_COLUMNS + 1);
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
    stop_if(all_row_norms(kernels, kept->type, &rows, n_threads, norms));
    rows.predictions = p;
    for (int k = 0; k < GRADIENTS; k++) {
        stop_if(all_clipped_gradient_sum(kernels, kept->type, &rows, n_threads, loss, w, 0.5,
                                         0x1p-22, k ? sum : first));
        stop_if(k && memcmp(first, sum, (WIDE_COLUMNS + 1) * sizeof *sum) != 0);
    }
    stop_if(count_strips(&kept->strips) == 0);
    program->integers("wide gradient", first, WIDE_COLUMNS + 1);
    program->reals("its predictions", p, WIDE_ROWS);
    free_strips(&kept->strips);
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
