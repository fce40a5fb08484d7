/* Prints fingerprints of what the kernels and the samplers compute from fixed data, one per line:
 * the same text on every processor and instruction set, for any number of threads.
 *
 * same_bits [instruction set [number of threads]]
 *
 * Built and run by test_same_bits.py. Data are generated without a maths library. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/bulk_table.h"
#include "random/discrete_laplace.h"
#include "random/exponential_mechanism.h"
#include "kept_passes.h"
#include "kernel_table.h"
#include "random/noisy_selection.h"
#include "random/norm_laplace.h"
#include "random/norm_laplace_float.h"
#include "random/normals_float.h"
#include "random/poisson_sample.h"
#include "random/rounded_gaussian.h"
#include "random/uniform_integers.h"

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

static char name_of_case[100];

static void print_integers(const char *what, const int64_t *values, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] != 0;
    printf("%s%s %016llx (%lld of %lld not 0, first %lld)\n", name_of_case, what,
           (unsigned long long)fingerprint_of(1, values, count, 0), (long long)sum,
           (long long)count, count ? (long long)values[0] : 0LL);
}

static void print_reals(const char *what, const double *values, int64_t count) {
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++)
        finite += isfinite(values[i]) != 0;
    printf("%s%s %016llx (%lld of %lld finite, first %a)\n", name_of_case, what,
           (unsigned long long)fingerprint_of(1, values, count, 1), (long long)finite,
           (long long)count, count ? values[0] : 0.0);
}

/* -- passes, and records -- */

static const struct program same_bits = {room_in_memory, &memory_used, number,       print_integers,
                                         print_reals,    run_pass,     run_sgd_block};

static struct kept_rows kept_rows;

static void run_kept(const char *kind, int variant) {
    snprintf(name_of_case, sizeof name_of_case, "%s %d of %lld columns ", kind, variant,
             (long long)kept_rows.n_columns);
    run_kept_rows(&same_bits, kernels, &kept_rows, variant % 2, n_threads);
    memory_used = 0;
}

static void run_dense_rows(void) {
    enum { ROWS = 3 * 512 + 77 };
    static const int64_t widths[] = {1, 3, 17, 131};
    for (int type = REAL_F32; type < N_REAL_TYPES; type++)
        for (int i = 0; i < 4; i++) {
            make_dense(&same_bits, (enum real_type)type, ROWS, widths[i], &kept_rows);
            kept_rows.extent = THOROUGH;
            run_kept(type == REAL_F32 ? "floats" : "doubles", i);
            make_columns(&same_bits, kernels, (enum real_type)type, ROWS, widths[i], &kept_rows);
            run_kept(type == REAL_F32 ? "columns of floats" : "columns of doubles", i);
        }
}

static void run_other_rows(void) {
    enum { SOME_ROWS = 5 * 512 + 77 };
    static const int64_t widths[] = {1, 6, 19, 70};
    for (int variant = 0; variant < 4; variant++) {
        const enum real_type type = (enum real_type)(variant % 2);
        make_sparse(&same_bits, type, (enum index_type)(variant / 2), SOME_ROWS, widths[variant],
                    &kept_rows);
        run_kept("sparse", variant);
    }
    for (int type = REAL_F32; type < N_REAL_TYPES; type++) {
        snprintf(name_of_case, sizeof name_of_case, "wide %d ", type);
        make_wide_sparse(&same_bits, (enum real_type)type, &kept_rows);
        run_wide_gradients(&same_bits, kernels, &kept_rows, n_threads);
        memory_used = 0;
    }
    for (int variant = 0; variant < 16; variant++) {
        const int kind = variant % 8;
        const struct table_shape shape = {SOME_ROWS, kind * 5 % 8, kind + 1, variant < 8 ? 1 : 40,
                                          kind % 2};
        make_table(&same_bits, (enum numeric_type)(kind / 2), 1 + kind % 2, shape, &kept_rows);
        run_kept("table", variant);
        close_table(&kept_rows);
    }
    name_of_case[0] = 0;
    for (int64_t n = 1; n < 300; n += 97)
        run_record_index(&same_bits, n);
    memory_used = 0;
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
    const double *v = random_doubles(&same_bits, length);
    double *smoothed = random_doubles(&same_bits, length);
    kernels->smoothing->chunk_ends(&smoother, v, length, &forward, &backward);
    kernels->smoothing->smooth_chunk(&smoother, v, length, forward, backward, smoothed);
    snprintf(name_of_case, sizeof name_of_case, "smoothing of %lld ", (long long)length);
    print_reals("from the left", &forward, 1);
    print_reals("from the right", &backward, 1);
    print_reals("all", smoothed, length);
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
        stop_if(rounded_gaussian_fill(bits, scales[i], out, DRAWS));
        print_integers("Gaussian", out, DRAWS);
        stop_if(
            norm_laplace_fill(bits, scales[i], DIMENSION, DRAWS / DIMENSION, 3, out, workspace));
        print_integers("norm-Laplace", out, DRAWS);
        stop_if(discrete_laplace_fill(bits, rates[i], true, out, DRAWS));
        print_integers("discrete Laplace", out, DRAWS);
        stop_if(bernoulli_exp_fill(bits, rates[i], flags, DRAWS));
        for (int j = 0; j < DRAWS; j++)
            out[j] = flags[j];
        print_integers("Bernoulli", out, DRAWS);
        stop_if(normals_float_fill(bits, table, 2.5, floats, DRAWS - (size_t)i));
        print_reals("floating-point normals", floats, DRAWS - i);
        stop_if(norm_laplace_float_fill(bits, table, 1.5, DIMENSION, DRAWS / DIMENSION, floats));
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
            stop_if(exponential_mechanism(bits, candidates, CANDIDATES, rate, &index));
        else if (i % 3 == 1)
            stop_if(permute_and_flip(bits, candidates, CANDIDATES, rate, order, &index));
        else
            stop_if(report_noisy_min(bits, candidates, CANDIDATES, rate, i % 2, &index));
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
        stop_if(poisson_sample(bits, table, &progress, wide, POPULATION + POISSON_BLOCK));
        print_integers("Poisson sample", wide, (int64_t)progress.count);
    }
    stop_if(uniform_integers_fill(bits, UINT64_C(3) << 30, wide, 1000));
    print_integers("uniform integers", wide, 1000);
    stop_if(permutation_fill_64(bits, wide, POPULATION));
    print_integers("permutation", wide, POPULATION);
    const uint64_t populations[] = {POPULATION, UINT64_C(1) << 40};
    for (int i = 0; i < 2; i++) {
        uint64_t *workspace = malloc(8 * sample_workspace_words(populations[i], 500));
        stop_if(sample_without_replacement(bits, populations[i], 500, wide, workspace));
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
    run_dense_rows();
    run_other_rows();
    run_smoothing(7);
    run_smoothing(1000);
    static uint8_t buffer[4096];
    struct random_bits bits;
    random_bits_init(&bits, buffer, sizeof buffer, fill, NULL);
    name_of_case[0] = 0;
    run_noise(&bits);
    name_of_case[0] = 0;
    run_selection(&bits);
    run_sampling(&bits);
    return 0;
}
