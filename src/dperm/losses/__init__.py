"""Losses of a linear prediction: value, derivative, and the constants that privacy rests on."""

from collections.abc import Callable

from dperm.losses.base import Loss
from dperm.losses.classification import Hinge, Logistic, Sigmoid, SoftMargin, SquaredHinge, huberized_hinge
from dperm.losses.regression import Absolute, EpsilonInsensitive, Huber, Pinball, Power, SquaredError
from dperm.losses.robust import Tukey, Welsch
from dperm.losses.softmax import Softmax

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Pinball",
    "Power",
    "Sigmoid",
    "SoftMargin",
    "Softmax",
    "SquaredError",
    "SquaredHinge",
    "Tukey",
    "Welsch",
    "get_loss",
    "huberized_hinge",
]


def __dir__() -> list[str]:
    return sorted(__all__)


_BY_NAME: dict[str, Callable[[], Loss]] = {
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "hinge": Hinge,
    "huber": Huber,
    "huberized_hinge": huberized_hinge,
    "logistic": Logistic,
    "pinball": Pinball,
    "power": Power,
    "sigmoid": Sigmoid,
    "soft_margin": SoftMargin,
    "squared_error": SquaredError,
    "squared_hinge": SquaredHinge,
    "tukey": Tukey,
    "welsch": Welsch,
}


def get_loss(loss: str | Loss, n_classes: int | None = None) -> Loss:
    """The loss of that name with its default parameters, or ``loss`` itself.

    Softmax needs ``n_classes``: the public number of classes is never read from the data.

    Examples
    --------
    >>> get_loss("huber")
    Huber(threshold=1.0, target_bound=inf)
    >>> get_loss("softmax", n_classes=10)
    Softmax(n_classes=10)
    """
    if loss == "softmax":
        if n_classes is None:
            raise ValueError("loss='softmax' needs n_classes, the public number of classes")
        return Softmax(n_classes)
    if n_classes is not None:
        raise ValueError("n_classes is for loss='softmax' alone")
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in _BY_NAME:
        raise ValueError(f"loss must be a Loss or one of {sorted([*_BY_NAME, 'softmax'])}, got {loss!r}")
    return _BY_NAME[loss]()
