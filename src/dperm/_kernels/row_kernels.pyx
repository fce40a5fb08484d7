# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the row kernels: arrays in, arrays out, the GIL released. No arithmetic.

Callers (``dperm.data``, ``dperm.objective.objective``) have checked types, shapes and values.
"""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport isfinite, sqrt
from libc.stdint cimport int32_t, int64_t

from dperm._kernels.samplers cimport Draw, GaussianDraw, PoissonDraw, errand

ctypedef fused real:
    float
    double

(
    LOGISTIC, HINGE, SQUARED_HINGE, HUBER, ABSOLUTE, PINBALL, EPSILON_INSENSITIVE, SOFT_MARGIN, POWER,
    SIGMOID, WELSCH, TUKEY,
) = range(N_LOSS_KINDS)
SOFTMAX = -1  # has kernels of its own: SoftmaxRows

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
    """Threads that the OpenMP library would use: its settings, those of threadpoolctl included."""
    return most_threads()


def end_openmp_threads():
    """Ends the threads of the last pass, which would spin for the next one and hold their cores."""
    end_threads()


cdef class MatrixSource:
    """A design matrix that is not kept dense; stands for the array where rows are bound."""

    cdef row_source source
    cdef readonly tuple shape  # of the dense matrix
    cdef readonly object dtype  # of the rows that it is expanded to
    cdef readonly int64_t size  # numbers that are kept
    cdef tuple arrays  # what the pointers point into


cdef const void *start_of(array):
    """Where the bytes of a C-ordered array begin; of an empty one, too."""
    cdef const unsigned char[::1] octets = array.reshape(-1).view(np.uint8)
    return &octets[0]


cdef class TabularSource(MatrixSource):
    """A block of numbers and codes of categories, see csrc/tabular_matrix.h."""

    cdef tabular_matrix table

    def __init__(self, numeric, codes, numeric_columns, first_columns, sizes, double step):
        places = [np.array(each, dtype=np.int64) for each in (numeric_columns, first_columns, sizes)]
        self.arrays = (numeric, codes, *places)
        self.table.numeric, self.table.codes = start_of(numeric), start_of(codes)
        self.table.numeric_type = {
            "float32": NUMERIC_F32, "float64": NUMERIC_F64, "uint8": NUMERIC_U8, "uint16": NUMERIC_U16,
        }[numeric.dtype.name]
        self.table.code_bytes, self.table.number_bytes = codes.dtype.itemsize, numeric.dtype.itemsize
        self.table.step = step
        self.table.n_numeric, self.table.n_categorical = numeric.shape[1], codes.shape[1]
        self.table.n_columns = numeric.shape[1] + int(places[2].sum())
        self.table.numeric_columns = <const int64_t *>start_of(places[0])
        self.table.first_columns = <const int64_t *>start_of(places[1])
        self.table.sizes = <const int64_t *>start_of(places[2])
        check(plan_tabular(&self.table))
        self.source.matrix, self.source.expand = &self.table, expand_tabular
        self.source.table = &self.table
        self.shape = codes.shape[0], self.table.n_columns
        self.size = numeric.size + codes.size
        self.dtype = np.dtype(np.float64)

    def __dealloc__(self):
        free_tabular_plan(&self.table)

    @property
    def live_bytes(self):
        """Memory of what later passes read in place of the arrays, see csrc/live_columns.h; 0 for nothing."""
        cdef const live_columns *live = live_columns_of(&self.table)
        return live.bytes if live != NULL else 0


cdef class ColumnsSource(MatrixSource):
    """Columns of float32 or of float64, see csrc/columns_matrix.h."""

    cdef columns_matrix matrix

    def __init__(self, columns):
        cdef tuple arrays = tuple(columns)
        cdef size_t[::1] addresses = np.empty(len(arrays), dtype=np.uintp)
        cdef Py_buffer octets
        for j, each in enumerate(arrays):
            PyObject_GetBuffer(each, &octets, PyBUF_SIMPLE)
            addresses[j] = <size_t>octets.buf
            PyBuffer_Release(&octets)  # self.arrays keeps it there
        self.arrays = (addresses, *arrays)
        self.matrix.columns = <const void *const *>&addresses[0]
        self.matrix.n_columns = len(arrays)
        self.source.matrix = self.source.columns = &self.matrix
        self.dtype = arrays[0].dtype
        self.source.expand = chosen.expand_columns[<int>(REAL_F32 if self.dtype == np.float32 else REAL_F64)]
        self.shape = arrays[0].size, len(arrays)
        self.size = arrays[0].size * len(arrays)


cdef class SparseSource(MatrixSource):
    """A compressed sparse matrix, see csrc/sparse_matrix.h.

    values, columns (n_entries,): float32 or float64, and int32 or int64. starts (n_rows + 1,): int64, ascending
    from 0, none above n_entries. Before rows are bound, `fault` must have found nothing.
    """

    cdef sparse_matrix sparse
    cdef strip_store store

    def __init__(self, values, columns, starts, int64_t n_columns):
        self.arrays = (values, columns, starts)
        self.sparse.values, self.sparse.columns = start_of(values), start_of(columns)
        self.sparse.starts = <const int64_t *>start_of(starts)
        self.sparse.n_rows, self.sparse.n_columns = starts.shape[0] - 1, n_columns
        self.sparse.n_entries = values.shape[0]
        self.sparse.type = REAL_F32 if values.dtype == np.float32 else REAL_F64
        self.sparse.index = INDEX_I32 if columns.dtype == np.int32 else INDEX_I64
        self.sparse.store = &self.store
        self.source.matrix, self.source.expand = &self.sparse, expand_sparse
        self.source.sparse = &self.sparse
        self.shape = self.sparse.n_rows, n_columns
        self.size = values.size
        self.dtype = values.dtype

    def __dealloc__(self):
        free_strips(&self.store)

    @property
    def n_strips(self):
        """Strips of columns in which gradients are added up (csrc/column_strips.h); 0 for row by row."""
        return count_strips(&self.store)

    def fault(self):
        """``(fault, row)``: the worst of None, "not canonical" and "out of range", and its first row."""
        cdef int64_t row = 0
        cdef sparse_fault worst
        with nogil:
            worst = sparse_check(&self.sparse, &row)
        names = {SPARSE_NOT_CANONICAL: "not canonical", SPARSE_OUT_OF_RANGE: "out of range"}
        return names.get(worst), row


cdef class DenseRows:
    """A view of a design matrix and its targets for the kernels; keeps the arrays alive.

    The matrix is a float32 or float64 array, or a `MatrixSource`, which the passes expand block by block.
    """

    cdef dense_rows rows
    cdef real_type type
    cdef readonly object x, y, norms, counts
    cdef tuple kept  # weights and predictions of the last pass that was asked to keep them

    def __init__(self, x, y, bint intercept, double row_norm, int n_threads,
                 const int64_t[::1] counts=None, bint keep_norms=True):
        """counts: how many records each row stands for, at least 1.

        keep_norms: else a `MatrixSource` finds them anew in every pass.
        """
        self.x, self.y = x, y
        if counts is not None:
            self.counts = np.asarray(counts)
            self.rows.counts = &counts[0]
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
            (<MatrixSource?>x).source.find_norms = chosen.row_norms[<int>self.type]

    def row_norms(self, int n_threads):
        """Norms (n_rows,) of the rows, NaN where they are not finite."""
        cdef double[::1] norms = np.empty(self.rows.n_rows)
        cdef int status
        with nogil:
            status = all_row_norms(chosen, self.type, &self.rows, n_threads, &norms[0])
        check(status)
        return np.asarray(norms)

    cdef void bind(self, x, const real[::1] y) except *:
        cdef const real[:, ::1] dense
        if isinstance(x, MatrixSource):
            self.rows.source = &(<MatrixSource>x).source
        else:
            dense = x
            self.rows.x = &dense[0, 0]
        self.rows.y = &y[0]

    cdef dense_rows among(self, const int64_t[::1] batch) except *:
        """All rows, or those of a batch: ascending indices, each of which counts for one record."""
        if batch is None:
            return self.rows
        if batch.shape[0] > 0 and (batch[0] < 0 or batch[batch.shape[0] - 1] >= self.rows.n_rows):
            raise IndexError("a batch holds indices of rows that are not there")
        return self.batch_of(&batch[0], batch.shape[0])

    cdef dense_rows batch_of(self, const int64_t *batch, int64_t n_rows) noexcept:
        """Those of a batch that has been checked."""
        cdef dense_rows rows = self.rows
        rows.counts = NULL
        rows.batch = batch
        rows.n_rows = n_rows
        return rows

    def clipped_gradient_sum(self, tuple loss_spec, const double[::1] w, double clip_in, double grid,
                             int n_threads, const int64_t[::1] batch=None,
                             const double[::1] clip_norms=None, bint keep_predictions=False):
        """Integers (n_columns + intercept,): the clipped gradients' sum in units of ``grid``.

        With ``batch``, ascending indices, the sum over these rows only. ``clip_norms`` (n_rows,) stand for the
        norms of the gradients' rows when they are clipped. ``keep_predictions`` saves a line search from
        the same weights their products with the rows.
        """
        result = np.empty(w.shape[0], dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef dense_rows rows = self.among(batch)
        cdef int status
        cdef double[::1] predictions
        if clip_norms is not None:
            rows.clip_norms = &clip_norms[0]
        if keep_predictions:
            predictions = np.empty(rows.n_rows)
            rows.predictions = &predictions[0]
        with nogil:
            status = all_clipped_gradient_sum(chosen, self.type, &rows, n_threads, kernel_loss, &w[0],
                                              clip_in, grid, &sum_out[0])
        check(status)
        if keep_predictions:  # never changed again: a line search in another thread may hold the last ones
            newest = np.array(w), np.asarray(predictions)
            with cython.critical_section(self):
                self.kept = newest
        return result

    def clipped_gradient_sums(self, tuple loss_spec, const double[:, ::1] w, const double[::1] clips_in,
                              const double[::1] grids, int n_threads, const int32_t[::1] folds=None,
                              const int32_t[::1] left_out=None):
        """Integers (n_models, n_columns + intercept): row k as of `clipped_gradient_sum` at ``w[k]``.

        ``clips_in``, ``grids`` (n_models,). Row i adds nothing to the models whose ``left_out`` (n_models,) is
        ``folds[i]``, if ``folds`` (n_rows,) and ``left_out`` are given.
        """
        result = np.empty((w.shape[0], w.shape[1]), dtype=np.int64)
        cdef int64_t[:, ::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef models kernel_models = models(w.shape[0], &w[0, 0], &clips_in[0], &grids[0], NULL, NULL)
        cdef int status
        if folds is not None:
            kernel_models.folds, kernel_models.left_out = &folds[0], &left_out[0]
        with nogil:
            status = all_clipped_gradient_sums(chosen, self.type, &self.rows, n_threads, kernel_loss,
                                               &kernel_models, &sum_out[0, 0])
        check(status)
        return result

    def gradient_sum(self, tuple loss_spec, const double[::1] w, int n_threads, bint with_loss=True,
                     bint precise=False):
        """The plain sums ``(gradient, loss)`` in floating point; the loss is 0 when not asked for.

        ``precise``: in double arithmetic for float32 rows, too.
        """
        result = np.empty(w.shape[0])
        cdef double[::1] sum_out = result
        cdef double loss_out = 0
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef int status
        with nogil:
            status = all_gradient_sum(chosen, self.type, &self.rows, n_threads, kernel_loss, &w[0],
                                      precise, &sum_out[0], &loss_out if with_loss else NULL)
        check(status)
        return result, loss_out

    def clipped_loss_sums(self, tuple loss_spec, const double[::1] w,
                          const double[::1] direction, const double[::1] steps, double clip,
                          double grid, int n_threads):
        """Integers (n_steps,): the clipped losses' sums along a line in units of ``grid``."""
        result = np.empty(steps.shape[0], dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef dense_rows rows = self.rows
        cdef double[::1] predictions
        cdef int status
        with cython.critical_section(self):
            kept = self.kept
        if kept is not None and np.array_equal(kept[0], w):
            predictions = kept[1]
            rows.predictions = &predictions[0]
        with nogil:
            status = all_clipped_loss_sums(chosen, self.type, &rows, n_threads, kernel_loss,
                                           &w[0], &direction[0], &steps[0], steps.shape[0], clip,
                                           grid, &sum_out[0])
        check(status)
        return result

    def coordinate_loss_sums(self, tuple loss_spec, const double[::1] w, double stride, double clip,
                             double grid, int n_threads):
        """Integers (2 * dimension + 1,): changes of the losses at ``w +- stride e_j`` and at ``w``."""
        result = np.empty(2 * w.shape[0] + 1, dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef loss kernel_loss = loss_of(loss_spec)
        cdef int status
        with nogil:
            status = all_coordinate_loss_sums(chosen, self.type, &self.rows, n_threads,
                                              kernel_loss, &w[0], stride, clip, grid, &sum_out[0])
        check(status)
        return result

    def gram_sum(self, tuple loss_spec, const double[::1] w, double bound_in, double grid,
                 double target_factor, int n_threads, bint upper=False, const int64_t[::1] batch=None):
        """Integers: upper triangle of the sum of outer products; ``w`` None for plain rows.

        Over the rows, or those of a batch, each once.
        """
        cdef int64_t width = self.rows.n_columns + self.rows.intercept + (target_factor > 0)
        result = np.empty(width * (width + 1) // 2, dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef integer_rows form = integer_rows(loss_of(loss_spec), NULL, bound_in, grid, target_factor,
                                               upper)
        cdef dense_rows rows = self.among(batch)
        cdef int status
        if w is not None:
            form.w = &w[0]
        with nogil:
            status = all_gram_sum(chosen, self.type, &rows, n_threads, &form, &sum_out[0])
        check(status)
        return result

    def moment_sums(self, double bound_in, double grid, double clip, int n_threads,
                    const int64_t[::1] batch=None):
        """Integers (2, n_columns + intercept): sums of entries, and of squares clipped row by row.

        Over the rows, or those of a batch, each once.
        """
        result = np.empty((2, self.rows.n_columns + self.rows.intercept), dtype=np.int64)
        cdef int64_t[:, ::1] sum_out = result
        cdef integer_rows form
        cdef dense_rows rows = self.among(batch)
        cdef int status
        form.w = NULL
        form.bound_in, form.grid, form.target_factor, form.upper = bound_in, grid, 0, 0
        with nogil:
            status = all_moment_sums(chosen, self.type, &rows, n_threads, &form, clip,
                                     &sum_out[0, 0])
        check(status)
        return result

    def norms_through(self, double bound_in, double grid, const double[:, ::1] matrix, int n_threads):
        """Lengths (n_rows,) of the rows as integers, times ``matrix``: see kernel_table.h."""
        result = np.empty(self.rows.n_rows)
        cdef double[::1] norms_out = result
        cdef integer_rows form
        cdef int status
        form.w = NULL
        form.bound_in, form.grid, form.target_factor, form.upper = bound_in, grid, 0, 0
        with nogil:
            status = all_norms_through(chosen, self.type, &self.rows, n_threads, &form,
                                       &matrix[0, 0], matrix.shape[1], &norms_out[0])
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
        block.carried, block.begun, block.n_open = NULL, 0, 0
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


cdef class SoftmaxRows(DenseRows):
    """The same passes for the softmax loss: targets are class codes, weights ``(d, n_classes)``."""

    def clipped_gradient_sum(self, tuple loss_spec, const double[:, ::1] w, double clip_in, double grid,
                             int n_threads, const int64_t[::1] batch=None, bint keep_predictions=False):
        """Integers (d, n_classes): the clipped gradients' sum in units of ``grid``.

        With ``batch``, ascending indices, the sum over these rows only.
        """
        result = np.empty((w.shape[0], w.shape[1]), dtype=np.int64)
        cdef int64_t[:, ::1] sum_out = result
        cdef dense_rows rows = self.among(batch)
        cdef int status
        with nogil:
            status = all_clipped_softmax_gradient_sum(chosen, self.type, &rows, n_threads, w.shape[1],
                                                      &w[0, 0], clip_in, grid, &sum_out[0, 0])
        check(status)
        return result

    def gradient_sum(self, tuple loss_spec, const double[:, ::1] w, int n_threads, bint with_loss=True):
        """The plain sums ``(gradient, loss)`` in floating point; the loss is 0 when not asked for."""
        result = np.empty((w.shape[0], w.shape[1]))
        cdef double[:, ::1] sum_out = result
        cdef double loss_out = 0
        cdef int status
        with nogil:
            status = all_softmax_gradient_sum(chosen, self.type, &self.rows, n_threads, w.shape[1],
                                              &w[0, 0], &sum_out[0, 0],
                                              &loss_out if with_loss else NULL)
        check(status)
        return result, loss_out

    def clipped_loss_sums(self, tuple loss_spec, const double[:, ::1] w,
                          const double[:, ::1] direction, const double[::1] steps, double clip,
                          double grid, int n_threads):
        """Integers (n_steps,): the clipped losses' sums along a line in units of ``grid``."""
        result = np.empty(steps.shape[0], dtype=np.int64)
        cdef int64_t[::1] sum_out = result
        cdef int status
        with nogil:
            status = all_clipped_softmax_loss_sums(chosen, self.type, &self.rows, n_threads,
                                                   w.shape[1], &w[0, 0], &direction[0, 0],
                                                   &steps[0], steps.shape[0], clip, grid,
                                                   &sum_out[0])
        check(status)
        return result

    def predictions(self, const double[:, ::1] w, int n_threads):
        """Scores (n_rows, n_classes) of the scaled rows; NaN for rows that are not finite."""
        result = np.empty((self.rows.n_rows, w.shape[1]))
        cdef double[:, ::1] p_out = result
        cdef int status
        with nogil:
            status = all_class_scores(chosen, self.type, &self.rows, n_threads, w.shape[1], &w[0, 0],
                                      &p_out[0, 0])
        check(status)
        return result


cdef class NoisyBatchSums:
    """Clipped gradient sums over one secret batch after the other, with noise: ``noisy_sum(w)``, `steps` times.

    What ``clipped_gradient_sum`` gives over the batch, plus the noise, in units of ``grid``; as float64. Whoever
    makes it has paid for all of them. The noise, and the next batch where it is a draw, are drawn by the
    threads of the pass.

    samples: two `PoissonDraw` that take turns, or an iterator of ascending indices. Indices of rows that are
    not there, at the end, are left out. noise: integers in the shape of the weights. longest: of weights.
    """

    cdef DenseRows rows
    cdef loss kernel_loss
    cdef double clip_in, grid, longest
    cdef int n_threads
    cdef int64_t steps_left, n_classes  # of softmax, else 0
    cdef PoissonDraw sample, next_sample
    cdef object batches, shape
    cdef GaussianDraw noise
    cdef int64_t[::1] sums
    cdef bint busy

    def __init__(self, DenseRows rows not None, tuple loss_spec, double clip_in, double grid, int n_threads,
                 samples, GaussianDraw noise not None, int64_t steps, double longest):
        self.rows, self.clip_in, self.grid, self.n_threads = rows, clip_in, grid, n_threads
        if loss_spec[0] != SOFTMAX:
            self.kernel_loss = loss_of(loss_spec)
        self.noise, self.steps_left, self.longest = noise, steps, longest
        self.shape = noise.out.shape
        self.n_classes = self.shape[1] if loss_spec[0] == SOFTMAX else 0
        self.sums = np.empty(noise.work.count, dtype=np.int64)
        if isinstance(samples, tuple):
            self.sample, self.next_sample = samples
        else:
            self.batches = samples

    def __call__(self, w):
        """The next sum, at weights `w` of the shape of the noise."""
        weights = np.ascontiguousarray(w, dtype=np.float64)
        if weights.shape != self.shape:
            raise ValueError(f"w must have shape {self.shape}, got {weights.shape}")
        cdef const double[::1] flat = weights.reshape(-1)
        self.check_weights(flat)
        with cython.critical_section(self):
            if self.busy or self.steps_left == 0:
                raise RuntimeError("no noisy sums are left, or another thread is making one")
            self.busy = True
        result = np.empty(self.shape)
        try:
            self.make(&flat[0], result.reshape(-1))
        except BaseException:
            self.steps_left = 0
            raise
        finally:
            self.busy = False
        return result

    cdef int check_weights(self, const double[::1] w) except -1:
        cdef double squares = 0.0
        for value in w:
            squares += value * value
        if not isfinite(squares) and not np.isfinite(w).all():
            raise ValueError("w must be finite")
        if not sqrt(squares) <= self.longest:
            raise ValueError(f"w must be in the ball of the public radius {self.longest!r}")
        return 0

    cdef int make(self, const double *w, double[::1] out) except -1:
        """One step."""
        cdef const int64_t[::1] batch
        cdef dense_rows rows
        if self.sample is None:
            batch = next(self.batches)
            rows = self.rows.among(batch)
        else:
            self.sample._result()
            rows = self.rows.batch_of(self.sample.work.out, self.rows_in(self.sample))
        self.steps_left -= 1
        self.add_up(&rows, w)
        self.noise._result()
        cdef const int64_t *noise = self.noise.work.out
        for j in range(out.shape[0]):
            out[j] = <double>(self.sums[j] + noise[j]) * self.grid
        self.noise.restart()
        if self.sample is not None:
            self.sample, self.next_sample = self.next_sample, self.sample
            self.next_sample.restart()
        return 0

    cdef int64_t rows_in(self, PoissonDraw sample) noexcept:
        """Number of the indices that are of rows which are there."""
        cdef int64_t n_rows = sample.count()
        while n_rows > 0 and sample.work.out[n_rows - 1] >= self.rows.rows.n_rows:
            n_rows -= 1
        return n_rows

    cdef int add_up(self, dense_rows *rows, const double *w) except -1:
        """The pass, and draws on its side."""
        cdef errand errands[2]
        cdef list begun = []
        cdef int status
        try:
            for draw in (self.next_sample if self.steps_left else None, self.noise):
                if draw is not None and (<Draw>draw).begin(False):
                    errands[len(begun)] = (<Draw>draw).errand
                    begun.append(draw)
            rows.errands, rows.n_errands = errands, <int>len(begun)
            with nogil:
                if self.n_classes:
                    status = all_clipped_softmax_gradient_sum(
                        chosen, self.rows.type, rows, self.n_threads, self.n_classes, w, self.clip_in,
                        self.grid, &self.sums[0])
                else:
                    status = all_clipped_gradient_sum(
                        chosen, self.rows.type, rows, self.n_threads, self.kernel_loss, w, self.clip_in,
                        self.grid, &self.sums[0])
        finally:
            for draw in begun:
                (<Draw>draw).end()
        return check(status)

    def __reduce__(self):
        raise TypeError("noisy sums cannot be copied or pickled: the copy would repeat their noise")

    def __repr__(self):
        return f"<NoisyBatchSums, {self.steps_left} left>"


def smooth_rows(const double[:, ::1] v, double sigma, int n_threads):
    """Every row of ``v`` smoothed on a ring: see circulant_solve.h. ``v`` is not empty."""
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
