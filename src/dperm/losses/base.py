"""Base class of losses of a linear prediction: value, derivative, and the constants that privacy rests on.

A record is a row ``z`` (with the 1 of an intercept, of norm at most ``row_norm``) and a target ``y``; its
loss at the weights ``w`` is ``value(p, y)`` with ``p = <w, z>``. Lipschitz and smoothness constants are those
of that function of ``w``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels import row_kernels

Array = NDArray[np.float64]


class Loss(ABC):
    """A loss of one prediction ``p`` and target ``y``.

    The class attributes and properties say what the loss is; nothing is inferred from its values.

    Attributes
    ----------
    classification : bool
        Whether targets are -1 and +1, and the loss is a function of the margin ``y p``. With ``n_classes``
        they are class codes, with one prediction per class.
    of_residual : bool
        Whether the loss is a function of the residual ``p - y``, so that predictions are on the scale of the
        targets. False for labels, and for real targets with a link, such as counts and the logarithm of
        their rate.
    convex : bool
        Whether the loss is convex in ``p``.
    steeper_on_one_side : bool
        Of a loss of residuals: whether it grows faster on one side of the target, as the pinball loss does.
    zero_beyond_margin : bool
        Of a loss of margins: whether it is 0 from some margin on, as the hinge loss is.
    target_bound : float
        Public bound on ``|y|`` of real targets, which the objective clips to it.
    curvature : float
        Of the ramps that replace kinks; infinite to keep the kinks.

    Examples
    --------
    >>> from dperm.losses import Logistic
    >>> loss = Logistic()
    >>> loss.value([0.0, 2.0], [1, 1]).round(3), loss.derivative([0.0, 2.0], [1, 1]).round(3)
    (array([0.693, 0.127]), array([-0.5  , -0.119]))
    >>> loss.lipschitz(row_norm=2.0), loss.smoothness(row_norm=2.0)
    (2.0, 1.0)
    """

    classification: bool
    n_classes: int | None = None
    of_residual: bool = False
    convex: bool = True
    steeper_on_one_side: bool = False
    zero_beyond_margin: bool = False
    kernel_name: str | None = None  # in csrc/loss/loss_kinds.h, if that is not `name`
    kernel_parameter: str | None = None  # field that the kernels take as the parameter of the loss
    curvature: float = math.inf
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        check_positive("target_bound", self.target_bound, finite=False)

    @property
    @abstractmethod
    def name(self) -> str:
        """As in ``Objective(name, ...)``."""

    @property
    def kernel(self) -> tuple[int, float, float]:
        """The loss as the kernels identify it: kind, parameter, curvature of smoothed kinks."""
        parameter = 0.0 if self.kernel_parameter is None else getattr(self, self.kernel_parameter)
        return row_kernels.LOSS_KINDS[self.kernel_name or self.name], parameter, self.curvature

    @abstractmethod
    def value(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Loss of each prediction; non-negative, elementwise."""

    @abstractmethod
    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Derivative of the loss in ``p``, elementwise."""

    def second_derivative(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Second derivative of the loss in ``p``, elementwise; TypeError if there is none."""
        raise TypeError(f"the {self.name} loss has no second derivative to use")

    @property
    def twice_differentiable(self) -> bool:
        """Whether :meth:`second_derivative` is implemented; it may exist only almost everywhere."""
        return type(self).second_derivative is not Loss.second_derivative

    @abstractmethod
    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        """Lipschitz constant in ``w`` on ``||w|| <= radius`` for rows of norm at most ``row_norm``.

        Infinite if no finite constant exists: then clip, or project onto a ball.
        """

    @abstractmethod
    def smoothness(self, row_norm: float) -> float:
        """Lipschitz constant of the gradient in ``w``; infinite for a loss with a kink."""

    def clipped_smoothness(self, row_norm: float, clip: float) -> float:
        """Lipschitz constant of a record's gradient clipped to norm ``clip``, or an upper bound."""
        return self.smoothness(row_norm)

    def gradient_distance(self, row_norm: float, radius: float = math.inf) -> float:
        """Largest distance between the gradients of two records at one ``w``, ``||w|| <= radius``."""
        return 2.0 * self.lipschitz(row_norm, radius)

    # -- constants of non-smooth losses: Wang, Lei, Ying and Zhang 2022 --------------------------------

    @property
    def holder_exponent(self) -> float:
        """``alpha`` of ``|loss'(p) - loss'(q)| <= holder_slope |p - q|^alpha``, in [0, 1].

        1 for a smooth loss, 0 for one with a kink.
        """
        return 1.0

    @property
    def holder_slope(self) -> float:
        """Hölder constant of the derivative in ``p``; times ``row_norm^(1 + alpha)`` that of the gradient."""
        return self.smoothness(1.0)

    @property
    def kink_jump(self) -> float:
        """Largest jump of the derivative in ``p``; 0 for a loss without kinks."""
        return 0.0

    @property
    def self_bounding_slope(self) -> float:
        """``c`` of ``|loss'| <= c loss^(alpha / (1 + alpha))``, with the Hölder exponent ``alpha``.

        Infinite if there is none, or if it is not needed because the slope is bounded.
        """
        return math.inf

    @property
    def least_curvature(self) -> float:
        """The smallest argument of :meth:`smoothed`."""
        return 2.0**-64

    @property
    def prediction_bound(self) -> float:
        """Largest prediction that a target calls for; infinite if predictions have another unit."""
        return self.target_bound if self.of_residual else math.inf

    def steepest_slope(self, distance: float) -> float:
        """Largest slope for a target at most so far from the prediction; of a loss of residuals.

        Where the loss is flat that near, such as the epsilon-insensitive one, its Lipschitz constant.
        """
        steepest = float(np.max(np.abs(self.derivative(self._residuals(distance), np.zeros(2)))))
        return steepest if steepest > 0.0 else self.lipschitz(1.0)

    def highest_value(self, distance: float) -> float:
        """Largest loss of a target at most so far from the prediction; at the bound, where it is 0 that near.

        Of a loss of residuals.
        """
        highest = float(np.max(self.value(self._residuals(distance), np.zeros(2))))
        return highest if highest > 0.0 else self.value_at_zero

    def _residuals(self, distance: float) -> Array:
        """Both ends, where a convex loss is highest and steepest."""
        if not self.of_residual:
            raise TypeError(f"the {self.name} loss is not a function of the residual")
        return np.array([distance, -distance])

    @property
    def value_at_zero(self) -> float:
        """Largest loss of the prediction 0."""
        y = 1.0 if self.classification else self.target_bound
        return float(np.max(self.value(np.zeros(2), np.array([y, -y]))))

    def slope_at_zero(self, row_norm: float) -> float:
        """Largest norm of a record's gradient at ``w = 0``."""
        return self.lipschitz(row_norm, 0.0)

    def smoothed(self, curvature: float) -> Self:
        """The loss with every kink replaced by a ramp of that curvature; see `dperm.losses.kinks`.

        Raises
        ------
        ValueError
            For a loss without kinks, a curvature out of range, or windows that overlap.
        """
        raise ValueError(f"{self.name} has no kink to smooth")


def check_positive(name: str, value: float, *, finite: bool = True) -> None:
    """Raise ValueError unless ``value > 0``, and by default finite."""
    if not (value > 0.0 and (value < math.inf or not finite)):
        raise ValueError(f"{name} must be positive{' and finite' if finite else ''}, got {value!r}")


@dataclass(frozen=True)
class PowerLoss(Loss):
    """A loss that grows like the power ``q`` of a residual or margin, ``1 < q <= 2``."""

    exponent: float = 1.5

    kernel_parameter = "exponent"

    def __post_init__(self) -> None:
        if not 1.0 < self.exponent <= 2.0:
            raise ValueError(f"exponent must be above 1 and at most 2, got {self.exponent!r}")
        super().__post_init__()

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return 2.0 * row_norm**2 if self.exponent == 2.0 else math.inf

    @property
    def holder_exponent(self) -> float:  # noqa: D102
        return self.exponent - 1.0

    @property
    def self_bounding_slope(self) -> float:  # noqa: D102
        return self.exponent
