/* Runs all passes over rows of any representation, and the index of records. */
#ifndef KEPT_PASSES_H
#define KEPT_PASSES_H

#include "kept_rows.h"
#include "records/record_index.h"

enum { KEPT_STEPS = 11 };

static const struct loss LOGISTIC = {LOSS_LOGISTIC, 0.0, INFINITY};

/* The common arguments of passes over the same rows. */
struct passes {
    const struct program *program;
    const struct kernel_table *kernels;
    enum real_type type;
    int n_threads;
    int extent;
    struct dense_rows rows;
    int64_t dimension;
    double *w, *direction, *steps, *p;
    double *weights; /* of the records */
};

/* Weights of the records for odd turns, NULL for even ones: alternating over losses, kinds,
 * variants and widths covers both without more passes. */
static const double *weights_in_turn(const struct passes *passes, int64_t turn) {
    return turn % 2 ? passes->weights : NULL;
}

/* From 0 to 3; some are 0. */
static double *random_weights(const struct program *program, int64_t n) {
    double *weights = random_doubles(program, n);
    for (int64_t i = 0; i < n; i++)
        weights[i] = i % 7 == 3 ? 0.0 : 1.5 + 1.5 * weights[i];
    return weights;
}

/* Runs a pass and reports the result to the program. */
static void *result_of(const struct passes *passes, const struct dense_rows *rows, const char *what,
                       struct pass pass) {
    const struct program *program = passes->program;
    const struct result result = result_of_pass(rows, &pass);
    const int64_t size = result_size(&result);
    int64_t *out = integer_room(program, size);
    stop_if(program->pass(passes->kernels, passes->type, rows, &pass, passes->n_threads, out));
    if (result.combine == ADD_INTEGERS)
        program->integers(what, out, size);
    else
        program->reals(what, (const double *)out, size);
    return out;
}

/* The same, and frees the result. */
static void run_one(const struct passes *passes, const struct dense_rows *rows, const char *what,
                    struct pass pass) {
    const size_t used = *passes->program->used;
    result_of(passes, rows, what, pass);
    *passes->program->used = used;
}

/* A pass with the arguments that most kinds read. */
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

