"""The empirical risk of a linear model on a data set: records, loss and public bounds."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.threads import check_n_threads, threads_for
from dperm.data.inputs import rows_of_input
from dperm.data.passes import GradientSum, Pass
from dperm.data.rows import RowSettings, RowsInMemory, RowSource
from dperm.data.targets import Multiplicity, Targets, Weights
from dperm.errors import DataError
from dperm.losses import Loss, get_loss
from dperm.losses.weighted import Weighted, unweighted
from dperm.objective.arguments import (
    MAX_ROW_NORM,
    MIN_CLIP,
    MIN_ROW_NORM,
    clip_bound,
    flag,
    number,
    number_from,
    public_number_of_records,
    real_array,
    upper_bound,
)
from dperm.objective.exact_sums import OVERFLOW_BITS, ExactSums, SumBounds, sum_bits

Array = NDArray[np.float64]

_MAX_KNOWN_BOUNDS = 1024
INSIDE_BALL = 1.0 + 1e-12  # allowance for the rounding of a projection


class Objective:
    """``F(w) = (1/N) sum_i loss(<w, z_i>, y_i) + l2/2 ||w||^2`` over records ``(z_i, y_i)``.

    ``z_i`` is row ``i`` of ``X``, with a 1 appended (never stored) for ``fit_intercept``, scaled down to
    ``row_norm`` if longer. The matrix is read in place and must not change during the objective's lifetime.

    Parameters
    ----------
    loss : str or Loss
        A loss of :mod:`dperm.losses`, or its name for default parameters, such as "logistic" for labels and
        "squared_error" for real targets; "softmax" with `n_classes` for class codes.
    X : (n_samples, n_columns) array_like, or a sparse matrix or array of scipy
        float32 or float64 in C order, or in canonical CSR form (indices sorted, none twice), is read in
        place; anything else is copied once, with a CopyWarning. A Dask array or data frame of numbers is
        read by the workers that hold its partitions (`y` in the same ones).
    y : (n_samples,) array_like
        -1 or +1 for classification losses, codes ``0 .. n_classes - 1`` for softmax, real numbers for
        regression, clipped to the loss's ``target_bound``.
    l2 : float
        Strength of the ridge term, on the scale of the mean loss; at least 0.
    row_norm : float
        Public bound ``R``, from 2^-256 to 2^1000, on the norm of a row, intercept included; longer rows are
        scaled down to it.
    fit_intercept : bool
        Append an implicit column of ones. Weights then have ``n_columns + 1`` rows, intercept last.
    n_threads : int, optional
        Threads of a pass, which do not affect the result. None or -1: all that the process may use.
    penalize_intercept : bool
        Whether the ridge term covers the intercept.
    non_finite : {"raise", "zero"}
        Treatment of records with NaN or infinity: an error for the data holder before anything is charged,
        or a contribution of exactly 0, silently.
    n_public : int, optional
        The public number ``N`` that sums are divided by. By default the exact number of records, which is
        thereby declared public: every statement of a fit publishes it. Fits under add_or_remove on a part of
        a split ledger, whose number of records is secret, need it.
    n_classes : int, optional
        Public number of classes, for ``loss="softmax"``. Weights then have one column per class.
    counts : (n_samples,) array_like of int, optional
        How many identical records each row of `X` and `y` stands for, as :func:`dperm.data.aggregate`
        returns them; 0 for none. Sums, samples, sensitivities and the number of records are those of the
        data with every row repeated that often: neighbouring data differ in one record, not in one row.
    weights : (n_samples,) array_like, optional
        Factors of the records' losses, for rows in memory; private data. Weights are silently clipped to
        ``[0, weight_bound]``, and NaN counts as 0. Gradients and losses are clipped after weighting, sampling
        ignores weights, and sums are divided by ``n_public``.
    weight_bound : float
        Public bound on `weights`.
    class_weight : mapping or "private", optional
        Public positive weights by target, -1 and +1 or class codes; 1 for missing ones. "private": a fit
        first releases noisy class frequencies, and weights the classes inversely.

    Raises
    ------
    ValueError
        For an argument out of range.
    DataError
        For unusable data; a subclass of ValueError, for the holder of the data.

    Examples
    --------
    >>> objective = Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
    >>> round(objective.value([1.0, 1.0]), 4)  # exact, not private
    0.3937
    >>> from dperm.objective.gradients import clipped_gradient_sum
    >>> clipped_gradient_sum(objective, [1.0, 1.0], clip=0.5).sensitivity("replace_one")
    1.0
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
        weights: ArrayLike | None = None,
        weight_bound: float = 1.0,
        class_weight: Mapping[float, float] | str | None = None,
    ) -> None:
        self.loss = get_loss(loss, n_classes)
        self.l2 = _ridge(l2)
        self.row_norm = number_from(
            "row_norm", row_norm, MIN_ROW_NORM, MAX_ROW_NORM,
            "positive, between 2^-256 and 2^1000 (scale the columns)",
        )  # fmt: skip
        if n_public is not None:
            n_public = public_number_of_records(n_public)
        check_n_threads(n_threads)
        self.fit_intercept = flag("fit_intercept", fit_intercept)
        self.penalize_intercept = flag("penalize_intercept", penalize_intercept)
        self.non_finite = non_finite
        self.n_threads = n_threads
        settings = RowSettings(
            self.fit_intercept,
            self.row_norm,
            non_finite,
            n_threads,
            Targets(self.loss.target_bound, self.loss.classification, self.loss.n_classes),
            None if counts is None else Multiplicity(counts),
            weights=_weights_of_records(self.loss, weights, weight_bound, class_weight),
        )
        #: Whether a fit has to release class frequencies, to weight the classes inversely.
        self.weighs_privately = class_weight == "private"
        self.weights = settings.weights
        self._rows = rows_of_input(X, y, settings)
        self._settings = settings
        self._records = (X, y) if self.weighs_privately else None
        self._n_rows: int = self._rows.n_rows
        self.n_columns: int = self._rows.n_columns
        self.n_public: int = self._n_rows if n_public is None else n_public
        #: Whether a row stands for as many records as its count says.
        self.is_counted = counts is not None
        #: Whether `n_public` was not given, so that it is the exact number of records.
        self.n_is_exact = n_public is None
        #: Further public facts, for ledgers and statements: where the records come from.
        self.described: Mapping[str, Any] = {}
        self._use(self.loss)
        self._exact.check()

    def _use(self, loss: Loss) -> None:
        """Set the loss, and reset what depends on it."""
        self.loss = loss
        if self.weights is not None:
            self.loss = Weighted(unweighted(loss), self.weights.largest)
        self._exact = ExactSums(self.loss, self.n_public, self.shape, self.row_norm, self._rows.dtype)
        # Bounds by (clip, radius), which are the same at each step of an algorithm.
        self._gradient_bounds: dict[tuple[float, float], SumBounds] = {}
        self._mapped: Any = None  # the records in the coordinates of the last transform

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the arithmetic, float32 or float64, which determines the grid of releases."""
        return self._rows.dtype

    @property
    def dimension(self) -> int:
        """Number of weights: columns plus intercept, times the number of classes for softmax."""
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights: ``(d,)``, or ``(d, n_classes)`` for softmax; ``d`` includes the intercept."""
        per_class = self.n_columns + self.fit_intercept
        return (per_class,) if self.loss.n_classes is None else (per_class, self.loss.n_classes)

    @property
    def reads_whole_rows(self) -> bool:
        """Whether passes can make rows dense, unlike for sparse data with very many columns."""
        return self._rows.reads_whole_rows

    @property
    def n_partitions(self) -> int:
        """Number of partitions held by the workers of a cluster; 0 for records that this process reads."""
        return self._rows.n_partitions

    @property
    def largest_condition(self) -> float:
        """Public: condition number up to which a transform loses little of the gradients to rounding."""
        return self._exact.largest_condition

    def with_loss(self, loss: str | Loss) -> Self:
        """The same records with another loss for the same targets; nothing is copied.

        Raises
        ------
        ValueError
            For a loss with another kind of targets, or another ``target_bound``.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1])
        >>> objective.with_loss("hinge").value([0.0]), round(objective.value([0.0]), 4)
        (1.0, 0.6931)
        """
        other = copy.copy(self)
        other._use(get_loss(loss))
        targets = [(each.classification, each.target_bound) for each in (self.loss, other.loss)]
        if targets[0] != targets[1]:
            raise ValueError(f"{other.loss!r} has other targets than {self.loss!r}: build a new Objective")
        return other

    def _weigh_classes(self, class_weight: Mapping[float, float]) -> None:
        """Set class weights that were released for ``class_weight="private"``.

        The records are read again. Only for the copy of an objective that belongs to one fit.
        """
        assert self._records is not None
        of_classes = class_weights(class_weight, self.loss)
        own = self._settings.weights
        weights = Weights(1.0, None, of_classes) if own is None else replace(own, of_classes=of_classes)
        self._settings = replace(self._settings, weights=weights)
        self._rows = rows_of_input(*self._records, self._settings)
        self.weights, self.weighs_privately = weights, False
        self._use(self.loss)

    def with_ridge(self, l2: float) -> Self:
        """The same objective with another ridge term; nothing is copied.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("hinge", [[0.5], [-1.0]], [1, -1])
        >>> objective.value([1.0]), objective.with_ridge(0.5).value([1.0])
        (0.25, 0.5)
        """
        other = copy.copy(self)
        other.l2 = _ridge(l2)
        return other

    # -- not private: for tests and non-private fits -------------------------------------------------

    def value(self, w: ArrayLike) -> float:
        """``F(w)``. Exact and therefore NOT private.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], l2=0.1)
        >>> round(objective.value([0.0]), 4), round(objective.value([1.0]), 4)
        (0.6931, 0.4437)
        """
        return self.value_and_gradient(w)[0]

    def gradient(self, w: ArrayLike, clip: float = math.inf) -> Array:
        """Gradient of ``F`` at ``w``, of its shape. Exact and therefore NOT private.

        For losses of one linear prediction in double precision, whatever the dtype of the rows.

        Parameters
        ----------
        w : array_like
            Finite weights.
        clip : float
            Bound on the norm of the gradient of one record's loss, for losses of one linear prediction.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1])
        >>> objective.gradient([0.0]), objective.gradient([0.0], clip=0.25)
        (array([-0.375]), array([-0.25]))
        """
        clip = number_from("clip", clip, MIN_CLIP, math.inf, "at least 2^-64 (math.inf for no clip)")
        if len(self.shape) != 1:
            if clip < math.inf:
                raise ValueError(
                    f"the {self.loss.name} loss has one prediction per class: leave out the clip"
                )
            return self.value_and_gradient(w)[1]
        weights = self._weights(w, "w")
        sums = GradientSum(self.loss.kernel, weights, clip, with_loss=False, precise=True)
        total, _ = self._run(sums)
        return np.asarray(total / self.n_public + self.penalty_gradient(weights), dtype=np.float64)

    def value_and_gradient(self, w: ArrayLike) -> tuple[float, Array]:
        """``F(w)`` and its gradient in one pass over the data. NOT private.

        Examples
        --------
        >>> import dperm
        >>> from scipy.optimize import minimize
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], l2=0.1)
        >>> minimize(objective.value_and_gradient, [0.0], jac=True).x.round(3)
        array([1.608])
        """
        weights = self._weights(w, "w")
        gradient, total = self._run(GradientSum(self.loss.kernel, weights))
        value = total / self.n_public + self.penalty(weights)
        return value, gradient / self.n_public + self.penalty_gradient(weights)

    # -- the ridge term: public ----------------------------------------------------------------------

    def penalty(self, w: Array) -> float:
        """``l2/2 ||w||^2``, without the intercept unless ``penalize_intercept``.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], l2=0.5, fit_intercept=True)
        >>> objective.penalty(np.array([2.0, 100.0]))
        1.0
        """
        return 0.5 * float(np.vdot(self.penalty_gradient(w), w))

    def penalty_gradient(self, w: Array) -> Array:
        """Gradient of the ridge term.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> objective = dperm.Objective("logistic", [[0.5], [-1.0]], [1, -1], l2=0.5, fit_intercept=True)
        >>> objective.penalty_gradient(np.array([2.0, 100.0]))
        array([1., 0.])
        """
        gradient = self.l2 * w
        if self.fit_intercept and not self.penalize_intercept:
            gradient[-1] = 0.0
        return gradient

    # -- passes --------------------------------------------------------------------------------------

    def _expect_passes(self, count: int) -> None:
        """Announce the number of passes to come: a compact form of the records may be worthwhile."""
        compact = self._rows.compact if isinstance(self._rows, RowsInMemory) else None
        if compact is not None:
            compact.expect(count)

    def _run(self, pass_: Pass) -> Any:
        """Make a pass over all records."""
        return self._rows.run(pass_, self._threads())

    def _threads(self) -> int:
        return threads_for(self.n_threads, self._rows.n_entries * (self.loss.n_classes or 1))

    def _threads_of_sample(self, rate: float) -> int:
        return threads_for(self.n_threads, int(rate * self.n_public * self.dimension))

    def _weights(self, w: ArrayLike, name: str) -> Array:
        weights = real_array(name, w)
        if weights.shape != self.shape:
            raise ValueError(f"{name} must have shape {self.shape}, got {weights.shape}")
        # A finite sum implies finite entries, in less time, though that of finite entries may overflow. No
        # BLAS product: its threads would keep spinning and take a core from the next pass.
        if not (math.isfinite(np.add.reduce(weights, axis=None)) or np.isfinite(weights).all()):
            raise ValueError(f"{name} must be finite")
        return weights

    def _bounds(self, clip: float, radius: float = math.inf, w: Array | None = None) -> SumBounds:
        """Cached bounds of clipped gradient sums; ValueError for `w` outside the ball."""
        clip, radius = number("clip", clip), number("radius", radius)
        known = self._gradient_bounds.get((clip, radius))
        if known is None:
            known = self._exact.gradients(clip_bound(clip), upper_bound("radius", radius))
            self._check_overflow(self._exact.finest)
            if len(self._gradient_bounds) >= _MAX_KNOWN_BOUNDS:
                self._gradient_bounds.clear()
            self._gradient_bounds[clip, radius] = known
        if w is not None and radius < math.inf and not np.linalg.norm(w) <= radius * INSIDE_BALL:
            raise ValueError(f"w must be in the ball of the public radius {radius!r}")
        return known

    def _refuse_weights(self, what: str) -> None:
        if self.weights is not None:
            raise ValueError(f"{what} take no weights of records or classes")

    def _check_overflow(self, finest: int) -> None:
        """Raise DataError if sums of clipped contributions could overflow."""
        if (self._n_rows - 1).bit_length() + sum_bits(self.n_public, finest) > OVERFLOW_BITS:
            raise self._far_more_records()

    def _far_more_records(self) -> DataError:
        return DataError(
            f"n_public = {self.n_public} is far below the number of records: "
            "sums could overflow. Pass a larger n_public."
        )


