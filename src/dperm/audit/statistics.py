"""Statistics that distinguish two data sets, learned from observations that are then set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Observations of shape (runs, size) to scores of shape (runs,); the second data set scores higher.
Statistic = Callable[[Array], Array]


def learn_statistic(first: Array, second: Array) -> Statistic:
    """The projection that orders held-out observations best.

    Candidates are the difference of the means, whitened by the covariance shrunk towards its diagonal
    (linear discriminant), by the diagonal alone, and the single coordinate that differs most. They are
    fitted to one half of the observations and compared on the other; the best is fitted to all.

    Parameters
    ----------
    first, second : (runs, size) ndarray
        Observations on the two data sets; infinite values are replaced by very large ones.

    Returns
    -------
    callable
        Maps observations to scores.
    """
    first, second = _finite(first), _finite(second)
    if len(first) < 4 or first.shape[1] == 1:
        return _projection(next(_candidates(first, second)))
    halves = [rows[::2] for rows in (first, second)], [rows[1::2] for rows in (first, second)]
    wins = [share_ordered(*(rows @ axis for rows in halves[1])) for axis in _candidates(*halves[0])]
    return _projection(list(_candidates(first, second))[int(np.argmax(wins))])


def share_ordered(first: Array, second: Array) -> float:
    """Share of all pairs whose second score is the larger one; ties count one half."""
    order = np.sort(first)
    below = np.searchsorted(order, second, "left") + np.searchsorted(order, second, "right")
    return float(below.mean()) / (2.0 * len(first))


def _candidates(first: Array, second: Array) -> Iterator[Array]:
    """Directions to project on."""
    shift = second.mean(axis=0) - first.mean(axis=0)
    residuals = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    variances = residuals.var(axis=0)
    # A coordinate without noise reveals everything; the floor keeps its weight finite.
    variances = np.maximum(variances, 1e-12 * (shift**2 + variances.max()) + 1e-300)
    diagonal = shift / variances
    yield diagonal / (np.linalg.norm(diagonal) or 1.0)
    if len(shift) == 1:
        return
    single = np.zeros_like(shift)
    best = int(np.argmax(np.abs(shift) / np.sqrt(variances)))
    single[best] = np.sign(shift[best])
    yield single
    scaled = residuals / np.sqrt(variances)
    shrinkage = min(1.0, len(shift) / len(scaled) + 1e-3)
    correlation = (1.0 - shrinkage) * (scaled.T @ scaled) / len(scaled) + shrinkage * np.eye(len(shift))
    full = np.linalg.solve(correlation, shift / np.sqrt(variances)) / np.sqrt(variances)
    yield full / (np.linalg.norm(full) or 1.0)


def _projection(axis: Array) -> Statistic:
    return lambda observations: np.asarray(_finite(observations) @ axis)


def _finite(observations: Array) -> Array:
    return np.nan_to_num(observations, posinf=1e100, neginf=-1e100)
