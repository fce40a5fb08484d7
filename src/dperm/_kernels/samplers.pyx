# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the exact samplers: argument checks and conversions, no arithmetic."""

import threading

import numpy as np

cimport cython
from libc.stdint cimport UINT64_MAX

cdef enum:
    CAPACITY = 65536  # bytes; long fills request this much at a time from the source

process_mark_prepare()
bulk = bulk_choose(NULL)


def instruction_set():
    """Name of the instruction set in use; the samples do not depend on it."""
    return bulk.instruction_set.decode()


def use_instruction_set(name):
    """Switch to the instruction set called ``name``; ValueError if it cannot run here."""
    global bulk
    cdef const bulk_table *table = bulk_choose(name.encode())
    if table == NULL:
        raise ValueError(f"instruction set {name!r} is not available here")
    bulk = table


def process_mark():
    """A number that is constant within a process and different in processes forked from it."""
    return process_mark_c()


cdef int refill(void *context, uint8_t *buffer, size_t size) noexcept with gil:
    """Request `size` bytes from the Python source; an exception is stored for RandomBits.check."""
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
        Overwrites a writable memoryview of bytes with independent uniform bytes and returns their
        number, which must be the length of the buffer. Its exceptions propagate through the sampler.

    Notes
    -----
    No byte is used twice: threads take turns, a forked child starts with an empty buffer, and copying
    and pickling are refused.
    """

    def __cinit__(self, source):
        self.source = source
        self.buffer = bytearray(CAPACITY)
        self.view = memoryview(self.buffer)  # also keeps the buffer from being resized
        self.process = 0
        self.start_process()

    cdef int start_process(self) except -1:
        """Start this process's stream with an empty buffer and a new lock."""
        lock = threading.Lock()
        # Creating an object may let another thread run and get here first. After this test there is
        # no switch.
        if self.process != process_mark_c():
            self.process = process_mark_c()
            random_bits_init(&self.stream, <uint8_t *><char *>self.buffer, CAPACITY,
                             refill, <void *>self)
            self.lock = lock
        return 0

    cdef int prepare(self) except -1:
        """Call before every use, without the lock, which after a fork may be held by a thread of the parent."""
        # The critical section matters on builds without the GIL.
        with cython.critical_section(self):
            if self.process != process_mark_c():
                # The parent continues with the bytes in this buffer; the source detects forks itself.
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

    cdef int begin(self) except -1:
        """Call before a sampler runs: gives this thread exclusive use of the stream until `end`."""
        self.prepare()
        self.lock.acquire()
        return 0

    cdef int end(self, int status) except -1:
        """Call after a sampler with its status: releases the stream and raises errors."""
        try:
            return self.check(status)
        finally:
            self.lock.release()

    def __reduce_ex__(self, protocol):
        raise TypeError("RandomBits cannot be copied or pickled: the copy would repeat its bits")

    def __repr__(self):
        return f"RandomBits({self.source!r})"


def uniform_words(RandomBits bits not None, size):
    """uint64 array of shape `size`, uniform in 0 .. 2^64 - 1."""
    out = np.empty(size, dtype=np.uint64)
    cdef uint64_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status
    bits.begin()
    with nogil:
        status = random_bits_fill_words(&bits.stream, &flat[0], count)
    bits.end(status)
    return out


cdef rounded_gaussian_scale checked_scale(numerator, log2_denominator) except *:
    if not (1 <= numerator <= 1 << 63 and 1 <= log2_denominator <= 63):
        raise ValueError("scale needs 1 <= numerator <= 2^63 and 1 <= log2_denominator <= 63, got "
                         f"numerator={numerator}, log2_denominator={log2_denominator}")
    cdef rounded_gaussian_scale scale
    scale.numerator = numerator
    scale.shift = log2_denominator
    return scale


