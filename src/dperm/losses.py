"""Losses of a linear prediction: value, derivative, and the constants that privacy rests on.

A record is a row ``z`` (the intercept's 1 appended, no longer than ``row_norm``) with a target
``y``; its loss at the weights ``w`` is ``value(p, y)`` with ``p = <w, z>``. Lipschitz and
smoothness constants are those of that function of ``w``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from dperm._kernels import row_kernels

Array = NDArray[np.float64]


class Loss(ABC):
    """A loss of one prediction ``p`` and target ``y``; convex in ``p`` unless it says otherwise.

    ``classification`` losses take targets -1 and +1 and depend on the margin ``y p`` alone.
    """

    name: str
    classification: bool
    convex: bool = True
    kernel_kind: int
    target_bound: float = math.inf  # the objective moves targets beyond it onto it

    @property
    def kernel(self) -> tuple[int, float, float]:
        """What the kernels call this loss: kind, parameter, curvature of a smoothed kink."""
        return self.kernel_kind, 0.0, math.inf

    @abstractmethod
    def value(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Loss of each prediction; non-negative, elementwise."""

    @abstractmethod
    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Derivative of the loss in ``p``, elementwise."""

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Second derivative of the loss in ``p``, elementwise; TypeError for a loss without one."""
        raise TypeError(f"the {self.name} loss has no second derivative to use")

    @abstractmethod
    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        """Lipschitz constant in ``w`` on ``||w|| <= radius`` for rows of norm at most ``row_norm``.

        Infinite where no finite constant exists: then clip, or project onto a ball.
        """

    @abstractmethod
    def smoothness(self, row_norm: float) -> float:
        """Lipschitz constant of the gradient in ``w``; infinite for a loss with a kink."""

    def clipped_smoothness(self, row_norm: float, clip: float) -> float:
        """Lipschitz constant of a record's gradient clipped to norm ``clip``, where better than plain."""
        return self.smoothness(row_norm)

    def gradient_distance(self, row_norm: float, radius: float = math.inf) -> float:
        """Largest distance between the gradients of two records at one ``w``, ``||w|| <= radius``."""
        return 2.0 * self.lipschitz(row_norm, radius)


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y p))``; L = R (on a ball R S(R radius)), beta = R^2 / 4."""

    name = "logistic"
    classification = True
    kernel_kind = row_kernels.LOGISTIC

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
        """``C (R - C)`` for ``C <= R/2``: a row of norm r curves only while its slope s is below C/r.

        There ``r^2 s (1 - s) <= C (r - C)`` for ``C <= r/2``, and ``r^2 / 4 <= C (R - C)`` for shorter rows
        as long as ``r <= 2 C``.
        """
        return clip * (row_norm - clip) if clip < row_norm / 2.0 else self.smoothness(row_norm)

    def gradient_distance(self, row_norm: float, radius: float = math.inf) -> float:
        """``max_{0 <= a <= R} 2 S(radius a) sqrt(R^2 - a^2)``: records far from each other agree on w.

        Two long gradients cannot point in opposite directions at the same ``w``; the bound is the
        diameter of the smallest ball that contains all gradients, and is attained.
        """
        if radius == math.inf:
            return 2.0 * row_norm

        def half_chord(a: float) -> float:
            return -float(expit(radius * a)) * math.sqrt(max(0.0, row_norm**2 - a**2))

        best = minimize_scalar(half_chord, bounds=(0.0, row_norm), method="bounded", options={"xatol": 1e-9})
        # The maximum is flat: an error of 1e-9 R in its place is far below 1e-12 in its value.
        return -2.0 * float(best.fun) * (1.0 + 1e-12)


@dataclass(frozen=True)
class Hinge(Loss):
    """``max(0, 1 - y p)``; L = R, not smooth. At the kink the derivative is 0."""

    name = "hinge"
    classification = True
    kernel_kind = row_kernels.HINGE

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - np.multiply(y, p))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.where(np.multiply(y, p) < 1.0, -np.asarray(y, dtype=np.float64), 0.0)

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return math.inf


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y p)^2 / 2``; L = R (1 + R radius), beta = R^2."""

    name = "squared_hinge"
    classification = True
    kernel_kind = row_kernels.SQUARED_HINGE

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
class Huber(Loss):
    """``e^2 / 2`` for ``|e| <= threshold``, else linear; ``e = p - y``. L = h R, beta = R^2.

    With targets in ``[-target_bound, target_bound]`` the constant on a ball is
    ``R min(h, R radius + target_bound)``.

    Parameters
    ----------
    threshold : float
        ``h > 0``, in the unit of the targets.
    target_bound : float
        Public bound on ``|y|``, infinite when there is none. The objective enforces it: a target
        beyond it is moved onto it.
    """

    threshold: float = 1.0
    target_bound: float = math.inf

    name = "huber"
    classification = False
    kernel_kind = row_kernels.HUBER

    def __post_init__(self) -> None:
        if not (0.0 < self.threshold < math.inf):
            raise ValueError(f"threshold must be positive and finite, got {self.threshold!r}")
        if not self.target_bound > 0.0:
            raise ValueError(f"target_bound must be positive, got {self.target_bound!r}")

    @property
    def kernel(self) -> tuple[int, float, float]:  # noqa: D102
        return self.kernel_kind, self.threshold, math.inf

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        e = np.abs(np.subtract(p, y))
        h = self.threshold
        return np.where(e <= h, 0.5 * e**2, h * e - 0.5 * h**2)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.clip(np.subtract(p, y), -self.threshold, self.threshold)

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(np.abs(np.subtract(p, y)) <= self.threshold, dtype=np.float64)

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * min(self.threshold, row_norm * radius + self.target_bound)

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2


_BY_NAME: dict[str, type[Loss]] = {loss.name: loss for loss in (Logistic, Hinge, SquaredHinge, Huber)}


def get_loss(loss: str | Loss) -> Loss:
    """The loss of that name with its default parameters, or ``loss`` itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in _BY_NAME:
        raise ValueError(f"loss must be a Loss or one of {sorted(_BY_NAME)}, got {loss!r}")
    return _BY_NAME[loss]()
