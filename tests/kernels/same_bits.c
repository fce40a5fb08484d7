/* Fingerprints of what the kernels and the samplers compute from fixed data, one line each: the
 * same text on every processor and instruction set, for any number of threads.
 *
 * same_bits [instruction set [number of threads]]
 *
 * Built and run by test_same_bits.py. Data comes from integers, without a maths library. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/bulk_table.h"
#include "dense/columns_matrix.h"
#include "random/discrete_laplace.h"
#include "random/exponential_mechanism.h"
#include "random/half_normal.h"
#include "kept_passes.h"
#include "kernel_table.h"
#include "random/noisy_selection.h"
#include "random/norm_laplace.h"
#include "random/norm_laplace_float.h"
#include "random/normals_float.h"
#include "random/poisson_sample.h"
#include "random/rounded_gaussian.h"
#include "dense/row_blocks.h"
#include "passes/run_pass.h"
#include "sgd/sgd_steps.h"
#include "random/uniform_integers.h"

enum { ROWS = 3 * 512 + 77, MAX_COLUMNS = 131, N_STEPS = 11 };
enum { MAX_SIZE = (MAX_COLUMNS + 2) * (MAX_COLUMNS + 3) / 2 };

static const struct kernel_table *kernels;
static const struct bulk_table *table;
static int n_threads = 1;

/* -- data and fingerprints -- */

static uint64_t state;

static uint64_t word(void) {
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [-1, 1), exactly representable as a float. */
static double number(void) {
    return (double)(int64_t)(word() >> 40) * 0x1p-23 - 1.0;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? UINT64_C(0x7ff8000000000000) : bits; /* NaNs have different signs */
}

static uint64_t mixed(uint64_t hash, uint64_t next) {
    return (hash ^ next) * UINT64_C(0x100000001b3) ^ hash >> 29;
}

static char name_of_case[100];

static void print_integers(const char *what, const int64_t *values, int64_t count) {
    uint64_t hash = 1;
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        hash = mixed(hash, (uint64_t)values[i]);
        sum += values[i] != 0;
    }
    printf("%s%s %016llx (%lld of %lld not 0, first %lld)\n", name_of_case, what,
           (unsigned long long)hash, (long long)sum, (long long)count,
           count ? (long long)values[0] : 0LL);
}

static void print_reals(const char *what, const double *values, int64_t count) {
    uint64_t hash = 1;
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++) {
        hash = mixed(hash, bits_of(values[i]));
        finite += isfinite(values[i]) != 0;
    }
    printf("%s%s %016llx (%lld of %lld finite, first %a)\n", name_of_case, what,
           (unsigned long long)hash, (long long)finite, (long long)count, count ? values[0] : 0.0);
}

static void check(int status) {
    if (status != 0)
        exit(2);
}

/* -- kernels -- */

static char memory[1 << 24];
static size_t memory_used;

static void *room(size_t bytes) {
    void *array = memory + memory_used;
    memory_used += (bytes + 63) / 64 * 64;
    check(memory_used > sizeof memory);
    return array;
}

static const struct program same_bits = {room, number, print_integers, print_reals};

static float x_f32[ROWS * MAX_COLUMNS], y_f32[ROWS];
static double x_f64[ROWS * MAX_COLUMNS], y_f64[ROWS];
static double norms[ROWS], kept[ROWS];
static double w[MAX_SIZE], direction[MAX_SIZE], steps[N_STEPS], reals[MAX_SIZE];
static double matrix[(MAX_COLUMNS + 1) * (MAX_COLUMNS + 16)];
static int64_t batch[ROWS];

/* Entries with more digits than the grid has, rows of many lengths, and some that break rules. */
static struct dense_rows make_rows(enum real_type type, int64_t d, int intercept, int n_classes) {
    static const double awkward[] = {NAN, INFINITY, -INFINITY, 3e38, 1e-40, 1e-45, -0.0};
    for (int64_t i = 0; i < ROWS; i++) {
        const double scale = i % 5 ? 1.0 : number() * number() * 4.0;
        for (int64_t j = 0; j < d; j++)
            x_f64[i * d + j] = number() * scale + number() * 0x1p-30;
        if (i % 97 == 13)
            x_f64[i * d + (int64_t)(word() % (uint64_t)d)] = awkward[i % 7];
        y_f64[i] = n_classes ? (double)(word() % (uint64_t)n_classes) : number() < 0.0 ? -1.0 : 1.0;
        if (i % 211 == 17)
            y_f64[i] = NAN;
    }
    for (int64_t i = 0; i < ROWS * d; i++)
        x_f32[i] = (float)x_f64[i];
    for (int64_t i = 0; i < ROWS; i++)
        y_f32[i] = (float)y_f64[i];
    for (int64_t j = 0; j < MAX_SIZE; j++)
        w[j] = number(), direction[j] = number();
    for (int j = 0; j < N_STEPS; j++)
        steps[j] = number() * 3.0;
    struct dense_rows rows = {.x = type == REAL_F32 ? (void *)x_f32 : (void *)x_f64,
                              .y = type == REAL_F32 ? (void *)y_f32 : (void *)y_f64,
                              .norms = norms,
                              .n_rows = ROWS,
                              .n_columns = d,
                              .intercept = intercept,
                              .row_norm = 1.5};
    const struct pass pass = {.kind = PASS_row_norms};
    check(run_pass(kernels, type, &rows, &pass, n_threads, norms));
    return rows;
}

