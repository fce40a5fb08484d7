/* Runs every kernel with every array flush against an unmapped page, once at its start and once at
 * its end, so that a read or write past either end crashes. Shapes: 1..40 rows of 1..40 columns,
 * and some around wide units; both element types, every instruction set that runs here.
 *
 * Built and run by test_guard_pages.py, also with sanitizers. Prints the number of shapes. With a
 * number as argument, each shape runs in one of that many combinations of end and instruction set.
 */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "records/distinct_records.h"
#include "kept_passes.h"
#include "kernel_table.h"

enum { MAX_ARENAS = 320, ARENA_PAGES = 288 };
enum place { AT_START, AT_END };

/* Readable pages between two unmapped ones. */
struct arena {
    char *first;
    size_t bytes;
};

static struct arena arenas[MAX_ARENAS];
static size_t arenas_used, page;
static enum place place;
static long shapes_seen, combinations = 1;

/* Whether to run the next shape; combinations begin with different shapes. */
static int its_turn(void) {
    return shapes_seen++ % combinations == 0;
}

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
static void *guarded(size_t bytes) {
    if (arenas_used == MAX_ARENAS || bytes > arenas[arenas_used].bytes)
        exit(3);
    const struct arena arena = arenas[arenas_used++];
    return place == AT_START ? arena.first : arena.first + arena.bytes - bytes;
}

static double number(void) {
    return 2.0 * (rand() / (double)RAND_MAX) - 1.0;
}

static void forget_integers(const char *what, const int64_t *values, int64_t count) {
    (void)what, (void)values, (void)count;
}

static void forget_reals(const char *what, const double *values, int64_t count) {
    (void)what, (void)values, (void)count;
}

/* Runs the kernel for dense rows or columns directly over all rows, with a workspace of exactly the
 * size that it may use. Other passes allocate their own memory. */
static int run_kernel(const struct kernel_table *kernels, enum real_type type,
                      const struct dense_rows *rows, const struct pass *pass, int n_threads,
                      void *out) {
    const enum representation kept = rows->source ? rows->source->representation : DENSE_ROWS;
    const int in_columns =
        kept == COLUMN_ROWS && !rows->batch && !rows->multiplicity && !pass->n_classes;
    if (kept != DENSE_ROWS && !in_columns)
        return run_pass(kernels, type, rows, pass, n_threads, out);
    const struct route *routes = in_columns        ? kernels->dense[type]->columns
                                 : pass->n_classes ? kernels->softmax[type]
                                                   : kernels->dense[type]->rows;
    const int is_precise =
        kept == DENSE_ROWS && pass->kind == PASS_gradient_sum && pass->precise && type == REAL_F32;
    const struct route *route =
        is_precise ? &kernels->dense[REAL_F64]->precise_gradient_sum : &routes[pass->kind];
    if (!route->kernel)
        return run_pass(kernels, type, rows, pass, n_threads, out);
    const size_t used = arenas_used;
    const int64_t bytes = route->workspace_bytes ? route->workspace_bytes(rows, pass) : 0;
    route->kernel(rows, 0, rows->n_rows, pass, out, guarded((size_t)bytes));
    arenas_used = used;
    return 0;
}

static int run_descent(const struct kernel_table *kernels, enum real_type type,
                       const struct dense_rows *rows, const struct sgd_settings *settings,
                       const struct sgd_block *block) {
    if (rows->source)
        return run_sgd_block(kernels, type, rows, settings, block);
    const size_t used = arenas_used;
    kernels->sgd[type]->steps(rows, settings, block,
                              guarded((size_t)kernels->sgd[type]->workspace_bytes(rows)));
    arenas_used = used;
    return 0;
}

static const struct program guards = {guarded,      &arenas_used, number,     forget_integers,
                                      forget_reals, run_kernel,   run_descent};

/* The search for equal records: single items, and runs of items, the first one empty. */
static void run_records(int64_t n, int64_t d) {
    arenas_used = 0;
    const int64_t n_items = n * (n - 1) / 2;
    char *items = guarded(n * d), *runs = guarded(3 * n_items);
    int64_t *starts = guarded((n + 1) * sizeof(int64_t));
    int64_t *first = guarded(n * sizeof(int64_t));
    int64_t *counts = guarded(n * sizeof(int64_t));
    for (int64_t i = 0; i < n * d; i++)
        items[i] = (char)(rand() % 2);
    memset(runs, 7, 3 * n_items);
    for (int64_t i = 0; i < n; i++)
        starts[i] = i * (i - 1) / 2;
    starts[n] = n_items;
    const struct record_part parts[] = {{items, d, NULL}, {runs, 3, starts}};
    const struct records records = {parts, 2, n};
    const int64_t n_words = record_key_words(&records);
    uint64_t *key = guarded(n_words * sizeof(uint64_t));
    for (int64_t k = 0; k < n_words; k++)
        key[k] = (uint64_t)rand() << 40 ^ (uint64_t)rand() << 20 ^ (uint64_t)rand();
    struct distinct_records *distinct = distinct_records_find(&records, key, 1);
    if (!distinct || distinct_records_count(distinct) > n)
        exit(4);
    distinct_records_read(distinct, first, counts);
    distinct_records_free(distinct);
}

