/* The samplers without Python, for sanitizers: unusual and failing streams, buffers of every size.
 * Built and run by .ci/steps/4-c-programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/bulk_table.h"
#include "random/discrete_laplace.h"
#include "random/exponential_mechanism.h"
#include "random/lazy_uniform.h"
#include "random/noisy_selection.h"
#include "random/norm_laplace.h"
#include "random/norm_laplace_float.h"
#include "random/poisson_sample.h"
#include "random/rounded_gaussian.h"
#include "random/sparse_sample.h"
#include "random/uniform_integers.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Bytes of a small generator, a fraction of them replaced by 0x00, 0x55, 0xaa or 0xff in runs of
 * four. */
struct stream {
    uint64_t state;
    unsigned awkward; /* out of 256 digits */
    int constant;     /* a byte to repeat, or -1 */
    size_t left;      /* bytes before failure */
};

static uint64_t next(struct stream *stream) {
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = stream->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int fill(void *context, uint8_t *buffer, size_t size) {
    static const uint8_t awkward_bytes[4] = {0x00, 0x55, 0xaa, 0xff};
    struct stream *stream = context;
    if (stream->left < size)
        return -1;
    stream->left -= size;
    for (size_t i = 0; i < size; i += 4) {
        const uint64_t word = next(stream);
        const uint32_t digit = (uint32_t)word;
        if (stream->constant >= 0)
            memset(buffer + i, stream->constant, 4);
        else if ((word >> 32 & 255) < stream->awkward)
            memset(buffer + i, awkward_bytes[word >> 62], 4);
        else
            memcpy(buffer + i, &digit, 4);
    }
    return 0;
}

enum { DRAWS = 400 };

/* Runs all scalar samplers once. The buffer is on the heap with its exact size, so that overruns
 * are detected. */
static int run(struct stream stream, size_t capacity, struct rounded_gaussian_scale scale,
               struct dyadic_rate rate, int64_t *draws) {
    uint8_t *buffer = malloc(capacity);
    struct random_bits bits;
    random_bits_init(&bits, buffer, capacity, fill, &stream);
    int status = rounded_gaussian_fill(&bits, scale, draws, DRAWS);
    uint8_t flags[50];
    if (status == RANDOM_BITS_OK)
        status = bernoulli_exp_fill(&bits, rate, flags, sizeof flags);
    for (int i = 0; i < 50 && status == RANDOM_BITS_OK; i++) {
        const int64_t scores[5] = {INT64_MIN, INT64_MAX, 0, -1, INT64_MIN + 1};
        size_t chosen = 5;
        status = exponential_mechanism(&bits, scores, 5, rate, &chosen);
        CHECK(status != RANDOM_BITS_OK || chosen < 5);
        size_t order[5];
        if (status == RANDOM_BITS_OK)
            status = permute_and_flip(&bits, scores, 5, rate, order, &chosen);
        CHECK(status != RANDOM_BITS_OK || chosen < 5);
        const struct dyadic_rate large = {rate.numerator | 1, rate.shift % 61};
        if (status == RANDOM_BITS_OK)
            status = report_noisy_min(&bits, scores, 5, large, i % 2, &chosen);
        CHECK(status != RANDOM_BITS_OK || chosen < 5);
    }
    free(buffer);
    return status;
}

/* Allocates an array of exactly that size on the heap. */
static void *allocate(size_t bytes) {
    void *room = malloc(bytes > 0 ? bytes : 1);
    CHECK(room != NULL);
    memset(room, 0xA5, bytes);
    return room;
}

static int draw_norm_laplace(struct random_bits *bits, struct rounded_gaussian_scale scale,
                             size_t dimension, unsigned first_digits) {
    int64_t *out = allocate(2 * dimension * sizeof *out);
    void *workspace = allocate(norm_laplace_workspace_bytes(dimension));
    double *fast = allocate(2 * dimension * sizeof *fast);
    int status = norm_laplace_fill(bits, scale, dimension, 2, first_digits, out, workspace);
    for (size_t i = 0; status == RANDOM_BITS_OK && i < 2 * dimension; i++)
        CHECK(out[i] >= -ROUNDED_GAUSSIAN_LIMIT && out[i] <= ROUNDED_GAUSSIAN_LIMIT);
    if (status == RANDOM_BITS_OK)
        status = norm_laplace_float_fill(bits, bulk_choose(NULL), 2.0, dimension, 2, fast);
    for (size_t i = 0; status == RANDOM_BITS_OK && i < 2 * dimension; i++)
        CHECK(fast[i] > -1e6 && fast[i] < 1e6);
    free(fast);
    free(workspace);
    free(out);
    return status;
}

/* As small an output as possible, so that the sample is continued many times. */
static int draw_poisson(struct random_bits *bits, uint64_t threshold, uint64_t n_rows) {
    struct poisson_progress progress = {threshold, n_rows, 0, 0};
    int64_t last = -1;
    int status = RANDOM_BITS_OK;
    while (status == RANDOM_BITS_OK && progress.next_row < n_rows) {
        int64_t *out = allocate(POISSON_BLOCK * sizeof *out);
        progress.count = 0;
        status = poisson_sample(bits, bulk_choose(NULL), &progress, out, POISSON_BLOCK);
        for (size_t i = 0; status == RANDOM_BITS_OK && i < progress.count; last = out[i], i++)
            CHECK(out[i] > last && (uint64_t)out[i] < n_rows);
        free(out);
    }
    return status;
}

/* The same at a small rate, with an artificial distribution: at most j rows with probability
 * 1 - 2^-(j + 1). */
static int draw_sparse(struct random_bits *bits, unsigned log2_block, uint64_t n_rows) {
    enum { SIZE = 64 };
    uint32_t *digits = allocate(LAZY_UNIFORM_DIGITS * SIZE * sizeof *digits);
    for (unsigned k = 0; k < LAZY_UNIFORM_DIGITS; k++)
        for (unsigned j = 0; j < SIZE; j++) {
            const unsigned ones = j == SIZE - 1 ? 32 * LAZY_UNIFORM_DIGITS : j + 1;
            const unsigned here = ones > 32 * k ? ones - 32 * k : 0;
            digits[k * SIZE + j] =
                here >= 32 ? UINT32_MAX : (uint32_t)~(UINT32_MAX >> (here > 0 ? here : 0));
        }
    const struct block_counts law = {digits, SIZE, log2_block};
    struct sparse_progress progress = {n_rows, 0, 0};
    int64_t last = -1;
    int status = RANDOM_BITS_OK;
    while (status == RANDOM_BITS_OK && progress.next_row < n_rows) {
        int64_t *out = allocate(SPARSE_ROOM * sizeof *out);
        progress.count = 0;
        status = sparse_sample(bits, &law, &progress, out, SPARSE_ROOM);
        for (size_t i = 0; status == RANDOM_BITS_OK && i < progress.count; last = out[i], i++)
            CHECK(out[i] > last && (uint64_t)out[i] < n_rows);
        free(out);
    }
    free(digits);
    return status;
}

static int draw_orders(struct random_bits *bits, size_t count) {
    int32_t *narrow = allocate(count * sizeof *narrow);
    int64_t *wide = allocate(count * sizeof *wide);
    uint8_t *seen = allocate(count);
    memset(seen, 0, count);
    int status = permutation_fill_32(bits, narrow, count);
    if (status == RANDOM_BITS_OK)
        status = permutation_fill_64(bits, wide, count);
    for (size_t i = 0; status == RANDOM_BITS_OK && i < count; i++) {
        CHECK(narrow[i] >= 0 && (size_t)narrow[i] < count && !(seen[narrow[i]] & 1));
        CHECK(wide[i] >= 0 && (size_t)wide[i] < count && !(seen[wide[i]] & 2));
        seen[narrow[i]] |= 1;
        seen[wide[i]] |= 2;
    }
    free(seen);
    free(wide);
    free(narrow);
    return status;
}

static int draw_sets(struct random_bits *bits, uint64_t population, size_t size) {
    int64_t *out = allocate(size * sizeof *out);
    uint64_t *workspace = allocate(sample_workspace_words(population, size) * sizeof *workspace);
    const int status = sample_without_replacement(bits, population, size, out, workspace);
    for (size_t i = 0; status == RANDOM_BITS_OK && i < size; i++) {
        CHECK(out[i] >= 0 && (uint64_t)out[i] < population);
        for (size_t j = 0; j < i; j++)
            CHECK(sample_is_ascending(population, size) ? out[j] < out[i] : out[j] != out[i]);
    }
    free(workspace);
    free(out);
    return status;
}

/* The samplers on arrays. */
static int run_bulk(struct stream stream, size_t capacity, struct rounded_gaussian_scale scale,
                    size_t size) {
    uint8_t *buffer = malloc(capacity);
    struct random_bits bits;
    random_bits_init(&bits, buffer, capacity, fill, &stream);
    static const uint64_t bounds[] = {1, 3, UINT32_MAX, UINT64_C(3) << 30, UINT64_C(1) << 63};
    int64_t integers[9];
    int status = draw_norm_laplace(&bits, scale, 1 + size % 40, 1 + (unsigned)size % 32);
    if (status == RANDOM_BITS_OK)
        status = draw_poisson(&bits, (stream.state << 47) | size << 40, 23 * size);
    if (status == RANDOM_BITS_OK)
        status = draw_sparse(&bits, 6 + (unsigned)size % 27, 130 * size << size % 27);
    if (status == RANDOM_BITS_OK)
        status = draw_orders(&bits, size);
    if (status == RANDOM_BITS_OK)
        status = draw_sets(&bits, size, size / 2);
    if (status == RANDOM_BITS_OK)
        status = draw_sets(&bits, UINT64_C(1) << size % 63, size % 63 > 7 ? 60 : 0);
    for (int i = 0; i < 5 && status == RANDOM_BITS_OK; i++)
        status = uniform_integers_fill(&bits, bounds[i], integers, 9);
    free(buffer);
    return status;
}

static const struct rounded_gaussian_scale scales[] = {{1, 1},
                                                       {1, 63},
                                                       {3, 1},
                                                       {UINT64_C(1) << 63, 1},
                                                       {UINT64_C(1) << 63, 63},
                                                       {12345678901234567, 40}};
static const struct dyadic_rate rates[] = {{0, 0},   {1, 0},  {UINT64_MAX, 0}, {UINT64_MAX, 127},
                                           {1, 127}, {3, 64}, {1, 63}};
enum { SCALES = sizeof scales / sizeof *scales, RATES = sizeof rates / sizeof *rates };

static void test_every_stream_ends(void) {
    int64_t draws[DRAWS];
    for (unsigned seed = 0; seed < 600; seed++) {
        const struct stream stream = {seed, seed % 4 * 80, -1, SIZE_MAX};
        const int status =
            run(stream, 4 + seed % 50 * 4, scales[seed % SCALES], rates[seed % RATES], draws);
        CHECK(status == RANDOM_BITS_OK);
        for (int i = 0; i < DRAWS; i++)
            CHECK(draws[i] >= -ROUNDED_GAUSSIAN_LIMIT && draws[i] <= ROUNDED_GAUSSIAN_LIMIT);
    }
}

static void test_constant_streams_are_noticed(void) {
    int64_t draws[DRAWS];
    for (int i = 0; i < 2; i++) {
        const struct stream stream = {0, 0, i == 0 ? 0x00 : 0xff, SIZE_MAX};
        CHECK(run(stream, 64, scales[2], rates[1], draws) == RANDOM_BITS_STUCK);
        CHECK(run_bulk(stream, 64, scales[2], 100) == RANDOM_BITS_STUCK);
    }
}

static void test_every_array_ends(void) {
    for (unsigned seed = 0; seed < 400; seed++) {
        const struct stream stream = {seed, seed % 4 * 40, -1, SIZE_MAX};
        const size_t capacity = seed % 2 ? 4 + seed % 50 * 4 : 65536;
        CHECK(run_bulk(stream, capacity, scales[seed % SCALES], seed) == RANDOM_BITS_OK);
    }
    for (size_t left = 0; left < 12000; left += 12) {
        const struct stream stream = {left, 30, -1, left};
        CHECK(run_bulk(stream, 4, scales[2], 300) == RANDOM_BITS_SOURCE_FAILED);
    }
}

static void test_failure_at_any_byte_comes_out(void) {
    int64_t draws[DRAWS];
    for (size_t left = 0; left < 3400; left += 4) {
        const struct stream stream = {left, 60, -1, left};
        CHECK(run(stream, 4, scales[2], rates[1], draws) == RANDOM_BITS_SOURCE_FAILED);
    }
}

static void test_sizes_of_the_buffer_change_nothing(void) {
    enum { STREAMS = 40 };
    int64_t smallest[DRAWS], larger[DRAWS];
    for (unsigned seed = 0; seed < STREAMS; seed++) {
        const struct stream stream = {seed, seed % 4 * 60, -1, SIZE_MAX};
        CHECK(run(stream, 4, scales[5], rates[1], smallest) == RANDOM_BITS_OK);
        CHECK(run(stream, 8 + 4 * seed, scales[5], rates[1], larger) == RANDOM_BITS_OK);
        CHECK(memcmp(smallest, larger, sizeof larger) == 0);
    }
}

int main(void) {
    test_every_stream_ends();
    test_every_array_ends();
    test_constant_streams_are_noticed();
    test_failure_at_any_byte_comes_out();
    test_sizes_of_the_buffer_change_nothing(); /* fills the tables for good */
    test_every_stream_ends();
    test_failure_at_any_byte_comes_out();
    puts("samplers: all checks passed");
    return 0;
}