/* Only gradients for batches of rows with a source. */
static void run_sums(const struct passes *passes, struct dense_rows rows, struct loss loss) {
    static const double evenly[KEPT_STEPS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const int all = !rows.batch || rows.x;
    struct pass pass = usual_pass(passes, PASS_clipped_gradient_sum);
    pass.loss = loss;
    rows.predictions = passes->p;
    run_one(passes, &rows, "gradient", pass);
    passes->program->reals("its predictions", passes->p, rows.n_rows);
    pass.kind = PASS_clipped_loss_sums;
    if (all)
        run_one(passes, &rows, "line from them", pass);
    rows.predictions = NULL;
    if (!all)
        return;
    run_one(passes, &rows, "line", pass);
    pass.steps = evenly;
    run_one(passes, &rows, "even line", pass);
    pass.kind = PASS_gradient_sum;
    for (pass.precise = 0; pass.precise < (rows.batch ? 1 : 2); pass.precise++)
        run_one(passes, &rows, pass.precise ? "precise sum" : "plain sum", pass);
    pass.kind = PASS_coordinate_loss_sums;
    pass.stride = 0.25;
    pass.intercept_stride = 0.125;
    pass.clip = 0.5;
    pass.grid = 0x1p-40;
    if (!rows.batch)
        run_one(passes, &rows, "axes", pass);
}

static void run_losses(const struct passes *passes) {
    static const double parameters[N_LOSS_KINDS] = {0, 0, 0, .5, 0, .3, .25, 1.3, 1.6, 0};
    for (int kind = 0; kind < N_LOSS_KINDS; kind++) {
        struct loss loss = {(enum loss_kind)kind, parameters[kind], INFINITY};
        if (passes->extent != THOROUGH && kind != LOSS_LOGISTIC && kind != LOSS_HUBER)
            continue;
        struct dense_rows rows = passes->rows;
        rows.weights = weights_in_turn(passes, kind);
        run_sums(passes, rows, loss);
        loss.curvature = 3.0;
        rows.weights = weights_in_turn(passes, kind + 1);
        if (passes->extent == THOROUGH)
            run_sums(passes, rows, loss);
    }
}

/* Images under a matrix with many columns, and under one with few. */
static void run_images(const struct passes *passes, struct pass pass) {
    static const enum pass_kind kinds[4] = {PASS_image_sum, PASS_image_gram, PASS_image_table,
                                            PASS_residual_sums};
    const int64_t d = passes->dimension;
    double *narrow = random_doubles(passes->program, d * 16);
    for (int64_t i = 0; i < d * 16; i++)
        narrow[i] = i % 16 < 3 ? rint(narrow[i] * 0x1p18) : 0.0;
    pass.largest_square = 1.0;
    pass.largest_curvature = 0.25;
    pass.n_bins = 4;
    for (int shape = 0; shape < 2; shape++) {
        pass.n_images = shape ? 3 : d;
        pass.n_out = shape ? 16 : pass.n_out;
        pass.matrix = shape ? narrow : pass.matrix;
        pass.clip = shape ? 0x1p17 : 0x1p14; /* some rows, or many, get weights below 1 */
        pass.image_unit = 0x1p-19;
        for (int variant = 0; variant < 16; variant++) {
            pass.kind = kinds[variant % 4];
            pass.image_factor = variant / 4;
            pass.w = pass.image_factor == IMAGE_PLAIN && pass.kind != PASS_residual_sums
                         ? NULL
                         : passes->w;
            pass.image_bound = 0x1p17;
            run_one(passes, &passes->rows, "images", pass);
        }
    }
}

static void run_moments(const struct passes *passes) {
    const int thorough = passes->extent == THOROUGH;
    const int64_t d = passes->dimension, n_out = (d + 15) / 16 * 16;
    double *matrix = random_doubles(passes->program, d * n_out);
    for (int64_t i = 0; i < d * n_out; i++)
        matrix[i] = rint(matrix[i] * 0x1p18);
    struct dense_rows rows = passes->rows;
    struct pass pass = usual_pass(passes, PASS_gram_sum);
    pass.inner_clip = 1.5;
    pass.grid = 0x1p-19;
    for (int variant = thorough ? 0 : 3; variant < (thorough ? 8 : 4); variant++) {
        pass.w = variant & 1 ? passes->w : NULL;
        pass.target_factor = variant & 2 ? 0.5 : 0.0;
        pass.target_centre = 0.25;
        pass.target_limit = 0.75;
        pass.upper = variant >> 2;
        rows.weights = weights_in_turn(passes, thorough ? variant >> 2 : passes->dimension);
        run_one(passes, &rows, "products", pass);
    }
    rows.weights = NULL;
    pass.w = NULL;
    pass.target_factor = 0.0;
    pass.kind = PASS_moment_sums;
    pass.clip = 0x1p30;
    run_one(passes, &rows, "moments", pass);
    pass.column_scales = random_doubles(passes->program, d);
    pass.column_shifts = random_doubles(passes->program, d);
    run_one(passes, &rows, "moments in coordinates", pass);
    pass.kind = PASS_gram_sum;
    run_one(passes, &rows, "products in coordinates", pass);
    pass.kind = PASS_norms_scaled;
    run_one(passes, &rows, "norms of scaled rows", pass);
    pass.kind = PASS_norm_counts;
    pass.n_bins = 9;
    run_one(passes, &rows, "norms counted", pass);
    pass.kind = PASS_magnitude_counts;
    pass.grid = 0x1p-12;
    run_one(passes, &rows, "magnitudes counted", pass);
    pass.grid = 0x1p-19;
    pass.column_scales = pass.column_shifts = NULL;
    pass.kind = PASS_norms_through;
    pass.matrix = matrix;
    pass.n_out = n_out;
    double *lengths = result_of(passes, &rows, "norms through a matrix", pass);
    run_images(passes, pass);
    for (int64_t i = 0; i < rows.n_rows; i++)
        lengths[i] *= 0x1p-36; /* about as long as the rows */
    rows.clip_norms = lengths;
    run_one(passes, &rows, "gradient clipped by them",
            usual_pass(passes, PASS_clipped_gradient_sum));
}

/* Numbers of classes around tiles of five. */
static void run_softmax(const struct passes *passes) {
    const struct program *program = passes->program;
    struct dense_rows rows = passes->rows;
    const int64_t n = rows.n_rows, n_classes = 1 + (n + rows.n_columns) % 11;
    void *classes = room_for_reals(program, passes->type, n);
    struct pass pass = usual_pass(passes, PASS_row_norms);
    pass.n_classes = n_classes;
    pass.w = random_doubles(program, passes->dimension * n_classes);
    pass.direction = random_doubles(program, passes->dimension * n_classes);
    for (int64_t i = 0; i < n; i++)
        put_real(passes->type, classes, i, (double)below(program, n_classes));
    rows.y = classes;
    for (int kind = 0; kind < N_PASSES; kind++)
        if (passes->kernels->softmax[passes->type][kind].kernel) {
            pass.kind = (enum pass_kind)kind;
            rows.weights = weights_in_turn(passes, kind + passes->dimension);
            run_one(passes, &rows, "softmax", pass);
        }
}

/* Batches of 0, 3 and 1 records with floating-point noise, then with integer noise, and all records
 * in one batch. One index is out of range. */
static void run_sgd(const struct passes *passes) {
    const struct program *program = passes->program;
    const int64_t n = passes->rows.n_rows, d = passes->dimension, n_steps = n / 2 + 2;
    int64_t *order = integer_room(program, n), *ends = integer_room(program, n_steps);
    int64_t *whole = integer_room(program, 1), *integers = integer_room(program, n_steps * d);
    double *w = random_doubles(program, d), *w_sum = random_doubles(program, d);
    struct sgd_settings settings = {LOGISTIC, 0.5, 0.0, 2.0, 0.01, passes->rows.n_columns, 2.0};
    struct sgd_block block = {
        .w = w, .w_sum = w_sum, .n_steps = n_steps, .order = order, .batch_ends = ends};
    for (int64_t i = 0; i < n; i++)
        order[i] = i == n / 2 ? n : below(program, n);
    for (int64_t t = 0; t < n_steps; t++)
        ends[t] = 2 * t + t % 2 < n ? 2 * t + t % 2 : n;
    for (int64_t i = 0; i < n_steps * d; i++)
        integers[i] = below(program, 1 << 24) - (1 << 23);
    *whole = n;
    block.step_sizes = random_doubles(program, n_steps);
    block.noise = random_doubles(program, n_steps * d);
    struct dense_rows rows = passes->rows;
    for (int variant = 0; variant < 3; variant++) {
        memcpy(w, passes->w, (size_t)d * sizeof *w);
        rows.weights = weights_in_turn(passes, variant + d);
        stop_if(program->descent(passes->kernels, passes->type, &rows, &settings, &block));
        program->reals("descent", w, d);
        program->reals("its sum", w_sum, d);
        settings.grid = 0x1p-24;
        block.noise = NULL;
        block.noise_integers = integers;
        if (variant == 1) {
            settings.radius = INFINITY;
            block.w_sum = NULL;
            block.batch_ends = whole;
            block.n_steps = 1;
        }
    }
}

/* All passes over the rows: once each, then with multiplicities and in a batch if possible. With
 * THOROUGH, all losses and second moments, which are otherwise left out for dense rows. With
 * GRADIENTS, only gradients. */
static void run_kept_rows(const struct program *program, const struct kernel_table *kernels,
                          const struct kept_rows *kept, int intercept, int n_threads) {
    const int64_t n = kept->n_rows, d = kept->n_columns + intercept;
    void *y = room_for_reals(program, kept->type, n);
    struct passes passes = {.program = program,
                            .kernels = kernels,
                            .type = kept->type,
                            .n_threads = n_threads,
                            .extent = kept->extent,
                            .dimension = d,
                            .w = random_doubles(program, d),
                            .direction = random_doubles(program, d),
                            .steps = random_doubles(program, KEPT_STEPS),
                            .p = random_doubles(program, n),
                            .weights = random_weights(program, n)};
    struct dense_rows *rows = &passes.rows;
    *rows = (struct dense_rows){.y = y,
                                .n_rows = n,
                                .n_columns = kept->n_columns,
                                .intercept = intercept,
                                .row_norm = 1.0,
                                .x = kept->x,
                                .source = kept->x ? NULL : &kept->source};
    for (int64_t i = 0; i < n; i++)
        put_real(kept->type, y, i, i % 211 == 17 ? NAN : program->number() < 0.0 ? -1.0 : 1.0);
    if (rows->source && rows->source->find_norms)
        run_one(&passes, rows, "gradient that finds norms",
                usual_pass(&passes, PASS_clipped_gradient_sum));
    rows->norms = result_of(&passes, rows, "norms", (struct pass){.kind = PASS_row_norms});
    if (kept->extent == GRADIENTS) {
        run_one(&passes, rows, "gradient", usual_pass(&passes, PASS_clipped_gradient_sum));
        return;
    }
    run_losses(&passes);
    run_one(&passes, rows, "predictions", usual_pass(&passes, PASS_predictions));
    if (kept->extent == THOROUGH || !kept->x)
        run_moments(&passes);
    run_softmax(&passes);
    run_sgd(&passes);
    int64_t *counts = integer_room(program, n), *batch = integer_room(program, (n + 1) / 2);
    struct dense_rows some = *rows;
    for (int64_t i = 0; i < n; i++)
        counts[i] = 1 + i * i % 3;
    for (int64_t i = 0; i < n; i += 2)
        batch[i / 2] = i;
    some.multiplicity = counts;
    some.weights = weights_in_turn(&passes, d);
    run_sums(&passes, some, LOGISTIC);
    some.multiplicity = NULL;
    some.batch = batch;
    some.weights = weights_in_turn(&passes, d + 1);
    some.n_rows = (n + 1) / 2;
    run_sums(&passes, some, LOGISTIC);
    if (some.x)
        run_one(&passes, &some, "predictions", usual_pass(&passes, PASS_predictions));
}

/* Threads add up wide gradients in any order. */
static void run_wide_gradients(const struct program *program, const struct kernel_table *kernels,
                               struct kept_rows *kept, int n_threads) {
    enum { REPEATED = 3 };
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
                              .weights = kept->type == REAL_F64 ? random_weights(program, WIDE_ROWS)
                                                                : NULL,
                              .source = &kept->source};
    stop_if(run_pass(kernels, kept->type, &rows, &norm_pass, n_threads, norms));
    rows.predictions = random_doubles(program, WIDE_ROWS);
    for (int k = 0; k < REPEATED; k++) {
        stop_if(run_pass(kernels, kept->type, &rows, &pass, n_threads, k ? sum : first));
        stop_if(k && memcmp(first, sum, (WIDE_COLUMNS + 1) * sizeof *sum) != 0);
    }
    program->integers("wide gradient", first, WIDE_COLUMNS + 1);
    program->reals("its predictions", rows.predictions, WIDE_ROWS);
}

/* The index of records for n rows, some of which have none. */
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
