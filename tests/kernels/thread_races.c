/* Passes and the search for equal records in many threads under ThreadSanitizer. The sanitizer
 * reports false positives for the compiler's OpenMP library, so this file implements the functions
 * needed on plain threads. With the argument "race" it runs a data race, which must be reported. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records/distinct_records.h"
#include "kept_passes.h"

static _Thread_local int thread_number;
static int threads_in_team = 1;

struct task {
    void (*body)(void *);
    void *data;
    int number;
};

static void *run_task(void *argument) {
    const struct task *task = argument;
    thread_number = task->number;
    task->body(task->data);
    return NULL;
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags) {
    (void)flags;
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    struct task tasks[MAX_THREADS];
    if (n_threads == 0 || n_threads > MAX_THREADS)
        exit(2);
    threads_in_team = (int)n_threads;
    for (unsigned i = 0; i < n_threads; i++) {
        tasks[i] = (struct task){body, data, (int)i};
        if (pthread_create(&threads[i], NULL, run_task, &tasks[i]))
            exit(2);
    }
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    threads_in_team = 1;
}

int omp_get_thread_num(void) {
    return thread_number;
}
int omp_get_max_threads(void) {
    return 1;
}
int omp_get_thread_limit(void) {
    return 1;
}
int omp_get_num_threads(void) {
    return threads_in_team;
}

static int shared_counter;
static void race(void *data) {
    (void)data;
    shared_counter++;
}

enum { N_ROWS = 5 * 4096 + 77, N_COLUMNS = 3, N_SIDE_TASKS = 3 };

/* Number of distinct records plus a sum over them that does not depend on their order. */
static int64_t find_distinct(int n_threads) {
    static int64_t counts[N_ROWS];
    static double y[N_ROWS];
    srand(1);
    for (int i = 0; i < N_ROWS; i++)
        y[i] = i % 3 ? 1.0 : -1.0, counts[i] = rand() % 5000;
    const struct record_part parts[] = {{(const char *)counts, sizeof counts[0], NULL},
                                        {(const char *)y, sizeof y[0], NULL}};
    const struct records records = {parts, 2, N_ROWS};
    const int64_t key_words = record_key_words(&records);
    uint64_t *key = malloc(key_words * sizeof *key);
    for (int64_t k = 0; key && k < key_words; k++)
        key[k] = (uint64_t)rand() << 40 ^ (uint64_t)rand() << 20 ^ (uint64_t)rand();
    struct distinct_records *distinct =
        key ? distinct_records_find(&records, key, n_threads) : NULL;
    static int64_t first[N_ROWS], found[N_ROWS];
    if (!distinct)
        exit(2);
    const int64_t n_distinct = distinct_records_count(distinct);
    int64_t sum = n_distinct;
    distinct_records_read(distinct, first, found);
    for (int64_t k = 0; k < n_distinct; k++)
        sum += (first[k] + 1) * (found[k] * found[k] + 7);
    distinct_records_free(distinct);
    free(key);
    return sum;
}

/* A fingerprint of the results of all passes. */
static uint64_t fingerprint;

static double number(void) {
    return 2.0 * (rand() / (double)RAND_MAX) - 1.0;
}

static void add_integers(const char *what, const int64_t *values, int64_t count) {
    (void)what;
    fingerprint = fingerprint_of(fingerprint, values, count, 0);
}

static void add_reals(const char *what, const double *values, int64_t count) {
    (void)what;
    fingerprint = fingerprint_of(fingerprint, values, count, 1);
}

static const struct program races = {room_in_memory, &memory_used, number,       add_integers,
                                     add_reals,      run_pass,     run_sgd_block};

static void do_side_task(void *done) {
    ++*(int64_t *)done;
}

