"""Gradients seen, clipped and summed in the coordinates of a public matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.rows import RowImages
from dperm.errors import DataError
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import LinearMap

if TYPE_CHECKING:
    from dperm.objective.objective import Objective

Array = NDArray[np.float64]


class MappedGradients:
    """The records of an objective with every row ``z`` seen as ``A z``; no copy of the data is made.

    In the coordinates ``u`` of ``w = A^T u`` a record's gradient is ``A g``. It is clipped by its norm there,
    for which the lengths ``||A z_i||`` are computed once, and its private sum is ``A sum_i s_i z_i``: one
    pass over the data as they are, then an exact product with a public matrix.

    Parameters
    ----------
    objective : Objective
        Its loss must have one linear prediction.
    linear_map : LinearMap
        The matrix ``A``: square, public and invertible.

    Raises
    ------
    ValueError
        If the matrix has the wrong shape, or is too close to a singular one.
    """

    def __init__(self, objective: Objective, linear_map: LinearMap) -> None:
        if len(objective.shape) != 1:
            raise ValueError(f"the {objective.loss.name} loss has more than one linear prediction")
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
        images = RowImages(
            row_norm=objective.row_norm,
            grid=grid,
            columns=columns,
            unit=grid * self.map.grid * (1.0 + 2.0**-40),
            moved=self._largest * 0.5 * grid * math.sqrt(d) * (1.0 + 2.0**-20),
            largest=self._largest,
            smallest=self._smallest,
        )
        return objective._rows.mapped_lengths(images, objective._threads())

    def clipped_sum(self, weights: Array, clip: float) -> Bounded:
        """See :meth:`dperm.Objective.mapped_gradient_sum`.

        Notes
        -----
        Rounding ``s_i x_i`` moves it by at most ``unit ||s_i x_i|| + grid/2 sqrt(d)``, which the matrix
        multiplies by its norm. ``||s_i x_i||`` is at most ``clip / smallest singular value``, and at most the
        slope of the loss allows. The kernel's clip is so much smaller.
        """
        objective = self._objective
        slope = objective.loss.lipschitz(objective.row_norm) * (1.0 + 2.0**-18)
        clip = min(clip, self._largest * slope)
        longest = min(clip / self._smallest, slope)  # of a record's gradient as it is summed
        grid = objective._gradient_grid(longest)
        slack, unit = objective._rounding_slack()
        moved = 0.5 * grid * math.sqrt(objective.dimension) + 2.0 * unit * longest
        inner = (clip - self._largest * moved) / (1.0 + slack)
        if not inner > 0.0:
            raise ValueError("the matrix is too ill-conditioned for exact sums of so many records")
        integers = objective._rows.clipped_gradient_sum(
            objective.loss.kernel, weights, inner, grid, objective._threads(), clip_norms=self._clip_norms
        )
        mapped = Bounded(integers, grid=grid, contribution=longest).mapped(self.map, contribution=clip)
        if objective._n_rows * (clip / mapped.grid) > 2.0**62:
            raise DataError(
                f"n_public = {objective.n_public} is far below the number of records: "
                "sums could overflow. Pass a larger n_public."
            )
        return mapped