/* For the rows that make_rows() makes. */
static struct passes passes_over(enum real_type type) {
    memory_used = 0;
    const struct passes passes = {.program = &same_bits,
                                  .kernels = kernels,
                                  .type = type,
                                  .n_threads = n_threads,
                                  .w = w,
                                  .direction = direction,
                                  .steps = steps,
                                  .n_steps = N_STEPS};
    return passes;
}

static void run_losses(enum real_type type, struct dense_rows rows) {
    const struct passes passes = passes_over(type);
    static const double parameters[N_LOSS_KINDS] = {0, 0, 0, .5, 0, .3, .25, 1.3, 1.6, 0, 2, 3};
    for (int variant = 0; variant < 2 * N_LOSS_KINDS; variant++) {
        struct pass pass = usual_pass(&passes, PASS_clipped_gradient_sum);
        pass.loss = (struct loss){(enum loss_kind)(variant / 2), parameters[variant / 2],
                                  variant % 2 ? 3.0 : INFINITY};
        snprintf(name_of_case, sizeof name_of_case, "f%d d=%lld loss %d%s ", type ? 64 : 32,
                 (long long)rows.n_columns, pass.loss.kind, variant % 2 ? " smoothed" : "");
        rows.predictions = kept;
        run_one(&passes, &rows, "gradient", pass);
        print_reals("kept predictions", kept, ROWS);
        pass.kind = PASS_clipped_loss_sums;
        run_one(&passes, &rows, "line from them", pass);
        rows.predictions = NULL;
        run_one(&passes, &rows, "line", pass);
        struct pass axes = pass;
        axes.kind = PASS_coordinate_loss_sums;
        axes.stride = 0.25;
        axes.clip = 0.5;
        axes.grid = 0x1p-40;
        run_one(&passes, &rows, "axes", axes);
        pass.kind = PASS_gradient_sum;
        for (pass.precise = 0; pass.precise < 2; pass.precise++)
            run_one(&passes, &rows, pass.precise ? "precise sum" : "plain sum", pass);
    }
}

static void run_batch(enum real_type type, struct dense_rows rows) {
    const struct passes passes = passes_over(type);
    const struct pass pass = usual_pass(&passes, PASS_clipped_gradient_sum);
    rows.batch = batch;
    rows.n_rows = 0;
    for (int64_t i = 0; i < ROWS; i += 1 + (int64_t)(word() % 3))
        batch[rows.n_rows++] = i;
    run_one(&passes, &rows, "gradient of a batch", pass);
}

/* The same matrix column by column. */
static void run_columns(enum real_type type, struct dense_rows rows) {
    const struct passes passes = passes_over(type);
    static float columns_f32[ROWS * MAX_COLUMNS];
    static double columns_f64[ROWS * MAX_COLUMNS];
    const void *columns[MAX_COLUMNS];
    for (int64_t j = 0; j < rows.n_columns; j++) {
        for (int64_t i = 0; i < ROWS; i++) {
            columns_f32[j * ROWS + i] = x_f32[i * rows.n_columns + j];
            columns_f64[j * ROWS + i] = x_f64[i * rows.n_columns + j];
        }
        columns[j] = type == REAL_F32 ? (void *)(columns_f32 + j * ROWS) : columns_f64 + j * ROWS;
    }
    const struct columns_matrix matrix = {columns, rows.n_columns};
    const struct row_source source = {.matrix = &matrix,
                                      .expand = kernels->expand_columns[type],
                                      .representation = COLUMN_ROWS,
                                      .find_norms =
                                          kernels->routes[DENSE_ROWS][PASS_row_norms].kernel[type]};
    struct pass pass = usual_pass(&passes, PASS_clipped_gradient_sum);
    rows.x = NULL;
    rows.norms = NULL;
    rows.source = &source;
    rows.predictions = kept;
    run_one(&passes, &rows, "gradient of columns", pass);
    print_reals("their predictions", kept, ROWS);
    pass.kind = PASS_predictions;
    run_one(&passes, &rows, "predictions of columns", pass);
}

