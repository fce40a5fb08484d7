/* Runs every kernel with every array flush against an unmapped page, once at its start and
 * once at its end, so that a read or a write past either end crashes. Shapes: 1..40 rows
 * of 1..40 columns, and some around wide units; both element types, every instruction
 * set that runs here.
 *
 * Built and run by test_guard_pages.py, also with sanitizers. Prints the number of passes. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dense/columns_matrix.h"
#include "records/distinct_records.h"
#include "kept_passes.h"
#include "kernel_table.h"
#include "dense/row_blocks.h"
#include "sgd/sgd_steps.h"

enum { MAX_ARENAS = 160, ARENA_PAGES = 288, N_STEPS = 6 };
enum place { AT_START, AT_END };

/* Readable pages between two that are not. */
struct arena {
    char *first;
    size_t bytes;
};

static struct arena arenas[MAX_ARENAS];
static int arenas_used;
static size_t page;

static void open_arenas(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < MAX_ARENAS; i++) {
        char *all =
            mmap(NULL, (ARENA_PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED || mprotect(all + page, ARENA_PAGES * page, PROT_READ | PROT_WRITE))
            exit(2);
        arenas[i] = (struct arena){all + page, ARENA_PAGES * page};
    }
}

/* Memory of exactly `bytes` bytes that starts or ends at an unmapped page. */
static void *guarded(size_t bytes, enum place place) {
    if (arenas_used == MAX_ARENAS || bytes > arenas[arenas_used].bytes)
        exit(3);
    const struct arena arena = arenas[arenas_used++];
    return place == AT_START ? arena.first : arena.first + arena.bytes - bytes;
}

static double noise(void) {
    return rand() / (double)RAND_MAX - 0.5;
}

static void *reals(enum real_type type, int64_t count, enum place place) {
    void *array = guarded(count * (type == REAL_F32 ? sizeof(float) : sizeof(double)), place);
    for (int64_t i = 0; i < count; i++)
        if (type == REAL_F32)
            ((float *)array)[i] = (float)noise();
        else
            ((double *)array)[i] = noise();
    return array;
}

static double *doubles(int64_t count, enum place place) {
    return reals(REAL_F64, count, place);
}

/* Rows that must not count are read from elsewhere: spoil some. */
static void spoil(enum real_type type, void *x, int64_t count) {
    if (count % 3 == 0 && type == REAL_F32)
        ((float *)x)[count / 2] = NAN;
    else if (count % 3 == 0)
        ((double *)x)[count / 2] = INFINITY;
}

/* n rows of d columns, some spoiled; their norms are still to be found. */
static struct dense_rows make_rows(enum real_type type, int64_t n, int64_t d, int intercept,
                                   enum place place) {
    void *x = reals(type, n * d, place);
    spoil(type, x, n * d);
    const struct dense_rows rows = {.x = x,
                                    .y = reals(type, n, place),
                                    .norms = doubles(n, place),
                                    .n_rows = n,
                                    .n_columns = d,
                                    .intercept = intercept,
                                    .row_norm = 1.0};
    return rows;
}

/* What runs kernels: their table, rows and the arguments of passes. */
struct kernel_case {
    const struct kernel_table *kernels;
    enum real_type type;
    enum place place;
    struct dense_rows rows;
    struct pass pass;
};

/* The kernel of a pass over all rows; its result and its workspace are as large as it may use. */
static void *run_kernel(const struct kernel_case *here, enum representation representation,
                        enum pass_kind kind) {
    struct pass pass = here->pass;
    pass.kind = kind;
    const struct route *route = &here->kernels->routes[representation][kind];
    const struct result result = result_of_pass(&here->rows, &pass);
    const int64_t bytes = result_size(&result) * (int64_t)sizeof(int64_t);
    void *out = guarded((size_t)bytes, here->place);
    const int used = arenas_used;
    void *workspace = guarded((size_t)route->workspace_bytes(&here->rows, &pass), here->place);
    memset(out, 0, (size_t)bytes);
    route->kernel[here->type](&here->rows, 0, here->rows.n_rows, &pass, out, workspace);
    arenas_used = used;
    return out;
}

/* The same, without a use for the result. */
static void run_over(const struct kernel_case *here, enum representation representation,
                     enum pass_kind kind) {
    const int used = arenas_used;
    run_kernel(here, representation, kind);
    arenas_used = used;
}

