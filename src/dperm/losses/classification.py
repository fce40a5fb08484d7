"""Losses for the labels -1 and +1: functions of the margin ``y p``."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import expit

from dperm.losses.base import Array, Loss, PowerLoss
from dperm.losses.kinks import Kinked

__all__ = ["Hinge", "Logistic", "Sigmoid", "SoftMargin", "SquaredHinge", "huberized_hinge"]


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y p))``; L = R (on a ball R S(R radius)), beta = R^2 / 4.

    Examples
    --------
    >>> Logistic().value([-1.0, 0.0, 1.0], 1).round(4)
    array([1.3133, 0.6931, 0.3133])
    """

    name = "logistic"
    classification = True

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.logaddexp(0.0, -np.multiply(y, p))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(-np.asarray(y) * expit(-np.multiply(y, p)))

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(expit(np.asarray(p)) * expit(np.negative(p)))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * float(expit(row_norm * radius))

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2 / 4.0

    def clipped_smoothness(self, row_norm: float, clip: float) -> float:
        """``C (R - C)`` for ``C <= R/2``: a row of norm r has curvature only while its slope s is below C/r.

        There ``r^2 s (1 - s) <= C (r - C)`` for ``C <= r/2``, and ``r^2 / 4 <= C (R - C)`` for shorter rows
        as long as ``r <= 2 C``.
        """
        return clip * (row_norm - clip) if clip < row_norm / 2.0 else self.smoothness(row_norm)

    def gradient_distance(self, row_norm: float, radius: float = math.inf) -> float:
        """``max_{0 <= a <= R} 2 S(radius a) sqrt(R^2 - a^2)``, with the logistic function S.

        Two long gradients cannot point in opposite directions at the same ``w``. The bound is the diameter of
        the smallest ball that contains all gradients, and is attained.
        """
        if radius == math.inf:
            return 2.0 * row_norm

        def half_chord(a: float) -> float:
            return -float(expit(radius * a)) * math.sqrt(max(0.0, row_norm**2 - a**2))

        best = minimize_scalar(half_chord, bounds=(0.0, row_norm), method="bounded", options={"xatol": 1e-9})
        # The maximum is flat: an error of 1e-9 R in its location changes its value by far less than 1e-12.
        return -2.0 * float(best.fun) * (1.0 + 1e-12)


@dataclass(frozen=True)
class Hinge(Kinked):
    """``max(0, 1 - y p)``; L = R, not smooth. At the kink the derivative is 0.

    Parameters
    ----------
    curvature : float
        Infinite for the hinge; a finite ``s`` makes it the Huberised hinge of half-width ``1 / (2 s)``, with
        beta = s R^2.

    Examples
    --------
    >>> Hinge().value([-1.0, 0.0, 2.0], 1)
    array([2., 1., 0.])
    >>> Hinge().smoothness(1.0), Hinge(curvature=2.0).smoothness(1.0)
    (inf, 2.0)
    """

    classification = True
    zero_beyond_margin = True
    kernel_name = "hinge"
    slopes = (0.0, 1.0)  # in 1 - y p

    @property
    def name(self) -> str:  # noqa: D102
        return "hinge" if self.curvature == math.inf else "huberized_hinge"

    def from_kink(self, p: ArrayLike, y: ArrayLike) -> tuple[Array, ArrayLike]:  # noqa: D102
        return 1.0 - np.multiply(y, p), np.negative(y)


def huberized_hinge(half_width: float = 0.5) -> Hinge:
    """The hinge with its kink rounded within ``half_width`` of it; beta = R^2 / (2 half_width).

    Chapelle, "Training a support vector machine in the primal", Neural Computation 2007, equation (6).

    Examples
    --------
    >>> huberized_hinge(0.5).value([0.5, 1.0, 1.5], 1), huberized_hinge(0.5).smoothness(1.0)
    (array([0.5  , 0.125, 0.   ]), 1.0)
    """
    if not half_width > 0.0:
        raise ValueError(f"half_width must be positive, got {half_width!r}")
    return Hinge(curvature=0.5 / half_width)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y p)^2 / 2``; L = R (1 + R radius), beta = R^2.

    Examples
    --------
    >>> SquaredHinge().value([-1.0, 0.0, 2.0], 1)
    array([2. , 0.5, 0. ])
    """

    name = "squared_hinge"
    classification = True
    zero_beyond_margin = True

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(0.5 * np.maximum(0.0, 1.0 - np.multiply(y, p)) ** 2)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(-np.asarray(y) * np.maximum(0.0, 1.0 - np.multiply(y, p)))

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(np.multiply(y, p) < 1.0, dtype=np.float64)

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * (1.0 + row_norm * radius)

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2


@dataclass(frozen=True)
class SoftMargin(PowerLoss):
    """The q-norm soft margin ``max(0, 1 - y p)^q``; L = q R (1 + R radius)^(q-1).

    Its derivative is Hölder continuous with exponent ``q - 1`` and constant ``q``.

    Parameters
    ----------
    exponent : float
        ``1 < q <= 2``; 2 is twice the squared hinge, beta = 2 R^2.

    Examples
    --------
    >>> SoftMargin(2.0).value([-1.0, 0.0, 2.0], 1)
    array([4., 1., 0.])
    """

    name = "soft_margin"
    classification = True
    zero_beyond_margin = True

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(np.maximum(0.0, 1.0 - np.multiply(y, p)) ** self.exponent)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        gap = np.maximum(0.0, 1.0 - np.multiply(y, p))
        return np.asarray(-np.asarray(y) * (self.exponent * gap ** (self.exponent - 1.0)))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * self.exponent * math.pow(1.0 + row_norm * radius, self.exponent - 1.0)

    @property
    def holder_slope(self) -> float:  # noqa: D102
        return self.exponent


@dataclass(frozen=True)
class Sigmoid(Loss):
    """``1 / (1 + exp(y p))``, a smooth 0-1 loss; not convex. L = R / 4, beta = R^2 / (6 sqrt(3)).

    With ``s`` the value, the derivative in the margin is ``-s (1 - s)``, largest at 1/2, and the second
    ``s (1 - s) (1 - 2 s)``, largest at ``s = (1 - 1/sqrt(3)) / 2``.

    Examples
    --------
    >>> Sigmoid().value([-100.0, 0.0, 100.0], 1).round(3), Sigmoid().convex
    (array([1. , 0.5, 0. ]), False)
    """

    name = "sigmoid"
    classification = True
    convex = False

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(expit(-np.multiply(y, p)))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        m = np.multiply(y, p)
        return np.asarray(-np.asarray(y) * expit(m) * expit(-m))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm / 4.0

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2 / (6.0 * math.sqrt(3.0))
