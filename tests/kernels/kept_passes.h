/* All passes over rows of any kind, and the index of records. */
#ifndef KEPT_PASSES_H
#define KEPT_PASSES_H

#include "kept_rows.h"
#include "passes/run_pass.h"
#include "records/record_index.h"
#include "sgd/sgd_steps.h"

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
    int64_t n_steps;
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
    pass.n_steps = passes->n_steps;
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
                            .n_steps = KEPT_STEPS,
                            .p = random_doubles(program, n)};
    passes.rows = (struct dense_rows){.y = y,
                                      .n_rows = n,
                                      .n_columns = kept->n_columns,
                                      .intercept = intercept,
                                      .row_norm = 1.0,
                                      .x = kept->x,
                                      .source = kept->x ? NULL : &kept->source};
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
