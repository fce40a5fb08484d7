from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "random/random_bits.h" nogil:
    int RANDOM_BITS_OK, RANDOM_BITS_SOURCE_FAILED, RANDOM_BITS_STUCK
    ctypedef int random_bits_refill(void *context, uint8_t *buffer, size_t size) noexcept nogil
    struct random_bits:
        pass
    void random_bits_init(random_bits *bits, uint8_t *buffer, size_t capacity,
                          random_bits_refill *refill, void *context)
    int random_bits_fill_words(random_bits *bits, uint64_t *out, size_t count)


cdef extern from "passes/side_task.h" nogil:
    struct side_task:
        void (*run)(void *context) noexcept nogil
        void *context


cdef extern from "random/lazy_uniform.h" nogil:
    int LAZY_UNIFORM_DIGITS


cdef extern from "random/rounded_gaussian.h" nogil:
    struct rounded_gaussian_scale:
        uint64_t numerator
        unsigned shift
    int rounded_gaussian_fill(random_bits *bits, rounded_gaussian_scale scale, int64_t *out,
                              size_t count)


cdef extern from "random/exponential_mechanism.h" nogil:
    struct dyadic_rate:
        uint64_t numerator
        unsigned shift
    int bernoulli_exp_fill(random_bits *bits, dyadic_rate rate, uint8_t *out, size_t count)
    int exponential_mechanism_c "exponential_mechanism"(
        random_bits *bits, const int64_t *scores, size_t count, dyadic_rate rate, size_t *chosen)


cdef extern from "random/discrete_laplace.h" nogil:
    int discrete_laplace_fill(random_bits *bits, dyadic_rate rate, bint two_sided, int64_t *out,
                              size_t count)


cdef extern from "random/noisy_selection.h" nogil:
    int permute_and_flip_c "permute_and_flip"(
        random_bits *bits, const int64_t *scores, size_t count, dyadic_rate rate, size_t *order,
        size_t *chosen)
    int report_noisy_min_c "report_noisy_min"(
        random_bits *bits, const int64_t *scores, size_t count, dyadic_rate rate, bint two_sided,
        size_t *chosen)


cdef extern from "random/norm_laplace.h" nogil:
    size_t norm_laplace_workspace_bytes(size_t dimension)
    int norm_laplace_fill(random_bits *bits, rounded_gaussian_scale scale, size_t dimension,
                          size_t vectors, unsigned first_digits, int64_t *out, void *workspace)


cdef extern from "dispatch/bulk_table.h" nogil:
    struct bulk_table:
        const char *instruction_set
    const bulk_table *bulk_choose(const char *name)
    const bulk_table *bulk "bulk_in_use"


cdef extern from "memory/process_mark.h" nogil:
    void process_mark_prepare()
    uint64_t process_mark_c "process_mark"()


cdef extern from "random/norm_laplace_float.h" nogil:
    int norm_laplace_float_fill(random_bits *bits, const bulk_table *table, double scale,
                                size_t dimension, size_t vectors, double *out)


cdef extern from "random/normals_float.h" nogil:
    int normals_float_fill(random_bits *bits, const bulk_table *table, double factor, double *out,
                           size_t count)


cdef extern from "random/poisson_sample.h" nogil:
    int POISSON_BLOCK
    struct poisson_progress:
        uint64_t threshold
        uint64_t n_rows
        uint64_t next_row
        size_t count
    int poisson_sample_c "poisson_sample"(random_bits *bits, const bulk_table *table,
                                          poisson_progress *progress, int64_t *out, size_t capacity)


cdef extern from "random/sparse_sample.h" nogil:
    int SPARSE_FIRST_COUNTS, SPARSE_MAX_COUNTS, SPARSE_MAX_LOG2_BLOCK, SPARSE_ROOM
    struct block_counts:
        const uint32_t *digits
        size_t size
        unsigned log2_block
    struct sparse_progress:
        uint64_t n_rows
        uint64_t next_row
        size_t count
    int sparse_sample_c "sparse_sample"(random_bits *bits, const block_counts *law,
                                        sparse_progress *progress, int64_t *out, size_t capacity)


cdef extern from "random/uniform_integers.h" nogil:
    int uniform_integers_fill(random_bits *bits, uint64_t bound, int64_t *out, size_t count)
    int permutation_fill_32(random_bits *bits, int32_t *out, size_t count)
    int permutation_fill_64(random_bits *bits, int64_t *out, size_t count)
    size_t sample_workspace_words(uint64_t population, size_t size)
    bint sample_is_ascending(uint64_t population, size_t size)
    int sample_without_replacement_c "sample_without_replacement"(
        random_bits *bits, uint64_t population, size_t size, int64_t *out, uint64_t *workspace)


cdef class RandomBits:
    """For samplers: call `begin` with the GIL, use `&stream` without it, and pass the status to `end` before
    using any output."""

    cdef random_bits stream
    cdef readonly object source
    cdef readonly object lock
    cdef bytearray buffer
    cdef object view
    cdef object error
    cdef uint64_t process

    cdef int start_process(self) except -1
    cdef int prepare(self) except -1
    cdef int check(self, int status) except -1
    cdef int begin(self) except -1
    cdef int end(self, int status) except -1


cdef class Draw:
    """For other compiled modules: call `begin` with the GIL; if it returns true, `side_task` may run once,
    in any thread and without the GIL, and then `end` must be called."""

    cdef side_task side_task
    cdef RandomBits bits
    cdef object out  # the drawn numbers; None after a failure
    cdef object held  # the lock of the bits, between begin and end
    cdef uint64_t process

    cdef bint begin(self, bint wait) except -1
    cdef int end(self) except -1
    cdef bint is_made(self) noexcept
    cdef int status(self) noexcept
    cdef int make_room(self) except -1
    cdef void restart(self) noexcept


cdef struct gaussian_work:
    random_bits *stream
    rounded_gaussian_scale scale
    int64_t *out
    size_t count
    bint made
    int status


cdef class GaussianDraw(Draw):
    cdef gaussian_work work


cdef struct sample_work:
    random_bits *stream
    bint sparse
    block_counts law
    sparse_progress blocks
    poisson_progress records
    int64_t *out
    size_t capacity
    int status


cdef class PoissonDraw(Draw):
    cdef sample_work work
    cdef object digits  # that work.law points into

    cdef block_counts checked_law(self, const uint32_t[:, ::1] digits, unsigned log2_block) except *
    cdef size_t least_room(self) noexcept
    cdef size_t count(self) noexcept
    cdef int point_at_room(self) except -1
