"""Losses of a linear prediction: value, derivative, and the constants that privacy rests on."""

from collections.abc import Callable

from dperm.losses import classification, regression
from dperm.losses.base import Loss
from dperm.losses.classification import *  # noqa: F403
from dperm.losses.regression import *  # noqa: F403
from dperm.losses.softmax import Softmax

__all__ = ["Loss", "Softmax", "get_loss"]
__all__ += classification.__all__
__all__ += regression.__all__


def __dir__() -> list[str]:
    return sorted(__all__)


_MAKERS: list[Callable[[], Loss]] = [
    getattr(module, name) for module in (classification, regression) for name in module.__all__
]
_BY_NAME = {make().name: make for make in _MAKERS}


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
