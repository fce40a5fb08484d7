"""Piecewise linear losses, and their smoothed forms.

Around a kink where the slope jumps by ``J`` the slope becomes a ramp of curvature ``s`` and width ``J / s``,
centred at the kink. The loss grows by at most ``J^2 / (8 s)``, its slopes stay between the old ones, and its
gradient becomes Lipschitz continuous with constant ``s row_norm^2``: a gradient step of size at most
``2 / (s row_norm^2)`` is non-expansive (Hardt, Recht and Singer 2016, Lemma 3.7).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dperm.losses.base import Array, Loss


def kink_slope(t: ArrayLike, low: float, high: float, curvature: float) -> Array:
    """Slope at ``t`` of the function with slope ``-low`` below 0 and ``high`` above it.

    An infinite curvature means the kink itself, where the slope is taken as 0.
    """
    if curvature == math.inf:
        return np.where(np.equal(t, 0.0), 0.0, np.where(np.greater(t, 0.0), high, -low))
    return np.clip(0.5 * (high - low) + np.multiply(curvature, t), -low, high)


def kink_value(t: ArrayLike, low: float, high: float, curvature: float) -> Array:
    """The function with that slope."""
    t = np.asarray(t, dtype=np.float64)
    lines: Array = high * np.maximum(t, 0.0)
    if low > 0.0:
        lines = lines + low * np.maximum(-t, 0.0)
    if curvature == math.inf:
        return lines
    half_width = 0.5 * (low + high) / curvature
    inside = np.clip(t, -half_width, half_width)
    ramp: Array = (kink_slope(inside, low, high, curvature) + low) ** 2 / (2.0 * curvature) - low * inside
    return np.where(np.abs(t) < half_width, ramp, lines)


@dataclass(frozen=True)
class Kinked(Loss):
    """A piecewise linear loss, or with a finite ``curvature`` its smoothed form.

    The Lipschitz constant is the same for both, and on every ball.
    """

    curvature: float = field(default=math.inf, kw_only=True)

    def __post_init__(self) -> None:
        if not (2.0**-64 <= self.curvature <= 2.0**64 or self.curvature == math.inf):
            raise ValueError(
                "curvature must be between 2^-64 and 2^64, or inf for the kink itself, "
                f"got {self.curvature!r}"
            )
        super().__post_init__()

    @property
    @abstractmethod
    def slopes(self) -> tuple[float, float]:
        """``(low, high)``: the slope jumps from ``-low`` to ``high`` at each kink."""

    def from_kink(self, p: ArrayLike, y: ArrayLike) -> tuple[Array, ArrayLike]:
        """Signed distance of the prediction from the kink, and its derivative in ``p``."""
        return np.subtract(p, y), 1.0

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return kink_value(self.from_kink(p, y)[0], *self.slopes, self.curvature)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        t, direction = self.from_kink(p, y)
        return np.asarray(np.multiply(direction, kink_slope(t, *self.slopes, self.curvature)))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * max(self.slopes)

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return self.curvature * row_norm**2

    @property
    def holder_exponent(self) -> float:  # noqa: D102
        return 0.0 if self.curvature == math.inf else 1.0

    @property
    def holder_slope(self) -> float:
        """At a kink: the length of the interval of slopes."""
        return sum(self.slopes) if self.curvature == math.inf else self.curvature

    @property
    def kink_jump(self) -> float:  # noqa: D102
        return sum(self.slopes) if self.curvature == math.inf else 0.0

    def smoothed(self, curvature: float) -> Self:  # noqa: D102
        return replace(self, curvature=curvature)
