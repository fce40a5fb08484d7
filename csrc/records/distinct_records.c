/* See distinct_records.h. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "records/distinct_records.h"

enum {
    HASHED_AT_ONCE = 1 << 14, /* records */
    HASHED_TOGETHER = 1 << 8, /* records per thread and turn */
    LOOK_AHEAD = 8,           /* prefetch distance in records */
    FIRST_CAPACITY = 1 << 10,
    TABLES = 8, /* of simple tabulation, one per byte */
    TABLE_WORDS = TABLES * 256,
};

/* Equal records: the index of the first, and their number. */
struct kind {
    int64_t first, count;
};

/* A hash, and 1 + the index of a kind or 0 if the place is empty. */
struct place {
    uint64_t hash;
    int64_t kind;
};

/* A hash table of the kinds whose hashes fall into one share of all values. */
struct share {
    struct kind *kinds;   /* in the order of their first records; capacity / 2 allocated */
    struct place *places; /* capacity, a power of two, at most half of them taken */
    int64_t n_kinds, capacity;
    int64_t *waiting; /* current records that belong to this share */
    int failed;       /* out of memory */
};

struct distinct_records {
    struct share *shares;
    int n_shares;
};

struct bytes {
    const char *at;
    int64_t size;
};

static struct bytes part_of(const struct record_part *part, int64_t record) {
    const int64_t begin = part->starts ? part->starts[record] : record;
    const int64_t end = part->starts ? part->starts[record + 1] : record + 1;
    return (struct bytes){part->bytes + begin * part->width, (end - begin) * part->width};
}

static int64_t words_in(int64_t bytes) {
    return (bytes + 7) / 8;
}

int64_t record_key_words(const struct records *records) {
    int64_t most = 0;
    for (int p = 0; p < records->n_parts; p++) {
        const struct record_part *part = &records->parts[p];
        int64_t longest = part->width;
        for (int64_t i = 0; part->starts && i < records->n_records; i++) {
            const int64_t size = part_of(part, i).size;
            longest = size > longest ? size : longest;
        }
        most += 1 + words_in(longest);
    }
    return TABLE_WORDS + most;
}

/* One term of NH: the product of the halves of word + key. The carry from the lower half into the
 * upper one only shifts the latter's key. */
static inline uint64_t product(uint64_t word, uint64_t key) {
    const uint64_t sum = word + key;
    return (sum & 0xffffffff) * (sum >> 32);
}

/* Adds the terms of the words that fill whole vectors; returns their number. */
static int64_t hash_vectors(const char *bytes, int64_t n_words, const uint64_t *restrict key,
                            uint64_t *sum_out) {
    int64_t w = 0;
#ifdef __SSE2__
    enum { VECTORS = 2 };
    __m128i sum[VECTORS] = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (; w + 2 * VECTORS <= n_words; w += 2 * VECTORS)
        for (int v = 0; v < VECTORS; v++) {
            const __m128i word = _mm_loadu_si128((const __m128i *)(bytes + 8 * w) + v);
            const __m128i x = _mm_add_epi64(word, _mm_loadu_si128((const __m128i *)(key + w) + v));
            sum[v] = _mm_add_epi64(sum[v], _mm_mul_epu32(x, _mm_srli_epi64(x, 32)));
        }
    uint64_t halves[2];
    _mm_storeu_si128((__m128i *)halves, _mm_add_epi64(sum[0], sum[1]));
    *sum_out += halves[0] + halves[1];
#else
    (void)bytes, (void)n_words, (void)key, (void)sum_out;
#endif
    return w;
}

static uint64_t hash_bytes(struct bytes bytes, const uint64_t *restrict key) {
    const int64_t whole = bytes.size / 8;
    uint64_t sum = 0, word = 0;
    for (int64_t w = hash_vectors(bytes.at, whole, key, &sum); w < whole; w++) {
        memcpy(&word, bytes.at + 8 * w, 8);
        sum += product(word, key[w]);
    }
    if (bytes.size % 8) {
        word = 0;
        memcpy(&word, bytes.at + 8 * whole, (size_t)(bytes.size % 8));
        sum += product(word, key[whole]);
    }
    return sum;
}

