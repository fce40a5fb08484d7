"""Private sums over weighted images of the rows under a public matrix.

A row ``z`` has the image ``u = A z`` and Mallows' weight ``min(1, c^2 / ||u||^2)``: gradients of a loss of
bounded slope are then bounded, and an estimating equation stays unbiased, unlike under clipping.

**Sensitivity.** ``weight ||u|| = min(||u||, c^2 / ||u||) <= c`` and ``sqrt(weight) ||u|| <= c``. Rows are
rounded to integers and multiplied exactly by the integer matrix; a record's vector is computed from its
image, bounded and rounded. The bounds hold for any matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from dperm.objective.exact_sums import DOUBLE_BITS, OVERFLOW_BITS, sum_grid
from dperm.objective.second_moment_sums import SecondMomentSums
from dperm.objective.second_moments import bound_before_rounding, bounded_triangle
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import LinearMap

Array = NDArray[np.float64]

_LARGEST_THIRD = 1.0 / (6.0 * math.sqrt(3.0)) * (1.0 + 2.0**-20)  # of the logistic loss
_ROW_BITS = 20  # of rows before they are multiplied by the matrix


@dataclass(frozen=True)
class WeightedImages:
    """Public coordinates ``u = A z`` in which rows have the weight ``min(1, length^2 / ||u||^2)``."""

    linear_map: LinearMap  # ``A``: weights in the coordinates of the data are ``w = A^T theta``
    length: float  # c, positive

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.linear_map.integers)

    @property
    def matrix(self) -> Array:
        """``A``."""
        return self.linear_map.matrix


class WeightedImageSums(SecondMomentSums):
    """The sums of an objective over weighted images, for losses of bounded slope with a second derivative."""

    def image_gradient_sum(self, w: ArrayLike, images: WeightedImages) -> Bounded:
        """``sum_i weight_i loss'(p_i) u_i``: a record adds a vector of norm at most ``slope length``."""
        return self._image_vectors(w, images, SLOPE, self._slope * images.length)

    def image_third_sum(self, w: ArrayLike, images: WeightedImages) -> Bounded:
        """``sum_i weight_i loss'''(p_i) u_i``, for the logistic loss alone."""
        return self._image_vectors(w, images, THIRD, _LARGEST_THIRD * images.length)

    def image_gram_sum(self, images: WeightedImages) -> Bounded:
        """``sum_i weight_i u_i u_i^T`` as a triangle, like those below: of norm at most ``29 length^2``."""
        return self._image_products(None, images, PLAIN, images.length)

    def image_hessian_sum(self, w: ArrayLike, images: WeightedImages) -> Bounded:
        """``sum_i weight_i loss''(p_i) u_i u_i^T``, of norm at most ``29 smoothness length^2``."""
        return self._image_products(w, images, CURVATURE, math.sqrt(self._curvature) * images.length)

    def image_squares_sum(self, w: ArrayLike, images: WeightedImages) -> Bounded:
        """``sum_i (weight_i loss'(p_i))^2 u_i u_i^T``, of norm at most ``29 (slope length)^2``."""
        return self._image_products(w, images, SLOPE, self._slope * images.length)

    def leverage_counts(self, images: WeightedImages, n_bins: int) -> Bounded:
        """``sum_i (u_ij / ||u_i||)^2`` over rows of weight 1/2 or less, by octaves of ``||u_i||``.

        Returns
        -------
        Bounded
            Shape ``(n_bins, dimension)`` of the images; the first octave starts at ``sqrt(2) length``. A
            record adds to one row, by numbers that sum to at most 1.
        """
        self._check_shares()
        integers = self._run(ImageTable(*self._seen_through(images, 1.0), n_bins))
        return _shares(integers, 1.0, math.sqrt(2.0))

    def residual_sums(self, w: ArrayLike, images: WeightedImages, which: tuple[int, ...]) -> Bounded:
        """Sums of 0: whether the weight is below 1; 1: ``(loss'(p) / L)^2``; 2: ``loss''(p) / B``.

        L and B are slope and smoothness for rows of norm 1, so each requested term is in [0, 1].
        """
        bounds = np.array([self._slope**2, self._curvature])
        weights = self._weights(w, "w")
        self._check_shares()
        sums = ResidualSums(*self._seen_through(images, 1.0), self.loss.kernel, weights, bounds)
        furthest = math.sqrt(len(which))
        return _shares(self._run(sums)[list(which)], furthest, furthest)

    def image_gradient_bounds(self, images: WeightedImages) -> tuple[float, float]:
        """Public: largest norm of a record's contribution to `image_gradient_sum`, and its grid."""
        bound = self._slope * images.length
        return bound, self._vector_grid(bound, images)[0]

    def check_images(self, images: WeightedImages) -> None:
        """Raise ValueError unless these sums can be formed, from public numbers."""
        slope = self._slope * images.length
        for bound in (images.length, slope, math.sqrt(self._curvature) * images.length):
            self._triangle_bounds(bound, 0.0)
        self._vector_grid(slope, images)

    @property
    def _slope(self) -> float:
        return self.loss.lipschitz(1.0)

    @property
    def _curvature(self) -> float:
        return self.loss.smoothness(1.0)

    def _image_vectors(self, w: ArrayLike, images: WeightedImages, factor: int, bound: float) -> Bounded:
        grid, inner = self._vector_grid(bound, images)
        self._check_overflow(DOUBLE_BITS)
        weights = self._weights(w, "w")
        sums = ImageSum(*self._seen_through(images, grid), self.loss.kernel, weights, factor, inner / grid)
        return Bounded(self._run(sums), grid=grid, add_or_remove=bound)

    def _check_shares(self) -> None:
        """Raise DataError if sums of numbers up to `COUNT_UNITS` could overflow."""
        if self._n_rows * int(COUNT_UNITS) > 2**OVERFLOW_BITS:
            raise self._far_more_records()

    def _vector_grid(self, bound: float, images: WeightedImages) -> tuple[float, float]:
        """Grid of a sum of images, and the bound on an image before rounding."""
        grid = sum_grid(bound, self.n_public, DOUBLE_BITS)
        return grid, bound_before_rounding(bound, grid, images.dimension)

    def _image_products(
        self, w: ArrayLike | None, images: WeightedImages, factor: int, bound: float
    ) -> Bounded:
        grid, inner = self._triangle_bounds(bound, 0.0)
        self._check_room(bound / grid)
        weights = None if w is None else self._weights(w, "w")
        sums = ImageGram(*self._seen_through(images, grid), self.loss.kernel, weights, factor, inner / grid)
        return bounded_triangle(self._run(sums), grid, bound)

    def _seen_through(
        self, images: WeightedImages, grid: float
    ) -> tuple[float, float, Array, int, float, float]:
        """Arguments common to all passes, for sums on that grid."""
        integers = images.linear_map.integers
        if integers.shape[1] != self.dimension:
            raise ValueError(f"the map of images must have {self.dimension} columns, got {integers.shape[1]}")
        columns = np.zeros((self.dimension, -(-len(integers) // 16) * 16))
        columns[:, : len(integers)] = integers.T
        row_grid = math.ldexp(1.0, math.frexp(self.row_norm)[1] - _ROW_BITS)
        unit = row_grid * images.linear_map.grid / grid
        return 2.0 * self.row_norm, row_grid, columns, len(integers), unit, images.length / grid


def _shares(integers: NDArray[np.int64], longest: float, furthest: float) -> Bounded:
    """Sums of non-negative vectors of norm at most `longest`, at most `furthest` apart."""
    slack = 1.0 + 2.0**-50
    grid = 1.0 / float(COUNT_UNITS)
    return Bounded(integers, grid=grid, add_or_remove=longest * slack, replace_one=furthest * slack)