/* A chunk of n places, with every third reach. */
static void run_smoothing(const struct kernel_table *kernels, int64_t n) {
    arenas_used = 0;
    struct smoother smoother = {.a = 0.5, .scale = 1.0};
    const double *v = random_doubles(&guards, n);
    double *u = random_doubles(&guards, n), forward, backward;
    for (int64_t reach = 1; reach <= n + 1; reach += 3) {
        smoother.reach = reach;
        kernels->smoothing->chunk_ends(&smoother, v, n, &forward, &backward);
    }
    kernels->smoothing->smooth_chunk(&smoother, v, n, forward, backward, u);
}

/* Runs all passes over new rows. */
static void run_rows(const struct kernel_table *kernels, struct kept_rows *kept, int intercept) {
    if (!kept->x) {
        const size_t used = arenas_used;
        kept->source.expand(kept->source.matrix, NULL, 0, kept->n_rows,
                            room_for_reals(&guards, kept->type, kept->n_rows * kept->n_columns));
        arenas_used = used;
    }
    run_kept_rows(&guards, kernels, kept, intercept, 1);
    arenas_used = 0;
}

/* Memory accesses do not depend on the loss: all losses for one width and a few numbers of rows
 * only. */
static void run_dense(const struct kernel_table *kernels, enum real_type type, int64_t n, int64_t d,
                      int intercept) {
    static struct kept_rows kept;
    make_dense(&guards, type, n, d, &kept);
    kept.extent = d == 3 || n == 1 || n == 37 ? THOROUGH : USUAL;
    run_rows(kernels, &kept, intercept);
    make_columns(&guards, kernels, type, n, d, &kept);
    kept.extent = GRADIENTS;
    run_rows(kernels, &kept, intercept);
    if (d == 1)
        run_smoothing(kernels, n);
}

/* Sparse rows and columns of d columns, and tables of about as many. */
static void run_other_rows(const struct kernel_table *kernels, int64_t n, int64_t d, int variant) {
    static struct kept_rows kept;
    make_sparse(&guards, (enum real_type)(variant % 2), (enum index_type)(variant / 2 % 2), n, d,
                &kept);
    run_rows(kernels, &kept, variant % 2);
    make_columns(&guards, kernels, (enum real_type)(variant % 2), n, d, &kept);
    run_rows(kernels, &kept, variant % 2);
    const struct table_shape shape = {n, d % 11, d % 4 + 1, variant % 3 == 1 ? 40 : 1, d % 3 == 0};
    make_table(&guards, (enum numeric_type)(variant / 2), 1 + variant % 2, shape, &kept);
    run_rows(kernels, &kept, variant % 2);
    close_table(&kept);
}

static void run_wide_rows(const struct kernel_table *kernels, enum real_type type) {
    static struct kept_rows kept;
    make_wide_sparse(&guards, type, &kept);
    run_wide_gradients(&guards, kernels, &kept, 1);
    arenas_used = 0;
}

static long run_other_shapes(const struct kernel_table *kernels) {
    static const int64_t widths[] = {1, 2, 7, 8, 9, 17, 31, 33};
    long shapes = 0;
    for (int type = REAL_F32; type < N_REAL_TYPES; type++, shapes++)
        run_wide_rows(kernels, (enum real_type)type);
    for (int variant = 0; variant < 8; variant++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            for (int64_t n = 1; n <= 40; n += n % 16 == 2 ? 12 : 1)
                if (its_turn()) {
                    run_other_rows(kernels, n, widths[i], variant);
                    shapes++;
                }
    return shapes;
}

static long run_shapes(const struct kernel_table *kernels) {
    static const int64_t wide[] = {63, 64, 65, 120, 127, 128, 129, 131};
    long shapes = 0;
    for (int type = REAL_F32; type < N_REAL_TYPES; type++)
        for (int intercept = 0; intercept < 2; intercept++)
            for (int64_t n = 1; n <= 40; n++)
                for (int64_t i = 0; i < 48; i++)
                    if (its_turn()) {
                        run_dense(kernels, (enum real_type)type, n, i < 40 ? i + 1 : wide[i - 40],
                                  intercept);
                        shapes++;
                    }
    return shapes;
}

static void run_all_records(void) {
    for (int64_t n = 1; n <= 40; n++) {
        for (int64_t d = 1; d <= 40; d++)
            run_records(n, d);
        arenas_used = 0;
        run_record_index(&guards, n);
        arenas_used = 0;
    }
}

int main(int argc, char **argv) {
    open_arenas();
    place = AT_END;
    if (argc > 1 && strcmp(argv[1], "crash") == 0) { /* shows that the guard works */
        const volatile char *end = (char *)guarded(1) + 1;
        return *end;
    }
    if (argc > 1)
        combinations = atol(argv[1]);
    run_all_records();
    place = AT_START;
    run_all_records();
    for (int i = 0; kernels_available(i) != NULL; i++) {
        const struct kernel_table *kernels = kernels_choose(kernels_available(i));
        long shapes = 0;
        for (int end = 0; end < 2; end++) {
            place = end ? AT_END : AT_START;
            shapes_seen = 2 * i + end;
            shapes += run_shapes(kernels) + run_other_shapes(kernels);
        }
        printf("%s %ld\n", kernels->instruction_set, shapes);
    }
    return 0;
}