/* Rows whose norms are found, and the arguments that most passes read. */
static struct kernel_case make_case(const struct kernel_table *kernels, enum real_type type,
                                    struct dense_rows rows, int64_t n_classes, enum place place) {
    const int64_t size = (rows.n_columns + rows.intercept) * (n_classes ? n_classes : 1);
    struct kernel_case here = {kernels, type, place, rows, {.n_classes = 0}};
    struct pass *pass = &here.pass;
    here.rows.norms = run_kernel(&here, DENSE_ROWS, PASS_row_norms);
    pass->loss = (struct loss){LOSS_LOGISTIC, 0.5, INFINITY};
    pass->n_classes = n_classes;
    pass->w = doubles(size, place);
    pass->direction = doubles(size, place);
    pass->steps = doubles(N_STEPS, place);
    pass->n_steps = N_STEPS;
    pass->inner_clip = 0.25;
    pass->clip = 0.5;
    pass->stride = 0.25;
    pass->grid = 0x1p-24;
    pass->with_loss = 1;
    return here;
}

static void run_second_moments(struct kernel_case here) {
    const int64_t dimension = here.rows.n_columns + here.rows.intercept;
    const double *w = here.pass.w;
    const double grid = here.pass.grid;
    here.pass.n_out = (dimension + 15) / 16 * 16;
    here.pass.matrix = doubles(dimension * here.pass.n_out, here.place);
    here.pass.inner_clip = 1.0;
    here.pass.grid = 0x1p-18;
    for (int kind = LOSS_LOGISTIC; kind <= LOSS_HUBER; kind++) {
        here.pass.loss.kind = (enum loss_kind)kind;
        here.pass.w = kind ? w : NULL;
        here.pass.target_factor = kind % 2 ? 0.5 : 0.0;
        here.pass.upper = kind / 2 % 2;
        run_over(&here, DENSE_ROWS, PASS_gram_sum);
        here.pass.target_factor = 0.0;
        here.pass.clip = 0x1p30;
        run_over(&here, DENSE_ROWS, PASS_moment_sums);
        here.rows.clip_norms = run_kernel(&here, DENSE_ROWS, PASS_norms_through);
    }
    here.pass.grid = grid;
    run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sum);
}

/* Five models: a full tile of four, and one. */
static void run_models(struct kernel_case here) {
    enum { N_MODELS = 5 };
    const int64_t n = here.rows.n_rows, dimension = here.rows.n_columns + here.rows.intercept;
    double *clips = doubles(N_MODELS, here.place), *grids = doubles(N_MODELS, here.place);
    int32_t *folds = guarded(n * sizeof *folds, here.place);
    int32_t *left_out = guarded(N_MODELS * sizeof *left_out, here.place);
    for (int k = 0; k < N_MODELS; k++)
        clips[k] = 0.25, grids[k] = 0x1p-24, left_out[k] = k;
    for (int64_t i = 0; i < n; i++)
        folds[i] = (int32_t)(i % 7);
    here.pass.w = doubles(N_MODELS * dimension, here.place);
    here.pass.n_models = N_MODELS;
    here.pass.inner_clips = clips;
    here.pass.grids = grids;
    here.pass.left_out = left_out;
    here.pass.folds = folds;
    run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sums);
    here.pass.folds = NULL;
    run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sums);
}

/* The same rows in columns, one after the other: the first and the last touch a guard. */
static void run_columns(struct kernel_case here) {
    const int64_t n = here.rows.n_rows, d = here.rows.n_columns;
    const size_t size = here.type == REAL_F32 ? sizeof(float) : sizeof(double);
    char *all = reals(here.type, n * d, here.place);
    const void **columns = guarded((size_t)d * sizeof *columns, here.place);
    for (int64_t j = 0; j < d; j++) {
        columns[j] = all + (size_t)(j * n) * size;
        for (int64_t i = 0; i < n; i++)
            memcpy(all + (size_t)(j * n + i) * size,
                   (const char *)here.rows.x + (size_t)(i * d + j) * size, size);
    }
    const struct columns_matrix matrix = {columns, d};
    const struct row_source source = {.matrix = &matrix, .representation = COLUMN_ROWS};
    here.kernels->expand_columns[here.type](&matrix, NULL, 0, n,
                                            reals(here.type, n * d, here.place));
    here.rows.source = &source;
    for (int found = 0; found < 2; found++) {
        run_over(&here, COLUMN_ROWS, PASS_clipped_gradient_sum);
        here.rows.norms = NULL;
    }
}

