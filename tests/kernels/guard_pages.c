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
#include "kept_rows.h"
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

/* Every other row, the first one always, the last one if there is an odd number. */
static void run_batch(const struct kernel_table *kernels, enum real_type type,
                      struct dense_rows rows, const int64_t *batch, const double *w,
                      const double *direction, const double *steps, double *sum, double *total,
                      int64_t *integers, int64_t *scores, double *p, void *workspace) {
    const struct loss loss = {LOSS_LOGISTIC, 0.5, INFINITY};
    rows.batch = batch;
    rows.n_rows = (rows.n_rows + 1) / 2;
    kernels->clipped_gradient_sum[type](&rows, 0, rows.n_rows, loss, w, 0.25, 0x1p-24, integers,
                                        workspace);
    kernels->gradient_sum[type](&rows, 0, rows.n_rows, loss, w, sum, total, workspace);
    kernels->clipped_loss_sums[type](&rows, 0, rows.n_rows, loss, w, direction, steps, N_STEPS, 0.5,
                                     0x1p-40, scores, workspace);
    kernels->predictions[type](&rows, 0, rows.n_rows, w, p, workspace);
}

static void run_second_moments(const struct kernel_table *kernels, enum real_type type,
                               struct dense_rows *rows, const double *w, enum place place) {
    const int64_t n = rows->n_rows, d = rows->n_columns, dimension = d + rows->intercept;
    const int64_t width = dimension + 1, n_out = (dimension + 15) / 16 * 16;
    const int64_t bytes = kernels->gram_workspace_bytes(d, width);
    int64_t *triangle = guarded(width * (width + 1) / 2 * sizeof(int64_t), place);
    int64_t *moments = guarded(2 * dimension * sizeof(int64_t), place);
    double *matrix = doubles(dimension * n_out, place), *lengths = doubles(n, place);
    void *workspace = guarded(bytes, place);
    memset(triangle, 0, width * (width + 1) / 2 * sizeof(int64_t));
    memset(moments, 0, 2 * dimension * sizeof(int64_t));
    for (int kind = LOSS_LOGISTIC; kind <= LOSS_HUBER; kind++) {
        const struct integer_rows form = {.loss = {(enum loss_kind)kind, 0.5, INFINITY},
                                          .w = kind ? w : NULL,
                                          .inner_clip = 1.0,
                                          .grid = 0x1p-18,
                                          .target_factor = kind % 2 ? 0.5 : 0.0,
                                          .upper = kind / 2 % 2};
        kernels->gram_sum[type](rows, 0, n, &form, triangle, workspace);
        kernels->moment_sums[type](rows, 0, n, &form, 0x1p30, moments, workspace);
        kernels->norms_through[type](rows, 0, n, &form, matrix, n_out, lengths, workspace);
    }
    rows->clip_norms = lengths;
    const struct loss loss = {LOSS_LOGISTIC, 0.0, INFINITY};
    kernels->clipped_gradient_sum[type](rows, 0, n, loss, w, 0.25, 0x1p-24, moments, workspace);
}

/* Five models: a full tile of four, and one. */
static void run_models(const struct kernel_table *kernels, enum real_type type,
                       const struct dense_rows *rows, enum place place) {
    enum { N_MODELS = 5 };
    const int64_t n = rows->n_rows, d = rows->n_columns, size = N_MODELS * (d + rows->intercept);
    const struct loss loss = {LOSS_LOGISTIC, 0.0, INFINITY};
    double *w = doubles(size, place), *clips = doubles(N_MODELS, place);
    double *grids = doubles(N_MODELS, place);
    int32_t *folds = guarded(n * sizeof *folds, place);
    int32_t *left_out = guarded(N_MODELS * sizeof *left_out, place);
    int64_t *sums = guarded(size * sizeof *sums, place);
    void *workspace = guarded(kernels->models_workspace_bytes(d, N_MODELS), place);
    for (int k = 0; k < N_MODELS; k++)
        clips[k] = 0.25, grids[k] = 0x1p-24, left_out[k] = k;
    for (int64_t i = 0; i < n; i++)
        folds[i] = (int32_t)(i % 7);
    memset(sums, 0, size * sizeof *sums);
    struct models models = {N_MODELS, w, clips, grids, folds, left_out};
    kernels->clipped_gradient_sums[type](rows, 0, n, loss, &models, sums, workspace);
    models.folds = NULL;
    kernels->clipped_gradient_sums[type](rows, 0, n, loss, &models, sums, workspace);
}

