"""Confidence intervals that account for both the sampling of the records and the noise of the release.

For a metric ``f`` that does not change when all counts are scaled, the counts of records in cells may be
treated as independent Poisson variables; each also has noise of variance sigma^2. By the delta method the
variance of ``f`` is ``sum_i (df/dc_i)^2 (c_i + sigma^2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
#: A function of the cells in the last axes; analytic, for complex-step differentiation.
Metric = Callable[[NDArray[Any]], Any]

#: Quantile of the normal distribution, for 95 % intervals.
QUANTILE = float(ndtri(0.975))

#: A denominator must be at least this many standard deviations of its noise, or there is no interval.
CLEAR = 5.0

#: A denominator of a metric, which is a sum of cells, and the number of cells.
Support = tuple[float, int]

TOO_NOISY = "no interval: counts are comparable to the noise"

_STEP = 1e-100
_CELLS_AT_A_TIME = 512


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % interval.

    Attributes
    ----------
    value : float or array
        NaN where it is not defined.
    low, high : float or array
        NaN where there is no interval.
    note : str
        Why there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm.metrics import evaluate
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4000, 1)), np.arange(4000) % 4 == 0
    >>> model = DummyClassifier().fit(X, y)
    >>> found = evaluate(model, X, y, epsilon=1.0, delta=1e-6, metrics="accuracy", random_state=0)
    >>> accuracy = found["accuracy"]
    >>> accuracy.low < 0.75 < accuracy.high
    True
    """

    value: Any
    low: Any
    high: Any
    note: str = ""


@dataclass(frozen=True)
class Noisy:
    """Noisy counts in cells.

    Attributes
    ----------
    cells : ndarray
    sigma : float
        Standard deviation of the noise on each cell.
    size_known : bool
        Whether their sum is exact.
    """

    cells: Array
    sigma: float
    size_known: bool = False

    @classmethod
    def of_known_size(cls, cells: Array, sigma: float, n_records: int) -> Noisy:
        """The nearest counts (in least squares) that sum to a public number of records."""
        return cls(cells + (n_records - cells.sum()) / cells.size, sigma, size_known=True)

    def variances(self, metric: Metric) -> tuple[Array, Array]:
        """Variances of the metric due to sampling and due to noise."""
        slopes = _slopes(metric, self.cells)
        at_least_none = np.maximum(self.cells, 0.0).reshape(-1, *[1] * (slopes.ndim - 1))
        noise = np.square(slopes).sum(axis=0)
        if self.size_known:  # `of_known_size` has removed the noise of the sum
            noise -= np.square(slopes.sum(axis=0)) / self.cells.size
        return (np.square(slopes) * at_least_none).sum(axis=0), self.sigma**2 * noise

    def is_clear(self, count: Array | float, n_cells: int) -> Any:
        """Whether a sum of `n_cells` cells is large compared to its noise."""
        return count > CLEAR * self.sigma * math.sqrt(n_cells)


def _slopes(metric: Metric, cells: Array) -> Array:
    """Derivatives of the metric with respect to the cells (first axis), by complex steps."""
    found = []
    for start in range(0, cells.size, _CELLS_AT_A_TIME):
        moved = np.arange(start, min(start + _CELLS_AT_A_TIME, cells.size))
        steps = np.zeros((moved.size, cells.size), dtype=np.complex128)
        steps[np.arange(moved.size), moved] = 1j * _STEP
        found.append(metric(cells + steps.reshape(-1, *cells.shape)).imag / _STEP)
    return np.concatenate(found)


def around(value: float, variance: float, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """The normal interval, clipped to the range of the metric."""
    half = QUANTILE * math.sqrt(variance)
    return Estimate(value, max(value - half, least), min(value + half, most))


def of_share(value: Any, sampling: Any, noise: Any, support: Any) -> Estimate:
    """Wilson's interval with the variance of the noise added, for metrics between 0 and 1, elementwise.

    All x with ``(x - value)^2 <= z^2 (x (1 - x) / m + noise)``, where m is the number of records for which a
    proportion has the metric's sampling variance, or the support if that variance is 0.
    """
    center = np.clip(value, 0.0, 1.0)
    spread = center * (1.0 - center)
    varies = (spread > 0.0) & (np.asarray(sampling) > 0.0)
    inverse = np.where(varies, sampling / np.where(varies, spread, 1.0), 1.0 / np.maximum(support, 1.0))
    k, z2 = QUANTILE**2 * inverse, QUANTILE**2
    middle = (center + 0.5 * k) / (1.0 + k)
    half = np.sqrt(np.maximum(k * spread + 0.25 * k * k + z2 * noise * (1.0 + k), 0.0)) / (1.0 + k)
    return Estimate(value, np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0))


@dataclass(frozen=True)
class Share:
    """A metric between 0 and 1 with its variances.

    Attributes
    ----------
    value : float
    sampling, noise : float
        Variances.
    support : float
        The smallest denominator, in records.
    is_clear : bool
        Whether every denominator is large compared to the noise.
    """

    value: float
    sampling: float
    noise: float
    support: float
    is_clear: bool

    @classmethod
    def of(
        cls, metric: Metric, noisy: Noisy, supports: Sequence[Support], value: float | None = None
    ) -> Share:
        """A metric of noisy counts; `value` replaces its value at these counts."""
        sampling, noise = noisy.variances(metric)
        value = float(metric(noisy.cells)) if value is None else value
        clear = all(noisy.is_clear(*each) for each in supports)
        return cls(value, float(sampling), float(noise), min(count for count, _ in supports), clear)

    @classmethod
    def mean(cls, shares: Sequence[Share]) -> Share:
        """The mean of shares with independent noise and arbitrarily dependent samples."""
        spread = float(np.mean([math.sqrt(each.sampling) for each in shares]))
        return cls(
            float(np.mean([each.value for each in shares])),
            spread**2,
            sum(each.noise for each in shares) / len(shares) ** 2,
            min(each.support for each in shares),
            all(each.is_clear for each in shares),
        )

    def estimate(self) -> Estimate:
        """The metric with its interval, if it has one."""
        if not self.is_clear:
            return without_interval(self.value)
        found = of_share(self.value, self.sampling, self.noise, self.support)
        return Estimate(min(max(self.value, 0.0), 1.0), float(found.low), float(found.high))


def without_interval(value: float, least: float = 0.0, most: float = 1.0) -> Estimate:
    """The value alone, NaN if the noise has moved it out of its range."""
    return Estimate(value if least <= value <= most else np.nan, np.nan, np.nan, TOO_NOISY)


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