/* Sums of rows that count up to three times. */
static void run_counts(struct kernel_case here) {
    static const double evenly[N_STEPS] = {0, 1, 2, 3, 4, 5};
    int64_t *counts = guarded(here.rows.n_rows * sizeof(int64_t), here.place);
    for (int64_t i = 0; i < here.rows.n_rows; i++)
        counts[i] = 1 + i * i % 3;
    here.rows.multiplicity = counts;
    here.pass.precise = 1;
    run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sum);
    run_over(&here, DENSE_ROWS, PASS_gradient_sum);
    run_over(&here, DENSE_ROWS, PASS_clipped_loss_sums);
    run_over(&here, DENSE_ROWS, PASS_coordinate_loss_sums);
    here.pass.steps = evenly;
    run_over(&here, DENSE_ROWS, PASS_clipped_loss_sums);
}

/* Every other row, the first one always, the last one if there is an odd number. */
static void run_batch(struct kernel_case here) {
    const int64_t count = (here.rows.n_rows + 1) / 2;
    int64_t *batch = guarded(count * sizeof(int64_t), here.place);
    for (int64_t i = 0; i < count; i++)
        batch[i] = 2 * i;
    here.rows.batch = batch;
    here.rows.n_rows = count;
    run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sum);
    run_over(&here, DENSE_ROWS, PASS_gradient_sum);
    run_over(&here, DENSE_ROWS, PASS_clipped_loss_sums);
    run_over(&here, DENSE_ROWS, PASS_predictions);
}

/* The search for equal records: items, and runs of items of any length, the last one empty. */
static void run_records(int64_t n, int64_t d, enum place place) {
    arenas_used = 0;
    const int64_t n_items = n * (n - 1) / 2;
    char *items = guarded(n * d, place), *runs = guarded(3 * n_items, place);
    int64_t *starts = guarded((n + 1) * sizeof(int64_t), place);
    int64_t *first = guarded(n * sizeof(int64_t), place);
    int64_t *counts = guarded(n * sizeof(int64_t), place);
    for (int64_t i = 0; i < n * d; i++)
        items[i] = (char)(rand() % 2);
    memset(runs, 7, 3 * n_items);
    for (int64_t i = 0; i < n; i++)
        starts[i] = i * (i - 1) / 2;
    starts[n] = n_items;
    const struct record_part parts[] = {{items, d, NULL}, {runs, 3, starts}};
    const struct records records = {parts, 2, n};
    const int64_t n_words = record_key_words(&records);
    uint64_t *key = guarded(n_words * sizeof(uint64_t), place);
    for (int64_t k = 0; k < n_words; k++)
        key[k] = (uint64_t)rand() << 40 ^ (uint64_t)rand() << 20 ^ (uint64_t)rand();
    struct distinct_records *distinct = distinct_records_find(&records, key, 1);
    if (!distinct || distinct_records_count(distinct) > n)
        exit(4);
    distinct_records_read(distinct, first, counts);
    distinct_records_free(distinct);
}

/* A ring of n places; places as many as fill a unit have their reach cut in the middle. */
static void run_smoothing(const struct kernel_table *kernels, int64_t n, const double *v,
                          enum place place) {
    struct smoother smoother = {.a = 0.5, .scale = 1.0};
    double *u = doubles(n, place), forward, backward;
    for (int64_t reach = 1; reach <= n + 1; reach += 3) {
        smoother.reach = reach;
        kernels->chunk_ends(&smoother, v, n, &forward, &backward);
    }
    kernels->smooth_chunk(&smoother, v, n, forward, backward, u);
}

