"""Redescending regression losses: bounded, smooth and not convex, so that outliers hardly count.

Functions of the residual ``e = p - y`` that behave like ``e^2 / 2`` near 0.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dperm._kernels import row_kernels
from dperm.losses.base import Array, Loss, check_positive


@dataclass(frozen=True)
class _Redescending(Loss):
    """A loss whose slope rises up to ``steepest`` residual and then falls to 0; beta = R^2."""

    threshold: float
    target_bound: float = math.inf

    classification = False
    convex = False
    kernel_parameter = "threshold"

    def __post_init__(self) -> None:
        check_positive("threshold", self.threshold)
        super().__post_init__()

    @property
    @abstractmethod
    def steepest(self) -> float:
        """The residual with the largest slope."""

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        farthest = row_norm * radius + self.target_bound
        return row_norm * float(self.derivative(min(farthest, self.steepest), 0.0))

    def smoothness(self, row_norm: float) -> float:
        return row_norm**2


@dataclass(frozen=True)
class Welsch(_Redescending):
    """``c^2/2 (1 - exp(-(e/c)^2))``; L = R c / sqrt(2 exp(1)), beta = R^2.

    The derivative ``e exp(-(e/c)^2)`` is largest at ``c / sqrt(2)``; its own, ``(1 - 2 u) exp(-u)`` with
    ``u = (e/c)^2``, lies between 1 at 0 and ``-2 exp(-3/2)``. Holland and Welsch, "Robust regression using
    iteratively reweighted least-squares", 1977, Table 1.

    Parameters
    ----------
    threshold : float
        ``c > 0``, in the unit of the targets.
    target_bound : float
        Public bound on ``|y|``, as for :class:`dperm.losses.Huber`.

    Examples
    --------
    >>> Welsch(threshold=2.0).derivative([0.0, 1.0, 2.0, 100.0], 0.0).round(3)
    array([0.   , 0.779, 0.736, 0.   ])
    """

    threshold: float = 2.985

    name = "welsch"
    kernel_kind = row_kernels.WELSCH

    @property
    def steepest(self) -> float:  # noqa: D102
        return self.threshold / math.sqrt(2.0)

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        u = (np.subtract(p, y) / self.threshold) ** 2
        return np.asarray(-0.5 * self.threshold**2 * np.expm1(-u))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        e = np.subtract(p, y)
        return np.asarray(e * np.exp(-((e / self.threshold) ** 2)))


@dataclass(frozen=True)
class Tukey(_Redescending):
    """Tukey's biweight ``c^2/6 (1 - (1 - (e/c)^2)^3)``, constant from ``|e| = c`` on.

    L = 16 c R / (25 sqrt(5)), beta = R^2. The derivative ``e (1 - u)^2``, ``u = (e/c)^2``, is largest at
    ``c / sqrt(5)``; its own, ``(1 - u) (1 - 5 u)``, lies between 1 at 0 and -4/5. Beaton and Tukey, "The
    fitting of power series", Technometrics 1974.

    Parameters
    ----------
    threshold : float
        ``c > 0``, in the unit of the targets.
    target_bound : float
        Public bound on ``|y|``, as for :class:`dperm.losses.Huber`.

    Examples
    --------
    >>> Tukey(threshold=2.0).derivative([0.0, 1.0, 2.0, 100.0], 0.0)
    array([0.    , 0.5625, 0.    , 0.    ])
    """

    threshold: float = 4.685

    name = "tukey"
    kernel_kind = row_kernels.TUKEY

    @property
    def steepest(self) -> float:  # noqa: D102
        return self.threshold / math.sqrt(5.0)

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        u = np.minimum((np.subtract(p, y) / self.threshold) ** 2, 1.0)
        return np.asarray(self.threshold**2 / 6.0 * (u * (3.0 - 3.0 * u + u**2)))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        e = np.subtract(p, y)
        u = np.minimum((e / self.threshold) ** 2, 1.0)
        return np.asarray(e * (1.0 - u) ** 2)