def _ridge(l2: float) -> float:
    return number_from("l2", l2, 0.0, 1e100, "from 0 to 1e100")


def _weights_of_records(
    loss: Loss, weights: ArrayLike | None, bound: float, class_weight: Mapping[float, float] | str | None
) -> Weights | None:
    """Validated weights; None if there are none."""
    bound = _weight("weight_bound", bound)
    if weights is None and class_weight is None:
        return None
    if class_weight == "private":
        class_weights({}, loss)  # refuses losses without classes
        return None if weights is None else Weights.given(weights, bound, {})
    of_classes = {} if class_weight is None else class_weights(class_weight, loss)
    return Weights.given(weights, bound, of_classes)


def class_weights(class_weight: Mapping[float, float] | str, loss: Loss) -> dict[float, float]:
    """Validated weights of the targets of a loss."""
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be public weights of the classes, or 'private' for weights by their noisy "
            f"frequencies: weights by exact frequencies would not be private. Got {class_weight!r}"
        )
    if not loss.classification:
        raise ValueError(f"class_weight is for classes: the targets of the {loss.name} loss are none")
    targets = (-1, 1) if loss.n_classes is None else range(loss.n_classes)
    unknown = [target for target in class_weight if target not in targets]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is no target of the {loss.name} loss")
    given = {float(target): class_weight.get(target, 1.0) for target in targets}
    return {target: _weight(f"class_weight[{target:g}]", weight) for target, weight in given.items()}


def _weight(name: str, value: Any) -> float:
    return number_from(name, value, 2.0**-32, 2.0**32, "positive, from 2^-32 to 2^32")
