/*
 * Random bits for the exact samplers.
 *
 * A `struct random_bits` is a buffer of bytes, a position in it, and a callback that refills it
 * (modelled on numpy's bitgen_t). It is the only source of randomness of the samplers.
 *
 * Every function returns RANDOM_BITS_OK or a negative status. After a negative status the output is
 * undefined and the draw must be abandoned: there is no fallback value, and no byte is ever read
 * twice.
 */
#ifndef DPERM_RANDOM_BITS_H
#define DPERM_RANDOM_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum random_bits_status {
    RANDOM_BITS_OK = 0,
    /* The refill callback failed. */
    RANDOM_BITS_SOURCE_FAILED = -1,
    /*
     * Something happened that has probability below 2^-500 for uniform bits: the source is broken
     * (constant bytes, for instance). Every loop of the samplers eventually ends with this
     * status, so that a broken source can neither hang a program nor go unnoticed.
     */
    RANDOM_BITS_STUCK = -2,
};

/* Fills buffer[0 .. size-1] with fresh independent uniform bytes. Returns 0, or non-zero on
 * failure. */
typedef int random_bits_refill(void *context, uint8_t *buffer, size_t size);

struct random_bits {
    uint8_t *buffer;  /* owned by the caller */
    size_t capacity;  /* bytes in buffer, a multiple of 4 */
    size_t fill_size; /* bytes requested by the next refill; doubles up to capacity */
    size_t position;  /* unread bytes are buffer[position .. length-1] */
    size_t length;
    uint64_t reservoir; /* bits taken from the buffer but not handed out, lowest bit first */
    unsigned available; /* number of bits in the reservoir */
    random_bits_refill *refill;
    void *context;
};

/* Returns from the calling function if a draw failed. */
#define RANDOM_BITS_TRY(call)                                                                      \
    do {                                                                                           \
        const int try_status = (call);                                                             \
        if (try_status != RANDOM_BITS_OK)                                                          \
            return try_status;                                                                     \
    } while (0)

/* Buffer: `capacity` bytes, a multiple of 4 and at least 4. Nothing is read from the source yet. */
void random_bits_init(struct random_bits *bits, uint8_t *buffer, size_t capacity,
                      random_bits_refill *refill, void *context);

/* Discards all bits that were read but not handed out. */
void random_bits_discard(struct random_bits *bits);

/* Refills the buffer. For random_bits_load_digit only. */
int random_bits_refill_buffer(struct random_bits *bits);

/* Moves 32 bits from the buffer to the reservoir. Requires available <= 32. */
static inline int random_bits_load_digit(struct random_bits *bits) {
    if (bits->length - bits->position < 4)
        RANDOM_BITS_TRY(random_bits_refill_buffer(bits));
    const uint8_t *byte = bits->buffer + bits->position;
    /* Little-endian on every machine, so that seeded runs agree between machines. */
    const uint32_t digit = (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
                           (uint32_t)byte[3] << 24;
    bits->position += 4;
    bits->reservoir |= (uint64_t)digit << bits->available;
    bits->available += 32;
    return RANDOM_BITS_OK;
}

/* Makes at least `count` <= 32 bits available in the reservoir without handing them out. */
static inline int random_bits_require(struct random_bits *bits, unsigned count) {
    return bits->available < count ? random_bits_load_digit(bits) : RANDOM_BITS_OK;
}

/* Drops `count` bits that are in the reservoir. */
static inline void random_bits_drop(struct random_bits *bits, unsigned count) {
    bits->reservoir >>= count;
    bits->available -= count;
}

/* value: uniform in 0 .. 2^count - 1, for 0 <= count <= 32. */
static inline int random_bits_take(struct random_bits *bits, unsigned count, uint32_t *value) {
    RANDOM_BITS_TRY(random_bits_require(bits, count));
    *value = (uint32_t)(bits->reservoir & ((UINT64_C(1) << count) - 1));
    random_bits_drop(bits, count);
    return RANDOM_BITS_OK;
}

/* value: uniform in 0 .. 2^64 - 1. The first 32 bits of the stream are the high half. */
static inline int random_bits_word(struct random_bits *bits, uint64_t *value) {
    uint32_t high, low;
    RANDOM_BITS_TRY(random_bits_take(bits, 32, &high));
    RANDOM_BITS_TRY(random_bits_take(bits, 32, &low));
    *value = (uint64_t)high << 32 | low;
    return RANDOM_BITS_OK;
}

/*
 * value: uniform in 0 .. bound - 1, bound >= 1, without bias: draws as many bits as bound - 1 has,
 * until the value is below the bound (less than two draws on average).
 */
int random_bits_below(struct random_bits *bits, uint64_t bound, uint64_t *value);

/* out: `count` uniform 64-bit words. */
int random_bits_fill_words(struct random_bits *bits, uint64_t *out, size_t count);

/*
 * Many bits, straight from the buffer. Bits in the reservoir are discarded first, and the last
 * digit is consumed whole. Bits are in the order of `random_bits_take`: the first byte is the
 * lowest of a digit, and the first digit is the low half of a word (unlike in random_bits_word).
 */
int random_bits_bytes(struct random_bits *bits, uint8_t *out, size_t count);
int random_bits_digits(struct random_bits *bits, uint32_t *out, size_t count);
int random_bits_words(struct random_bits *bits, uint64_t *out, size_t count);

#endif