static void run_all(const struct kernel_table *kernels, enum real_type type, int64_t n, int64_t d,
                    int intercept, enum place place) {
    arenas_used = 0;
    struct kernel_case here =
        make_case(kernels, type, make_rows(type, n, d, intercept, place), 0, place);
    /* What is read does not depend on the loss: all of them for one width. */
    const int n_kinds = d == 3 ? N_LOSS_KINDS : LOSS_LOGISTIC + 1;
    for (int kind = LOSS_LOGISTIC; kind < n_kinds; kind++) {
        here.pass.loss = (struct loss){(enum loss_kind)kind, 0.5, kind % 2 ? INFINITY : 4.0};
        run_over(&here, DENSE_ROWS, PASS_clipped_gradient_sum);
        run_over(&here, DENSE_ROWS, PASS_clipped_loss_sums);
        run_over(&here, DENSE_ROWS, PASS_coordinate_loss_sums);
        for (here.pass.precise = 0; here.pass.precise < 2; here.pass.precise++)
            run_over(&here, DENSE_ROWS, PASS_gradient_sum);
    }
    here.pass.loss = (struct loss){LOSS_LOGISTIC, 0.5, INFINITY};
    here.pass.precise = 0;
    const double *p = run_kernel(&here, DENSE_ROWS, PASS_predictions);
    if (d == 1)
        run_smoothing(kernels, n, p, place);
    run_models(here);
    if (n == 1 || n == 37)
        run_second_moments(here);
    run_counts(here);
    run_columns(here);
    run_batch(here);
}

/* The same for softmax: numbers of classes around tiles of five. */
static void run_softmax(const struct kernel_table *kernels, enum real_type type, int64_t n,
                        int64_t d, int intercept, enum place place) {
    if (n > 2 && (n + 1) % 16 > 2)
        return; /* the kernel's blocks of rows are those above: a few numbers of rows will do */
    arenas_used = 0;
    const struct kernel_case here =
        make_case(kernels, type, make_rows(type, n, d, intercept, place), 1 + (n + d) % 11, place);
    for (int kind = 0; kind < N_PASSES; kind++)
        if (kernels->routes[SOFTMAX_ROWS][kind].kernel[type])
            run_over(&here, SOFTMAX_ROWS, (enum pass_kind)kind);
}

/* Single records, then all in one batch, one of them not a row; noise of either kind. */
static void run_steps(const struct kernel_table *kernels, enum real_type type, int64_t n, int64_t d,
                      int intercept, enum place place) {
    if (n > 2 && n % 12 != 5)
        return; /* one record after the other: a few numbers of them will do */
    arenas_used = 0;
    const struct dense_rows rows =
        make_case(kernels, type, make_rows(type, n, d, intercept, place), 0, place).rows;
    const int64_t dimension = d + intercept;
    int64_t *order = guarded(n * sizeof(int64_t), place);
    int64_t *ends = guarded(n * sizeof(int64_t), place), *whole = guarded(sizeof(int64_t), place);
    int64_t *integers = guarded(n * dimension * sizeof(int64_t), place);
    memset(integers, 1, n * dimension * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++)
        order[i] = i == n / 2 ? n : n - 1 - i, ends[i] = i + 1;
    *whole = n;
    struct sgd_block block = {.w = doubles(dimension, place),
                              .w_sum = doubles(dimension, place),
                              .n_steps = n,
                              .order = order,
                              .batch_ends = ends};
    block.step_sizes = doubles(n, place);
    block.noise = doubles(n * dimension, place);
    struct sgd_settings settings = {{LOSS_LOGISTIC, 0.5, INFINITY}, 0.3, 0.0, 1.0, 0.1, d, 0.5};
    void *workspace = guarded(kernels->sgd_workspace_bytes(&rows), place);

    kernels->sgd_steps[type](&rows, &settings, &block, workspace);
    block.noise = NULL;
    block.noise_integers = integers;
    settings.grid = 0x1p-20;
    block.w_sum = NULL;
    kernels->sgd_steps[type](&rows, &settings, &block, workspace);
    block.batch_ends = whole;
    block.n_steps = 1;
    kernels->sgd_steps[type](&rows, &settings, &block, workspace);
}

static enum place place_of_rooms;

static void *room(size_t bytes) {
    return guarded(bytes, place_of_rooms);
}

static double number(void) {
    return 2.0 * noise();
}

static void forget_integers(const char *what, const int64_t *values, int64_t count) {
    (void)what, (void)values, (void)count;
}

static void forget_reals(const char *what, const double *values, int64_t count) {
    (void)what, (void)values, (void)count;
}

