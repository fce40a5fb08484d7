# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the row kernels: arrays in, arrays out, without the GIL. No arithmetic.

Callers (``dperm.data``, ``dperm.objective.objective``) have checked types, shapes and values.
"""

from types import SimpleNamespace

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport isfinite, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

from dperm._kernels.samplers cimport Draw, GaussianDraw, PoissonDraw, side_task

ctypedef fused real:
    float
    double

cdef int SOFTMAX = -1  # has its own kernels, and rows: SoftmaxRows
# Loss kinds by name, from the list in loss_kinds.h.
LOSS_KINDS = {
    (<bytes>loss_name(<loss_kind><int>kind)).decode().removeprefix("LOSS_").lower(): kind
    for kind in range(N_LOSS_KINDS)
} | {"softmax": SOFTMAX}

chosen = kernels_choose(NULL)


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


def openmp_threads():
    """Threads that OpenMP would use according to its settings, including those of threadpoolctl."""
    return max_threads()


def end_openmp_threads():
    """End the threads of the last pass, which would otherwise spin on their cores, waiting for the next."""
    end_threads()


include "matrix_sources.pxi"


cdef class DenseRows:
    """A view of a design matrix and its targets for the kernels; keeps the arrays alive.

    The matrix is a float32 or float64 array, or a `MatrixSource`, which passes expand block by block.
    """

    cdef dense_rows rows
    cdef real_type type
    cdef readonly object x, y, norms, counts, weights
    cdef tuple kept  # weights and predictions of the last pass with keep_predictions

    def __init__(self, x, y, bint intercept, double row_norm, int n_threads,
                 const int64_t[::1] counts=None, bint keep_norms=True, const double[::1] weights=None):
        """counts: multiplicity of each row, at least 1.

        weights: factor of the loss of each row, at least 0.
        keep_norms: if false, a `MatrixSource` recomputes them in every pass.
        """
        self.x, self.y = x, y
        if counts is not None:
            self.counts = np.asarray(counts)
            self.rows.multiplicity = &counts[0]
        if weights is not None:
            self.weights = np.asarray(weights)
            self.rows.weights = &weights[0]
        if x.dtype == np.float32:
            self.bind[float](x, y)
            self.type = REAL_F32
        else:
            self.bind[double](x, y)
            self.type = REAL_F64
        self.rows.n_rows, self.rows.n_columns = x.shape
        self.rows.intercept = intercept
        self.rows.row_norm = row_norm
        cdef double[::1] norms
        if keep_norms:
            self.norms = norms = self.row_norms(n_threads)
            self.rows.norms = &norms[0]
        else:
            (<MatrixSource?>x).source.find_norms = \
                chosen.routes[0][<int>PASS_row_norms].kernel[<int>self.type]

    def row_norms(self, int n_threads):
        """Norms (n_rows,) of the rows, NaN for rows that are not finite."""
        return self.call(SimpleNamespace(kernel="row_norms"), n_threads)

    cdef void bind(self, x, const real[::1] y) except *:
        cdef const real[:, ::1] dense
        if isinstance(x, MatrixSource):
            self.rows.source = &(<MatrixSource>x).source
        else:
            dense = x
            self.rows.x = &dense[0, 0]
        self.rows.y = &y[0]

    cdef dense_rows among(self, const int64_t[::1] batch) except *:
        """All rows, or those of a batch: ascending indices, each of which counts as one record."""
        if batch is None:
            return self.rows
        if batch.shape[0] > 0 and (batch[0] < 0 or batch[batch.shape[0] - 1] >= self.rows.n_rows):
            raise IndexError("a batch holds indices of rows that are not there")
        return self.batch_of(&batch[0], batch.shape[0])

    cdef dense_rows batch_of(self, const int64_t *batch, int64_t n_rows) noexcept:
        """The rows of a batch that has been checked."""
        cdef dense_rows rows = self.rows
        rows.multiplicity = NULL
        rows.batch = batch
        rows.n_rows = n_rows
        return rows

    def call(self, pass_, int n_threads):
        """The result of a pass over all rows.

        pass_: an object with the attribute ``kernel``, the name of a pass in ``csrc/kernel_table.h``, and the
        arguments that this pass reads; missing ones are zeros. ``loss_spec`` is ``Loss.kernel``; for floats,
        flags and arrays see ``csrc/passes/pass_arguments.c``. In addition

        batch : ascending indices of rows; None for all.
        clip_norms : (n_rows,) used instead of the row norms when gradients are clipped; or None.
        keep_predictions : keep the products of rows and weights for line searches from the same weights.

        Returns an array, int64 in units of the grid or float64; for gradient_sum ``(array, loss)``, for
        entry_sum a float.
        """
        cdef kernel_pass value
        cdef list alive = fill_pass(&value, pass_, isinstance(self, SoftmaxRows))
        cdef dense_rows rows = self.among(getattr(pass_, "batch", None))
        cdef const double[::1] clip_norms = getattr(pass_, "clip_norms", None)
        cdef double[::1] predictions
        cdef bint keeps = getattr(pass_, "keep_predictions", False) and not value.n_classes
        if clip_norms is not None:
            rows.clip_norms = &clip_norms[0]
        if keeps:
            predictions = np.empty(rows.n_rows)
            rows.predictions = &predictions[0]
        elif value.direction != NULL and not value.n_classes:
            with cython.critical_section(self):
                kept = self.kept
            if kept is not None and np.array_equal(kept[0], pass_.w):
                predictions = kept[1]
                rows.predictions = &predictions[0]
        cdef result shape = result_of_pass(&rows, &value)
        out = np.empty(result_size(&shape), dtype=np.int64 if shape.combine == ADD_INTEGERS else np.float64)
        cdef void *to = <void *>start_of(out)
        cdef int status
        with nogil:
            status = run_pass(chosen, self.type, &rows, &value, n_threads, to)
        check(status)
        if keeps:  # in a new tuple, as a line search in another thread may be using the old one
            newest = np.array(pass_.w), np.asarray(predictions)
            with cython.critical_section(self):
                self.kept = newest
        if shape.n_axes == 0:
            return float(out[0])
        axes = tuple(shape.shape[k] for k in range(shape.n_axes))
        if not shape.with_loss:
            return out.reshape(axes)
        last = len(out) - 1
        return out[:last].reshape(axes), float(out[last])

    def descend(self, steps):
        """Make steps of stochastic gradient descent on ``steps.w``, in place; see ``csrc/sgd/sgd_steps.h``.

        steps: an object with the attributes loss_spec, w, w_sum (None for no sum of iterates), order,
        batch_ends, step_sizes, noise (None, or an array of shape (n_steps, dimension), int64 in units of the
        grid or float64) and settings, with the attributes inner_clip, grid, divisor, l2, n_penalized, radius.
        """
        cdef sgd_settings settings
        cdef sgd_block block
        cdef double[::1] w = steps.w, w_sum = steps.w_sum
        cdef const int64_t[::1] order = steps.order, batch_ends = steps.batch_ends
        cdef const double[::1] step_sizes = steps.step_sizes
        cdef const int64_t[:, ::1] integers
        cdef const double[:, ::1] floats
        cdef int status
        given, noise = steps.settings, steps.noise
        settings.inner_clip, settings.grid, settings.divisor = given.inner_clip, given.grid, given.divisor
        settings.l2, settings.n_penalized, settings.radius = given.l2, given.n_penalized, given.radius
        settings.loss = loss_of(steps.loss_spec)
        memset(&block, 0, sizeof(block))
        block.n_steps = batch_ends.shape[0]
        if block.n_steps == 0:
            return
        block.w = &w[0]
        block.w_sum = &w_sum[0] if w_sum is not None else NULL
        block.order = &order[0] if order.shape[0] > 0 else NULL
        block.batch_ends = &batch_ends[0]
        block.step_sizes = &step_sizes[0]
        if noise is not None and noise.dtype == np.int64:
            integers = noise
            block.noise_integers = &integers[0, 0]
        elif noise is not None:
            floats = noise
            block.noise = &floats[0, 0]
        with nogil:
            status = run_sgd_block(chosen, self.type, &self.rows, &settings, &block)
        check(status)


cdef class SoftmaxRows(DenseRows):
    """The same passes for the softmax loss: targets are class codes, weights ``(d, n_classes)``."""


cdef tuple argument_names():
    cdef list names = []
    while pass_arguments[len(names)].name != NULL:
        names.append(pass_arguments[len(names)].name.decode())
    return tuple(names)


cdef tuple ARGUMENT_NAMES = argument_names()


# Indices of the arguments that passes of each class have: looking up missing attributes is slow.
cdef dict ARGUMENTS_OF = {}


cdef tuple arguments_of(pass_):
    cdef tuple numbers = ARGUMENTS_OF.get(type(pass_))
    if numbers is None:
        numbers = tuple(k for k, name in enumerate(ARGUMENT_NAMES) if hasattr(pass_, name))
        if type(pass_) is not SimpleNamespace:  # whose instances differ in their attributes
            ARGUMENTS_OF[type(pass_)] = numbers
    return numbers


cdef list fill_pass(kernel_pass *value, pass_, bint softmax):
    """Fill `value` from the attributes of `pass_`; return the arrays that it points into."""
    cdef list alive = []
    cdef const pass_argument *argument
    cdef char *place
    memset(value, 0, sizeof(value[0]))
    cdef int kind = pass_kind_of(pass_.kernel.encode())
    if kind < 0:
        raise ValueError(f"there is no pass {pass_.kernel!r}")
    value.kind = <pass_kind>kind
    loss_spec = getattr(pass_, "loss_spec", None)
    if loss_spec and loss_spec[0] != SOFTMAX:
        value.loss = loss_of(loss_spec)
    for k in arguments_of(pass_):
        argument, given = &pass_arguments[<int>k], getattr(pass_, ARGUMENT_NAMES[k])
        place = <char *>value + argument.offset
        if given is None:
            pass
        elif argument.type == ARGUMENT_REAL:
            (<double *>place)[0] = given
        elif argument.type == ARGUMENT_FLAG:
            (<int *>place)[0] = bool(given)
        elif argument.type == ARGUMENT_INTEGER:
            (<int64_t *>place)[0] = given
        else:
            array = np.ascontiguousarray(given, np.float64)
            alive.append(array)
            (<const void **>place)[0] = start_of(array)
            if argument.length_offset:
                (<int64_t *>(<char *>value + argument.length_offset))[0] = array.shape[argument.axis]
    if softmax and value.w != NULL:
        value.n_classes = pass_.w.shape[1]
    return alive


include "noisy_batch_sums.pxi"


def smooth_rows(const double[:, ::1] v, double sigma, int n_threads):
    """Every row of ``v``, smoothed on a ring: see circulant_solve.h. ``v`` must not be empty."""
    result = np.empty((v.shape[0], v.shape[1]))
    cdef double[:, ::1] u = result
    cdef int status
    with nogil:
        status = circulant_solve(chosen, n_threads, sigma, &v[0, 0], v.shape[0], v.shape[1], &u[0, 0])
    check(status)
    return result


cdef loss loss_of(tuple loss_spec):
    """``(kind, parameter, curvature)``, see ``Loss.kernel``."""
    kind, parameter, curvature = loss_spec
    return loss(<loss_kind><int>kind, parameter, curvature)


cdef int check(int status) except -1:
    if status != 0:
        raise MemoryError("no memory for the partial sums of a pass over the data")
    return 0