static void run_second_moments(enum real_type type, struct dense_rows rows) {
    const struct passes passes = passes_over(type);
    const int64_t dimension = rows.n_columns + rows.intercept, n_out = (dimension + 15) / 16 * 16;
    double *lengths = NULL;
    for (int64_t i = 0; i < dimension * n_out; i++)
        matrix[i] = (double)(int64_t)(word() >> 44) - 0x1p19;
    for (int variant = 0; variant < 8; variant++) {
        struct pass pass = usual_pass(&passes, PASS_gram_sum);
        pass.w = variant & 1 ? w : NULL;
        pass.inner_clip = 1.5;
        pass.grid = 0x1p-19;
        pass.target_factor = variant & 2 ? 0.5 : 0.0;
        pass.upper = variant >> 2;
        run_one(&passes, &rows, "products", pass);
        if (variant > 0)
            continue;
        pass.kind = PASS_moment_sums;
        pass.clip = 0x1p38;
        run_one(&passes, &rows, "moments", pass);
        pass.kind = PASS_norms_through;
        pass.matrix = matrix;
        pass.n_out = n_out;
        lengths = run_one(&passes, &rows, "lengths", pass);
    }
    for (int64_t i = 0; i < ROWS; i++)
        lengths[i] *= 0x1p-36; /* about as long as the rows */
    rows.clip_norms = lengths;
    const struct pass pass = usual_pass(&passes, PASS_clipped_gradient_sum);
    run_one(&passes, &rows, "gradient clipped by them", pass);
}

static void run_softmax(enum real_type type, int64_t d, int intercept, int64_t n_classes) {
    const struct dense_rows rows = make_rows(type, d, intercept, (int)n_classes);
    const struct passes passes = passes_over(type);
    struct pass pass = usual_pass(&passes, PASS_clipped_gradient_sum);
    pass.n_classes = n_classes;
    snprintf(name_of_case, sizeof name_of_case, "f%d d=%lld softmax ", type ? 64 : 32,
             (long long)d);
    run_one(&passes, &rows, "gradient", pass);
    pass.kind = PASS_gradient_sum;
    run_one(&passes, &rows, "plain sum", pass);
    pass.kind = PASS_clipped_loss_sums;
    run_one(&passes, &rows, "line", pass);
    pass.kind = PASS_predictions;
    run_one(&passes, &rows, "scores", pass);
}

static void run_sgd(enum real_type type, struct dense_rows rows) {
    enum { SGD_STEPS = 400 };
    static int64_t order[ROWS], ends[SGD_STEPS], noise[SGD_STEPS * (MAX_COLUMNS + 1)];
    static double sizes[SGD_STEPS], floats[SGD_STEPS * (MAX_COLUMNS + 1)], sum[MAX_COLUMNS + 1];
    const int64_t dimension = rows.n_columns + rows.intercept;
    for (int64_t i = 0; i < ROWS; i++)
        order[i] = (int64_t)(word() % ROWS);
    for (int t = 0; t < SGD_STEPS; t++)
        ends[t] = 2 * t + t % 2, sizes[t] = 0.5 + number() / 4.0;
    for (int64_t i = 0; i < SGD_STEPS * dimension; i++)
        noise[i] = (int64_t)(word() >> 40) - (1 << 23), floats[i] = number();
    for (int variant = 0; variant < 3; variant++) {
        const struct sgd_settings settings = {
            {LOSS_LOGISTIC, 0.0, INFINITY}, 0.5, variant ? 0x1p-24 : 0.0, 2.0, 0.01, rows.n_columns,
            variant == 2 ? INFINITY : 2.0};
        const struct sgd_block block = {.w = reals,
                                        .w_sum = sum,
                                        .n_steps = SGD_STEPS,
                                        .order = order,
                                        .batch_ends = ends,
                                        .step_sizes = sizes,
                                        .noise_integers = variant ? noise : NULL,
                                        .noise = variant ? NULL : floats};
        memset(reals, 0, sizeof reals);
        memset(sum, 0, sizeof sum);
        check(run_sgd_block(kernels, type, &rows, &settings, &block));
        print_reals("descent", reals, dimension);
        print_reals("its sum", sum, dimension);
    }
}

