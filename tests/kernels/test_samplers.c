/*
 * The samplers without Python, for sanitizers: awkward and failing streams, buffers of every size.
 *
 * cc -std=c11 -g -O1 -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all -Icsrc
 *    tests/kernels/test_samplers.c csrc/random_bits.c csrc/rounded_gaussian.c
 *    csrc/exponential_mechanism.c -o test_samplers && ./test_samplers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exponential_mechanism.h"
#include "rounded_gaussian.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Bytes of a small generator; a fraction of them replaced by 0x00, 0x55 or 0xff in runs of four. */
struct stream {
    uint64_t state;
    unsigned awkward; /* out of 256 digits */
    int constant;     /* -1, or the byte to give */
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

/* One run of everything. The buffer is on the heap, at its exact size, so that overruns are seen.
 */
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
    }
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
    }
}

static void test_failure_at_any_byte_comes_out(void) {
    int64_t draws[DRAWS];
    for (size_t left = 0; left < 6000; left += 4) {
        const struct stream stream = {left, 60, -1, left};
        CHECK(run(stream, 4, scales[2], rates[1], draws) == RANDOM_BITS_SOURCE_FAILED);
    }
}

/* The same draws with and without the table, for every buffer size. */
static void test_preparation_changes_nothing(void) {
    enum { STREAMS = 40 };
    static int64_t plain[STREAMS][DRAWS], prepared[DRAWS];
    for (unsigned seed = 0; seed < STREAMS; seed++) {
        const struct stream stream = {seed, seed % 4 * 60, -1, SIZE_MAX};
        CHECK(run(stream, 4, scales[5], rates[1], plain[seed]) == RANDOM_BITS_OK);
    }
    half_normal_prepare();
    for (unsigned seed = 0; seed < STREAMS; seed++) {
        const struct stream stream = {seed, seed % 4 * 60, -1, SIZE_MAX};
        CHECK(run(stream, 4 + 4 * seed, scales[5], rates[1], prepared) == RANDOM_BITS_OK);
        CHECK(memcmp(plain[seed], prepared, sizeof prepared) == 0);
    }
}

int main(void) {
    test_every_stream_ends();
    test_constant_streams_are_noticed();
    test_failure_at_any_byte_comes_out();
    test_preparation_changes_nothing(); /* last: it prepares for good */
    test_every_stream_ends();
    test_failure_at_any_byte_comes_out();
    puts("samplers: all checks passed");
    return 0;
}