static uint64_t tabulate(uint64_t value, const uint64_t *tables) {
    uint64_t hash = 0;
    for (int b = 0; b < TABLES; b++)
        hash ^= tables[256 * b + (value >> 8 * b & 255)];
    return hash;
}

static uint64_t hash_record(const struct records *records, int64_t record, const uint64_t *key) {
    const uint64_t *next = key + TABLE_WORDS;
    uint64_t sum = 0;
    for (int p = 0; p < records->n_parts; p++) {
        const struct bytes bytes = part_of(&records->parts[p], record);
        sum += product((uint64_t)bytes.size, next[0]) + hash_bytes(bytes, next + 1);
        next += 1 + words_in(bytes.size);
    }
    return tabulate(sum, key);
}

static int equal(const struct records *records, int64_t one, int64_t other) {
    for (int p = 0; p < records->n_parts; p++) {
        const struct bytes a = part_of(&records->parts[p], one);
        const struct bytes b = part_of(&records->parts[p], other);
        if (a.size != b.size || memcmp(a.at, b.at, (size_t)a.size) != 0)
            return 0;
    }
    return 1;
}

/* The upper half of a hash determines the share, the lower bits the place. */
static int share_of(uint64_t hash, int n_shares) {
    return (int)((hash >> 32) * (uint64_t)n_shares >> 32);
}

static struct place *first_free(const struct share *share, uint64_t hash) {
    const uint64_t mask = (uint64_t)share->capacity - 1;
    uint64_t at = hash & mask;
    while (share->places[at].kind)
        at = (at + 1) & mask;
    return &share->places[at];
}

/* Makes room for one more kind; returns 0 when memory ran out. */
static int make_room(struct share *share) {
    if (share->n_kinds < share->capacity / 2)
        return 1;
    struct share wider = *share;
    wider.capacity = share->capacity ? 2 * share->capacity : FIRST_CAPACITY;
    struct kind *kinds = realloc(share->kinds, wider.capacity / 2 * sizeof *kinds);
    if (!kinds)
        return 0;
    share->kinds = wider.kinds = kinds;
    wider.places = calloc(wider.capacity, sizeof *wider.places);
    if (!wider.places)
        return 0;
    for (int64_t k = 0; k < share->capacity; k++)
        if (share->places[k].kind)
            *first_free(&wider, share->places[k].hash) = share->places[k];
    free(share->places);
    *share = wider;
    return 1;
}

static void count_record(struct share *share, const struct records *records, int64_t record,
                         uint64_t hash) {
    if (!make_room(share)) {
        share->failed = 1;
        return;
    }
    const uint64_t mask = (uint64_t)share->capacity - 1;
    uint64_t at = hash & mask;
    for (; share->places[at].kind; at = (at + 1) & mask) {
        struct kind *kind = &share->kinds[share->places[at].kind - 1];
        if (share->places[at].hash == hash && equal(records, kind->first, record)) {
            kind->count++;
            return;
        }
    }
    share->kinds[share->n_kinds++] = (struct kind){record, 1};
    share->places[at] = (struct place){hash, share->n_kinds};
}

/* Counts those of the records begin .. end - 1 that belong to share s, in order. */
static void count_share(struct distinct_records *distinct, int s, const struct records *records,
                        int64_t begin, int64_t end, const uint64_t *hashes) {
    struct share share = distinct->shares[s]; /* a copy: neighbours lie in the same cache line */
    int64_t n_waiting = 0;
    for (int64_t i = 0; i < end - begin; i++) {
        share.waiting[n_waiting] = i;
        n_waiting += share_of(hashes[i], distinct->n_shares) == s;
    }
    for (int64_t k = 0; k < n_waiting && !share.failed; k++) {
        if (k + LOOK_AHEAD < n_waiting && share.capacity) {
            const uint64_t hash = hashes[share.waiting[k + LOOK_AHEAD]];
            __builtin_prefetch(&share.places[hash & ((uint64_t)share.capacity - 1)]);
        }
        count_record(&share, records, begin + share.waiting[k], hashes[share.waiting[k]]);
    }
    distinct->shares[s] = share;
}