cdef class Draw:
    """Deferred random numbers, drawn on request or earlier, as a side task of other work.

    As always, the numbers depend on what was drawn from the same bits before. Samples and noise are secret:
    only the code that uses them calls `_result`.
    """

    def __cinit__(self):
        self.process = process_mark_c()

    cdef bint begin(self, bint wait) except -1:
        """Acquire the lock of the bits; false if nothing is left to draw, or without `wait` if it is taken."""
        if self.is_made():
            return False
        self.bits.prepare()
        lock = self.bits.lock
        if not lock.acquire(wait):
            return False
        if self.is_made():  # by the thread that had the lock
            lock.release()
            return False
        self.held = lock
        return True

    cdef int end(self) except -1:
        lock, self.held = self.held, None
        lock.release()
        return 0

    cdef bint is_made(self) noexcept:
        """Whether nothing is left to draw."""
        return True

    cdef int status(self) noexcept:
        return RANDOM_BITS_OK

    cdef int make_room(self) except -1:
        """Call before running the side task again."""
        return 0

    cdef void restart(self) noexcept:
        """Prepare to draw again into the same array, which must not have been handed out."""

    def _result(self):
        """The drawn numbers; the same array each time.

        Raises
        ------
        Exception
            The error of the source of bytes, once; RuntimeError from then on, and in a forked child.
        """
        if self.process != process_mark_c():
            raise RuntimeError("this draw belongs to the parent process, whose numbers it would repeat")
        while not self.is_made():
            self.make_room()
            if self.begin(True):
                try:
                    with nogil:
                        self.side_task.run(self.side_task.context)
                finally:
                    self.end()
        if self.status() != RANDOM_BITS_OK and self.out is not None:
            self.out = None
            self.bits.check(self.status())
        if self.out is None:
            raise RuntimeError("this draw has failed")
        return self.out

    def __reduce_ex__(self, protocol):
        raise TypeError("a draw cannot be copied or pickled: the copy would repeat its bits")

    def __repr__(self):
        return f"<{type(self).__name__}, not for reading>"


cdef void run_gaussian(void *context) noexcept nogil:
    cdef gaussian_work *work = <gaussian_work *>context
    work.status = rounded_gaussian_fill(work.stream, work.scale, work.out, work.count)
    work.made = True


cdef class GaussianDraw(Draw):
    """int64 array of shape `size`: round(N(0, s^2)), s = numerator / 2^log2_denominator.

    Exact, except that results beyond +-2^62 are replaced by +-2^62.
    1 <= numerator <= 2^63, 1 <= log2_denominator <= 63; or numerator = 0, for zeros.
    """

    def __init__(self, RandomBits bits not None, numerator, log2_denominator, size):
        self.bits = bits
        self.out = (np.empty if numerator else np.zeros)(size, dtype=np.int64)
        cdef int64_t[::1] flat = self.out.reshape(-1)
        self.work.count = flat.shape[0]
        self.work.out = &flat[0] if self.work.count else NULL
        self.work.made = numerator == 0 or self.work.count == 0
        if self.work.made:
            return
        self.work.scale = checked_scale(numerator, log2_denominator)
        self.work.stream = &bits.stream
        self.side_task.run, self.side_task.context = run_gaussian, &self.work

    cdef void restart(self) noexcept:
        if self.work.status == RANDOM_BITS_OK:  # otherwise the array has been dropped
            self.work.made = self.work.scale.numerator == 0 or self.work.count == 0

    cdef bint is_made(self) noexcept:
        return self.work.made

    cdef int status(self) noexcept:
        return self.work.status


def rounded_gaussian(RandomBits bits not None, numerator, log2_denominator, size):
    """The result of a `GaussianDraw`; numerator at least 1."""
    checked_scale(numerator, log2_denominator)
    return GaussianDraw(bits, numerator, log2_denominator, size)._result()