/* Powers of 1/2: no maths library. */
static void run_smoothing(int64_t length) {
    struct smoother smoother = {.a = 0.5, .scale = 0.75, .reach = 60};
    double forward, backward;
    for (int i = 0; i <= SMOOTHER_UNIT; i++)
        smoother.power[i] = 1.0 / (double)(1 << i);
    for (int i = 0; i < SMOOTHER_UNIT; i++)
        for (int j = 0; j < SMOOTHER_UNIT; j++) {
            smoother.forward[j][i] = i >= j ? smoother.power[i - j] : 0.0;
            smoother.backward[j][i] = i < j ? smoother.power[j - i] : 0.0;
        }
    for (int64_t i = 0; i < length; i++)
        direction[i] = number();
    kernels->chunk_ends(&smoother, direction, length, &forward, &backward);
    kernels->smooth_chunk(&smoother, direction, length, forward, backward, reals);
    snprintf(name_of_case, sizeof name_of_case, "smoothing of %lld ", (long long)length);
    print_reals("from the left", &forward, 1);
    print_reals("from the right", &backward, 1);
    print_reals("all", reals, length);
}

static void run_kernels(void) {
    static const int64_t widths[] = {1, 3, 17, MAX_COLUMNS};
    for (int type = REAL_F32; type < N_REAL_TYPES; type++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            const struct dense_rows rows = make_rows((enum real_type)type, widths[i], i % 2, 0);
            snprintf(name_of_case, sizeof name_of_case, "f%d d=%lld ", type ? 64 : 32,
                     (long long)widths[i]);
            print_reals("norms", norms, ROWS);
            const struct passes passes = passes_over((enum real_type)type);
            run_one(&passes, &rows, "predictions", usual_pass(&passes, PASS_predictions));
            run_batch((enum real_type)type, rows);
            run_columns((enum real_type)type, rows);
            run_second_moments((enum real_type)type, rows);
            run_sgd((enum real_type)type, rows);
            run_losses((enum real_type)type, rows);
            run_softmax((enum real_type)type, widths[i], i % 2, 2 + (int64_t)i);
        }
    run_smoothing(7);
    run_smoothing(1000);
}

/* -- rows that are not kept dense, and records -- */

static struct kept_rows kept_rows;

static void run_kept(const char *kind, int variant) {
    snprintf(name_of_case, sizeof name_of_case, "%s %d of %lld columns ", kind, variant,
             (long long)kept_rows.n_columns);
    run_kept_rows(&same_bits, kernels, &kept_rows, variant % 2, n_threads);
    memory_used = 0;
}

static void run_other_rows(void) {
    enum { SOME_ROWS = 5 * 512 + 77 };
    static const int64_t widths[] = {1, 6, 19, 70};
    for (int variant = 0; variant < 4; variant++) {
        const enum real_type type = (enum real_type)(variant % 2);
        make_sparse(&same_bits, type, (enum index_type)(variant / 2), SOME_ROWS, widths[variant],
                    &kept_rows);
        run_kept("sparse", variant);
        make_columns(&same_bits, kernels, type, SOME_ROWS, widths[variant], &kept_rows);
        run_kept("columns", variant);
    }
    for (int type = REAL_F32; type < N_REAL_TYPES; type++) {
        snprintf(name_of_case, sizeof name_of_case, "wide %d ", type);
        make_wide_sparse(&same_bits, (enum real_type)type, &kept_rows);
        run_wide_gradients(&same_bits, kernels, &kept_rows, n_threads);
        memory_used = 0;
    }
    for (int variant = 0; variant < 8; variant++) {
        make_table(&same_bits, (enum numeric_type)(variant / 2), 1 + variant % 2, SOME_ROWS,
                   variant * 5 % 8, variant + 1, &kept_rows);
        run_kept("table", variant);
        close_table(&kept_rows);
    }
    name_of_case[0] = 0;
    for (int64_t n = 1; n < 300; n += 97)
        run_record_index(&same_bits, n);
    memory_used = 0;
}

/* -- samplers -- */

static int fill(void *context, uint8_t *buffer, size_t size) {
    (void)context;
    for (size_t i = 0; i < size; i += 8) {
        const uint64_t random = word();
        for (size_t byte = i; byte < size && byte < i + 8; byte++)
            buffer[byte] = (uint8_t)(random >> 8 * (byte - i));
    }
    return 0;
}

