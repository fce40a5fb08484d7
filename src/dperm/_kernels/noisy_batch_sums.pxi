# Sums over secret batches in compiled code: a part of row_kernels.pyx.

cdef class NoisyBatchSums:
    """Noisy clipped gradient sums over successive secret batches: ``noisy_sum(w)``, at most `steps` times.

    Each is the result of the pass ``clipped_gradient_sum`` over the batch plus the noise, times the grid, as
    float64. All of them must have been charged when it is constructed. The threads of the pass also draw the
    noise and, if it is a draw, the next batch.

    sums: an object with the attributes of dperm.data.passes.NoisyBatches. samples: two `PoissonDraw` that
    alternate, or an iterator of ascending indices. Trailing indices of rows that do not exist are dropped.
    """

    cdef DenseRows rows
    cdef kernel_pass value
    cdef double grid, longest
    cdef int n_threads
    cdef int64_t steps_left
    cdef PoissonDraw sample, next_sample
    cdef object batches, shape
    cdef GaussianDraw noise
    cdef int64_t[::1] sums
    cdef const double[::1] clip_norms
    cdef const int64_t[::1] exponents
    cdef bint busy

    def __init__(self, DenseRows rows not None, sums, int n_threads, samples):
        self.rows, self.n_threads = rows, n_threads
        self.grid = sums.grid if sums.result_grid is None else sums.result_grid
        self.clip_norms, self.exponents = sums.clip_norms, sums.exponents
        self.noise, self.steps_left, self.longest = sums.noise, sums.steps, sums.longest
        self.shape = self.noise.out.shape
        self.value = new_pass(PASS_clipped_gradient_sum, sums.loss_spec)
        self.value.inner_clip, self.value.grid = sums.inner_clip, sums.grid
        self.value.n_classes = self.shape[1] if sums.loss_spec[0] == SOFTMAX else 0
        self.sums = np.empty(self.noise.work.count, dtype=np.int64)
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
        if self.clip_norms is not None:
            rows.clip_norms = &self.clip_norms[0]
        self.add_up(&rows, w)
        self.noise._result()
        cdef const int64_t *noise = self.noise.work.out
        if self.exponents is not None:
            for j in range(out.shape[0]):
                self.sums[j] *= <int64_t>1 << self.exponents[j]
        for j in range(out.shape[0]):
            out[j] = <double>(self.sums[j] + noise[j]) * self.grid
        self.noise.restart()
        if self.sample is not None:
            self.sample, self.next_sample = self.next_sample, self.sample
            self.next_sample.restart()
        return 0

    cdef int64_t rows_in(self, PoissonDraw sample) noexcept:
        """Number of indices of existing rows."""
        cdef int64_t n_rows = sample.count()
        while n_rows > 0 and sample.work.out[n_rows - 1] >= self.rows.rows.n_rows:
            n_rows -= 1
        return n_rows

    cdef int add_up(self, dense_rows *rows, const double *w) except -1:
        """Make the pass, with draws as side tasks."""
        cdef side_task side_tasks[2]
        cdef list begun = []
        cdef int status
        self.value.w = w
        try:
            for draw in (self.next_sample if self.steps_left else None, self.noise):
                if draw is not None and (<Draw>draw).begin(False):
                    side_tasks[len(begun)] = (<Draw>draw).side_task
                    begun.append(draw)
            rows.side_tasks, rows.n_side_tasks = side_tasks, <int>len(begun)
            with nogil:
                status = run_pass(chosen, self.rows.type, rows, &self.value, self.n_threads, &self.sums[0])
        finally:
            for draw in begun:
                (<Draw>draw).end()
        return check(status)

    def __reduce__(self):
        raise TypeError("noisy sums cannot be copied or pickled: the copy would repeat their noise")

    def __repr__(self):
        return f"<NoisyBatchSums, {self.steps_left} left>"
