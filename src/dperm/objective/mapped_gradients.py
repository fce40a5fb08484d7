"""Gradients seen, clipped and summed in the coordinates of a public matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.passes import ClippedGradientSum, ImageNorms
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import LinearMap

Array = NDArray[np.float64]


class MappedGradients:
    """The records of an objective with every row ``z`` seen as ``A z``; no copy of the data is made.

    In the coordinates ``u`` of ``w = A^T u`` a record's gradient is ``A g``. It is clipped by its norm there,
    for which the lengths ``||A z_i||`` are computed once, and its private sum is ``A sum_i s_i z_i``: one
    pass over the data as they are, then an exact product with a public matrix.

    Parameters
    ----------
    objective : EmpiricalRisk
        Its loss must have one linear prediction.
    linear_map : LinearMap
        The matrix ``A``: square, public and invertible.

    Raises
    ------
    ValueError
        If the matrix has the wrong shape, or is too close to a singular one.
    """

    def __init__(self, objective: EmpiricalRisk, linear_map: LinearMap) -> None:
        if len(objective.shape) != 1:
            raise ValueError(f"the {objective.loss.name} loss has more than one linear prediction")
        if not isinstance(linear_map, LinearMap):
            raise TypeError(f"linear_map must be a LinearMap, got {type(linear_map).__name__}")
        d = objective.dimension
        if linear_map.integers.shape != (d, d):
            raise ValueError(f"linear_map must have shape ({d}, {d}), got {linear_map.integers.shape}")
        self.map = linear_map
        self._objective = objective
        self._largest, self._smallest = self.map.singular_values()
        if not self._smallest > 2.0**-20 * self._largest:
            raise ValueError("linear_map is too close to a singular one: its singular values span over 2^20")
        self._clip_norms = self._lengths()

    def _lengths(self) -> Any:
        """At least ``||A (x_i, 1)||`` for the unscaled rows; private.

        ``z_i`` is rounded to integers of up to 21 bits, so that its product with the integer matrix is exact;
        that rounding moves the product by at most ``||A|| grid/2 sqrt(d)``, which is added.
        """
        objective, d = self._objective, self._objective.dimension
        grid = math.ldexp(1.0, math.frexp(objective.row_norm)[1] - 20)
        columns = np.zeros((d, -(-d // 16) * 16))
        columns[:, :d] = self.map.integers.T
        return objective._run(
            ImageNorms(
                row_norm=objective.row_norm,
                grid=grid,
                matrix=columns,
                unit=grid * self.map.grid * (1.0 + 2.0**-40),
                displacement=self._largest * 0.5 * grid * math.sqrt(d) * (1.0 + 2.0**-20),
                largest=self._largest,
                smallest=self._smallest,
            )
        )

    def clipped_sum(self, weights: Array, clip: float) -> Bounded:
        """See :meth:`dperm.Objective.mapped_gradient_sum`."""
        objective = self._objective
        bounds, longest = objective._exact.mapped_gradients(clip, self._largest, self._smallest)
        objective._check_overflow(objective._exact.finest)
        integers = objective._run(
            ClippedGradientSum(
                objective.loss.kernel, weights, bounds.inner_clip, bounds.grid, clip_norms=self._clip_norms
            )
        )
        mapped = Bounded(integers, grid=bounds.grid, add_or_remove=longest).mapped(
            self.map, add_or_remove=bounds.clip
        )
        if objective._n_rows * (bounds.clip / mapped.grid) > 2.0**62:
            raise objective._far_more_records()
        return mapped
