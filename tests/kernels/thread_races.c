/* Row ranges and the search for equal records in many threads under ThreadSanitizer. The compiler's
 * own OpenMP library is unknown to the sanitizer and gives false alarms, so this file stands in for
 * the three functions of it that they need, on plain threads. "race" as argument shows that a race
 * is seen. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records/distinct_records.h"
#include "kept_rows.h"
#include "passes/run_pass.h"

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
    enum { MOST = 64 };
    pthread_t threads[MOST];
    struct task tasks[MOST];
    if (n_threads == 0 || n_threads > MOST)
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

enum { N_ROWS = 5 * 4096 + 77, N_COLUMNS = 3, N_STEPS = 5, DIMENSION = N_COLUMNS + 1 };
enum { N_CLASSES = 2, SIZE = DIMENSION * N_CLASSES, N_MODELS = 3, N_SIDE_TASKS = 3 };

static double x[N_ROWS * N_COLUMNS], y[N_ROWS], norms[N_ROWS], p[N_ROWS * N_CLASSES];

struct sums {
    int64_t gradient[DIMENSION], of_batch[DIMENSION], gradients[N_MODELS * DIMENSION],
        scores[N_STEPS], neighbours[2 * DIMENSION + 1];
    double plain[DIMENSION], loss, last_prediction;
    int64_t class_gradient[SIZE], class_scores[N_STEPS];
    double class_plain[SIZE], class_loss, last_score;
    int64_t side_tasks_done[N_SIDE_TASKS];
};

static void do_side_task(void *done) {
    ++*(int64_t *)done;
}

static int64_t counts[N_ROWS], batch[N_ROWS];

static struct sums run(const struct kernel_table *kernels, int n_threads) {
    struct dense_rows rows = {.x = x,
                              .y = y,
                              .norms = norms,
                              .multiplicity = counts,
                              .n_rows = N_ROWS,
                              .n_columns = N_COLUMNS,
                              .intercept = 1,
                              .row_norm = 1.0};
    const struct loss loss = {LOSS_LOGISTIC, 0.0, INFINITY};
    const double w[DIMENSION] = {0.5, -1.0, 2.0, 0.1}, steps[N_STEPS] = {0, 1, 2, 3, 4};
    struct sums sums;
    memset(&sums, 0, sizeof sums);
    int failed = all_row_norms(kernels, REAL_F64, &rows, n_threads, norms);
    struct side_task side_tasks[N_SIDE_TASKS];
    for (int i = 0; i < N_SIDE_TASKS; i++)
        side_tasks[i] = (struct side_task){do_side_task, &sums.side_tasks_done[i]};
    struct dense_rows with_side_tasks = rows;
    with_side_tasks.side_tasks = side_tasks;
    with_side_tasks.n_side_tasks = N_SIDE_TASKS;
    failed |= all_clipped_gradient_sum(kernels, REAL_F64, &with_side_tasks, n_threads, loss, w, 0.5,
                                       0x1p-30, sums.gradient);
    with_side_tasks.batch = batch;
    with_side_tasks.multiplicity = NULL;
    with_side_tasks.n_rows = 0;
    for (int64_t i = 0; i < N_ROWS; i += 1 + i % 2)
        batch[with_side_tasks.n_rows++] = i;
    failed |= all_clipped_gradient_sum(kernels, REAL_F64, &with_side_tasks, n_threads, loss, w, 0.5,
                                       0x1p-30, sums.of_batch);
    for (int i = 0; i < N_SIDE_TASKS; i++)
        failed |= sums.side_tasks_done[i] != 2;
    const double models_w[N_MODELS * DIMENSION] = {0.5, -1.0, 2.0, 0.1, 3.0, 0.3},
                                     clips[N_MODELS] = {0.5, 0.25, 0.5},
                                     grids[N_MODELS] = {0x1p-30, 0x1p-31, 0x1p-30};
    const struct models models = {N_MODELS, models_w, clips, grids, NULL, NULL};
    failed |= all_clipped_gradient_sums(kernels, REAL_F64, &rows, n_threads, loss, &models,
                                        sums.gradients);
    failed |=
        all_gradient_sum(kernels, REAL_F64, &rows, n_threads, loss, w, 0, sums.plain, &sums.loss);
    failed |= all_clipped_loss_sums(kernels, REAL_F64, &rows, n_threads, loss, w, w, steps, N_STEPS,
                                    1.0, 0x1p-30, sums.scores);
    failed |= all_coordinate_loss_sums(kernels, REAL_F64, &rows, n_threads, loss, w, 0.5, 1.0,
                                       0x1p-30, sums.neighbours);
    failed |= all_predictions(kernels, REAL_F64, &rows, n_threads, w, p);
    sums.last_prediction = p[N_ROWS - 1];
    const double v[SIZE] = {0.5, -1.0, 2.0, 0.1, -0.5, 0.2};
    failed |= all_clipped_softmax_gradient_sum(kernels, REAL_F64, &rows, n_threads, N_CLASSES, v,
                                               0.5, 0x1p-30, sums.class_gradient);
    failed |= all_softmax_gradient_sum(kernels, REAL_F64, &rows, n_threads, N_CLASSES, v,
                                       sums.class_plain, &sums.class_loss);
    failed |= all_clipped_softmax_loss_sums(kernels, REAL_F64, &rows, n_threads, N_CLASSES, v, v,
                                            steps, N_STEPS, 1.0, 0x1p-30, sums.class_scores);
    failed |= all_class_scores(kernels, REAL_F64, &rows, n_threads, N_CLASSES, v, p);
    sums.last_score = p[N_ROWS * N_CLASSES - 1];
    if (failed)
        exit(2);
    return sums;
}

/* Number of distinct rows of a few small numbers, and a sum over them that no order changes. */
static int64_t find_distinct(int n_threads) {
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

/* Rows that are not kept dense: a fingerprint of all passes over them. */
static char memory[1 << 23];
static size_t memory_used;
static uint64_t fingerprint;

static void *room(size_t bytes) {
    void *array = memory + memory_used;
    memory_used += (bytes + 63) / 64 * 64;
    if (memory_used > sizeof memory)
        exit(2);
    return array;
}

static double number(void) {
    return 2.0 * (rand() / (double)RAND_MAX) - 1.0;
}

static void add_integers(const char *what, const int64_t *values, int64_t count) {
    (void)what;
    for (int64_t i = 0; i < count; i++)
        fingerprint =
            (fingerprint ^ (uint64_t)values[i]) * UINT64_C(0x100000001b3) ^ fingerprint >> 29;
}

static void add_reals(const char *what, const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        add_integers(what, &bits, 1);
    }
}