/* The same rows in columns, one after the other: the first and the last touch a guard. */
static void run_columns(const struct kernel_table *kernels, enum real_type type,
                        struct dense_rows rows, const double *w, int64_t *integers,
                        enum place place) {
    const int64_t n = rows.n_rows, d = rows.n_columns;
    const size_t size = type == REAL_F32 ? sizeof(float) : sizeof(double);
    const struct loss loss = {LOSS_LOGISTIC, 0.5, INFINITY};
    char *all = reals(type, n * d, place);
    const void **columns = guarded((size_t)d * sizeof *columns, place);
    for (int64_t j = 0; j < d; j++) {
        columns[j] = all + (size_t)(j * n) * size;
        for (int64_t i = 0; i < n; i++)
            memcpy(all + (size_t)(j * n + i) * size,
                   (const char *)rows.x + (size_t)(i * d + j) * size, size);
    }
    const struct columns_matrix matrix = {columns, d};
    const struct row_source source = {.matrix = &matrix, .columns = &matrix};
    void *x = reals(type, n * d, place);
    void *workspace = guarded(kernels->columns_workspace_bytes[type](d), place);
    kernels->expand_columns[type](&matrix, NULL, 0, n, x);
    rows.source = &source;
    for (int found = 0; found < 2; found++) {
        kernels->columns_clipped_gradient_sum[type](&rows, 0, n, loss, w, 0.25, 0x1p-24, integers,
                                                    workspace);
        rows.norms = NULL;
    }
}

/* Sums of rows that count up to three times. */
static void run_counts(const struct kernel_table *kernels, enum real_type type,
                       struct dense_rows rows, const double *w, const double *direction,
                       const double *steps, double *sum, double *total, int64_t *integers,
                       int64_t *scores, int64_t *neighbours, enum place place, void *workspace) {
    const struct loss loss = {LOSS_LOGISTIC, 0.5, INFINITY};
    int64_t *counts = guarded(rows.n_rows * sizeof(int64_t), place);
    for (int64_t i = 0; i < rows.n_rows; i++)
        counts[i] = 1 + i * i % 3;
    rows.multiplicity = counts;
    kernels->clipped_gradient_sum[type](&rows, 0, rows.n_rows, loss, w, 0.25, 0x1p-24, integers,
                                        workspace);
    kernels->precise_gradient_sum[type](&rows, 0, rows.n_rows, loss, w, sum, total, workspace);
    const double evenly[N_STEPS] = {0, 1, 2, 3, 4, 5};
    for (int even = 0; even < 2; even++)
        kernels->clipped_loss_sums[type](&rows, 0, rows.n_rows, loss, w, direction,
                                         even ? evenly : steps, N_STEPS, 0.5, 0x1p-40, scores,
                                         workspace);
    kernels->coordinate_loss_sums[type](&rows, 0, rows.n_rows, loss, w, 0.25, 0.5, 0x1p-40,
                                        neighbours, workspace);
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
    double *norms = doubles(n, place);
    struct dense_rows rows = {.x = reals(type, n * d, place),
                              .y = reals(type, n, place),
                              .norms = norms,
                              .n_rows = n,
                              .n_columns = d,
                              .intercept = intercept,
                              .row_norm = 1.0};
    spoil(type, (void *)rows.x, n * d);
    const int64_t dimension = d + intercept;
    double *w = doubles(dimension, place), *direction = doubles(dimension, place);
    double *steps = doubles(N_STEPS, place), *sum = doubles(dimension, place);
    double *p = doubles(n, place), *total = doubles(1, place);
    int64_t *integers = guarded(dimension * sizeof(int64_t), place);
    int64_t *scores = guarded(N_STEPS * sizeof(int64_t), place);
    int64_t *neighbours = guarded((2 * dimension + 1) * sizeof(int64_t), place);
    int64_t *batch = guarded((n + 1) / 2 * sizeof(int64_t), place);
    for (int64_t i = 0; i < n; i += 2)
        batch[i / 2] = i;
    void *workspace = guarded(kernels->workspace_bytes(d), place);
    memset(integers, 0, dimension * sizeof(int64_t));
    memset(neighbours, 0, (2 * dimension + 1) * sizeof(int64_t));
    memset(scores, 0, N_STEPS * sizeof(int64_t));

    kernels->row_norms[type](&rows, 0, n, norms);
    /* What is read does not depend on the loss: all of them for one width. */
    const int n_kinds = d == 3 ? N_LOSS_KINDS : LOSS_LOGISTIC + 1;
    for (int kind = LOSS_LOGISTIC; kind < n_kinds; kind++) {
        const struct loss loss = {(enum loss_kind)kind, 0.5, kind % 2 ? INFINITY : 4.0};
        kernels->clipped_gradient_sum[type](&rows, 0, n, loss, w, 0.25, 0x1p-24, integers,
                                            workspace);
        kernels->gradient_sum[type](&rows, 0, n, loss, w, sum, total, workspace);
        kernels->clipped_loss_sums[type](&rows, 0, n, loss, w, direction, steps, N_STEPS, 0.5,
                                         0x1p-40, scores, workspace);
        kernels->precise_gradient_sum[type](&rows, 0, n, loss, w, sum, total, workspace);
        kernels->coordinate_loss_sums[type](&rows, 0, n, loss, w, 0.25, 0.5, 0x1p-40, neighbours,
                                            workspace);
    }
    kernels->predictions[type](&rows, 0, n, w, p, workspace);
    if (d == 1)
        run_smoothing(kernels, n, p, place);
    run_models(kernels, type, &rows, place);
    if (n == 1 || n == 37)
        run_second_moments(kernels, type, &rows, w, place);
    run_counts(kernels, type, rows, w, direction, steps, sum, total, integers, scores, neighbours,
               place, workspace);
    run_columns(kernels, type, rows, w, integers, place);
    run_batch(kernels, type, rows, batch, w, direction, steps, sum, total, integers, scores, p,
              workspace);
}

