"""The empirical risk of a linear model on a data set, and its private sums."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.samplers import GaussianDraw
from dperm._kernels.threads import check_n_threads, threads_for
from dperm.data.counts import RecordCounts
from dperm.data.inputs import rows_of_input
from dperm.data.rows import RowSettings, RowSource, sums_of_models
from dperm.data.targets import Targets
from dperm.errors import DataError
from dperm.losses import Loss, get_loss
from dperm.objective.mapped_gradients import MappedGradients
from dperm.objective.newton_direction import MOST_RECORDS, newton_direction
from dperm.objective.second_moments import (
    DIAGONAL,
    bound_before_rounding,
    bounded_triangle,
    diagonal,
    mean_weight,
    regression_sums,
    row_grid,
    symmetric_matrix,
)
from dperm.objective.stochastic_descent import (
    Batches,
    CyclicBatches,
    DescentPlan,
    DescentRun,
    Indices,
    StochasticDescent,
)
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import LinearMap
from dperm.private_values.secret_rows import SecretRows, SecretSamples

Array = NDArray[np.float64]

# Finest grids, as log2(clip / grid). The float32 kernel rounds with a 24-bit significand; with doubles the
# limit leaves 2^27 clips of room for the noise, which is drawn in grid steps below 2^59.
_GRID_BITS = {np.dtype(np.float32): 22, np.dtype(np.float64): 32}
_SUM_BITS = 51  # n * clip / grid <= 2^51: sums are exact doubles, too
_OVERFLOW_BITS = 62
_MOST_KNOWN_BOUNDS = 1024
_INSIDE_BALL = 1.0 + 1e-12  # rounding of a projection


class Objective:
    """``F(w) = (1/N) sum_i loss(<w, z_i>, y_i) + l2/2 ||w||^2`` over records ``(z_i, y_i)``.

    ``z_i`` is row ``i`` of ``X``, with a 1 appended when ``fit_intercept`` (never stored), scaled onto
    ``row_norm`` when longer. The matrix is read in place and must not change while the objective lives.

    Parameters
    ----------
    loss : str or Loss
        An instance of :class:`dperm.losses.Loss`, or a name for its default: "logistic", "hinge",
        "huberized_hinge", "squared_hinge", "soft_margin" and "sigmoid" for labels; "huber", "absolute",
        "pinball", "epsilon_insensitive", "power", "welsch" and "tukey" for real targets; "softmax" with
        `n_classes` for class codes.
    X : (n_samples, n_columns) array_like, or a sparse matrix or array of scipy
        float32 or float64 in C order, or in canonical CSR form (indices sorted, none twice), is read in
        place; anything else is copied once, with a CopyWarning. A Dask array or data frame of numbers is
        read by the workers that hold its partitions (`y` in the same ones).
    y : (n_samples,) array_like
        -1 or +1 for classification losses, codes ``0 .. n_classes - 1`` for softmax, real numbers for
        regression (moved onto the loss's ``target_bound`` when beyond).
    l2 : float
        Strength of the ridge term, on the scale of the mean loss; at least 0.
    row_norm : float
        Public bound ``R > 0`` on the norm of a row, intercept included; longer rows are scaled onto it.
    fit_intercept : bool
        Append an implicit column of ones. Weights then have ``n_columns + 1`` rows, intercept last.
    n_threads : int, optional
        Threads of a pass; the result does not depend on it. None or -1: all that the process may use.
    penalize_intercept : bool
        Whether the ridge term covers the intercept.
    non_finite : {"raise", "zero"}
        What to do with a record that holds NaN or infinity: an error for the data holder before
        anything is spent, or a contribution of exactly 0, silently.
    n_public : int, optional
        The public number ``N`` that sums are divided by. Default: the number of records, which is thereby
        declared public.
    n_classes : int, optional
        Public number of classes, for ``loss="softmax"``. Weights then have one column per class.
    counts : (n_samples,) array_like of int, optional
        How many identical records each row of `X` and `y` stands for, as :func:`dperm.data.aggregate`
        returns them; a row of count 0 stands for none. Sums, samples, sensitivities and the number of
        records are those of the data with every row repeated as often: neighbouring data differ in one
        record, not in one row. Counts are private data, unlike weights, for which no guarantee is made.

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
        X: ArrayLike | RowSource,
        y: ArrayLike | None = None,
        l2: float = 0.0,
        row_norm: float = 1.0,
        fit_intercept: bool = False,
        n_threads: int | None = None,
        *,
        penalize_intercept: bool = False,
        non_finite: str = "raise",
        n_public: int | None = None,
        n_classes: int | None = None,
        counts: ArrayLike | None = None,
    ) -> None:
        self.loss = get_loss(loss, n_classes)
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
        settings = RowSettings(
            self.fit_intercept,
            self.row_norm,
            non_finite,
            n_threads,
            Targets(self.loss.target_bound, self.loss.classification, self.loss.n_classes),
            None if counts is None else RecordCounts(counts),
        )
        self._rows = rows_of_input(X, y, settings)
        self._n_rows: int = self._rows.n_rows
        self.n_columns: int = self._rows.n_columns
        self.n_public = self._n_rows if n_public is None else int(n_public)
        self._mapped: MappedGradients | None = None  # rows seen through the last matrix
        # Bounds for (clip, radius): an iterative algorithm asks for the same ones at each step.
        self._gradient_bounds: dict[tuple[float, float], tuple[float, float, float, float]] = {}

    @property
    def dimension(self) -> int:
        """Number of weights: columns, and the intercept if there is one, for each class of a softmax."""
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights: ``(d,)``, or ``(d, n_classes)`` for softmax; ``d`` counts the intercept.

        Algorithms that never ask for more serve every kind of loss.
        """
        per_class = self.n_columns + self.fit_intercept
        return (per_class,) if self.loss.n_classes is None else (per_class, self.loss.n_classes)

    @property
    def reads_whole_rows(self) -> bool:
        """Whether passes that make rows dense can be had: not of sparse data with very many columns."""
        return bool(getattr(self._rows, "reads_whole_rows", True))

    def with_loss(self, loss: str | Loss) -> Objective:
        """The same records under another loss for the same targets; nothing is copied.

        Raises
        ------
        ValueError
            For a loss of another kind of target, or with another ``target_bound``.
        """
        other = copy.copy(self)
        other.loss = get_loss(loss)
        other._gradient_bounds = {}
        targets = [(each.classification, each.target_bound) for each in (self.loss, other.loss)]
        if targets[0] != targets[1]:
            raise ValueError(f"{other.loss!r} has other targets than {self.loss!r}: build a new Objective")
        return other

    # -- not private: for tests and non-private fits -------------------------------------------------

    def value(self, w: ArrayLike) -> float:
        """``F(w)``. Exact and therefore NOT private."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: ArrayLike) -> Array:
        """Gradient of ``F`` at ``w``, of its shape. Exact and therefore NOT private.

        For losses of one linear prediction in double precision, whatever the dtype of the rows.
        """
        if len(self.shape) != 1:
            return self.value_and_gradient(w)[1]
        weights = self._weights(w, "w")
        total, _ = self._rows.gradient_sum(
            self.loss.kernel, weights, self._threads(), with_loss=False, precise=True
        )
        return np.asarray(total / self.n_public + self.penalty_gradient(weights), dtype=np.float64)

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Array]:
        """``F(w)`` and its gradient in one pass over the data. NOT private."""
        weights = self._weights(w, "w")
        loss = self.loss
        gradient, total = self._rows.gradient_sum(loss.kernel, weights, self._threads())
        value = total / self.n_public + self.penalty(weights)
        return value, gradient / self.n_public + self.penalty_gradient(weights)

    # -- private sums --------------------------------------------------------------------------------

    def clipped_gradient_sum(
        self,
        w: ArrayLike,
        clip: float,
        *,
        radius: float = math.inf,
        rows: SecretRows | None = None,
        keep_predictions: bool = False,
    ) -> Bounded:
        """``sum_i g_i min(1, clip / ||g_i||)``, ``g_i`` the gradient of record i's loss (no ridge term).

        Exact integers on a grid that depends on ``n_public``, ``clip`` and the dtype alone. A record's
        integers depend on that record, ``w`` and ``clip`` alone, and form a vector of norm at most
        ``clip``, rounding included.

        Parameters
        ----------
        w : array_like
            Finite weights, of the objective's shape.
        clip : float
            Positive bound on the norm of one record's gradient.
        radius : float
            Public bound on ``||w||``. Where all gradients on that ball are shorter than ``clip``, the
            bound is tightened to what the loss allows there.
        keep_predictions : bool
            Keep the products of `w` and the rows, 8 bytes a record, for line searches from `w`: see
            `clipped_loss_sums`.
        rows : SecretRows, optional
            Sum over these records only, each of which adds what it adds to the full sum. The bound is that
            of a record in the sample, and under replace_one twice that, which accounting of samples counts
            on.

        Returns
        -------
        Bounded
            Of the weights' shape, whatever the sample; sensitivity ``clip`` (add_or_remove) or ``2 clip``
            (replace_one), or less as told by ``radius``.

        Raises
        ------
        DataError
            For more records than ``n_public`` and a sample of fixed size.
        """
        weights = self._weights(w, "w")
        clip, clip_before_rounding, grid, replacement = self._known_bounds(weights, clip, radius)
        kernel, bounds = self.loss.kernel, (clip_before_rounding, grid)
        if rows is None:
            options = {"keep_predictions": True} if keep_predictions and weights.ndim == 1 else {}
            integers = self._rows.clipped_gradient_sum(kernel, weights, *bounds, self._threads(), **options)
            return Bounded(integers, grid=grid, contribution=clip, replacement=replacement)
        batch = self._rows.drawn(rows, self.n_public)
        threads = self._threads_of_sample(rows.rate)
        integers = self._rows.clipped_gradient_sum(kernel, weights, *bounds, threads, batch)
        return Bounded(integers, grid=grid, contribution=clip)

    def batch_sum_bounds(self, clip: float, radius: float = math.inf) -> tuple[float, float]:
        """Contribution and grid of :meth:`clipped_gradient_sum` over a sample: public numbers."""
        clip, _, grid, _ = self._known_bounds(np.zeros(()), clip, radius)
        return clip, grid

    def _noisy_batch_sums(
        self, batches: SecretSamples, noise: GaussianDraw, steps: int, clip: float, radius: float
    ) -> Callable[[Array], Array] | None:
        """`noise` made again and again, added to :meth:`clipped_gradient_sum` over one batch after the other.

        Called with the weights, `steps` times. For mechanisms, which have charged for it. None for records
        that this process does not hold together.
        """
        _, clip_in, grid, _ = self._known_bounds(np.zeros(()), clip, radius)
        return self._rows.noisy_batch_sums(
            self.loss.kernel,
            clip_in,
            grid,
            self._threads_of_sample(batches.rate),
            batches,
            self.n_public,
            noise,
            steps,
            radius * _INSIDE_BALL,
        )

    def clipped_gradient_sums(
        self,
        weights: ArrayLike,
        clip: ArrayLike,
        *,
        radius: ArrayLike = math.inf,
        folds: ArrayLike | None = None,
        left_out: ArrayLike | None = None,
    ) -> Bounded:
        """`clipped_gradient_sum` at K weight vectors, for a release of all sums together.

        Parameters
        ----------
        weights, clip, radius, folds, left_out
            See `separate_gradient_sums`. Clips differ by a factor of at most 256.

        Returns
        -------
        Bounded
            Of shape ``(K, *shape)``; with one clip row k holds the integers of
            ``clipped_gradient_sum(weights[k], clip)``, bit for bit. One record contributes a matrix of
            Frobenius norm at most ``sqrt(sum_k clip_k^2)``, which is ``sqrt(K) clip`` for one clip, and
            ``replace_one`` moves the sum by at most twice that.
        """
        return Bounded.stacked(
            self.separate_gradient_sums(weights, clip, radius=radius, folds=folds, left_out=left_out)
        )

    def separate_gradient_sums(
        self,
        weights: ArrayLike,
        clip: ArrayLike,
        *,
        radius: ArrayLike = math.inf,
        folds: ArrayLike | None = None,
        left_out: ArrayLike | None = None,
    ) -> list[Bounded]:
        """`clipped_gradient_sum` at K weight vectors, for K independent fits that are charged one by one.

        Dense rows and tables under a loss of one prediction are read once, files for any loss, and the
        workers of a cluster are called once; other records are passed over K times.

        Parameters
        ----------
        weights : (K, *shape) array_like
            Finite, K at least 1.
        clip, radius : float or (K,) array_like
            As for `clipped_gradient_sum`, for all sums or for each.
        folds : (n_samples,) array_like of int, optional
            The fold of each record, as cross-validation wants them; -1 for none. Drawn independently of the
            data, and public.
        left_out : (K,) array_like of int, optional
            Sum k leaves the records of fold ``left_out[k]`` out; -1 for a sum over all records. By default
            sum k leaves out fold k.

        Returns
        -------
        list of Bounded
            The k-th is ``clipped_gradient_sum(weights[k], clip_k)``, bit for bit, over the records that it
            sees, and has its sensitivity. Whoever releases several of them pays for each.

        Raises
        ------
        ValueError
            For arguments that do not fit together.
        """
        models = np.ascontiguousarray(weights, dtype=np.float64)
        if models.shape[1:] != self.shape or models.shape[0] == 0:
            raise ValueError(
                f"weights must have shape (K, {', '.join(map(str, self.shape))}) with K >= 1, "
                f"got {models.shape}"
            )
        if not np.isfinite(models).all():
            raise ValueError("weights must be finite")
        clips, radii = _one_each(clip, len(models), "clip"), _one_each(radius, len(models), "radius")
        bounds = [self._known_bounds(*own) for own in zip(models, clips, radii, strict=True)]
        sums = sums_of_models(
            self._rows,
            self.loss.kernel,
            models,
            np.array([clip_before_rounding for _, clip_before_rounding, _, _ in bounds]),
            np.array([grid for _, _, grid, _ in bounds]),
            self._threads(len(models)),
            None if folds is None else self.public_folds(folds),
            _left_out(left_out, folds is not None, len(models)),
            self.n_public,
        )
        return [
            Bounded(integers, grid=grid, contribution=own_clip, replacement=replacement)
            for integers, (own_clip, _, grid, replacement) in zip(sums, bounds, strict=True)
        ]

    def public_folds(self, folds: ArrayLike) -> NDArray[np.int32]:
        """Folds as `separate_gradient_sums` takes them, checked.

        Raises
        ------
        ValueError
            Unless there is an integer for each record, or for records in partitions.
        """
        numbers = np.asarray(folds)
        if numbers.dtype.kind not in "iu" or numbers.shape != (self._n_rows,):
            raise ValueError(
                f"folds must hold an integer for each of {self._n_rows} records, got shape {numbers.shape} "
                f"of {numbers.dtype}"
            )
        if self.n_partitions:
            raise DataError(
                "folds of records cannot be had of partitions: make a collection without the records of the "
                "fold, and fit to that"
            )
        return np.ascontiguousarray(np.clip(numbers, -1, 2**31 - 1), dtype=np.int32)

    def mapped_gradient_sum(self, w: ArrayLike, clip: float, linear_map: LinearMap) -> Bounded:
        """``sum_i A g_i min(1, clip / ||A g_i||)`` for a public matrix ``A``: gradients clipped by their
        image.

        In the coordinates ``u`` of ``w = A^T u`` these are the gradients. Lengths of the rows' images are
        computed at the first call for a matrix; every call then costs one pass.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights, in the coordinates of the data.
        clip : float
            Positive bound on the norm of the image of one record's gradient.
        linear_map : LinearMap
            Public and invertible, of shape ``(dimension, dimension)``.

        Returns
        -------
        Bounded
            Shape ``(dimension,)``; a record contributes a vector of norm at most ``clip``, plus the
            rounding of the image.
        """
        _check_clip(clip)
        if self._mapped is None or self._mapped.map is not linear_map:
            self._mapped = MappedGradients(self, linear_map)
        return self._mapped.clipped_sum(self._weights(w, "w"), clip)

    def clipped_loss_sums(self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, clip: float) -> Bounded:
        """``sum_i min(loss_i(w - a direction), clip)`` for every ``a`` in ``steps``, in one pass.

        Parameters
        ----------
        w, direction : array_like
            Finite weights and direction, of the objective's shape.
        steps : (m,) array_like
            Finite step sizes.
        clip : float
            Positive upper bound on the loss of one record.

        Returns
        -------
        Bounded
            Scores of shape ``(m,)``: each record adds a value in ``[0, clip]`` to each.

        Notes
        -----
        Two products a row, or one after a `clipped_gradient_sum` at the same `w` that kept its predictions;
        the result is the same, bit for bit.
        """
        _check_clip(clip)
        weights = self._weights(w, "w")
        towards = self._weights(direction, "direction")
        candidates = np.ascontiguousarray(steps, dtype=np.float64)
        if candidates.ndim != 1 or candidates.size == 0 or not np.isfinite(candidates).all():
            raise ValueError(f"steps must be a non-empty list of finite numbers, got {steps!r}")
        grid = self._grid(clip, _GRID_BITS[self._rows.dtype])
        clip_on_grid = math.floor(clip / grid) * grid
        loss = self.loss
        integers = self._rows.clipped_loss_sums(
            loss.kernel, weights, towards, candidates, clip_on_grid, grid,
            self._threads(),
        )  # fmt: skip
        return Bounded(integers, grid=grid, contribution=clip_on_grid, scores=True)

    def coordinate_loss_sums(self, w: ArrayLike, stride: float, clip: float = math.inf) -> Bounded:
        """How the sum of losses changes at each ``w +- stride e_j``, up to a constant, in one pass.

        A record's change of loss is kept in ``[-c/2, c/2]``, ``c = min(clip, 2 stride L)``, L the Lipschitz
        constant of the loss, and counted from ``-c/2``: what all candidates have in common does not matter to
        a selection, and what differs between them has a smaller range than the losses themselves.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        stride : float
            h, positive.
        clip : float
            Positive upper bound on the range of one record's changes; infinite where the loss has a
            Lipschitz constant.

        Returns
        -------
        Bounded
            Scores of shape ``(2 dimension + 1,)``, one record adding a value in ``[0, c]`` to each: at
            ``w + stride e_j``, at ``w - stride e_j``, and last at ``w``.
        """
        weights = self._weights(w, "w")
        if not 2.0**-64 <= stride <= 2.0**64:
            raise ValueError(f"stride must be between 2^-64 and 2^64, got {stride!r}")
        clip = min(clip, 2.0 * stride * self.loss.lipschitz(self.row_norm))
        _check_clip(clip)
        grid = self._grid(clip, _GRID_BITS[np.dtype(np.float64)])
        clip_on_grid = math.floor(clip / grid) * grid
        integers = self._rows.coordinate_loss_sums(
            self.loss.kernel, weights, stride, clip_on_grid, grid, self._threads()
        )
        return Bounded(integers, grid=grid, contribution=clip, scores=True)

    def gram_sum(self, *, target_factor: float = 0.0) -> Bounded:
        """``sum_i z_i z_i^T``, see :func:`dperm.objective.second_moments.symmetric_matrix`.

        Parameters
        ----------
        target_factor : float
            Above 0: a last column holds ``target_factor y_i``, for the products of rows and targets; its
            square is left out. The loss must have a finite ``target_bound``, or be a classification.

        Returns
        -------
        Bounded
            Shape ``(d (d + 1) / 2,)`` for ``d = dimension``, or ``((d + 1)(d + 2) / 2 - 1,)``. Its norm
            is that of the matrix: one record contributes ``29 row_norm^2`` in units of 29; exact integers.
        """
        target_bound = 1.0 if self.loss.classification else self.loss.target_bound
        if target_factor and not (0.0 < target_factor * target_bound < math.inf):
            raise ValueError(
                "sums of rows times targets need a positive target_factor and a finite target_bound"
            )
        return self._second_moments(None, self.row_norm, target_factor, target_factor * target_bound)

    def regression_sums(self, target_factor: float) -> tuple[Bounded, Bounded, Bounded]:
        """The smallest eigenvalue of ``sum_i z_i z_i^T``, its plain triangle, and ``sum_i z_i f y_i``.

        Three private values, each with its own sensitivity: about ``row_norm^2`` twice, and ``row_norm``
        times the bound on ``f y_i``.

        Parameters
        ----------
        target_factor : float
            f, positive. The loss must have a finite ``target_bound``.

        Returns
        -------
        tuple of Bounded
            Shapes ``(1,)``, ``(d (d + 1) / 2,)`` and ``(d,)`` for ``d = dimension``.
        """
        target = target_factor * self.loss.target_bound
        if not 0.0 < target < math.inf:
            raise ValueError("sums of rows times targets need a positive factor and a finite target_bound")
        self._check_records()
        integers, grid = self._triangle(None, self.row_norm, target_factor, target)
        target = target * (1.0 + 2.0**-50) + grid
        return regression_sums(integers, grid, self.row_norm, target, MOST_RECORDS * self.n_public)

    def moment_sums(self, clip: float) -> Bounded:
        """First and second moments of the columns: ``(K sum_i z_ij, sum_i f_i z_ij^2)``.

        ``f_i = min(1, clip / ||(z_ij^2)_j||)``; ``K`` is :func:`dperm.objective.second_moments.mean_weight`,
        about ``clip / row_norm``: both halves have about the same bound.

        Parameters
        ----------
        clip : float
            Positive bound on the norm of one record's vector of squares; at most ``row_norm^2`` is used.

        Returns
        -------
        Bounded
            Shape ``(2 dimension,)``; one record contributes a vector of norm at most ``sqrt(2) clip``.
        """
        clip = min(clip, self.row_norm**2)
        _check_clip(clip)
        grid = row_grid(self.row_norm, self.n_public)
        self._check_room(self.row_norm / grid)
        inner = bound_before_rounding(self.row_norm, grid, self.dimension)
        inner_clip = bound_before_rounding(clip, grid**2, self.dimension) / grid**2
        integers = self._rows.moment_sums(inner, grid, inner_clip, self._threads())
        # K row_norm <= clip, so that a record's first half is no longer than its second may be.
        integers[0] *= round(mean_weight(clip, self.row_norm, grid) / grid)
        contribution = math.sqrt(2.0) * clip * (1.0 + 2.0**-50)
        return Bounded(integers.ravel(), grid=grid**2, contribution=contribution)

    def hessian_sum(self, w: ArrayLike, clip: float = math.inf, *, upper: bool = False) -> Bounded:
        """``sum_i min(loss''(p_i), clip / ||z_i||^2) z_i z_i^T``: the Hessians, each of norm at most
        ``clip``.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        clip : float
            Bound on the norm of one record's Hessian; at most the smoothness of the loss is used.
        upper : bool
            In place of ``loss''`` the curvature of the parabola that touches the loss at ``p_i`` and lies
            above it everywhere: Newton steps with it never raise the risk (Jaakkola and Jordan 2000 for the
            logistic loss, ``tanh(p/2) / (2p)``).

        Returns
        -------
        Bounded
            A triangle like that of `gram_sum`.

        Raises
        ------
        TypeError
            If the loss has no second derivative.
        """
        self.loss.second_derivative(0.0, 1.0)  # refuses where there is none
        clip = min(clip, self.loss.smoothness(self.row_norm) * (1.0 + 2.0**-40))
        _check_clip(clip)
        return self._second_moments(self._weights(w, "w"), math.sqrt(clip), upper=upper)

    def hessian_trace(self, w: ArrayLike, clip: float = math.inf, *, upper: bool = False) -> Bounded:
        """Trace of the matrix whose triangle `hessian_sum` is, shape ``(1,)``; one record adds up to
        ``clip``.
        """
        triangle = self.hessian_sum(w, clip, upper=upper)
        integers = diagonal(triangle._integers).sum(keepdims=True) // DIAGONAL
        bound = triangle.contribution / DIAGONAL * (1.0 + 2.0**-50)
        return Bounded(integers, grid=triangle.grid, contribution=bound, replacement=bound)

    def newton_direction(
        self, w: ArrayLike, gradient: ArrayLike, shift: float, *, upper: bool = False
    ) -> Bounded:
        """``(Hessian of F at w + shift I)^-1 gradient``, rounded, with one record's effect on it.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        gradient : (dimension,) array_like
            Public, such as a released gradient.
        shift : float
            Positive; the sensitivity is about ``smoothness ||gradient|| / (n_public shift^2)``.
        upper : bool
            With the upper bound of the Hessian, see `hessian_sum`.

        Returns
        -------
        Bounded
            Shape ``(dimension,)``; see :func:`dperm.objective.newton_direction.newton_direction`.

        Raises
        ------
        TypeError
            If the loss has no second derivative.
        """
        if not 0.0 < shift < math.inf:
            raise ValueError(f"shift must be positive and finite, got {shift!r}")
        self._check_records()
        towards = self._weights(gradient, "gradient")
        penalty = self.penalty_gradient(np.ones(self.dimension))
        secret = self.hessian_sum(w, upper=upper)
        hessian = symmetric_matrix(np.asarray(secret._integers * secret.grid, dtype=np.float64))
        bound = secret.contribution / DIAGONAL
        return newton_direction(hessian, bound, self.n_public, penalty, shift, towards)

    def _second_moments(
        self,
        w: Array | None,
        bound: float,
        target_factor: float = 0.0,
        target: float = 0.0,
        upper: bool = False,
    ) -> Bounded:
        integers, grid = self._triangle(w, bound, target_factor, target, upper)
        return bounded_triangle(integers, grid, bound, target and target * (1.0 + 2.0**-50) + grid)

    def _triangle(
        self, w: Array | None, bound: float, target_factor: float, target: float, upper: bool = False
    ) -> tuple[NDArray[np.int64], float]:
        """The kernel's triangle, and the grid of its rows."""
        grid = row_grid(max(bound, target), self.n_public)
        self._check_room(max(bound, target) / grid)
        inner = bound_before_rounding(bound, grid, self.dimension)
        integers = self._rows.gram_sum(
            self.loss.kernel, w, inner, grid, target_factor, self._threads(), upper
        )
        return integers, grid

    def _check_records(self) -> None:
        if self._n_rows > MOST_RECORDS * self.n_public:
            raise DataError(f"n_public = {self.n_public} is far below the number of records")

    def _check_room(self, steps: float) -> None:
        """Sums of products of integers up to ``steps`` must fit, 64 times over."""
        if self._n_rows * (steps + 1.0) ** 2 * 64.0 > 2.0**62:
            raise DataError(
                f"n_public = {self.n_public} is far below the number of records: "
                "sums could overflow. Pass a larger n_public."
            )

    def label_sum(self) -> Bounded:
        """``sum_i y_i`` over the finite records, shape ``(1,)``; one record contributes -1 or +1."""
        if not self.loss.classification or self.loss.n_classes is not None:
            raise TypeError(f"the targets of the {self.loss.name} loss are not labels")
        return Bounded(np.array([self._rows.label_sum()], dtype=np.int64), grid=1.0, contribution=1.0)

    def class_counts(self) -> Bounded:
        """Finite records of each class, shape ``(n_classes,)``; one record counts 1 in one place."""
        if self.loss.n_classes is None:
            raise TypeError(f"the targets of the {self.loss.name} loss are not class codes")
        totals = self._rows.class_counts(self.loss.n_classes)
        return Bounded(totals, grid=1.0, contribution=1.0, replacement=math.sqrt(2.0))  # rounded up

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
        clip, grid = self.descent_sum_bounds(plan)
        run = self._descent(plan, self._clip_before_rounding(clip, grid), grid)
        return StochasticDescent(
            run,
            batches,
            contribution=clip,
            replacement=2.0 * clip,
            whole_sum=lambda: self._sum_at_zero(plan, grid, run.settings[0]),
        )

    def descent_sum_bounds(self, plan: DescentPlan) -> tuple[float, float]:
        """Contribution and grid of the sums of :meth:`stochastic_descent`: public numbers."""
        _check_clip(plan.clip)
        longest = plan.loss.lipschitz(self.row_norm, plan.radius) * (1.0 + 2.0**-18)
        clip = min(plan.clip, longest)
        return clip, self._grid(clip, _GRID_BITS[np.dtype(np.float64)])

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

    @property
    def n_partitions(self) -> int:
        """Number of partitions that workers of a cluster hold; 0 for records that this process reads."""
        return self._rows.n_partitions

    def check_places(self) -> None:
        """Raise DataError where batches of fixed size cannot be drawn.

        They are drawn among ``n_public`` places: there must be no more records, and no partitions whose
        workers draw their own samples.
        """
        if self.n_partitions:
            raise DataError(
                "batches of fixed size are drawn among all records, but the workers that hold the partitions "
                "draw their samples independently: use sampling='poisson', or full batches (noisy_gd)"
            )
        if self._n_rows > self.n_public:
            raise DataError(
                f"batches of fixed size are drawn among n_public = {self.n_public} places; there are more "
                "records. Pass a larger n_public, or use Poisson sampling."
            )

    # -- the ridge term: public ----------------------------------------------------------------------

    def penalty(self, w: Array) -> float:
        """``l2/2 ||w||^2``, without the intercept unless ``penalize_intercept``."""
        return 0.5 * float(np.vdot(self.penalty_gradient(w), w))

    def penalty_gradient(self, w: Array) -> Array:
        """Gradient of the ridge term."""
        gradient = self.l2 * w
        if self.fit_intercept and not self.penalize_intercept:
            gradient[-1] = 0.0
        return gradient

    # -- helpers -------------------------------------------------------------------------------------

    def _weights(self, w: ArrayLike, name: str) -> Array:
        weights = np.ascontiguousarray(w, dtype=np.float64)
        if weights.shape != self.shape:
            raise ValueError(f"{name} must have shape {self.shape}, got {weights.shape}")
        # A finite sum tells it in less time; that of finite weights may overflow. No product of
        # linear algebra: its threads would spin on, and take a core from the pass that follows.
        if not (math.isfinite(np.add.reduce(weights, axis=None)) or np.isfinite(weights).all()):
            raise ValueError(f"{name} must be finite")
        return weights

    def _threads(self, n_models: int = 1) -> int:
        return threads_for(self.n_threads, self._rows.n_entries * (self.loss.n_classes or 1) * n_models)

    def _threads_of_sample(self, rate: float) -> int:
        return threads_for(self.n_threads, int(rate * self.n_public * self.dimension))

    def _known_bounds(self, w: Array, clip: float, radius: float) -> tuple[float, float, float, float]:
        """`_bound_gradients` for weights inside the ball, kept from call to call."""
        if radius < math.inf and not np.linalg.norm(w) <= radius * _INSIDE_BALL:
            raise ValueError(f"w must be in the ball of the public radius {radius!r}")
        known = self._gradient_bounds.get((clip, radius))
        if known is None:
            _check_clip(clip)
            if len(self._gradient_bounds) == _MOST_KNOWN_BOUNDS:
                self._gradient_bounds.clear()
            known = self._gradient_bounds[clip, radius] = self._bound_gradients(clip, radius)
        return known

    def _bound_gradients(self, clip: float, radius: float) -> tuple[float, float, float, float]:
        """Clip, clip before rounding, grid, and distance of two records' clipped gradients."""
        longest = self.loss.lipschitz(self.row_norm, radius) * (1.0 + 2.0**-18)
        never_clips = longest <= clip
        clip = min(clip, longest)
        grid = self._grid(clip, _GRID_BITS[self._rows.dtype])
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
        unit = 2.0**-24 if self._rows.dtype == np.float32 else 2.0**-53
        # An error in a prediction moves the gradient by at most smoothness / row_norm times as much.
        relative = (sum(self.shape) + 16) * unit
        prediction_error = relative * self.row_norm * (radius + 1.0)
        error = self.loss.smoothness(self.row_norm) / self.row_norm * prediction_error + relative * clip
        return min(2.0 * clip, exact + 2.0 * error + grid * math.sqrt(self.dimension))

    def _gradient_grid(self, longest: float) -> float:
        """Grid of sums of vectors no longer than ``longest``."""
        return self._grid(longest, _GRID_BITS[self._rows.dtype])

    def _rounding_slack(self) -> tuple[float, float]:
        """Relative error of a clipped gradient's norm, and of one product of its sum."""
        single = self._rows.dtype == np.float32
        slack = (2.0**-22 if single else 2.0**-50) + (sum(self.shape) + 16) * 2.0**-52
        return slack, 2.0**-24 if single else 2.0**-53

    def _clip_before_rounding(self, clip: float, grid: float) -> float:
        """A smaller clip, so that rounding to the grid cannot carry a record past ``clip``.

        Rounding moves a vector by at most ``grid/2 sqrt(dimension)``; norms, factors and products
        are off by the relative errors given in ``kernel_table.h``.
        """
        slack = self._rounding_slack()[0]
        inner = (clip - 0.5 * grid * math.sqrt(self.dimension)) / (1.0 + slack)
        if not inner > 0.0:
            raise ValueError(
                f"with {self.n_public} records of {self.dimension} dimensions the grid is too coarse "
                "for exact sums; use float64"
            )
        return inner


def _one_each(value: ArrayLike, count: int, name: str) -> list[float]:
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in ((), (count,)):
        raise ValueError(f"{name} must be a number or {count} of them, one for each row of weights")
    return [float(each) for each in np.broadcast_to(values, (count,))]


def _left_out(left_out: ArrayLike | None, folds: bool, count: int) -> NDArray[np.int32]:
    """The fold that each of several models does not see; -2 for a model that sees all records."""
    if left_out is None:
        return np.arange(count, dtype=np.int32)
    numbers = np.asarray(left_out)
    if not folds:
        raise ValueError("left_out names folds: give folds, an integer for each record, too")
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise ValueError(
            f"left_out must hold the number of a fold for each of {count} rows of weights, got shape "
            f"{numbers.shape} of {numbers.dtype}"
        )
    known = np.clip(numbers, -1, 2**31 - 1)
    return np.where(known < 0, -2, known).astype(np.int32)


def _check_clip(clip: float) -> None:
    if not (2.0**-64 <= clip <= 2.0**64):
        raise ValueError(f"clip must be between 2^-64 and 2^64, got {clip!r}")
