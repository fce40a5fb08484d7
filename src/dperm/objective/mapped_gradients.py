"""Gradients clipped and summed in the coordinates of a public matrix."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.passes import ClippedGradientSum, NoisyBatches
from dperm.data.passes_per_row import ImageNorms, ScaledNorms
from dperm.objective.empirical_risk import EmpiricalRisk
from dperm.objective.exact_sums import SumBounds
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import DiagonalMap, LinearMap
from dperm.private_values.secret_rows import SecretRows

Array = NDArray[np.float64]


class MappedGradients:
    """The records of an objective with every row ``z`` replaced by ``A z``, without a copy of the data.

    In the coordinates ``u`` of ``w = A^T u`` a record's gradient is ``A g``. It is clipped by its norm there,
    for which the norms ``||A z_i||`` are computed once, and the private sum is ``A sum_i s_i z_i``: one pass
    over the original data, then an exact product with a public matrix.

    With several predictions ``w`` and ``g`` are matrices, of a column for each, and only diagonal matrices
    ``A`` are for them. The matrix must be square, public and far from singular.
    """

    def __init__(self, objective: EmpiricalRisk, linear_map: LinearMap | DiagonalMap) -> None:
        if not isinstance(linear_map, LinearMap | DiagonalMap):
            raise TypeError(f"linear_map must be a LinearMap or DiagonalMap, got {type(linear_map).__name__}")
        if len(objective.shape) != 1 and not isinstance(linear_map, DiagonalMap):
            raise ValueError(
                f"the {objective.loss.name} loss has more than one linear prediction: its gradients are "
                "mapped by a DiagonalMap only"
            )
        d = objective.shape[0]
        if linear_map.shape != (d, d):
            raise ValueError(f"linear_map must have shape ({d}, {d}), got {linear_map.shape}")
        self.map = linear_map
        self._objective = objective
        self._largest, self._smallest = self.map.singular_values()
        if not self._smallest > 2.0**-20 * self._largest:
            raise ValueError("linear_map is too close to singular: its condition number exceeds 2^20")

    @functools.cached_property
    def _clip_norms(self) -> Any:
        return self._lengths(for_batches=False)

    @functools.cached_property
    def _clip_norms_of_batches(self) -> Any:
        return self._lengths(for_batches=True)

    def _lengths(self, for_batches: bool) -> Any:
        """Private upper bounds on ``||A (x_i, 1)||`` for the unscaled rows.

        For a non-diagonal matrix ``z_i`` is rounded to integers of up to 21 bits, so that its product with
        the integer matrix is exact. The effect of that rounding, at most ``||A|| grid/2 sqrt(d)``, is added.
        """
        objective, d = self._objective, self._objective.shape[0]
        if isinstance(self.map, DiagonalMap):
            return objective._run(ScaledNorms(self.map.factors, objective.row_norm, for_batches))
        if for_batches:
            raise TypeError("sums over batches are mapped by a DiagonalMap only")
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

    def bounds(self, clip: float) -> tuple[SumBounds, float]:
        """Bounds of sums of gradients clipped by their images, and of a record's own gradient."""
        return self._objective._exact.mapped_gradients(clip, self._largest, self._smallest)

    def clipped_sum(
        self, weights: Array, clip: float, rows: SecretRows | None = None, *, keep_predictions: bool = False
    ) -> Bounded:
        """See :meth:`dperm.Objective.mapped_gradient_sum`."""
        objective, kernel = self._objective, self._objective.loss.kernel
        bounds, longest = self.bounds(clip)
        objective._check_overflow(objective._exact.finest)
        sums = ClippedGradientSum(kernel, weights, bounds.inner_clip, bounds.grid)
        if rows is None:
            sums = replace(sums, clip_norms=self._clip_norms, keep_predictions=keep_predictions)
            integers = objective._run(sums)
        else:
            batch = objective._rows.drawn(rows, objective.n_public)
            sums = replace(sums, clip_norms=self._clip_norms_of_batches, batch=batch)
            integers = objective._rows.run(sums, objective._threads_of_sample(rows.rate))
        mapped = Bounded(integers, grid=bounds.grid, add_or_remove=longest).mapped(
            self.map, add_or_remove=bounds.clip
        )
        self._check_overflow(bounds.clip / mapped.grid)
        return mapped

    def noisy_batches(self, batches: NoisyBatches, clip: float) -> NoisyBatches:
        """Batches whose gradients are clipped by their images, with noise added to the images of the sums."""
        assert isinstance(self.map, DiagonalMap)
        bounds, _ = self.bounds(clip)
        self._check_overflow(bounds.clip / (bounds.grid * self.map.grid))
        return replace(
            batches,
            inner_clip=bounds.inner_clip,
            grid=bounds.grid,
            clip_norms=self._clip_norms_of_batches,
            exponents=np.repeat(self.map.exponents, self._objective.loss.n_classes or 1),
            result_grid=bounds.grid * self.map.grid,
        )

    def _check_overflow(self, steps_of_record: float) -> None:
        if self._objective._n_rows * steps_of_record > 2.0**62:
            raise self._objective._far_more_records()
