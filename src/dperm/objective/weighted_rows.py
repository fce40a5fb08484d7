"""Private sums over transformed rows that are weighted down where they are long.

A row ``z`` is transformed to ``t = A z`` and has Mallows' weight ``min(1, c^2 / ||t||^2)``, with c the row
norm of the transform: gradients of a loss of bounded slope are then bounded, and an estimating equation stays
unbiased, unlike under clipping.

**Sensitivity.** ``weight ||t|| = min(||t||, c^2 / ||t||) <= c`` and ``sqrt(weight) ||t|| <= c``. Rows are
rounded to integers and multiplied exactly by the integer matrix; a record's vector is computed from its
transformed row, bounded and rounded. The bounds hold for any matrix.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.image_passes import (
    COUNT_UNITS,
    CURVATURE,
    PLAIN,
    SLOPE,
    THIRD,
    ImageGram,
    Images,
    ImageSum,
    ImageTable,
    ResidualSums,
)
from dperm.objective import moments
from dperm.objective.exact_sums import DOUBLE_BITS, OVERFLOW_BITS, sum_grid
from dperm.objective.hooks import private_sum
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

Array = NDArray[np.float64]

_LARGEST_THIRD = 1.0 / (6.0 * math.sqrt(3.0)) * (1.0 + 2.0**-20)  # of the logistic loss
_ROW_BITS = 20  # of rows before they are multiplied by the matrix


@private_sum
def weighted_gradient_sum(objective: Objective, w: ArrayLike, transform: Transform) -> Bounded:
    """``sum_i weight_i loss'(p_i) u_i``: a record adds a vector of norm at most ``slope length``."""
    return _vectors(objective, w, transform, SLOPE, _slope(objective) * transform.row_norm)


@private_sum
def weighted_third_derivative_sum(objective: Objective, w: ArrayLike, transform: Transform) -> Bounded:
    """``sum_i weight_i loss'''(p_i) u_i``, for the logistic loss alone."""
    return _vectors(objective, w, transform, THIRD, _LARGEST_THIRD * transform.row_norm)


@private_sum
def weighted_gram_sum(objective: Objective, transform: Transform) -> Bounded:
    """``sum_i weight_i u_i u_i^T`` as a triangle, like those below: of norm at most ``29 length^2``."""
    return _products(objective, None, transform, PLAIN, transform.row_norm)


@private_sum
def weighted_hessian_sum(objective: Objective, w: ArrayLike, transform: Transform) -> Bounded:
    """``sum_i weight_i loss''(p_i) u_i u_i^T``, of norm at most ``29 smoothness length^2``."""
    return _products(
        objective, w, transform, CURVATURE, math.sqrt(_curvature(objective)) * transform.row_norm
    )


@private_sum
def weighted_squares_sum(objective: Objective, w: ArrayLike, transform: Transform) -> Bounded:
    """``sum_i (weight_i loss'(p_i))^2 u_i u_i^T``, of norm at most ``29 (slope length)^2``."""
    return _products(objective, w, transform, SLOPE, _slope(objective) * transform.row_norm)


@private_sum
def leverage_counts(objective: Objective, transform: Transform, n_bins: int) -> Bounded:
    """``sum_i (u_ij / ||u_i||)^2`` over rows of weight 1/2 or less, by octaves of ``||u_i||``.

    Returns
    -------
    Bounded
        Shape ``(n_bins, dimension)`` of the transform; the first octave starts at ``sqrt(2) length``. A
        record adds to one row, by numbers that sum to at most 1.
    """
    _check_shares(objective)
    integers = objective._run(ImageTable(_images(objective, transform, 1.0), n_bins))
    return _shares(integers, 1.0, math.sqrt(2.0))