static uint64_t run_other_rows(const struct kernel_table *kernels, int kind, int n_threads) {
    static const struct program races = {room, number, add_integers, add_reals};
    static struct kept_rows kept;
    enum { SOME_ROWS = 3000 };
    memory_used = 0;
    fingerprint = 1;
    srand(1);
    if (kind == 3) {
        make_wide_sparse(&races, REAL_F64, &kept);
        run_wide_gradients(&races, kernels, &kept, n_threads);
        return fingerprint;
    }
    if (kind == 0)
        make_sparse(&races, REAL_F64, INDEX_I32, SOME_ROWS, 20, &kept);
    else if (kind == 1)
        make_columns(&races, kernels, REAL_F32, SOME_ROWS, 5, &kept);
    else
        make_table(&races, NUMERIC_U8, 1, SOME_ROWS, 3, 4, &kept);
    run_kept_rows(&races, kernels, &kept, 1, n_threads);
    run_record_index(&races, 100);
    if (kind == 2)
        close_table(&kept);
    return fingerprint;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "race") == 0) {
        GOMP_parallel(race, NULL, 4, 0);
        return 0;
    }
    for (int i = 0; i < N_ROWS * N_COLUMNS; i++)
        x[i] = rand() / (double)RAND_MAX - 0.5;
    for (int i = 0; i < N_ROWS; i++)
        y[i] = i % 3 ? 1.0 : -1.0, counts[i] = 1 + i % 977 / 970;
    for (int i = 0; kernels_available(i) != NULL; i++) {
        const struct kernel_table *kernels = kernels_choose(kernels_available(i));
        const struct sums one = run(kernels, 1);
        for (int n_threads = 2; n_threads <= 8; n_threads++) {
            const struct sums many = run(kernels, n_threads);
            if (memcmp(&one, &many, sizeof one) != 0) {
                printf("%s: %d threads differ\n", kernels->instruction_set, n_threads);
                return 1;
            }
        }
        for (int kind = 0; kind < 4; kind++)
            for (int n_threads = 2; n_threads <= 8; n_threads += 3)
                if (run_other_rows(kernels, kind, n_threads) != run_other_rows(kernels, kind, 1)) {
                    printf("%s: rows of kind %d: %d threads differ\n", kernels->instruction_set,
                           kind, n_threads);
                    return 1;
                }
    }
    for (int i = 0; i < N_ROWS; i++)
        counts[i] = rand() % 5000;
    for (int n_threads = 2; n_threads <= 8; n_threads++)
        if (find_distinct(n_threads) != find_distinct(1)) {
            printf("distinct records: %d threads differ\n", n_threads);
            return 1;
        }
    puts("same sums");
    return 0;
}
