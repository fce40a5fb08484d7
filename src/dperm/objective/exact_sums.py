"""Grids, clips and sensitivities of exact sums: functions of public numbers alone.

**Grid.** The grid of a sum is a power of two, coarse enough that ``n_public`` clipped vectors add up to at
most 2^51 steps: their sum is exact as 64-bit integers and as doubles. log2 of ``clip / grid`` is at most 22
for float32 rows, whose kernel rounds with a 24-bit significand, and at most 32 for doubles, which leaves room
for noise of 2^24 clips, drawn in steps of the grid below 2^56.

**Inner clip.** A vector is clipped and then rounded entry by entry, which moves it by at most
``grid/2 sqrt(d)``. Norms, factors and products have the relative errors given in ``kernel_table.h``. The
kernel therefore clips at ``(clip - grid/2 sqrt(d)) / (1 + slack)``: a record's integers form a vector of norm
at most ``clip / grid``, exactly.

**Distance.** If no gradient is as long as the clip, those of two records may be less than two clips apart: by
at most ``Loss.gradient_distance`` plus rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.losses import Loss
from dperm.objective.arguments import clip_bound, number_from
from dperm.private_values.bounded import Bounded

SINGLE_BITS, DOUBLE_BITS = 22, 32
SUM_BITS = 51
OVERFLOW_BITS = 62

_COMPUTED = 1.0 + 2.0**-18  # allowance for computed constants of a loss and computed row norms


def sum_bits(n_public: int, finest: int) -> int:
    """log2 of ``clip / grid``, with the clip rounded up to a power of two."""
    bits = min(finest, SUM_BITS - (n_public - 1).bit_length())
    if bits < 1:
        raise ValueError(
            f"n_public = {n_public} is too large for exact sums of at most 2^50 records: pass a "
            "smaller n_public, or train on a sample"
        )
    return bits


def sum_grid(bound: float, n_public: int, finest: int) -> float:
    """Grid of a sum of ``n_public`` contributions no longer than ``bound``."""
    return math.ldexp(1.0, math.frexp(bound)[1] - sum_bits(n_public, finest))


def clip_before_rounding(clip: float, grid: float, dimension: int, slack: float) -> float:
    """The largest clip for which rounding to the grid keeps records within ``clip``; not positive if none.

    `slack` is the relative error of a norm.
    """
    return (clip - 0.5 * grid * math.sqrt(dimension)) / (1.0 + slack)


class SumBounds(NamedTuple):
    """Public numbers of a clipped sum."""

    clip: float  # bound on one record's contribution, rounding included
    inner_clip: float  # clip of the kernel, before rounding
    grid: float
    replace_one: float  # largest distance between two records' contributions

    def of(self, integers: NDArray[np.int64], *, scores: bool = False) -> Bounded:
        """The sum with these bounds."""
        return Bounded(
            integers, grid=self.grid, add_or_remove=self.clip, replace_one=self.replace_one, scores=scores
        )


@dataclass(frozen=True)
class ExactSums:
    """Bounds of the sums of one objective."""

    loss: Loss
    n_public: int
    shape: tuple[int, ...]  # shape of the weights
    row_norm: float
    dtype: np.dtype[np.float32] | np.dtype[np.float64]  # precision of the rows

    @property
    def dimension(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def single(self) -> bool:
        """Whether rows are float32."""
        return bool(self.dtype == np.float32)

    @property
    def finest(self) -> int:
        """log2 of ``clip / grid`` for the finest grid of the kernels."""
        return SINGLE_BITS if self.single else DOUBLE_BITS

    @property
    def slack(self) -> float:
        """Relative error of a clipped gradient's norm."""
        return (2.0**-22 if self.single else 2.0**-50) + (sum(self.shape) + 16) * 2.0**-52

    @property
    def unit(self) -> float:
        """Relative error of one product."""
        return 2.0**-24 if self.single else 2.0**-53

    def check(self) -> None:
        """Raise ValueError if no gradient sum can be formed, whatever the clip."""
        if 0.5 * math.sqrt(self.dimension) >= 2.0 ** sum_bits(self.n_public, self.finest):
            raise ValueError(self._too_coarse())

    def gradients(self, clip: float, radius: float = math.inf) -> SumBounds:
        """Bounds of sums of clipped gradients at weights of norm at most ``radius``."""
        longest = self.loss.lipschitz(self.row_norm, radius) * _COMPUTED
        never_clips = longest <= clip
        clip = min(clip, longest)
        grid = sum_grid(clip, self.n_public, self.finest)
        replace_one = self._distance(radius, clip, grid) if never_clips else 2.0 * clip
        return SumBounds(clip, self._inner_clip(clip, grid), grid, replace_one)

    def descent_gradients(self, loss: Loss, clip: float, radius: float) -> SumBounds:
        """Bounds for batches of stochastic gradient descent, which is computed in double precision."""
        clip = min(clip, loss.lipschitz(self.row_norm, radius) * _COMPUTED)
        grid = sum_grid(clip, self.n_public, DOUBLE_BITS)
        return SumBounds(clip, self._inner_clip(clip, grid), grid, 2.0 * clip)

    def mapped_gradients(self, clip: float, largest: float, smallest: float) -> tuple[SumBounds, float]:
        """Bounds of sums of gradients clipped by their images under a matrix, and of a record's own gradient.

        Rounding ``s_i x_i`` moves it by at most ``unit ||s_i x_i|| + grid/2 sqrt(d)``, and its image by at
        most ``largest`` times that. ``||s_i x_i||`` is at most ``clip / smallest`` and at most the slope of
        the loss. The kernel's clip is reduced accordingly.
        `largest` and `smallest` bound the singular values of the matrix.
        """
        slope = self.loss.lipschitz(self.row_norm) * _COMPUTED
        clip = min(clip, largest * slope)
        longest = min(clip / smallest, slope)
        grid = sum_grid(longest, self.n_public, self.finest)
        moved = 0.5 * grid * math.sqrt(self.dimension) + 2.0 * self.unit * longest
        inner = (clip - largest * moved) / (1.0 + self.slack)
        if not inner > 0.0:
            raise ValueError("the matrix is too ill-conditioned for exact sums of so many records")
        return SumBounds(clip, inner, grid, 2.0 * clip), longest

    @property
    def largest_condition(self) -> float:
        """Condition number up to which `mapped_gradients` reduces the clip by at most a sixteenth."""
        bits = sum_bits(self.n_public, self.finest)
        return min(2.0 ** (bits - 5) / (0.5 * math.sqrt(self.dimension) + 2.0), 2.0**19)

    def losses(self, clip: float) -> SumBounds:
        """Bounds of sums of clipped losses; the clip is rounded down to the grid."""
        grid = sum_grid(clip, self.n_public, self.finest)
        on_grid = math.floor(clip / grid) * grid
        return SumBounds(on_grid, on_grid, grid, 2.0 * on_grid)

    def coordinate_losses(self, stride: float, clip: float) -> SumBounds:
        """Bounds of sums of clipped changes of losses along the axes, computed in double precision."""
        longest = number_from("stride", stride, 2.0**-64, 2.0**64, "between 2^-64 and 2^64")
        clip = clip_bound(min(clip, 2.0 * longest * self.loss.lipschitz(self.row_norm)))
        grid = sum_grid(clip, self.n_public, DOUBLE_BITS)
        return SumBounds(clip, math.floor(clip / grid) * grid, grid, 2.0 * clip)

    def _inner_clip(self, clip: float, grid: float) -> float:
        inner = clip_before_rounding(clip, grid, self.dimension, self.slack)
        if not inner > 0.0:
            raise ValueError(self._too_coarse())
        return inner

    def _too_coarse(self) -> str:
        return (
            f"the grid is too coarse for exact sums of n_public = {self.n_public} records and "
            f"{self.dimension} weights: use fewer columns, a smaller n_public, or float64 instead of float32"
        )

    def _distance(self, radius: float, clip: float, grid: float) -> float:
        """Largest distance of two records' computed gradients on the ball of ``radius``."""
        exact = self.loss.gradient_distance(self.row_norm, radius)
        # An error in the prediction changes the gradient by at most smoothness / row_norm times as much.
        relative = (sum(self.shape) + 16) * self.unit
        prediction_error = relative * self.row_norm * (radius + 1.0)
        error = self.loss.smoothness(self.row_norm) / self.row_norm * prediction_error + relative * clip
        return min(2.0 * clip, exact + 2.0 * error + grid * math.sqrt(self.dimension))
