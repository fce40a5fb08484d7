"""The loss of weighted records, with constants that hold for every weight up to a public bound."""

import math
from dataclasses import dataclass
from typing import Self

from numpy.typing import ArrayLike

from dperm.losses.base import Array, Loss

# What a loss and its multiples have in common.
_SHARED = (
    "classification",
    "n_classes",
    "of_residual",
    "convex",
    "steeper_on_one_side",
    "zero_beyond_margin",
    "target_bound",
)


@dataclass(frozen=True)
class Weighted(Loss):
    """A loss times the weight of its record, in ``[0, largest]``.

    Constants are bounds for every such weight; values and derivatives are those of the largest. The kernels
    compute the loss itself, and multiply it by the record's weight.

    Parameters
    ----------
    loss : Loss
    largest : float
        Public.
    """

    loss: Loss
    largest: float

    def __post_init__(self) -> None:
        for shared in _SHARED:
            object.__setattr__(self, shared, getattr(self.loss, shared))

    @property
    def name(self) -> str:  # noqa: D102
        return f"weighted {self.loss.name}"

    @property
    def kernel(self) -> tuple[int, float, float]:  # noqa: D102
        return self.loss.kernel

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return self.largest * self.loss.value(p, y)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return self.largest * self.loss.derivative(p, y)

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return self.largest * self.loss.second_derivative(p, y)

    @property
    def twice_differentiable(self) -> bool:  # noqa: D102
        return self.loss.twice_differentiable

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return self.largest * self.loss.lipschitz(row_norm, radius)

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return self.largest * self.loss.smoothness(row_norm)

    def clipped_smoothness(self, row_norm: float, clip: float) -> float:  # noqa: D102
        return self.largest * self.loss.clipped_smoothness(row_norm, clip / self.largest)

    def gradient_distance(self, row_norm: float, radius: float = math.inf) -> float:
        """Convex in the two weights, hence maximal where each of them is 0 or the largest."""
        unweighted = self.loss.gradient_distance(row_norm, radius), self.loss.lipschitz(row_norm, radius)
        return self.largest * max(unweighted)

    @property
    def value_at_zero(self) -> float:  # noqa: D102
        return self.largest * self.loss.value_at_zero

    @property
    def holder_exponent(self) -> float:  # noqa: D102
        return self.loss.holder_exponent

    @property
    def holder_slope(self) -> float:  # noqa: D102
        return self.largest * self.loss.holder_slope

    @property
    def kink_jump(self) -> float:  # noqa: D102
        return self.largest * self.loss.kink_jump

    @property
    def self_bounding_slope(self) -> float:
        """``v |loss'| <= v c loss^q = v^(1 - q) c (v loss)^q`` with ``q = alpha / (1 + alpha)``."""
        return math.pow(self.largest, 1.0 / (1.0 + self.holder_exponent)) * self.loss.self_bounding_slope

    @property
    def least_curvature(self) -> float:  # noqa: D102
        return self.largest * self.loss.least_curvature

    def smoothed(self, curvature: float) -> Self:
        """Ramps of that curvature for the largest weight, and of less for smaller ones."""
        return type(self)(self.loss.smoothed(curvature / self.largest), self.largest)


def unweighted(loss: Loss) -> Loss:
    """The loss without record weights."""
    return loss.loss if isinstance(loss, Weighted) else loss


def largest_weight(loss: Loss) -> float:
    """Largest weight of a record; 1 for an unweighted loss."""
    return loss.largest if isinstance(loss, Weighted) else 1.0
