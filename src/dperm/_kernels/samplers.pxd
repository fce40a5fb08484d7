from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "random_bits.h" nogil:
    int RANDOM_BITS_OK, RANDOM_BITS_SOURCE_FAILED, RANDOM_BITS_STUCK
    ctypedef int random_bits_refill(void *context, uint8_t *buffer, size_t size) noexcept nogil
    struct random_bits:
        pass
    void random_bits_init(random_bits *bits, uint8_t *buffer, size_t capacity,
                          random_bits_refill *refill, void *context)
    int random_bits_fill_words(random_bits *bits, uint64_t *out, size_t count)


cdef extern from "rounded_gaussian.h" nogil:
    struct rounded_gaussian_scale:
        uint64_t numerator
        unsigned shift
    void rounded_gaussian_prepare()
    int rounded_gaussian_fill(random_bits *bits, rounded_gaussian_scale scale, int64_t *out,
                              size_t count)


cdef extern from "exponential_mechanism.h" nogil:
    struct dyadic_rate:
        uint64_t numerator
        unsigned shift
    int bernoulli_exp_fill(random_bits *bits, dyadic_rate rate, uint8_t *out, size_t count)
    int exponential_mechanism_c "exponential_mechanism"(
        random_bits *bits, const int64_t *scores, size_t count, dyadic_rate rate, size_t *chosen)


cdef class RandomBits:
    """For other compiled modules: hold `lock`, call `prepare` with the GIL, use `&stream` without it,
    and hand the status to `check` before any output is used."""

    cdef random_bits stream
    cdef readonly object source
    cdef readonly object lock
    cdef bytearray buffer
    cdef object view
    cdef object error
    cdef long process

    cdef int start_process(self) except -1
    cdef int prepare(self) except -1
    cdef int check(self, int status) except -1