/* A gradient over dense rows and over a batch, with side tasks that each must run once. */
static void run_side_tasks(const struct kernel_table *kernels, const struct kept_rows *kept,
                           int n_threads) {
    int64_t done[N_SIDE_TASKS] = {0};
    struct side_task side_tasks[N_SIDE_TASKS];
    int64_t *batch = integer_room(&races, N_ROWS), *sum = integer_room(&races, N_COLUMNS);
    double *norms = random_doubles(&races, N_ROWS);
    const struct pass pass = {.kind = PASS_clipped_gradient_sum,
                              .loss = LOGISTIC,
                              .w = random_doubles(&races, N_COLUMNS),
                              .inner_clip = 0.5,
                              .grid = 0x1p-30};
    for (int i = 0; i < N_SIDE_TASKS; i++)
        side_tasks[i] = (struct side_task){do_side_task, &done[i]};
    struct dense_rows rows = {.x = kept->x,
                              .y = norms,
                              .norms = norms,
                              .n_rows = N_ROWS,
                              .n_columns = N_COLUMNS,
                              .row_norm = 1.0,
                              .side_tasks = side_tasks,
                              .n_side_tasks = N_SIDE_TASKS};
    for (int whole = 1; whole >= 0; whole--) {
        stop_if(run_pass(kernels, REAL_F64, &rows, &pass, n_threads, sum));
        add_integers("gradient", sum, N_COLUMNS);
        rows.batch = batch;
        rows.n_rows = 0;
        for (int64_t i = 0; i < N_ROWS; i += 1 + i % 2)
            batch[rows.n_rows++] = i;
    }
    for (int i = 0; i < N_SIDE_TASKS; i++)
        stop_if(done[i] != 2);
}

static uint64_t run_rows(const struct kernel_table *kernels, int kind, int n_threads) {
    static struct kept_rows kept;
    enum { SOME_ROWS = 3000 };
    memory_used = 0;
    fingerprint = 1;
    srand(1);
    if (kind == 0) {
        make_dense(&races, REAL_F64, N_ROWS, N_COLUMNS, &kept);
        run_side_tasks(kernels, &kept, n_threads);
    } else if (kind == 1)
        make_sparse(&races, REAL_F64, INDEX_I32, SOME_ROWS, 20, &kept);
    else if (kind == 2)
        make_columns(&races, kernels, REAL_F32, SOME_ROWS, 5, &kept);
    else if (kind < 5)
        make_table(&races, NUMERIC_U8, 1,
                   (struct table_shape){SOME_ROWS, 3, 4, kind == 3 ? 1 : 40, kind % 2}, &kept);
    else {
        make_wide_sparse(&races, REAL_F64, &kept);
        run_wide_gradients(&races, kernels, &kept, n_threads);
        return fingerprint;
    }
    run_kept_rows(&races, kernels, &kept, 1, n_threads);
    run_record_index(&races, 100);
    if (kind >= 3)
        close_table(&kept);
    return fingerprint;
}

int main(int argc, char **argv) {
    enum { N_KINDS = 6 };
    if (argc > 1 && strcmp(argv[1], "race") == 0) {
        GOMP_parallel(race, NULL, 4, 0);
        return 0;
    }
    /* Scheduling does not depend on the instruction set: only the first runs all numbers of
     * threads. */
    for (int i = 0; kernels_available(i) != NULL; i++) {
        const struct kernel_table *kernels = kernels_choose(kernels_available(i));
        for (int kind = 0; kind < N_KINDS; kind++) {
            const uint64_t expected = run_rows(kernels, kind, 1);
            for (int n_threads = 2; n_threads <= 8; n_threads += i ? 6 : kind ? 3 : 1)
                if (run_rows(kernels, kind, n_threads) != expected) {
                    printf("%s: rows of kind %d: %d threads differ\n", kernels->instruction_set,
                           kind, n_threads);
                    return 1;
                }
        }
    }
    const int64_t expected = find_distinct(1);
    for (int n_threads = 2; n_threads <= 8; n_threads++)
        if (find_distinct(n_threads) != expected) {
            printf("distinct records: %d threads differ\n", n_threads);
            return 1;
        }
    puts("same sums");
    return 0;
}
