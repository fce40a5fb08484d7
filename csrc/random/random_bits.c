#include "random/random_bits.h"

#include <string.h>

/* The first fill is small, so that short uses of a stream are cheap. */
enum { FIRST_FILL = 256 };

/* Each repetition happens with probability below 1/2. */
enum { MAX_REJECTIONS = 1024 };

void random_bits_init(struct random_bits *bits, uint8_t *buffer, size_t capacity,
                      random_bits_refill *refill, void *context) {
    bits->buffer = buffer;
    bits->capacity = capacity;
    bits->fill_size = capacity < FIRST_FILL ? capacity : FIRST_FILL;
    bits->refill = refill;
    bits->context = context;
    random_bits_discard(bits);
}

void random_bits_discard(struct random_bits *bits) {
    bits->position = 0;
    bits->length = 0;
    bits->reservoir = 0;
    bits->available = 0;
}

int random_bits_refill_buffer(struct random_bits *bits) {
    /* Empty before the call: if it fails, the old bytes are already out of reach. */
    bits->position = 0;
    bits->length = 0;
    if (bits->refill(bits->context, bits->buffer, bits->fill_size) != 0)
        return RANDOM_BITS_SOURCE_FAILED;
    bits->length = bits->fill_size;
    bits->fill_size = bits->fill_size > bits->capacity / 2 ? bits->capacity : 2 * bits->fill_size;
    return RANDOM_BITS_OK;
}

static unsigned bit_length(uint64_t value) {
    unsigned length = 0;
    for (; value != 0; value >>= 1)
        length++;
    return length;
}

int random_bits_below(struct random_bits *bits, uint64_t bound, uint64_t *value) {
    const unsigned length = bit_length(bound - 1);
    for (int tries = 0; tries < MAX_REJECTIONS; tries++) {
        uint32_t high = 0, low;
        if (length > 32)
            RANDOM_BITS_TRY(random_bits_take(bits, length - 32, &high));
        RANDOM_BITS_TRY(random_bits_take(bits, length > 32 ? 32 : length, &low));
        *value = (uint64_t)high << 32 | low;
        if (*value < bound)
            return RANDOM_BITS_OK;
    }
    return RANDOM_BITS_STUCK;
}

int random_bits_fill_words(struct random_bits *bits, uint64_t *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        RANDOM_BITS_TRY(random_bits_word(bits, &out[i]));
    return RANDOM_BITS_OK;
}

/* Little-endian integers of 2^log2_width bytes, from the buffer. */
static int read_integers(struct random_bits *bits, void *out, size_t count, unsigned log2_width) {
    uint8_t *to = out;
    size_t left = count << log2_width;
    bits->reservoir = 0;
    bits->available = 0;
    while (left > 0) {
        if (bits->length - bits->position < 4)
            RANDOM_BITS_TRY(random_bits_refill_buffer(bits));
        const size_t present = bits->length - bits->position;
        const size_t size = left < present ? left : present;
        memcpy(to, bits->buffer + bits->position, size);
        bits->position += (size + 3) / 4 * 4;
        to += size;
        left -= size;
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    const size_t width = (size_t)1 << log2_width;
    for (to = out; to < (uint8_t *)out + (count << log2_width); to += width)
        for (size_t i = 0; i < width / 2; i++) {
            const uint8_t byte = to[i];
            to[i] = to[width - 1 - i];
            to[width - 1 - i] = byte;
        }
#endif
    return RANDOM_BITS_OK;
}

int random_bits_bytes(struct random_bits *bits, uint8_t *out, size_t count) {
    return read_integers(bits, out, count, 0);
}

int random_bits_digits(struct random_bits *bits, uint32_t *out, size_t count) {
    return read_integers(bits, out, count, 2);
}

int random_bits_words(struct random_bits *bits, uint64_t *out, size_t count) {
    return read_integers(bits, out, count, 3);
}