@private_sum
def residual_sums(
    objective: Objective, w: ArrayLike, transform: Transform, which: tuple[int, ...]
) -> Bounded:
    """Sums of 0: whether the weight is below 1; 1: ``(loss'(p) / L)^2``; 2: ``loss''(p) / B``.

    L and B are slope and smoothness for rows of norm 1, so each requested term is in [0, 1].
    """
    weights = objective._weights(w, "w")
    _check_shares(objective)
    largest = _slope(objective) ** 2, _curvature(objective)
    sums = ResidualSums(_images(objective, transform, 1.0), objective.loss.kernel, weights, *largest)
    furthest = math.sqrt(len(which))
    return _shares(objective._run(sums)[list(which)], furthest, furthest)


def weighted_gradient_bounds(objective: Objective, transform: Transform) -> tuple[float, float]:
    """Public: largest norm of a record's contribution to `weighted_gradient_sum`, and its grid."""
    bound = _slope(objective) * transform.row_norm
    return bound, _vector_grid(objective, bound, transform)[0]


def check_weighted_sums(objective: Objective, transform: Transform) -> None:
    """Raise ValueError unless these sums can be formed, from public numbers."""
    slope = _slope(objective) * transform.row_norm
    for bound in (transform.row_norm, slope, math.sqrt(_curvature(objective)) * transform.row_norm):
        moments.triangle_bounds(objective, bound, 0.0)
    _vector_grid(objective, slope, transform)


def _slope(objective: Objective) -> float:
    return objective.loss.lipschitz(1.0)


def _curvature(objective: Objective) -> float:
    return objective.loss.smoothness(1.0)


def _vectors(objective: Objective, w: ArrayLike, transform: Transform, factor: int, bound: float) -> Bounded:
    grid, inner = _vector_grid(objective, bound, transform)
    objective._check_overflow(DOUBLE_BITS)
    weights = objective._weights(w, "w")
    sums = ImageSum(_images(objective, transform, grid), objective.loss.kernel, weights, factor, inner / grid)
    return Bounded(objective._run(sums), grid=grid, add_or_remove=bound)


def _check_shares(objective: Objective) -> None:
    """Raise DataError if sums of numbers up to `COUNT_UNITS` could overflow."""
    if objective._n_rows * int(COUNT_UNITS) > 2**OVERFLOW_BITS:
        raise objective._far_more_records()


def _vector_grid(objective: Objective, bound: float, transform: Transform) -> tuple[float, float]:
    """Grid of a sum of transformed rows, and the bound on one before rounding."""
    grid = sum_grid(bound, objective.n_public, DOUBLE_BITS)
    return grid, moments.bound_before_rounding(bound, grid, len(transform.values))


def _products(
    objective: Objective, w: ArrayLike | None, transform: Transform, factor: int, bound: float
) -> Bounded:
    grid, inner = moments.triangle_bounds(objective, bound, 0.0)
    moments.check_overflow_of_products(objective, bound / grid)
    weights = None if w is None else objective._weights(w, "w")
    sums = ImageGram(
        _images(objective, transform, grid), objective.loss.kernel, weights, factor, inner / grid
    )
    return moments.bounded_triangle(objective._run(sums), grid, bound)


def _images(objective: Objective, transform: Transform, grid: float) -> Images:
    """The images of the rows, for sums on that grid."""
    integers = transform.integers
    if integers.shape[1] != objective.dimension:
        raise ValueError(f"the transform must have {objective.dimension} columns, got {integers.shape[1]}")
    columns = np.zeros((objective.dimension, -(-len(integers) // 16) * 16))
    columns[:, : len(integers)] = integers.T
    row_grid = math.ldexp(1.0, math.frexp(objective.row_norm)[1] - _ROW_BITS)
    unit = row_grid * transform.grid / grid
    return Images(2.0 * objective.row_norm, row_grid, columns, len(integers), unit, transform.row_norm / grid)


def _shares(integers: NDArray[np.int64], longest: float, furthest: float) -> Bounded:
    """Sums of non-negative vectors of norm at most `longest`, at most `furthest` apart."""
    slack = 1.0 + 2.0**-50
    grid = 1.0 / float(COUNT_UNITS)
    return Bounded(integers, grid=grid, add_or_remove=longest * slack, replace_one=furthest * slack)
