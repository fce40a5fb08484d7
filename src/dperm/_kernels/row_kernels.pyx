# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the row kernels: arrays in, arrays out, the GIL released. No arithmetic.

Callers (``dperm.data``, ``dperm.objective``) have checked types, shapes and values.
"""

import numpy as np

from libc.stdint cimport int64_t

ctypedef fused real:
    float
    double

(
    LOGISTIC, HINGE, SQUARED_HINGE, HUBER, ABSOLUTE, PINBALL, EPSILON_INSENSITIVE, SOFT_MARGIN, POWER,
    SIGMOID, WELSCH, TUKEY,
) = range(N_LOSS_KINDS)

cdef const kernel_table *chosen = kernels_choose(NULL)


def instruction_sets():
    """Names of the compiled instruction sets that this machine can run, slowest first."""
    names = []
    while kernels_available(<int>len(names)) != NULL:
        names.append(kernels_available(<int>len(names)).decode())
    return names


def instruction_set():
    """Name of the instruction set in use."""
    return chosen.instruction_set.decode()


def use_instruction_set(name):
    """Switch to the instruction set called ``name``; ValueError if it cannot run here."""
    global chosen
    cdef const kernel_table *table = kernels_choose(name.encode())
    if table == NULL:
        raise ValueError(
            f"instruction set {name!r} is not available here; choose one of {instruction_sets()}"
        )
    chosen = table


def threads_compiled_in():
    """Whether this build can use more than one thread."""
    return bool(has_threads())


cdef class DenseRows:
    """A view of a design matrix and its targets for the kernels; keeps the arrays alive."""

    cdef dense_rows rows
    cdef real_type type
    cdef readonly object x, y, norms

    def __init__(self, x, y, bint intercept, double row_norm, int n_threads):
        self.x, self.y = x, y
        self.norms = np.empty(x.shape[0])
        if x.dtype == np.float32:
            self.bind[float](x, y, self.norms)
            self.type = REAL_F32
        else:
            self.bind[double](x, y, self.norms)
            self.type = REAL_F64
        self.rows.intercept = intercept
        self.rows.row_norm = row_norm
        cdef double[::1] norms = self.norms
        cdef int status
        with nogil:
            status = all_row_norms(chosen, self.type, &self.rows, n_threads, &norms[0])
        check(status)

    cdef void bind(self, const real[:, ::1] x, const real[::1] y, const double[::1] norms):
        self.rows.x = &x[0, 0]
        self.rows.y = &y[0]
        self.rows.norms = &norms[0]
        self.rows.n_rows = x.shape[0]
        self.rows.n_columns = x.shape[1]

    cdef dense_rows among(self, const int64_t[::1] batch) except *:
        """All rows, or those of a batch: ascending indices."""
        cdef dense_rows rows = self.rows
        if batch is None:
            return rows
        if batch.shape[0] > 0 and (batch[0] < 0 or batch[batch.shape[0] - 1] >= rows.n_rows):
            raise IndexError("a batch holds indices of rows that are not there")
        rows.batch = &batch[0]
        rows.n_rows = batch.shape[0]
        return rows

    def clipped_gradient_sum(self, tuple loss_spec, const double[::1] w, double clip_in, double grid,
                             int n_threads, const int64_t[::1] batch=None):
        """Integers (n_columns + intercept,): the clipped gradients' sum in units of ``grid``.

        With ``batch``, ascending indices, the sum over these rows only.
        """
        result = np.empty(w.shape[0], dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef dense_rows rows = self.among(batch)
        cdef int status
        with nogil:
            status = all_clipped_gradient_sum(chosen, self.type, &rows, n_threads, kernel_loss,
                                              &w[0], clip_in, grid, &sum_out[0])
        check(status)
        return result

    def gradient_sum(self, tuple loss_spec, const double[::1] w, int n_threads, bint with_loss=True):
        """The plain sums ``(gradient, loss)`` in floating point; the loss is 0 when not asked for."""
        result = np.empty(w.shape[0])
        cdef double[::1] sum_out = result
        cdef double loss_out = 0
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef int status
        with nogil:
            status = all_gradient_sum(chosen, self.type, &self.rows, n_threads, kernel_loss, &w[0],
                                      &sum_out[0], &loss_out if with_loss else NULL)
        check(status)
        return result, loss_out

    def clipped_loss_sums(self, tuple loss_spec, const double[::1] w,
                          const double[::1] direction, const double[::1] steps, double clip,
                          double grid, int n_threads):
        """Integers (n_steps,): the clipped losses' sums along a line in units of ``grid``."""
        result = np.empty(steps.shape[0], dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef int status
        with nogil:
            status = all_clipped_loss_sums(chosen, self.type, &self.rows, n_threads, kernel_loss,
                                           &w[0], &direction[0], &steps[0], steps.shape[0], clip,
                                           grid, &sum_out[0])
        check(status)
        return result

    def entry_sum(self, int n_threads):
        """Sum of all entries of the matrix: a pass that does nothing but read."""
        cdef double sum_out = 0
        cdef int status
        with nogil:
            status = all_entry_sum(chosen, self.type, &self.rows, n_threads, &sum_out)
        check(status)
        return sum_out

    def predictions(self, const double[::1] w, int n_threads):
        """Linear predictions (n_rows,) of the scaled rows; NaN for rows that are not finite."""
        result = np.empty(self.rows.n_rows)
        cdef double[::1] p_out = result
        cdef int status
        with nogil:
            status = all_predictions(chosen, self.type, &self.rows, n_threads, &w[0], &p_out[0])
        check(status)
        return result

    def sgd_steps(self, tuple loss_spec, tuple settings, double[::1] w, double[::1] w_sum,
                  const int64_t[::1] order, const int64_t[::1] batch_ends,
                  const double[::1] step_sizes, noise):
        """Steps of stochastic gradient descent on ``w``, in place; see csrc/sgd_steps.h.

        settings: ``(clip_in, grid, divisor, l2, n_penalized, radius)``. w_sum: None for no sum of iterates.
        noise: None, or an int64 (units of the grid) or float64 array of shape (n_steps, dimension).
        """
        cdef sgd_settings chosen_settings
        (chosen_settings.clip_in, chosen_settings.grid, chosen_settings.divisor, chosen_settings.l2,
         chosen_settings.n_penalized, chosen_settings.radius) = settings
        chosen_settings.loss = loss_of(loss_spec)
        cdef sgd_block block
        cdef const int64_t[:, ::1] integers
        cdef const double[:, ::1] floats
        block.n_steps = batch_ends.shape[0]
        if block.n_steps == 0:
            return
        block.order = &order[0] if order.shape[0] > 0 else NULL
        block.batch_ends = &batch_ends[0]
        block.step_sizes = &step_sizes[0]
        block.noise_integers, block.noise = NULL, NULL
        if noise is not None and noise.dtype == np.int64:
            integers = noise
            block.noise_integers = &integers[0, 0]
        elif noise is not None:
            floats = noise
            block.noise = &floats[0, 0]
        cdef double *sum_of_w = &w_sum[0] if w_sum is not None else NULL
        cdef int status
        with nogil:
            status = one_sgd_block(chosen, self.type, &self.rows, &chosen_settings, &block, &w[0],
                                   sum_of_w)
        check(status)


cdef loss loss_of(tuple loss_spec):
    """``(kind, parameter, curvature)``, see ``Loss.kernel``."""
    kind, parameter, curvature = loss_spec
    return loss(<loss_kind><int>kind, parameter, curvature)


cdef int check(int status) except -1:
    if status != 0:
        raise MemoryError("no memory for the partial sums of a pass over the data")
    return 0
