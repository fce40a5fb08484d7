"""Metrics computed from a confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.metrics.intervals import Array, Estimate, Metric, Noisy, Share, Support, around, without_interval


class MatrixMetric(NamedTuple):
    """A metric of a confusion matrix ``c[..., true, predicted]``.

    Attributes
    ----------
    metric : callable
    supports : callable
        Its denominators, each of which must be large compared to the noise.
    is_share : bool
        Whether its range is from 0 to 1.
    """

    metric: Metric
    supports: Callable[[Array], Sequence[Support]]
    is_share: bool = True


def _total(c: NDArray[Any]) -> Any:
    return c.sum(axis=(-2, -1))


def _of_class(ratios: NDArray[Any]) -> Any:
    """The value of the second of two classes, or the mean over more than two."""
    return ratios[..., 1] if ratios.shape[-1] == 2 else ratios.mean(axis=-1)


def _hits(c: NDArray[Any]) -> Any:
    return np.diagonal(c, axis1=-2, axis2=-1)


def _accuracy(c: NDArray[Any]) -> Any:
    return _hits(c).sum(axis=-1) / _total(c)


def _balanced_accuracy(c: NDArray[Any]) -> Any:
    return (_hits(c) / c.sum(axis=-1)).mean(axis=-1)


def _precision(c: NDArray[Any]) -> Any:
    return _of_class(_hits(c) / c.sum(axis=-2))


def _recall(c: NDArray[Any]) -> Any:
    return _of_class(_hits(c) / c.sum(axis=-1))


def _f1(c: NDArray[Any]) -> Any:
    return _of_class(2.0 * _hits(c) / (c.sum(axis=-1) + c.sum(axis=-2)))


def _mcc(c: NDArray[Any]) -> Any:
    true, predicted, n = c.sum(axis=-1), c.sum(axis=-2), _total(c)
    square = n * n
    spread = (square - (true * true).sum(axis=-1)) * (square - (predicted * predicted).sum(axis=-1))
    return (_hits(c).sum(axis=-1) * n - (true * predicted).sum(axis=-1)) / np.sqrt(spread)


def _all(c: Array) -> list[Support]:
    return [(float(c.sum()), c.size)]


def _of_classes(*axes: int, positive: bool = True) -> Callable[[Array], list[Support]]:
    """Records by true (axis 1) or predicted (axis 0) class; of two, the second alone if `positive`."""

    def supports(c: Array) -> list[Support]:
        first = 1 if positive and len(c) == 2 else 0
        return [(float(each), len(c)) for axis in axes for each in c.sum(axis=axis)[first:]]

    return supports


MATRIX_METRICS = {
    "accuracy": MatrixMetric(_accuracy, _all),
    "balanced_accuracy": MatrixMetric(_balanced_accuracy, _of_classes(1, positive=False)),
    "precision": MatrixMetric(_precision, _of_classes(0)),
    "recall": MatrixMetric(_recall, _of_classes(1)),
    "f1": MatrixMetric(_f1, _of_classes(0, 1)),
    "mcc": MatrixMetric(_mcc, _of_classes(0, 1, positive=False), is_share=False),
}


def of_matrix(name: str, noisy: Noisy) -> Estimate:
    """A metric of a confusion matrix."""
    metric, supports, is_share = MATRIX_METRICS[name]
    share = Share.of(metric, noisy, supports(noisy.cells))
    if is_share:
        return share.estimate()
    if not share.is_clear:
        return without_interval(share.value, least=-1.0)
    return around(share.value, share.sampling + share.noise, least=-1.0, most=1.0)


def matrix_itself(noisy: Noisy) -> Estimate:
    """The counts, each with an interval for its expected value."""
    c, n = noisy.cells, noisy.cells.sum()
    spread = np.maximum(c, 0.0) * np.clip(1.0 - c / n, 0.0, 1.0) + noisy.sigma**2
    low, high = (around(0.0, 1.0).low * np.sqrt(spread) * sign for sign in (1.0, -1.0))
    return Estimate(c, np.maximum(c + low, 0.0), c + high)
