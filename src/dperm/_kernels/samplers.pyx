# cython: language_level=3, boundscheck=False, wraparound=False
"""Exact samplers on a stream of random bytes: argument checks and conversion, no arithmetic."""

import threading

import numpy as np

from libc.stdint cimport UINT64_MAX
from posix.unistd cimport getpid

cdef enum:
    CAPACITY = 65536  # bytes; long fills ask the source for this much at a time

rounded_gaussian_prepare()


cdef int refill(void *context, uint8_t *buffer, size_t size) noexcept with gil:
    """Ask the Python source for `size` bytes; an exception is kept for RandomBits.check."""
    cdef RandomBits bits = <RandomBits>context
    try:
        written = bits.source.fill(bits.view[:size])
        if written != size:
            raise RuntimeError(f"fill() must write and return {size} bytes, got {written!r}")
        return 0
    except BaseException as error:
        bits.error = error
        return -1


cdef class RandomBits:
    """Random bits for the samplers, read from a source of bytes.

    Parameters
    ----------
    source : object with ``fill(buffer) -> int``
        Overwrites a writable memoryview of bytes with fresh independent uniform bytes and returns how
        many it wrote, which must be all of them. Exceptions that it raises come out of the sampler.

    Notes
    -----
    No byte is used twice: threads take turns, a forked child starts with an empty buffer, and there is
    no copy and no pickle.
    """

    def __cinit__(self, source):
        self.source = source
        self.buffer = bytearray(CAPACITY)
        self.view = memoryview(self.buffer)  # also keeps the buffer from being resized
        self.process = -1
        self.start_process()

    cdef int start_process(self) except -1:
        """Begin this process's stream with an empty buffer and a lock that nobody holds."""
        lock = threading.Lock()
        # Creating an object may let another thread run, which may have come here first. From this
        # test on nothing gives way.
        if self.process != getpid():
            self.process = getpid()
            random_bits_init(&self.stream, <uint8_t *><char *>self.buffer, CAPACITY,
                             refill, <void *>self)
            self.lock = lock
        return 0

    cdef int prepare(self) except -1:
        """Call before every use, without the lock: after a fork another thread may seem to hold it."""
        if self.process != getpid():
            # The parent goes on with the bytes of this buffer; the source must see to itself.
            self.start_process()
        return 0

    cdef int check(self, int status) except -1:
        """Call with the status of every sampler, before its output is used."""
        if status == RANDOM_BITS_OK:
            return 0
        if status == RANDOM_BITS_SOURCE_FAILED:
            error, self.error = self.error, None
            raise error
        raise RuntimeError("the source of random bytes is broken: its bytes are not random")

    def __reduce_ex__(self, protocol):
        raise TypeError("RandomBits cannot be copied or pickled: the copy would repeat its bits")

    def __repr__(self):
        return f"RandomBits({self.source!r})"


def uniform_words(RandomBits bits not None, size):
    """uint64 array of shape `size`, uniform in 0 .. 2^64 - 1."""
    out = np.empty(size, dtype=np.uint64)
    cdef uint64_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status = RANDOM_BITS_OK
    bits.prepare()
    with bits.lock:
        if count > 0:
            with nogil:
                status = random_bits_fill_words(&bits.stream, &flat[0], count)
        bits.check(status)
    return out


def rounded_gaussian(RandomBits bits not None, numerator, log2_denominator, size):
    """int64 array of shape `size`: round(N(0, s^2)), s = numerator / 2^log2_denominator.

    Exact, except that results beyond +-2^62 are replaced by +-2^62.
    1 <= numerator <= 2^63, 1 <= log2_denominator <= 63.
    """
    if not (1 <= numerator <= 1 << 63 and 1 <= log2_denominator <= 63):
        raise ValueError("scale needs 1 <= numerator <= 2^63 and 1 <= log2_denominator <= 63, got "
                         f"numerator={numerator}, log2_denominator={log2_denominator}")
    cdef rounded_gaussian_scale scale
    scale.numerator = numerator
    scale.shift = log2_denominator
    out = np.empty(size, dtype=np.int64)
    cdef int64_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status = RANDOM_BITS_OK
    bits.prepare()
    with bits.lock:
        if count > 0:
            with nogil:
                status = rounded_gaussian_fill(&bits.stream, scale, &flat[0], count)
        bits.check(status)
    return out


cdef dyadic_rate checked_rate(numerator, log2_denominator) except *:
    if not (0 <= numerator <= UINT64_MAX and 0 <= log2_denominator <= 127):
        raise ValueError("rate needs 0 <= numerator < 2^64 and 0 <= log2_denominator <= 127, got "
                         f"numerator={numerator}, log2_denominator={log2_denominator}")
    cdef dyadic_rate rate
    rate.numerator = numerator
    rate.shift = log2_denominator
    return rate


def exponential_mechanism(RandomBits bits not None, scores, numerator, log2_denominator):
    """Index j, drawn with probability proportional to exp(-rate * scores[j]), exactly.

    scores: int64, one dimension, not empty. rate = numerator / 2^log2_denominator,
    0 <= numerator < 2^64, 0 <= log2_denominator <= 127.
    """
    cdef dyadic_rate rate = checked_rate(numerator, log2_denominator)
    cdef const int64_t[::1] flat = scores
    cdef size_t count = flat.shape[0], chosen = 0
    cdef int status
    if count == 0:
        raise ValueError("scores must hold at least one candidate")
    bits.prepare()
    with bits.lock:
        with nogil:
            status = exponential_mechanism_c(&bits.stream, &flat[0], count, rate, &chosen)
        bits.check(status)
    return chosen


def bernoulli_exp(RandomBits bits not None, numerator, log2_denominator, size):
    """bool array of shape `size`: true with probability exp(-numerator / 2^log2_denominator), exactly.

    0 <= numerator < 2^64, 0 <= log2_denominator <= 127.
    """
    cdef dyadic_rate rate = checked_rate(numerator, log2_denominator)
    out = np.empty(size, dtype=np.uint8)
    cdef uint8_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status = RANDOM_BITS_OK
    bits.prepare()
    with bits.lock:
        if count > 0:
            with nogil:
                status = bernoulli_exp_fill(&bits.stream, rate, &flat[0], count)
        bits.check(status)
    return out.view(np.bool_)