static int open_shares(struct distinct_records *distinct, int n_shares) {
    distinct->n_shares = n_shares;
    distinct->shares = calloc(n_shares, sizeof *distinct->shares);
    for (int s = 0; distinct->shares && s < n_shares; s++) {
        distinct->shares[s].waiting = malloc(HASHED_AT_ONCE * sizeof(int64_t));
        distinct->shares[s].failed = !distinct->shares[s].waiting;
    }
    return distinct->shares != NULL;
}

static int any_failed(const struct distinct_records *distinct) {
    int failed = 0;
    for (int s = 0; s < distinct->n_shares; s++)
        failed |= distinct->shares[s].failed;
    return failed;
}

/* The first of `count` tasks that nobody has taken. */
static int64_t take(_Atomic int64_t *next, int64_t count) {
    return atomic_fetch_add_explicit(next, count, memory_order_relaxed);
}

static void count_all(struct distinct_records *distinct, const struct records *records,
                      const uint64_t *key, uint64_t *hashes) {
    for (int64_t begin = 0; begin < records->n_records; begin += HASHED_AT_ONCE) {
        const int64_t left = records->n_records - begin;
        const int64_t size = left < HASHED_AT_ONCE ? left : HASHED_AT_ONCE;
        _Atomic int64_t next_record = 0, next_share = 0;
#pragma omp parallel num_threads(distinct->n_shares)
        for (int64_t first; (first = take(&next_record, HASHED_TOGETHER)) < size;)
            for (int64_t i = first; i < first + HASHED_TOGETHER && i < size; i++)
                hashes[i] = hash_record(records, begin + i, key);
#pragma omp parallel num_threads(distinct->n_shares)
        for (int64_t s; (s = take(&next_share, 1)) < distinct->n_shares;)
            if (!distinct->shares[s].failed)
                count_share(distinct, (int)s, records, begin, begin + size, hashes);
    }
}

struct distinct_records *distinct_records_find(const struct records *records, const uint64_t *key,
                                               int n_threads) {
    struct distinct_records *distinct = calloc(1, sizeof *distinct);
    uint64_t *hashes = malloc(HASHED_AT_ONCE * sizeof *hashes);
    if (distinct && hashes && open_shares(distinct, n_threads))
        count_all(distinct, records, key, hashes);
    free(hashes);
    if (distinct && hashes && distinct->shares && !any_failed(distinct))
        return distinct;
    distinct_records_free(distinct);
    return NULL;
}

int64_t distinct_records_count(const struct distinct_records *distinct) {
    int64_t count = 0;
    for (int s = 0; s < distinct->n_shares; s++)
        count += distinct->shares[s].n_kinds;
    return count;
}

void distinct_records_read(const struct distinct_records *distinct, int64_t *first_out,
                           int64_t *count_out) {
    for (int s = 0; s < distinct->n_shares; s++)
        for (int64_t k = 0; k < distinct->shares[s].n_kinds; k++) {
            *first_out++ = distinct->shares[s].kinds[k].first;
            *count_out++ = distinct->shares[s].kinds[k].count;
        }
}

void distinct_records_free(struct distinct_records *distinct) {
    if (!distinct)
        return;
    for (int s = 0; distinct->shares && s < distinct->n_shares; s++) {
        free(distinct->shares[s].kinds);
        free(distinct->shares[s].places);
        free(distinct->shares[s].waiting);
    }
    free(distinct->shares);
    free(distinct);
}
