"""Private sums of outer products: second moments, Hessians, and quantities computed from them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.passes import GramSum, MagnitudeCounts, MomentSums, NormCounts
from dperm.errors import DataError
from dperm.objective.arguments import (
    check_memory,
    clip_bound,
    finite_number,
    flag,
    number,
    number_from,
    real_array,
)
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.objective.row_scaling import RowScaling
from dperm.objective.second_moments import (
    bound_before_rounding,
    bounded_triangle,
    mean_weight,
    regression_sums,
    row_grid,
)
from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]

MAX_RECORDS = 16  # per public record
_MAX_ROW_NORM = 2.0**500  # squares on a grid are doubles
_MAGNITUDE_GRID = 2.0**-12


class SecondMomentSums(EmpiricalRisk):
    """Second moments and Hessians of an objective."""

    def gram_sum(
        self,
        *,
        target_factor: float = 0.0,
        target_centre: float = 0.0,
        target_limit: float = math.inf,
        scaling: RowScaling | None = None,
    ) -> Bounded:
        """``sum_i z_i z_i^T``, see :func:`dperm.objective.second_moments.symmetric_matrix`.

        Parameters
        ----------
        target_factor : float
            If positive, a last column ``target_factor (y_i - target_centre)`` is added for the products of
            rows and targets; its square is left out. Needs a finite ``target_bound``, or a classification
            loss.
        target_centre, target_limit : float
            Public; the differences ``y_i - target_centre`` are clipped to ``[-target_limit, target_limit]``.
        scaling : RowScaling, optional
            Public coordinates of the rows, instead of ``z_i`` and `row_norm`. The target of a row that is
            scaled down is scaled down with it.

        Returns
        -------
        Bounded
            Shape ``(d (d + 1) / 2,)`` for ``d = dimension``, or ``((d + 1)(d + 2) / 2 - 1,)``, with the norm
            of the matrix in units of 29: one record contributes at most ``29 row_norm^2``.

        Examples
        --------
        >>> import dperm
        >>> from dperm.mechanisms import release_without_privacy
        >>> from dperm.objective.second_moments import symmetric_matrix
        >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
        >>> symmetric_matrix(release_without_privacy(objective.gram_sum())).round(3)
        array([[0.25, 0.  ],
               [0.  , 1.  ]])
        """
        centre = finite_number("target_centre", target_centre)
        target = self._target_column(target_factor, centre, target_limit)
        bound, scales = self._seen(scaling)
        integers, grid = self._triangle(None, bound, target_factor, target, centre=centre, scales=scales)
        return bounded_triangle(integers, grid, bound, target and target * (1.0 + 2.0**-50) + grid)

    def regression_sums(self, target_factor: float) -> tuple[Bounded, Bounded, Bounded]:
        """The smallest eigenvalue of ``sum_i z_i z_i^T``, its plain triangle, and ``sum_i z_i f y_i``.

        Three private values with separate sensitivities: about ``row_norm^2`` for the first two, and
        ``row_norm`` times the bound on ``f y_i``.

        Parameters
        ----------
        target_factor : float
            f, positive. Needs a loss of real targets with a finite ``target_bound``.

        Returns
        -------
        tuple of Bounded
            Shapes ``(1,)``, ``(d (d + 1) / 2,)`` and ``(d,)`` for ``d = dimension``.

        Examples
        --------
        >>> import dperm
        >>> from dperm.mechanisms import release_without_privacy
        >>> loss = dperm.losses.SquaredError(target_bound=1.0)
        >>> objective = dperm.Objective(loss, [[0.5, 0.0], [0.0, -1.0]], [1.0, -0.5])
        >>> smallest, triangle, products = objective.regression_sums(target_factor=1.0)
        >>> release_without_privacy(smallest).round(3), release_without_privacy(products).round(3)
        (array([0.25]), array([0.5, 0.5]))
        """
        target = self._target_column(target_factor)
        if self.loss.classification or not target:
            raise ValueError(
                "the sums of a regression need a positive target_factor, and a loss of real targets with a "
                f"finite target_bound; got target_factor = {target_factor!r} and the {self.loss.name} loss"
            )
        self._check_records()
        integers, grid = self._triangle(None, self.row_norm, target_factor, target)
        target = target * (1.0 + 2.0**-50) + grid
        return regression_sums(integers, grid, self.row_norm, target, MAX_RECORDS * self.n_public)

    def moment_sums(self, clip: float, *, scaling: RowScaling | None = None) -> Bounded:
        """First and second moments of the columns: ``(K sum_i z_ij, sum_i f_i z_ij^2)``.

        ``f_i = min(1, clip / ||(z_ij^2)_j||)``. ``K`` is :func:`dperm.objective.second_moments.mean_weight`,
        about ``clip / row_norm``, which gives both halves about the same bound.

        Parameters
        ----------
        clip : float
            Positive bound on the norm of one record's vector of squares; at most ``row_norm^2`` is used.
        scaling : RowScaling, optional
            As for `gram_sum`.

        Returns
        -------
        Bounded
            Shape ``(2 dimension,)``; one record contributes a vector of norm at most ``sqrt(2) clip``.

        Examples
        --------
        >>> import dperm
        >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
        >>> moments = objective.moment_sums(clip=1.0)
        >>> moments.shape, round(moments.sensitivity("add_or_remove"), 3)
        ((4,), 1.414)
        """
        row_norm, scales = self._seen(scaling)
        clip, grid, inner, inner_clip = self._moment_bounds(clip, row_norm)
        self._check_room(row_norm / grid)
        integers = self._run(MomentSums(inner, grid, inner_clip, scales))
        # K row_norm <= clip, so the norm of a record's first half is bounded like that of the second.
        integers[0] *= round(mean_weight(clip, row_norm, grid) / grid)
        sensitivity = math.sqrt(2.0) * clip * (1.0 + 2.0**-50)
        return Bounded(integers.ravel(), grid=grid**2, add_or_remove=sensitivity)

    def magnitude_counts(self, n_bins: int) -> Bounded:
        """For each column, the number of records with an entry in each of `n_bins` factors of 4.

        Bin k of column j counts ``row_norm 4^-(k + 1) < |z_ij| <= row_norm 4^-k``; smaller entries are not
        counted. A record with entries in m columns counts ``1/sqrt(m)`` in each, rounded down.

        Returns
        -------
        Bounded
            Shape ``(n_columns, n_bins)``; a record contributes a vector of norm at most 1.

        Examples
        --------
        >>> import dperm
        >>> from dperm.mechanisms import release_without_privacy
        >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, 0.01]], [1, -1])
        >>> release_without_privacy(objective.magnitude_counts(n_bins=4)).round(3)
        array([[1., 0., 0., 0.],
               [0., 0., 0., 1.]])
        """
        integers = self._run(MagnitudeCounts(self.row_norm, _MAGNITUDE_GRID, n_bins))
        return _counts(integers, _MAGNITUDE_GRID)

    def norm_counts(self, n_bins: int, scaling: RowScaling) -> Bounded:
        """Histogram of the norms of ``t = (s_j z_j)_j``, in factors of ``sqrt(2)`` below `row_norm`.

        Bin k counts ``row_norm 2^(-(k + 1)/2) < ||t_i|| <= row_norm 2^(-k/2)``, with the `row_norm` of the
        scaling. The first bin includes longer rows, the last one shorter rows.

        Returns
        -------
        Bounded
            Shape ``(n_bins,)``; one record counts 1 in one bin.
        """
        row_norm, scales = self._seen(scaling)
        assert scales is not None
        return _counts(self._run(NormCounts(row_norm, n_bins, scales)))

    def hessian_sum(
        self,
        w: ArrayLike,
        clip: float = math.inf,
        *,
        upper: bool = False,
        scaling: RowScaling | None = None,
    ) -> Bounded:
        """``sum_i min(loss''(p_i), clip / ||z_i||^2) z_i z_i^T``: Hessians clipped to norm ``clip``.

        Parameters
        ----------
        w : (dimension,) array_like
            Finite weights.
        clip : float
            Bound on the norm of one record's Hessian; at most the smoothness of the loss is used.
        upper : bool
            Replace ``loss''`` by the curvature of the quadratic upper bound that touches the loss at ``p_i``:
            Newton steps with it never increase the risk (Jaakkola and Jordan 2000 for the logistic loss,
            ``tanh(p/2) / (2p)``).
        scaling : RowScaling, optional
            Public coordinates of the rows outside the predictions ``p_i``, as for `gram_sum`.

        Returns
        -------
        Bounded
            A triangle like that of `gram_sum`.

        Raises
        ------
        TypeError
            If the loss has no second derivative.

        Examples
        --------
        >>> import dperm
        >>> from dperm.mechanisms import release_without_privacy
        >>> from dperm.objective.second_moments import symmetric_matrix
        >>> objective = dperm.Objective("logistic", [[0.5, 0.0], [0.0, -1.0]], [1, -1])
        >>> symmetric_matrix(release_without_privacy(objective.hessian_sum([0.0, 0.0]))).round(4)
        array([[0.0625, 0.    ],
               [0.    , 0.25  ]])
        """
        row_norm, scales = self._seen(scaling)
        bound = self._hessian_bound(clip, row_norm)
        weights, upper = self._weights(w, "w"), flag("upper", upper)
        integers, grid = self._triangle(weights, bound, upper=upper, scales=scales)
        return bounded_triangle(integers, grid, bound)

    # -- bounds --------------------------------------------------------------------------------------

    def _check_second_moments(
        self, gram: bool, target_factor: float, hessian_clip: float | None, moment_clip: float | None
    ) -> None:
        """Raise ValueError unless these sums can be formed, from public numbers."""
        if gram:
            self._triangle_bounds(self.row_norm, self._target_column(target_factor))
        if hessian_clip is not None:
            self._triangle_bounds(self._hessian_bound(hessian_clip, self.row_norm), 0.0)
        if moment_clip is not None:
            clip, grid, *_ = self._moment_bounds(moment_clip, self.row_norm)
            mean_weight(clip, self.row_norm, grid)

    def _target_column(self, target_factor: float, centre: float = 0.0, limit: float = math.inf) -> float:
        """Bound on the entries of the target column; 0 for none."""
        factor = number("target_factor", target_factor)
        if factor == 0.0:
            return 0.0
        furthest = (1.0 if self.loss.classification else self.loss.target_bound) + abs(centre)
        bound = factor * min(number("target_limit", limit), furthest)
        if not 0.0 < bound <= _MAX_ROW_NORM:
            raise ValueError(
                "sums of rows times targets need a positive target_factor and target_limit, and a loss with "
                f"a finite target_bound, got {target_factor!r}, {limit!r} and {self.loss.target_bound!r}"
            )
        return bound

    def _hessian_bound(self, clip: float, row_norm: float) -> float:
        """Bound on the row whose outer product is a record's Hessian, for rows with that bound."""
        self.loss.second_derivative(0.0, 1.0)  # raises if there is none
        smoothness = self.loss.smoothness(row_norm) * (1.0 + 2.0**-40)
        return math.sqrt(clip_bound(min(number("clip", clip), smoothness)))

    def _seen(self, scaling: RowScaling | None) -> tuple[float, Array | None]:
        """Bound on the norm of a row, and factors of its entries."""
        if scaling is None:
            return self.row_norm, None
        scales = real_array("column_scales", scaling.column_scales)
        sizes = np.abs(scales[scales != 0.0])
        shape = self.shape[:1]
        if scales.shape != shape or not ((sizes >= 2.0**-600) & (sizes <= 2.0**600)).all():
            raise ValueError(
                f"column_scales must be from 2^-600 to 2^600, or 0, and of shape {shape}; got {scales}"
            )
        expected = "from 2^-256 to 2^500"
        return number_from("row_norm", scaling.row_norm, 2.0**-256, _MAX_ROW_NORM, expected), scales

    def _moment_bounds(self, clip: float, row_norm: float) -> tuple[float, float, float, float]:
        """Clip, grid of the rows, and bounds on a row and on its squares before rounding."""
        clip = clip_bound(min(number("clip", clip), row_norm**2))
        grid = row_grid(row_norm, self.n_public)
        inner = bound_before_rounding(row_norm, grid, self.dimension)
        return clip, grid, inner, bound_before_rounding(clip, grid**2, self.dimension) / grid**2

    def _triangle_bounds(self, bound: float, target: float) -> tuple[float, float]:
        """Grid of the rows of a triangle, and the bound on a row before rounding."""
        if bound > _MAX_ROW_NORM:
            raise ValueError(
                f"second moments need rows of norm at most 2^500, got {bound!r}: scale columns and row_norm"
            )
        width = self.shape[0] + (target > 0.0)
        # The triangle, its noise and one triangle per thread; the matrix and its factorisation.
        n_bytes = 4.0 * width * (width + 1) * (2 + self._threads()) + 16.0 * width**2
        check_memory(n_bytes, f"the matrix of second moments of {width} columns")
        grid = row_grid(max(bound, target), self.n_public)
        return grid, bound_before_rounding(bound, grid, self.dimension)

    def _triangle(
        self,
        w: Array | None,
        bound: float,
        target_factor: float = 0.0,
        target: float = 0.0,
        *,
        centre: float = 0.0,
        upper: bool = False,
        scales: Array | None = None,
    ) -> tuple[NDArray[np.int64], float]:
        """The triangle from the kernel, and the grid of its rows; `target` bounds the last column."""
        grid, inner = self._triangle_bounds(bound, target)
        self._check_room(max(bound, target) / grid)
        gram = GramSum(self.loss.kernel, w, inner, grid, upper=upper, column_scales=scales)
        if target:
            factor = float(target_factor)
            gram = replace(gram, target_factor=factor, target_centre=centre, target_limit=target / factor)
        return self._run(gram), grid

    def _check_records(self) -> None:
        if self._n_rows > MAX_RECORDS * self.n_public:
            raise DataError(
                f"n_public = {self.n_public} is far below the number of records. Pass a larger n_public."
            )

    def _check_room(self, steps: float) -> None:
        """Raise DataError unless sums of products of integers up to ``steps`` fit 64 times."""
        if self._n_rows * (steps + 1.0) ** 2 * 64.0 > 2.0**62:
            raise self._far_more_records()


def _counts(integers: NDArray[np.int64], grid: float = 1.0) -> Bounded:
    """Sums of non-negative vectors of norm at most 1, any two of which are at most sqrt(2) apart."""
    return Bounded(integers, grid=grid, add_or_remove=1.0, replace_one=math.sqrt(2.0) * (1.0 + 2.0**-50))
