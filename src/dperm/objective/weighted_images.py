"""Private sums over rows seen through a public matrix, each row with a weight of its own.

A row ``z`` is seen as ``u = A z``, and counts with the weight ``min(1, c^2 / ||u||^2)`` of Mallows: gradients of
bounded slope are bounded then, and an estimating equation stays unbiased, which clipped gradients do not keep it.

**Sensitivity.** ``weight ||u|| = min(||u||, c^2 / ||u||) <= c`` and ``sqrt(weight) ||u|| <= c``. Rows are
rounded to integers and multiplied by the integer matrix without error; a record's vector is computed from its
image, bounded and rounded there. No property of the matrix matters.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.data.image_passes import (
    COUNT_UNITS,
    CURVATURE,
    PLAIN,
    SLOPE,
    THIRD,
    ImageGram,
    ImageSum,
    ImageTable,
    ResidualSums,
)
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.objective.exact_sums import DOUBLE_BITS, sum_grid
from dperm.objective.second_moments import bound_before_rounding, bounded_triangle, row_grid
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import LinearMap

Array = NDArray[np.float64]

_LARGEST_THIRD = 1.0 / (6.0 * math.sqrt(3.0)) * (1.0 + 2.0**-20)  # of the logistic loss


class WeightedImages:
    """The records of an objective in coordinates ``u = A z``, weighted by ``min(1, length^2 / ||u||^2)``.

    Parameters
    ----------
    objective : EmpiricalRisk
        Of a loss with one linear prediction, a bounded slope and a second derivative.
    linear_map : LinearMap
        ``A``, public. Weights in the coordinates of the data are ``w = A^T theta``.
    length : float
        c, positive and public.
    """

    def __init__(self, objective: EmpiricalRisk, linear_map: LinearMap, length: float) -> None:
        self.dimension, n_rows = linear_map.integers.shape
        if n_rows != objective.dimension:
            raise ValueError(f"linear_map must have {objective.dimension} columns, got {n_rows}")
        self._objective, self._map, self.length = objective, linear_map, length
        loss = objective.loss
        self.slope, self.curvature = loss.lipschitz(1.0), loss.smoothness(1.0)
        self._grid = math.ldexp(1.0, math.frexp(objective.row_norm)[1] - 20)
        self._columns = np.zeros((n_rows, -(-self.dimension // 16) * 16))
        self._columns[:, : self.dimension] = linear_map.integers.T

    @property
    def matrix(self) -> Array:
        """``A``."""
        return self._map.matrix

    @property
    def gradient_bound(self) -> float:
        """Bound on what a record adds to `gradient_sum`."""
        return self.slope * self.length

    @property
    def gradient_grid(self) -> float:
        """Grid of `gradient_sum`."""
        return self._vector_bounds(self.gradient_bound)[0]

    def gradient_sum(self, w: Array) -> Bounded:
        """``sum_i weight_i loss'(p_i) u_i``: a vector of norm at most ``slope length`` from a record."""
        return self._vectors(w, SLOPE, self.gradient_bound)

    def third_sum(self, w: Array) -> Bounded:
        """``sum_i weight_i loss'''(p_i) u_i``, for the logistic loss alone."""
        return self._vectors(w, THIRD, _LARGEST_THIRD * self.length)

    def gram_sum(self) -> Bounded:
        """``sum_i weight_i u_i u_i^T``, as all that follow a triangle of norm at most ``29 length^2``."""
        return self._products(None, PLAIN, self.length)

    def hessian_sum(self, w: Array) -> Bounded:
        """``sum_i weight_i loss''(p_i) u_i u_i^T``, of norm at most ``29 curvature length^2``."""
        return self._products(w, CURVATURE, math.sqrt(self.curvature) * self.length)

    def squares_sum(self, w: Array) -> Bounded:
        """``sum_i (weight_i loss'(p_i))^2 u_i u_i^T``, of norm at most ``29 (slope length)^2``."""
        return self._products(w, SLOPE, self.gradient_bound)

    def leverage_table(self, n_bins: int) -> Bounded:
        """``sum_i (u_ij / ||u_i||)^2``, by powers of two of ``||u_i|| / (sqrt(2) length)``, from 1 on.

        Returns
        -------
        Bounded
            Shape ``(n_bins, dimension)`` of the images; a record adds numbers that sum to at most 1, in one row.
        """
        pass_ = ImageTable(*self._seen(1.0), n_bins)
        return _shares(self._objective._run(pass_), 1.0)

    def residual_sums(self, w: Array, *which: int) -> Bounded:
        """Of records: 0: those weighted down; 1: ``(loss'(p) / slope)^2``; 2: ``loss''(p) / curvature``."""
        bounds = np.array([self.slope**2, self.curvature])
        pass_ = ResidualSums(*self._seen(1.0), self._objective.loss.kernel, w, bounds)
        return _shares(self._objective._run(pass_)[list(which)], math.sqrt(len(which)))

    def check(self) -> None:
        """Raise ValueError unless these sums can be formed; from public numbers."""
        for bound in (self.length, self.gradient_bound, math.sqrt(self.curvature) * self.length):
            self._objective._triangle_bounds(bound, 0.0)
        self._vector_bounds(self.gradient_bound)

    def _vectors(self, w: Array, factor: int, bound: float) -> Bounded:
        grid, inner = self._vector_bounds(bound)
        self._objective._check_overflow(DOUBLE_BITS)
        sums = ImageSum(*self._seen(grid), self._objective.loss.kernel, w, factor, inner)
        return Bounded(self._objective._run(sums), grid=grid, add_or_remove=bound)

    def _vector_bounds(self, bound: float) -> tuple[float, float]:
        grid = sum_grid(bound, self._objective.n_public, DOUBLE_BITS)
        return grid, bound_before_rounding(bound, grid, self.dimension) / grid

    def _products(self, w: Array | None, factor: int, bound: float) -> Bounded:
        objective = self._objective
        grid, inner = objective._triangle_bounds(bound, 0.0)
        objective._check_room(bound / grid)
        sums = ImageGram(*self._seen(grid), objective.loss.kernel, w, factor, inner / grid)
        return bounded_triangle(objective._run(sums), grid, bound)

    def _seen(self, grid: float) -> tuple[float, float, Array, int, float, float]:
        """What passes have in common, for sums on that grid."""
        unit, bound = self._grid * self._map.grid / grid, 2.0 * self._objective.row_norm
        return bound, self._grid, self._columns, self.dimension, unit, self.length / grid


def _shares(integers: NDArray[np.int64], bound: float) -> Bounded:
    """Sums of numbers in [0, 1], a record's of norm at most ``bound``, and two of them no further apart.

    Those of one row of a table sum to 1 at most, and two such vectors are at most sqrt(2) apart.
    """
    apart = math.sqrt(2.0) if integers.ndim == 2 else bound
    slack = 1.0 + 2.0**-50
    return Bounded(
        integers, grid=1.0 / float(COUNT_UNITS), add_or_remove=bound * slack, replace_one=apart * slack
    )
