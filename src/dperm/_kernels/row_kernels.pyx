# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the row kernels: arrays in, arrays out, without the GIL. No arithmetic.

Callers (``dperm.data``, ``dperm.objective.objective``) have checked types, shapes and values.
"""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY, isfinite, sqrt
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
                chosen.dense[<int>self.type].rows[<int>PASS_row_norms].kernel

    def row_norms(self, int n_threads):
        """Norms (n_rows,) of the rows, NaN for rows that are not finite."""
        cdef kernel_pass value = new_pass(PASS_row_norms)
        return self.run(&value, &self.rows, n_threads)

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

    cdef object run(self, kernel_pass *value, dense_rows *rows, int n_threads):
        """The result of a pass: an array, int64 in units of the grid or float64.

        For gradient_sum it is ``(array, loss)``, for entry_sum a float.
        """
        cdef result shape = result_of_pass(rows, value)
        out = np.empty(result_size(&shape), dtype=np.int64 if shape.combine == ADD_INTEGERS else np.float64)
        cdef void *to = <void *>start_of(out)
        cdef int status
        with nogil:
            status = run_pass(chosen, self.type, rows, value, n_threads, to)
        check(status)
        if shape.n_axes == 0:
            return float(out[0])
        axes = tuple(shape.shape[k] for k in range(shape.n_axes))
        if not shape.with_loss:
            return out.reshape(axes)
        last = len(out) - 1
        return out[:last].reshape(axes), float(out[last])

    cdef int set_weights(self, kernel_pass *value, w) except -1:
        """The loss has a weight for each column, or under softmax one for each column and class."""
        value.w = doubles(w)
        if w is not None and isinstance(self, SoftmaxRows):
            value.n_classes = w.shape[1]
        return 0

    # -- passes, whose contracts are in csrc/kernel_table.h; batch: ascending indices of rows, None for all --

    def entry_sum(self, int n_threads):
        """Sum of the entries of the matrix, without use of the targets."""
        cdef kernel_pass value = new_pass(PASS_entry_sum)
        return self.run(&value, &self.rows, n_threads)

    def predictions(self, w not None, int n_threads):
        """Predictions (n_rows,), or scores (n_rows, n_classes)."""
        cdef kernel_pass value = new_pass(PASS_predictions)
        w = as_doubles(w)
        self.set_weights(&value, w)
        return self.run(&value, &self.rows, n_threads)

    def clipped_gradient_sum(self, loss_spec not None, w not None, double inner_clip, double grid, int n_threads,
                             batch=None, const double[::1] clip_norms=None, bint keep_predictions=False):
        """Sum of clipped gradients.

        clip_norms: (n_rows,) used instead of the row norms when gradients are clipped; or None.
        keep_predictions: keep the products of rows and weights for line searches from the same weights.
        """
        cdef kernel_pass value = new_pass(PASS_clipped_gradient_sum, loss_spec)
        cdef dense_rows rows = self.among(batch)
        cdef double[::1] predictions
        w = as_doubles(w)
        self.set_weights(&value, w)
        value.inner_clip, value.grid = inner_clip, grid
        if clip_norms is not None:
            rows.clip_norms = &clip_norms[0]
        keep_predictions = keep_predictions and not value.n_classes
        if keep_predictions:
            predictions = np.empty(rows.n_rows)
            rows.predictions = &predictions[0]
        sums = self.run(&value, &rows, n_threads)
        if keep_predictions:  # in a new tuple, as a line search in another thread may be using the old one
            newest = np.array(w), np.asarray(predictions)
            with cython.critical_section(self):
                self.kept = newest
        return sums

    def gradient_sum(self, loss_spec not None, w not None, int n_threads, double inner_clip=INFINITY,
                     bint with_loss=True, bint precise=False):
        """Sums of gradients and losses in floating point."""
        cdef kernel_pass value = new_pass(PASS_gradient_sum, loss_spec)
        w = as_doubles(w)
        self.set_weights(&value, w)
        value.inner_clip, value.with_loss, value.precise = inner_clip, with_loss, precise
        return self.run(&value, &self.rows, n_threads)

    def clipped_loss_sums(self, loss_spec not None, w not None, direction not None, steps not None, double clip,
                          double grid, int n_threads):
        """Sums of clipped losses at ``w - step * direction`` for each of the steps."""
        cdef kernel_pass value = new_pass(PASS_clipped_loss_sums, loss_spec)
        cdef dense_rows rows = self.rows
        cdef double[::1] predictions
        w, direction, steps = as_doubles(w), as_doubles(direction), as_doubles(steps)
        self.set_weights(&value, w)
        value.direction, value.steps, value.n_steps = doubles(direction), doubles(steps), len(steps)
        value.clip, value.grid = clip, grid
        if not value.n_classes:
            with cython.critical_section(self):
                kept = self.kept
            if kept is not None and np.array_equal(kept[0], w):
                predictions = kept[1]
                rows.predictions = &predictions[0]
        return self.run(&value, &rows, n_threads)

    def coordinate_loss_sums(self, loss_spec not None, w not None, double stride, double intercept_stride,
                             double clip, double grid, int n_threads):
        """Sums of clipped changes of the losses at the neighbours of w along the axes."""
        cdef kernel_pass value = new_pass(PASS_coordinate_loss_sums, loss_spec)
        w = as_doubles(w)
        self.set_weights(&value, w)
        value.stride, value.intercept_stride = stride, intercept_stride
        value.clip, value.grid = clip, grid
        return self.run(&value, &self.rows, n_threads)

    def gram_sum(self, loss_spec, w, tuple rounding not None, int n_threads, tuple target=None, bint upper=False,
                 columns=None, batch=None):
        """Upper triangle of the sum of outer products; w is None for unweighted rows.

        rounding: inner_bound and grid. columns: factors and shifts, shape (2, width). target: factor, centre and limit of a last column; None for none.
        """
        cdef kernel_pass value = new_pass(PASS_gram_sum, loss_spec)
        cdef dense_rows rows = self.among(batch)
        w, columns = as_doubles(w), as_doubles(columns)
        self.set_weights(&value, w)
        set_columns(&value, columns)
        value.inner_clip, value.grid = rounding
        if target is not None:
            value.target_factor, value.target_centre, value.target_limit = target
        value.upper = upper
        return self.run(&value, &rows, n_threads)

    def moment_sums(self, double inner_bound, double grid, double clip, int n_threads, columns=None,
                    batch=None):
        """Sums of entries, and of squares clipped row by row."""
        cdef kernel_pass value = new_pass(PASS_moment_sums)
        cdef dense_rows rows = self.among(batch)
        columns = as_doubles(columns)
        set_columns(&value, columns)
        value.inner_clip, value.grid, value.clip = inner_bound, grid, clip
        return self.run(&value, &rows, n_threads)

    def norm_counts(self, double inner_bound, int64_t n_bins, columns not None, int n_threads, batch=None):
        """Histogram of the row norms after scaling columns."""
        cdef kernel_pass value = new_pass(PASS_norm_counts)
        cdef dense_rows rows = self.among(batch)
        columns = as_doubles(columns)
        set_columns(&value, columns)
        value.inner_clip, value.n_bins = inner_bound, n_bins
        return self.run(&value, &rows, n_threads)

    def magnitude_counts(self, double inner_bound, double grid, int64_t n_bins, int n_threads, batch=None):
        """Histogram of magnitudes in every column."""
        cdef kernel_pass value = new_pass(PASS_magnitude_counts)
        cdef dense_rows rows = self.among(batch)
        value.inner_clip, value.grid, value.n_bins = inner_bound, grid, n_bins
        return self.run(&value, &rows, n_threads)

    def norms_scaled(self, column_scales not None, int n_threads):
        """Norms (n_rows,) of the rows with scaled columns."""
        cdef kernel_pass value = new_pass(PASS_norms_scaled)
        column_scales = as_doubles(column_scales)
        value.column_scales = doubles(column_scales)
        return self.run(&value, &self.rows, n_threads)

    def norms_through(self, double inner_bound, double grid, matrix not None, int n_threads):
        """Norms (n_rows,) of the rows as integers, multiplied with a matrix of integers."""
        cdef kernel_pass value = new_pass(PASS_norms_through)
        matrix = as_doubles(matrix)
        value.inner_clip, value.grid = inner_bound, grid
        value.matrix, value.n_out = doubles(matrix), matrix.shape[1]
        return self.run(&value, &self.rows, n_threads)

    def image_sum(self, images not None, loss_spec not None, w, int64_t image_factor, double image_bound,
                  int n_threads, batch=None):
        """Sum of weighted images of the rows; w is None for predictions of 0."""
        cdef kernel_pass value = pass_of_images(PASS_image_sum, images, loss_spec)
        cdef dense_rows rows = self.among(batch)
        w = as_doubles(w)
        value.w, value.image_factor, value.image_bound = doubles(w), image_factor, image_bound
        return self.run(&value, &rows, n_threads)

    def image_gram(self, images not None, loss_spec not None, w, int64_t image_factor, double image_bound,
                   int n_threads, batch=None):
        """Upper triangle of the sum of outer products of weighted images."""
        cdef kernel_pass value = pass_of_images(PASS_image_gram, images, loss_spec)
        cdef dense_rows rows = self.among(batch)
        w = as_doubles(w)
        value.w, value.image_factor, value.image_bound = doubles(w), image_factor, image_bound
        return self.run(&value, &rows, n_threads)

    def image_table(self, images not None, int64_t n_bins, int n_threads, batch=None):
        """Squared coordinates of long images by powers of two of their norm."""
        cdef kernel_pass value = pass_of_images(PASS_image_table, images, None)
        cdef dense_rows rows = self.among(batch)
        value.n_bins = n_bins
        return self.run(&value, &rows, n_threads)

    def residual_sums(self, images not None, loss_spec not None, w not None, double largest_square,
                      double largest_curvature, int n_threads, batch=None):
        """Number of rows weighted down, and sums of squared slopes and of curvatures."""
        cdef kernel_pass value = pass_of_images(PASS_residual_sums, images, loss_spec)
        cdef dense_rows rows = self.among(batch)
        w = as_doubles(w)
        value.w, value.largest_square, value.largest_curvature = doubles(w), largest_square, largest_curvature
        return self.run(&value, &rows, n_threads)

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


cdef kernel_pass pass_of_images(pass_kind kind, images, loss_spec) except *:
    """images: with the attributes of `dperm.data.image_passes.Images`."""
    cdef kernel_pass value = new_pass(kind, loss_spec)
    value.matrix, value.n_out = doubles(images.matrix), images.matrix.shape[1]
    value.inner_clip, value.grid, value.clip = images.inner_bound, images.grid, images.clip
    value.n_images, value.image_unit = images.n_images, images.image_unit
    return value


cdef kernel_pass new_pass(pass_kind kind, loss_spec=None) except *:
    """A pass whose other arguments are zeros; no loss, or that of softmax, has kernels of its own."""
    cdef kernel_pass value
    memset(&value, 0, sizeof(value))
    value.kind = kind
    if loss_spec is not None and loss_spec[0] != SOFTMAX:
        value.loss = loss_of(loss_spec)
    return value


cdef object as_doubles(array):
    """A C-ordered array of doubles, which the caller keeps alive; None stays."""
    return None if array is None else np.ascontiguousarray(array, np.float64)


cdef const double *doubles(array) except? NULL:
    """The address of the numbers of `as_doubles`; NULL for None."""
    if array is None:
        return NULL
    return <const double *>start_of(array)


cdef int set_columns(kernel_pass *value, columns) except -1:
    """Factors and shifts of the columns, shape (2, width), from `as_doubles`; None for neither."""
    if columns is not None:
        value.column_scales, value.column_shifts = doubles(columns[0]), doubles(columns[1])
    return 0


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
