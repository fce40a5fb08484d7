"""The loss of multinomial logistic regression: one linear prediction per class."""

import math
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from dperm.losses.base import Array, Loss

MAX_CLASSES = 1000


@dataclass(frozen=True)
class Softmax(Loss):
    """``-log(exp(p_y) / sum_k exp(p_k))``; L = sqrt(2) R, beta = R^2 / 2.

    Weights are a matrix with one column per class, ``p = W^T z``; norms of weights and gradients are
    Frobenius norms. The gradient of a record is ``z (q - e_y)^T`` with the probabilities ``q``.

    Parameters
    ----------
    n_classes : int
        Public number of classes ``K``, from 2 to 1000. Targets are the codes ``0 .. K-1``.

    Notes
    -----
    ``||q - e_y||^2 <= 2``, approached when a wrong class is certain. The Hessian in ``p`` is
    ``diag(q) - q q^T``, whose eigenvalues are at most 1/2 (Böhning 1992, "Multinomial logistic regression
    algorithm", eq. 2), attained when two classes share all probability. Unlike for a loss of one prediction,
    a clipped gradient is not the gradient of a convex function.

    Examples
    --------
    >>> loss = Softmax(3)
    >>> loss.value([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]], [0, 0]).round(3)
    array([1.099, 0.013])
    >>> loss.derivative([[0.0, 0.0, 0.0]], [0]).round(3)
    array([[-0.667,  0.333,  0.333]])
    """

    n_classes: int

    classification = True

    def __post_init__(self) -> None:
        valid = isinstance(self.n_classes, Integral) and not isinstance(self.n_classes, bool)
        if not (valid and 2 <= self.n_classes <= MAX_CLASSES):
            raise ValueError(f"n_classes must be an integer from 2 to {MAX_CLASSES}, got {self.n_classes!r}")

    @property
    def name(self) -> str:  # noqa: D102
        return "softmax"

    def value(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Loss of each row of scores ``p``, shape ``(n, K)``, with class codes ``y``, shape ``(n,)``."""
        scores = np.asarray(p, dtype=np.float64)
        of_target = np.take_along_axis(scores, np.asarray(y, dtype=np.intp)[..., None], axis=-1)
        return np.asarray(logsumexp(scores - of_target, axis=-1))

    def derivative(self, p: ArrayLike, y: ArrayLike) -> Array:
        """Gradient ``q - e_y`` of the loss in the scores, shape ``(n, K)``."""
        return np.asarray(softmax(p, axis=-1) - np.eye(self.n_classes)[np.asarray(y, dtype=np.intp)])

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:  # noqa: D102
        return math.sqrt(2.0) * row_norm

    def smoothness(self, row_norm: float) -> float:  # noqa: D102
        return row_norm**2 / 2.0

    def slope_at_zero(self, row_norm: float) -> float:  # noqa: D102
        return row_norm * math.sqrt(1.0 - 1.0 / self.n_classes)

    @property
    def value_at_zero(self) -> float:  # noqa: D102
        return math.log(self.n_classes)
