"""The empirical risk of a linear model on a data set, and its private sums."""

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.threads import check_n_threads, threads_for
from dperm.bounded import Bounded
from dperm.data.dense import dense_rows
from dperm.errors import DataError
from dperm.losses import Loss, get_loss
from dperm.secret_rows import SecretRows
from dperm.stochastic_descent import (
    Batches,
    CyclicBatches,
    DescentPlan,
    DescentRun,
    Indices,
    StochasticDescent,
)

Array = NDArray[np.float64]

# Finest grids, as log2(clip / grid). The float32 kernel rounds with a 24-bit significand; with doubles the
# limit leaves 2^27 clips of room for the noise, which is drawn in grid steps below 2^59.
_GRID_BITS = {np.dtype(np.float32): 22, np.dtype(np.float64): 32}
_SUM_BITS = 51  # n * clip / grid <= 2^51: sums are exact doubles, too
_OVERFLOW_BITS = 62


class Objective:
    """``F(w) = (1/N) sum_i loss(<w, z_i>, y_i) + l2/2 ||w||^2`` over records ``(z_i, y_i)``.

    ``z_i`` is row ``i`` of ``X``, with a 1 appended when ``fit_intercept`` (never stored), scaled onto
    ``row_norm`` when longer. The matrix is read in place and must not change while the objective lives.

    Parameters
    ----------
    loss : str or Loss
        An instance of :class:`dperm.losses.Loss`, or a name for its default: "logistic", "hinge",
        "huberized_hinge", "squared_hinge", "soft_margin" and "sigmoid" for labels; "huber", "absolute",
        "pinball", "epsilon_insensitive", "power", "welsch" and "tukey" for real targets.
    X : (n_samples, n_columns) array_like
        float32 or float64 in C order is read in place; anything else is copied once.
    y : (n_samples,) array_like
        -1 or +1 for classification losses, real numbers for regression (moved onto the loss's
        ``target_bound`` when beyond).
    l2 : float
        Strength of the ridge term, on the scale of the mean loss; at least 0.
    row_norm : float
        Public bound ``R > 0`` on the norm of a row, intercept included; longer rows are scaled onto it.
    fit_intercept : bool
        Append an implicit column of ones. Weights then have ``n_columns + 1`` entries, intercept last.
    n_threads : int, optional
        Threads of a pass; the result does not depend on it. None or -1: all that the process may use.
    penalize_intercept : bool
        Whether the ridge term covers the intercept.
    non_finite : {"raise", "zero"}
        What to do with a record that holds NaN or infinity: an error for the data holder before
        anything is spent, or a contribution of exactly 0, silently.
    n_public : int, optional
        The public number ``N`` that sums are divided by. Default: the number of rows, which is thereby
        declared public.

    Raises
    ------
    ValueError
        For an argument out of range.
    DataError
        For data that cannot be used; a ValueError for the holder of the data.
    """

    def __init__(
        self,
        loss: str | Loss,
        X: ArrayLike,
        y: ArrayLike,
        l2: float = 0.0,
        row_norm: float = 1.0,
        fit_intercept: bool = False,
        n_threads: int | None = None,
        *,
        penalize_intercept: bool = False,
        non_finite: str = "raise",
        n_public: int | None = None,
    ) -> None:
        self.loss = get_loss(loss)
        if not (0.0 <= l2 < math.inf):
            raise ValueError(f"l2 must be finite and at least 0, got {l2!r}")
        if not (0.0 < row_norm < math.inf):
            raise ValueError(f"row_norm must be positive and finite, got {row_norm!r}")
        if n_public is not None and not (isinstance(n_public, Integral) and n_public >= 1):
            raise ValueError(f"n_public must be a positive integer, got {n_public!r}")
        check_n_threads(n_threads)
        self.l2 = float(l2)
        self.row_norm = float(row_norm)
        self.fit_intercept = bool(fit_intercept)
        self.penalize_intercept = bool(penalize_intercept)
        self.non_finite = non_finite
        self.n_threads = n_threads
        self._rows = dense_rows(
            X,
            y,
            fit_intercept=self.fit_intercept,
            row_norm=self.row_norm,
            non_finite=non_finite,
            n_threads=n_threads,
            target_bound=self.loss.target_bound,
        )
        if self.loss.classification:
            _check_labels(self._rows.y, non_finite)
        self._n_rows: int = self._rows.x.shape[0]
        self.n_columns: int = self._rows.x.shape[1]
        self.n_public = self._n_rows if n_public is None else int(n_public)
        # The bounds of the last (clip, radius): an iterative algorithm asks for the same ones at each step.
        self._gradient_bounds: tuple[tuple[float, float], tuple[float, float, float, float]] | None = None

    @property
    def dimension(self) -> int:
        """Number of weights: columns, and the intercept if there is one."""
        return self.n_columns + self.fit_intercept

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights; algorithms that never ask for more serve every kind of loss."""
        return (self.dimension,)

    # -- not private: for tests and non-private fits -------------------------------------------------

    def value(self, w: ArrayLike) -> float:
        """``F(w)``. Exact and therefore NOT private."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: ArrayLike) -> Array:
        """Gradient of ``F`` at ``w``, shape ``(dimension,)``. Exact and therefore NOT private."""
        return self.value_and_gradient(w)[1]

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Array]:
        """``F(w)`` and its gradient in one pass over the data. NOT private."""
        weights = self._weights(w, "w")
        loss = self.loss
        gradient, total = self._rows.gradient_sum(loss.kernel, weights, self._threads())
        value = total / self.n_public + self.penalty(weights)
        return value, gradient / self.n_public + self.penalty_gradient(weights)

    # -- private sums --------------------------------------------------------------------------------

    def clipped_gradient_sum(
        self, w: ArrayLike, clip: float, *, radius: float = math.inf, rows: SecretRows | None = None
    ) -> Bounded:
        """``sum_i g_i min(1, clip / ||g_i||)``, ``g_i`` the gradient of record i's loss (no ridge term).

        Exact integers on a grid that depends on ``n_public``, ``clip`` and the dtype alone. A record's
        integers depend on that record, ``w`` and ``clip`` alone, and form a vector of norm at most
        ``clip``, rounding included.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        clip : float
            Positive bound on the norm of one record's gradient.
        radius : float
            Public bound on ``||w||``. Where all gradients on that ball are shorter than ``clip``, the
            bound is tightened to what the loss allows there.
        rows : SecretRows, optional
            Sum over these records only, each of which adds what it adds to the full sum. The bound is that
            of a record in the sample, and under replace_one twice that, which accounting of samples counts
            on.

        Returns
        -------
        Bounded
            Shape ``(dimension,)``, whatever the sample; sensitivity ``clip`` (add_or_remove) or ``2 clip``
            (replace_one), or less as told by ``radius``.

        Raises
        ------
        DataError
            For more records than ``n_public`` and a sample of fixed size.
        """
        _check_clip(clip)
        weights = self._weights(w, "w")
        if radius < math.inf and not np.linalg.norm(weights) <= radius * (1.0 + 1e-12):
            raise ValueError(f"w must be in the ball of the public radius {radius!r}")
        known = self._gradient_bounds
        if known is None or known[0] != (clip, radius):
            known = self._gradient_bounds = (clip, radius), self._bound_gradients(clip, radius)
        clip, clip_before_rounding, grid, replacement = known[1]
        kernel, bounds = self.loss.kernel, (clip_before_rounding, grid)
        if rows is None:
            integers = self._rows.clipped_gradient_sum(kernel, weights, *bounds, self._threads())
            return Bounded(integers, grid=grid, contribution=clip, replacement=replacement)
        batch = rows._among(self._n_rows, self.n_public)
        threads = threads_for(self.n_threads, batch.size * self.n_columns)
        integers = self._rows.clipped_gradient_sum(kernel, weights, *bounds, threads, batch)
        return Bounded(integers, grid=grid, contribution=clip)

    def clipped_loss_sums(self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, clip: float) -> Bounded:
        """``sum_i min(loss_i(w - a direction), clip)`` for every ``a`` in ``steps``, in one pass.

        Parameters
        ----------
        w, direction : (dimension,) array_like
            Finite weights and direction.
        steps : (m,) array_like
            Finite step sizes.
        clip : float
            Positive upper bound on the loss of one record.

        Returns
        -------
        Bounded
            Scores of shape ``(m,)``: each record adds a value in ``[0, clip]`` to each.
        """
        _check_clip(clip)
        weights = self._weights(w, "w")
        towards = self._weights(direction, "direction")
        candidates = np.ascontiguousarray(steps, dtype=np.float64)
        if candidates.ndim != 1 or candidates.size == 0 or not np.isfinite(candidates).all():
            raise ValueError(f"steps must be a non-empty list of finite numbers, got {steps!r}")
        grid = self._grid(clip, _GRID_BITS[np.dtype(np.float64)])
        clip_on_grid = math.floor(clip / grid) * grid
        loss = self.loss
        integers = self._rows.clipped_loss_sums(
            loss.kernel, weights, towards, candidates, clip_on_grid, grid,
            self._threads(),
        )  # fmt: skip
        return Bounded(integers, grid=grid, contribution=clip, scores=True)

    def label_sum(self) -> Bounded:
        """``sum_i y_i`` over the finite records, shape ``(1,)``; one record contributes -1 or +1."""
        if not self.loss.classification:
            raise TypeError(f"the targets of the {self.loss.name} loss are not labels")
        counts = np.isfinite(self._rows.norms) & np.isfinite(self._rows.y)
        total = int(self._rows.y[counts].sum(dtype=np.float64))
        return Bounded(np.array([total], dtype=np.int64), grid=1.0, contribution=1.0)

    # -- stochastic gradient descent -----------------------------------------------------------------

    def sgd_weights(
        self, plan: DescentPlan, order: Indices, *, contribution: float, replacement: float
    ) -> Bounded:
        """Weights at the end of a run without noise: the average if the plan asks for it, else the last.

        Parameters
        ----------
        plan : DescentPlan
            Batch t holds the next ``plan.batch_size`` records of `order`, which is repeated.
        order : (m,) array of int
            Indices of records, from 0 to below ``n_public``, drawn independently of the data. Records
            that do not exist have no gradient; those from ``n_public`` on are never used.
        contribution, replacement : float
            Proved sensitivity of the weights as computed; see :meth:`Bounded.rounding`.

        Returns
        -------
        Bounded
            Shape ``(dimension,)``.
        """
        run = self._descent(plan, plan.clip, 0.0)
        last, average = run.make(CyclicBatches(order, plan.batch_size))
        weights = last if average is None else average
        return Bounded.rounding(weights, contribution=contribution, replacement=replacement)

    def stochastic_descent(self, plan: DescentPlan, batches: Batches) -> StochasticDescent:
        """A run with noise on every step, for :meth:`Releaser.noisy_descent` to make.

        One record adds a vector of norm at most ``plan.clip`` to the sum over a batch it is in, rounding
        to the grid included: integers as in :meth:`clipped_gradient_sum`, from arithmetic in double.
        """
        _check_clip(plan.clip)
        longest = plan.loss.lipschitz(self.row_norm, plan.radius) * (1.0 + 2.0**-18)
        clip = min(plan.clip, longest)
        grid = self._grid(clip, _GRID_BITS[np.dtype(np.float64)])
        run = self._descent(plan, self._clip_before_rounding(clip, grid), grid)
        return StochasticDescent(
            run,
            batches,
            contribution=clip,
            replacement=2.0 * clip,
            whole_sum=lambda: self._sum_at_zero(plan, grid, run.settings[0]),
        )

    def _sum_at_zero(self, plan: DescentPlan, grid: float, clip_in: float) -> NDArray[np.int64]:
        """Sum of all records' gradients at 0 as a run would add them up, in units of the grid."""
        w = np.zeros(self.dimension)
        self._rows.sgd_steps(
            plan.loss.kernel,
            (clip_in, grid, 1.0, 0.0, self.dimension, math.inf),
            w,
            None,
            np.arange(self._n_rows),
            np.array([self._n_rows]),
            np.array([-1.0]),
            None,
        )
        return np.rint(w / grid).astype(np.int64)

    def _descent(self, plan: DescentPlan, clip_in: float, grid: float) -> DescentRun:
        penalized = self.dimension if self.penalize_intercept else self.n_columns
        return DescentRun(
            self._rows,
            plan,
            clip_in=clip_in,
            grid=grid,
            l2=self.l2,
            dimension=self.dimension,
            n_penalized=penalized,
            n_threads=self.n_threads,
        )

    def check_places(self) -> None:
        """Raise DataError for more records than ``n_public``: batches of fixed size are drawn among these."""
        if self._n_rows > self.n_public:
            raise DataError(
                f"batches of fixed size are drawn among n_public = {self.n_public} places; there are more "
                "records. Pass a larger n_public, or use Poisson sampling."
            )

    # -- the ridge term: public ----------------------------------------------------------------------

    def penalty(self, w: Array) -> float:
        """``l2/2 ||w||^2``, without the intercept unless ``penalize_intercept``."""
        return 0.5 * float(self.penalty_gradient(w) @ w)

    def penalty_gradient(self, w: Array) -> Array:
        """Gradient of the ridge term."""
        gradient = self.l2 * w
        if self.fit_intercept and not self.penalize_intercept:
            gradient[-1] = 0.0
        return gradient

    # -- helpers -------------------------------------------------------------------------------------

    def _weights(self, w: ArrayLike, name: str) -> Array:
        weights = np.ascontiguousarray(w, dtype=np.float64)
        if weights.shape != (self.dimension,):
            raise ValueError(f"{name} must have shape ({self.dimension},), got {weights.shape}")
        if not np.isfinite(weights).all():
            raise ValueError(f"{name} must be finite")
        return weights

    def _threads(self) -> int:
        return threads_for(self.n_threads, self._rows.x.size)

    def _bound_gradients(self, clip: float, radius: float) -> tuple[float, float, float, float]:
        """Clip, clip before rounding, grid, and distance of two records' clipped gradients."""
        longest = self.loss.lipschitz(self.row_norm, radius) * (1.0 + 2.0**-18)
        never_clips = longest <= clip
        clip = min(clip, longest)
        grid = self._grid(clip, _GRID_BITS[self._rows.x.dtype])
        replacement = self._gradient_distance(radius, clip, grid) if never_clips else 2.0 * clip
        return clip, self._clip_before_rounding(clip, grid), grid, replacement

    def _grid(self, clip: float, bits: int) -> float:
        """Finest power of two that keeps sums exact; from ``n_public``, ``clip`` and the dtype alone."""
        clip_exponent = math.frexp(clip)[1]  # clip <= 2^clip_exponent
        n_exponent = (self.n_public - 1).bit_length()  # n_public <= 2^n_exponent
        log2_ratio = min(bits, _SUM_BITS - n_exponent)
        if (self._n_rows - 1).bit_length() + log2_ratio > _OVERFLOW_BITS:
            raise DataError(
                f"n_public = {self.n_public} is far below the number of records: "
                "sums could overflow. Pass a larger n_public."
            )
        if log2_ratio < 1:
            raise ValueError(f"n_public = {self.n_public} is too large for exact sums")
        return math.ldexp(1.0, clip_exponent - log2_ratio)

    def _gradient_distance(self, radius: float, clip: float, grid: float) -> float:
        """Largest distance of two records' gradients, as computed, on the ball of ``radius``."""
        exact = self.loss.gradient_distance(self.row_norm, radius)
        unit = 2.0**-24 if self._rows.x.dtype == np.float32 else 2.0**-53
        # An error in a prediction moves the gradient by at most smoothness / row_norm times as much.
        relative = (self.dimension + 16) * unit
        prediction_error = relative * self.row_norm * (radius + 1.0)
        error = self.loss.smoothness(self.row_norm) / self.row_norm * prediction_error + relative * clip
        return min(2.0 * clip, exact + 2.0 * error + grid * math.sqrt(self.dimension))

    def _clip_before_rounding(self, clip: float, grid: float) -> float:
        """A smaller clip, so that rounding to the grid cannot carry a record past ``clip``.

        Rounding moves a vector by at most ``grid/2 sqrt(dimension)``; norms, factors and products
        are off by the relative errors given in ``kernel_table.h``.
        """
        slack = 2.0**-22 if self._rows.x.dtype == np.float32 else 2.0**-50
        slack += (self.n_columns + 16) * 2.0**-52
        inner = (clip - 0.5 * grid * math.sqrt(self.dimension)) / (1.0 + slack)
        if not inner > 0.0:
            raise ValueError(
                f"with {self.n_public} records of {self.dimension} dimensions the grid is too coarse "
                "for exact sums; use float64"
            )
        return inner


def _check_clip(clip: float) -> None:
    if not (2.0**-64 <= clip <= 2.0**64):
        raise ValueError(f"clip must be between 2^-64 and 2^64, got {clip!r}")


def _check_labels(y: NDArray[np.float32] | NDArray[np.float64], non_finite: str) -> None:
    wrong = np.abs(y) != 1.0
    if non_finite == "zero":
        wrong &= np.isfinite(y)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"y must be -1 or +1 for a classification loss, got {y[row]!r} at row {row}. "
            "The estimators accept any two labels."
        )