/* The same for softmax: numbers of classes around tiles of five. */
static void run_softmax(const struct kernel_table *kernels, enum real_type type, int64_t n,
                        int64_t d, int intercept, enum place place) {
    if (n > 2 && (n + 1) % 16 > 2)
        return; /* the kernel's blocks of rows are those above: a few numbers of rows will do */
    arenas_used = 0;
    const int64_t n_classes = 1 + (n + d) % 11, size = (d + intercept) * n_classes;
    double *norms = doubles(n, place);
    struct dense_rows rows = {.x = reals(type, n * d, place),
                              .y = reals(type, n, place),
                              .norms = norms,
                              .n_rows = n,
                              .n_columns = d,
                              .intercept = intercept,
                              .row_norm = 1.0};
    spoil(type, (void *)rows.x, n * d);
    double *w = doubles(size, place), *direction = doubles(size, place);
    double *steps = doubles(N_STEPS, place), *sum = doubles(size, place);
    double *p = doubles(n * n_classes, place), *total = doubles(1, place);
    int64_t *integers = guarded(size * sizeof(int64_t), place);
    int64_t *scores = guarded(N_STEPS * sizeof(int64_t), place);
    void *workspace = guarded(kernels->softmax_workspace_bytes(d, n_classes), place);
    memset(integers, 0, size * sizeof(int64_t));
    memset(scores, 0, N_STEPS * sizeof(int64_t));
    kernels->row_norms[type](&rows, 0, n, norms);
    kernels->clipped_softmax_gradient_sum[type](&rows, 0, n, n_classes, w, 0.25, 0x1p-24, integers,
                                                workspace);
    kernels->softmax_gradient_sum[type](&rows, 0, n, n_classes, w, sum, total, workspace);
    kernels->clipped_softmax_loss_sums[type](&rows, 0, n, n_classes, w, direction, steps, N_STEPS,
                                             0.5, 0x1p-40, scores, workspace);
    kernels->class_scores[type](&rows, 0, n, n_classes, w, p, workspace);
}

/* Single records, then all in one batch, one of them not a row; noise of either kind. */
static void run_steps(const struct kernel_table *kernels, enum real_type type, int64_t n, int64_t d,
                      int intercept, enum place place) {
    if (n > 2 && n % 12 != 5)
        return; /* one record after the other: a few numbers of them will do */
    arenas_used = 0;
    double *norms = doubles(n, place);
    struct dense_rows rows = {.x = reals(type, n * d, place),
                              .y = reals(type, n, place),
                              .norms = norms,
                              .n_rows = n,
                              .n_columns = d,
                              .intercept = intercept,
                              .row_norm = 1.0};
    const int64_t dimension = d + intercept;
    int64_t *order = guarded(n * sizeof(int64_t), place);
    int64_t *ends = guarded(n * sizeof(int64_t), place), *whole = guarded(sizeof(int64_t), place);
    int64_t *integers = guarded(n * dimension * sizeof(int64_t), place);
    double *w = doubles(dimension, place), *w_sum = doubles(dimension, place);
    memset(integers, 1, n * dimension * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++)
        order[i] = i == n / 2 ? n : n - 1 - i, ends[i] = i + 1;
    *whole = n;
    struct sgd_block block = {.n_steps = n, .order = order, .batch_ends = ends};
    block.step_sizes = doubles(n, place);
    block.noise = doubles(n * dimension, place);
    struct sgd_settings settings = {{LOSS_LOGISTIC, 0.5, INFINITY}, 0.3, 0.0, 1.0, 0.1, d, 0.5};
    void *workspace = guarded(kernels->sgd_workspace_bytes(&rows), place);

    kernels->row_norms[type](&rows, 0, n, norms);
    kernels->sgd_steps[type](&rows, &settings, &block, w, w_sum, workspace);
    block.noise = NULL;
    block.noise_integers = integers;
    settings.grid = 0x1p-20;
    kernels->sgd_steps[type](&rows, &settings, &block, w, NULL, workspace);
    block.batch_ends = whole;
    block.n_steps = 1;
    kernels->sgd_steps[type](&rows, &settings, &block, w, w_sum, workspace);
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