def norm_laplace(RandomBits bits not None, numerator, log2_denominator, size_t vectors,
                 size_t dimension, unsigned first_digits=3):
    """int64 array of shape (vectors, dimension): rows round(z), z with density ~ exp(-||z||_2 / s).

    s = numerator / 2^log2_denominator, as for rounded_gaussian. Exact, except that results beyond +-2^62
    are replaced by +-2^62. first_digits (1 to 32): initial precision; does not affect the distribution.
    """
    cdef rounded_gaussian_scale scale = checked_scale(numerator, log2_denominator)
    if not (1 <= dimension < <size_t>1 << 40 and 1 <= first_digits <= LAZY_UNIFORM_DIGITS):
        raise ValueError(f"norm_laplace needs 1 <= dimension < 2^40 and 1 <= first_digits <= 32, got "
                         f"{dimension} and {first_digits}")
    out = np.empty((vectors, dimension), dtype=np.int64)
    # In words, so that the workspace is aligned; most of it is never touched.
    workspace = np.empty(norm_laplace_workspace_bytes(dimension) // 8 + 1, dtype=np.uint64)
    cdef int64_t[:, ::1] rows = out
    cdef uint64_t[::1] room = workspace
    cdef int status
    bits.begin()
    with nogil:
        status = norm_laplace_fill(&bits.stream, scale, dimension, vectors, first_digits,
                                   &rows[0, 0], &room[0])
    bits.end(status)
    return out


def norm_laplace_float(RandomBits bits not None, double scale, size_t vectors, size_t dimension):
    """float64 array of shape (vectors, dimension): rows z with density ~ exp(-||z||_2 / scale), idealised."""
    if dimension == 0:
        raise ValueError("norm_laplace_float needs at least one dimension")
    out = np.empty((vectors, dimension))
    cdef double[:, ::1] rows = out
    cdef int status
    bits.begin()
    with nogil:
        status = norm_laplace_float_fill(&bits.stream, bulk, scale, dimension, vectors, &rows[0, 0])
    bits.end(status)
    return out


def normals_float(RandomBits bits not None, double factor, double[::1] out not None):
    """Overwrite ``out`` with factor times standard normal numbers, idealised."""
    cdef size_t count = out.shape[0]
    cdef int status
    bits.begin()
    with nogil:
        status = normals_float_fill(&bits.stream, bulk, factor, &out[0], count)
    bits.end(status)


include "selection.pxi"


cdef void run_sample(void *context) noexcept nogil:
    cdef sample_work *work = <sample_work *>context
    if work.sparse:
        work.status = sparse_sample_c(work.stream, &work.law, &work.blocks, work.out, work.capacity)
    else:
        work.status = poisson_sample_c(work.stream, bulk, &work.records, work.out, work.capacity)


cdef class PoissonDraw(Draw):
    """Ascending indices of the sampled rows among 0 .. n_rows-1, each with probability threshold / 2^64.

    0 <= threshold < 2^64, 0 <= n_rows < 2^62. room: initial capacity for indices, which grows if necessary.
    law: None, or for a small rate the digits, shape (LAZY_UNIFORM_DIGITS, size), and log2_block of
    block_counts, see sparse_sample.h.
    """

    def __init__(self, RandomBits bits not None, threshold, n_rows, size_t room, law=None):
        if not (0 <= threshold <= UINT64_MAX and 0 <= n_rows < 1 << 62):
            raise ValueError("a Poisson sample needs 0 <= threshold < 2^64 and 0 <= n_rows < 2^62, got "
                             f"{threshold} and {n_rows}")
        self.bits = bits
        self.work.stream = &bits.stream
        self.work.sparse = law is not None
        self.work.records.threshold, self.work.records.n_rows = threshold, n_rows
        self.work.blocks.n_rows = n_rows
        if law is not None:
            self.work.law = self.checked_law(law[0], law[1])
        self.side_task.run, self.side_task.context = run_sample, &self.work
        self.out = np.empty(room + self.least_room(), dtype=np.int64)
        self.point_at_room()

    cdef block_counts checked_law(self, const uint32_t[:, ::1] digits, unsigned log2_block) except *:
        if not (6 <= log2_block <= SPARSE_MAX_LOG2_BLOCK and digits.shape[0] == LAZY_UNIFORM_DIGITS
                and SPARSE_FIRST_COUNTS <= digits.shape[1] <= SPARSE_MAX_COUNTS
                and digits[0, digits.shape[1] - 1] == 0xFFFFFFFF):
            raise ValueError("a sparse sample needs the law of its blocks, see sparse_sample.h")
        self.digits = digits.base
        return block_counts(&digits[0, 0], digits.shape[1], log2_block)

    cdef size_t least_room(self) noexcept:
        """Free entries that the sampler needs to continue."""
        return SPARSE_ROOM if self.work.sparse else POISSON_BLOCK

    cdef size_t count(self) noexcept:
        return self.work.blocks.count if self.work.sparse else self.work.records.count

    cdef int point_at_room(self) except -1:
        cdef int64_t[::1] indices = self.out
        self.work.out, self.work.capacity = &indices[0], indices.shape[0]
        return 0

    cdef bint is_made(self) noexcept:
        cdef uint64_t next_row = self.work.blocks.next_row if self.work.sparse else self.work.records.next_row
        return next_row == self.work.records.n_rows or self.work.status != RANDOM_BITS_OK

    cdef int status(self) noexcept:
        return self.work.status

    cdef int make_room(self) except -1:
        if self.work.capacity - self.count() < self.least_room():
            self.out = np.concatenate([self.out[:self.count()], np.empty_like(self.out)])
            self.point_at_room()
        return 0

    cdef void restart(self) noexcept:
        self.work.records.next_row = self.work.blocks.next_row = 0
        self.work.records.count = self.work.blocks.count = 0

    def _result(self):
        """The indices."""
        return Draw._result(self)[:self.count()]


def poisson_sample(RandomBits bits not None, threshold, n_rows, size_t room):
    """The result of a `PoissonDraw`."""
    return PoissonDraw(bits, threshold, n_rows, room)._result()


def sparse_sample(RandomBits bits not None, digits, log2_block, n_rows, size_t room):
    """The same at a small rate."""
    return PoissonDraw(bits, 0, n_rows, room, (digits, log2_block))._result()


def uniform_integers(RandomBits bits not None, bound, size):
    """int64 array of shape `size`: independent, uniform in 0 .. bound - 1 without bias, 1 <= bound <= 2^63."""
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound must be from 1 to 2^63, got {bound}")
    cdef uint64_t limit = bound
    out = np.empty(size, dtype=np.int64)
    cdef int64_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status
    bits.begin()
    with nogil:
        status = uniform_integers_fill(&bits.stream, limit, &flat[0], count)
    bits.end(status)
    return out


def permutation(RandomBits bits not None, size_t count, bint narrow):
    """0 .. count-1 in uniformly random order: int32 if narrow (count <= 2^31), else int64."""
    if narrow and count > <size_t>1 << 31:
        raise ValueError(f"a permutation of int32 has at most 2^31 entries, got {count}")
    out = np.empty(count, dtype=np.int32 if narrow else np.int64)
    cdef int32_t[::1] order_32
    cdef int64_t[::1] order_64
    cdef int status
    if narrow:
        order_32 = out
    else:
        order_64 = out
    bits.begin()
    with nogil:
        if narrow:
            status = permutation_fill_32(&bits.stream, &order_32[0], count)
        else:
            status = permutation_fill_64(&bits.stream, &order_64[0], count)
    bits.end(status)
    return out


def sample_without_replacement(RandomBits bits not None, population, size_t size):
    """int64 array of `size` distinct numbers in 0 .. population-1, ascending; every set is equally likely."""
    out = samples_without_replacement(bits, population, size, 1)[0]
    if not sample_is_ascending(population, size):
        out.sort()
    return out


def samples_without_replacement(RandomBits bits not None, population, size_t size, size_t count):
    """int64 array (count, size): independent samples as in sample_without_replacement, unsorted."""
    if not size <= population <= 1 << 62:
        raise ValueError(f"a sample of {size} needs a population of that many, at most 2^62; got {population}")
    cdef uint64_t limit = population
    cdef size_t i
    out = np.empty((count, size), dtype=np.int64)
    cdef int64_t[:, ::1] rows = out
    cdef uint64_t[::1] workspace = np.empty(sample_workspace_words(limit, size), dtype=np.uint64)
    cdef int status = RANDOM_BITS_OK
    bits.begin()
    with nogil:
        for i in range(count):
            status = sample_without_replacement_c(&bits.stream, limit, size, &rows[i, 0],
                                                  &workspace[0])
            if status != RANDOM_BITS_OK:
                break
    bits.end(status)
    return out