static const struct program guards = {room, number, forget_integers, forget_reals};

/* Rows that are not kept dense: n rows, about d columns. The passes have memory of their own. */
static void run_other_rows(const struct kernel_table *kernels, int64_t n, int64_t d, int variant,
                           enum place place) {
    static struct kept_rows kept;
    const enum real_type type = (enum real_type)(variant % 2);
    place_of_rooms = place;
    arenas_used = 0;
    make_sparse(&guards, type, (enum index_type)(variant / 2 % 2), n, d, &kept);
    run_kept_rows(&guards, kernels, &kept, variant % 2, 1);
    arenas_used = 0;
    make_columns(&guards, kernels, type, n, d, &kept);
    run_kept_rows(&guards, kernels, &kept, variant % 2, 1);
    arenas_used = 0;
    make_table(&guards, (enum numeric_type)(variant / 2), 1 + variant % 2, n, d % 11, d % 4 + 1,
               &kept);
    run_kept_rows(&guards, kernels, &kept, variant % 2, 1);
    close_table(&kept);
}

static void run_wide_rows(const struct kernel_table *kernels, enum real_type type,
                          enum place place) {
    static struct kept_rows kept;
    place_of_rooms = place;
    arenas_used = 0;
    make_wide_sparse(&guards, type, &kept);
    run_wide_gradients(&guards, kernels, &kept, 1);
}

static long run_other_shapes(const struct kernel_table *kernels) {
    static const int64_t widths[] = {1, 2, 7, 8, 9, 17, 31, 33};
    long passes = 0;
    for (int type = REAL_F32; type < N_REAL_TYPES; type++, passes++) {
        run_wide_rows(kernels, (enum real_type)type, AT_END);
        run_wide_rows(kernels, (enum real_type)type, AT_START);
    }
    for (int variant = 0; variant < 8; variant++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            for (int64_t n = 1; n <= 40; n += n % 16 == 2 ? 12 : 1, passes++) {
                run_other_rows(kernels, n, widths[i], variant, AT_END);
                run_other_rows(kernels, n, widths[i], variant, AT_START);
            }
    return passes;
}

static long run_shapes(const struct kernel_table *kernels) {
    static const int64_t wide[] = {63, 64, 65, 120, 127, 128, 129, 131};
    long passes = 0;
    for (int type = REAL_F32; type < N_REAL_TYPES; type++)
        for (int variant = 0; variant < 4; variant++) {
            const enum place place = variant & 1 ? AT_START : AT_END;
            for (int64_t d = 1; d <= 40; d++)
                for (int64_t n = 1; n <= 40; n++, passes++) {
                    run_all(kernels, (enum real_type)type, n, d, variant >> 1, place);
                    run_softmax(kernels, (enum real_type)type, n, d, variant >> 1, place);
                    run_steps(kernels, (enum real_type)type, n, d, variant >> 1, place);
                }
            for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
                for (int64_t n = 1; n <= 40; n++, passes++) {
                    run_all(kernels, (enum real_type)type, n, wide[i], variant >> 1, place);
                    run_softmax(kernels, (enum real_type)type, n, wide[i], variant >> 1, place);
                    run_steps(kernels, (enum real_type)type, n, wide[i], variant >> 1, place);
                }
        }
    return passes;
}

int main(int argc, char **argv) {
    open_arenas();
    if (argc > 1 && strcmp(argv[1], "crash") == 0) { /* shows that the guard works */
        const volatile char *end = (char *)guarded(1, AT_END) + 1;
        return *end;
    }
    for (int64_t n = 1; n <= 40; n++)
        for (int64_t d = 1; d <= 40; d++) {
            run_records(n, d, AT_START);
            run_records(n, d, AT_END);
        }
    for (int64_t n = 1; n <= 40; n++)
        for (int end = 0; end < 2; end++) {
            arenas_used = 0;
            place_of_rooms = end ? AT_END : AT_START;
            run_record_index(&guards, n);
        }
    for (int i = 0; kernels_available(i) != NULL; i++)
        printf("%s %ld\n", kernels_available(i),
               run_shapes(kernels_choose(kernels_available(i))) +
                   run_other_shapes(kernels_choose(kernels_available(i))));
    return 0;
}