static void run_noise(struct random_bits *bits) {
    enum { DRAWS = 3000, DIMENSION = 25 };
    static int64_t out[DRAWS];
    static double floats[DRAWS];
    static uint8_t flags[DRAWS];
    const struct rounded_gaussian_scale scales[] = {{1, 1}, {UINT64_C(12345678901234567), 40}};
    const struct dyadic_rate rates[] = {{1, 1}, {UINT64_C(987654321), 50}};
    void *workspace = malloc(norm_laplace_workspace_bytes(DIMENSION));
    for (int i = 0; i < 2; i++) {
        snprintf(name_of_case, sizeof name_of_case, "scale %d ", i);
        check(rounded_gaussian_fill(bits, scales[i], out, DRAWS));
        print_integers("Gaussian", out, DRAWS);
        check(norm_laplace_fill(bits, scales[i], DIMENSION, DRAWS / DIMENSION, 3, out, workspace));
        print_integers("norm-Laplace", out, DRAWS);
        check(discrete_laplace_fill(bits, rates[i], true, out, DRAWS));
        print_integers("discrete Laplace", out, DRAWS);
        check(bernoulli_exp_fill(bits, rates[i], flags, DRAWS));
        for (int j = 0; j < DRAWS; j++)
            out[j] = flags[j];
        print_integers("Bernoulli", out, DRAWS);
        check(normals_float_fill(bits, table, 2.5, floats, DRAWS - (size_t)i));
        print_reals("floating-point normals", floats, DRAWS - i);
        check(norm_laplace_float_fill(bits, table, 1.5, DIMENSION, DRAWS / DIMENSION, floats));
        print_reals("floating-point norm-Laplace", floats, DRAWS);
    }
    free(workspace);
}

static void run_selection(struct random_bits *bits) {
    enum { CANDIDATES = 40, DRAWS = 200 };
    static int64_t candidates[CANDIDATES], chosen[3 * DRAWS];
    size_t order[CANDIDATES], index = 0;
    const struct dyadic_rate rate = {3, 5};
    for (int i = 0; i < CANDIDATES; i++)
        candidates[i] = (int64_t)(word() % 200) - 100;
    for (int i = 0; i < 3 * DRAWS; i++) {
        if (i % 3 == 0)
            check(exponential_mechanism(bits, candidates, CANDIDATES, rate, &index));
        else if (i % 3 == 1)
            check(permute_and_flip(bits, candidates, CANDIDATES, rate, order, &index));
        else
            check(report_noisy_min(bits, candidates, CANDIDATES, rate, i % 2, &index));
        chosen[i] = (int64_t)index;
    }
    print_integers("selected candidates", chosen, 3 * DRAWS);
}

static void run_sampling(struct random_bits *bits) {
    enum { POPULATION = 3 * POISSON_BLOCK + 100 };
    static int64_t wide[POPULATION + POISSON_BLOCK];
    const uint64_t thresholds[] = {UINT64_C(1) << 57, UINT64_C(0x7f80000000000001), UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        struct poisson_progress progress = {thresholds[i], POPULATION, 0, 0};
        check(poisson_sample(bits, table, &progress, wide, POPULATION + POISSON_BLOCK));
        print_integers("Poisson sample", wide, (int64_t)progress.count);
    }
    check(uniform_integers_fill(bits, UINT64_C(3) << 30, wide, 1000));
    print_integers("uniform integers", wide, 1000);
    check(permutation_fill_64(bits, wide, POPULATION));
    print_integers("permutation", wide, POPULATION);
    const uint64_t populations[] = {POPULATION, UINT64_C(1) << 40};
    for (int i = 0; i < 2; i++) {
        uint64_t *workspace = malloc(8 * sample_workspace_words(populations[i], 500));
        check(sample_without_replacement(bits, populations[i], 500, wide, workspace));
        print_integers("sample without replacement", wide, 500);
        free(workspace);
    }
}

int main(int argc, char **argv) {
    const char *level = argc > 1 ? argv[1] : NULL;
    n_threads = argc > 2 ? atoi(argv[2]) : 1;
    kernels = kernels_choose(level);
    table = bulk_choose(level);
    if (!kernels || !table)
        return 3;
    run_kernels();
    run_other_rows();
    static uint8_t buffer[4096];
    struct random_bits bits;
    random_bits_init(&bits, buffer, sizeof buffer, fill, NULL);
    half_normal_prepare();
    name_of_case[0] = 0;
    run_noise(&bits);
    name_of_case[0] = 0;
    run_selection(&bits);
    run_sampling(&bits);
    return 0;
}
