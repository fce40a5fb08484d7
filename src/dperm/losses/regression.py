"""Losses for real targets: functions of the residual ``e = p - y``.

Their constants use ``|y| <= target_bound``, which the objective enforces.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dperm.losses.base import Array, Loss, PowerLoss, check_positive
from dperm.losses.kinks import Kinked

__all__ = ["Absolute", "EpsilonInsensitive", "Huber", "Pinball", "Power", "SquaredError"]


@dataclass(frozen=True)
class Huber(Loss):
    """``e^2 / 2`` for ``|e| <= threshold``, else linear, with ``e = p - y``. L = h R, beta = R^2.

    With targets in ``[-target_bound, target_bound]`` the constant on a ball is
    ``R min(h, R radius + target_bound)``.

    Parameters
    ----------
    threshold : float
        ``h > 0``, in the unit of the targets.
    target_bound : float
        Public bound on ``|y|``, infinite if there is none. The objective clips targets to it.

    Examples
    --------
    >>> loss = Huber(threshold=2.0)
    >>> loss.value([0.0, 1.0, 5.0], 0.0), loss.derivative([0.0, 1.0, 5.0], 0.0)
    (array([0. , 0.5, 8. ]), array([0., 1., 2.]))
    """

    threshold: float = 1.0
    target_bound: float = math.inf

    name = "huber"
    classification = False
    of_residual = True
    kernel_parameter = "threshold"

    def __post_init__(self) -> None:
        check_positive("threshold", self.threshold)
        super().__post_init__()

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


@dataclass(frozen=True)
class SquaredError(Loss):
    """``(p - y)^2 / 2``; L = R (R radius + target_bound), beta = R^2.

    Parameters
    ----------
    target_bound : float
        Public bound on ``|y|``, as for :class:`Huber`.

    Examples
    --------
    >>> loss = SquaredError(target_bound=1.0)
    >>> loss.value([0.0, 2.0], 1.0)
    array([0.5, 0.5])
    >>> loss.lipschitz(row_norm=1.0), loss.lipschitz(row_norm=1.0, radius=3.0)
    (inf, 4.0)
    """

    target_bound: float = math.inf

    name = "squared_error"
    classification = False
    of_residual = True
    kernel_name = "huber"  # of infinite threshold

    @property
    def kernel(self) -> tuple[int, float, float]:  # noqa: D102
        return super().kernel[0], math.inf, math.inf

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(0.5 * np.subtract(p, y) ** 2)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(np.subtract(p, y))

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.ones(np.broadcast_shapes(np.shape(p), np.shape(y)))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * (row_norm * radius + self.target_bound)

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2


@dataclass(frozen=True)
class Absolute(Kinked):
    """``|p - y|``; L = R. Its minimiser predicts the median.

    Parameters
    ----------
    target_bound : float
        Public bound on ``|y|``, as for :class:`Huber`.
    curvature : float
        Infinite for the kink itself, else of the ramp in its place; beta = curvature R^2.

    Examples
    --------
    >>> Absolute().value([0.0, 1.0, 3.0], 1.0)
    array([1., 0., 2.])
    >>> Absolute(curvature=5.0).smoothness(row_norm=1.0)
    5.0
    """

    target_bound: float = math.inf

    name = "absolute"
    classification = False
    of_residual = True
    slopes = (1.0, 1.0)


@dataclass(frozen=True)
class Pinball(Kinked):
    """``max(tau (y - p), (1 - tau) (p - y))``; L = max(tau, 1 - tau) R. Its minimiser predicts a quantile.

    Koenker and Bassett, "Regression quantiles", Econometrica 1978.

    Parameters
    ----------
    level : float
        ``tau``, strictly between 0 and 1: the share of targets below the prediction.
    target_bound : float
        Public bound on ``|y|``, as for :class:`Huber`.
    curvature : float
        Infinite for the kink itself, else of the ramp in its place; beta = curvature R^2.

    Examples
    --------
    Its sum over targets is smallest at their quantile, here of level 0.9:

    >>> import numpy as np
    >>> targets = np.arange(101.0)
    >>> sums = [Pinball(level=0.9).value(p, targets).sum() for p in targets]
    >>> int(np.argmin(sums))
    90
    """

    level: float = 0.5
    target_bound: float = math.inf

    name = "pinball"
    classification = False
    of_residual = True
    kernel_parameter = "level"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level must be strictly between 0 and 1, got {self.level!r}")

    @property
    def slopes(self) -> tuple[float, float]:  # noqa: D102
        return self.level, 1.0 - self.level

    @property
    def steeper_on_one_side(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self.level != 0.5


@dataclass(frozen=True)
class EpsilonInsensitive(Kinked):
    """``max(0, |p - y| - width)``, the loss of support vector regression; L = R.

    Parameters
    ----------
    width : float
        Positive: residuals up to it cost nothing.
    target_bound : float
        Public bound on ``|y|``, as for :class:`Huber`.
    curvature : float
        Infinite for the kinks themselves, else of the ramps in their place, which must not overlap:
        at least ``1 / (2 width)``. beta = curvature R^2.

    Examples
    --------
    >>> EpsilonInsensitive(width=0.5).value([0.0, 0.75, 1.0], 1.0)
    array([0.5, 0. , 0. ])
    """

    width: float = 0.1
    target_bound: float = math.inf

    name = "epsilon_insensitive"
    classification = False
    of_residual = True
    kernel_parameter = "width"
    slopes = (0.0, 1.0)  # in |e| - width

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("width", self.width)
        if not self.curvature >= self.least_curvature:
            raise ValueError(
                f"curvature must be at least 1/(2 width) = {self.least_curvature:g}, so that the two ramps "
                f"do not overlap, got {self.curvature!r}"
            )

    @property
    def least_curvature(self) -> float:  # noqa: D102
        return 0.5 / self.width

    @property
    def holder_slope(self) -> float:  # noqa: D102
        return 2.0 if self.curvature == math.inf else self.curvature

    def from_kink(self, p: ArrayLike, y: ArrayLike) -> tuple[Array, ArrayLike]:  # noqa: D102
        e = np.subtract(p, y)
        return np.abs(e) - self.width, np.sign(e)


@dataclass(frozen=True)
class Power(PowerLoss):
    """``|p - y|^q``; L = q R (R radius + target_bound)^(q-1).

    Its derivative is Hölder continuous with exponent ``q - 1`` and constant ``q 2^(2-q)``, attained by
    residuals of opposite sign.

    Parameters
    ----------
    exponent : float
        ``1 < q <= 2``; 2 is the squared error, beta = 2 R^2.
    target_bound : float
        Public bound on ``|y|``, as for :class:`Huber`.

    Examples
    --------
    >>> loss = Power(1.5, target_bound=2.0)
    >>> loss.value([0.0, 1.0, 4.0], 0.0)
    array([0., 1., 8.])
    >>> loss.lipschitz(row_norm=1.0), round(loss.lipschitz(row_norm=1.0, radius=2.0), 6)
    (inf, 3.0)
    """

    target_bound: float = math.inf

    name = "power"
    classification = False
    of_residual = True

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(np.abs(np.subtract(p, y)) ** self.exponent)

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:  # noqa: D102
        e = np.subtract(p, y)
        return np.asarray(np.sign(e) * (self.exponent * np.abs(e) ** (self.exponent - 1.0)))

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return row_norm * self.exponent * math.pow(row_norm * radius + self.target_bound, self.exponent - 1.0)

    @property
    def holder_slope(self) -> float:  # noqa: D102
        return self.exponent * math.pow(2.0, 2.0 - self.exponent)
