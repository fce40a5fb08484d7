"""Confidence intervals that account for both the sampling of the records and the noise of the release.

For a metric ``f`` that does not change when all counts are scaled, the counts of records in cells may be
treated as independent Poisson variables; each also has noise of variance sigma^2. By the delta method the
variance of ``f`` is ``sum_i (df/dc_i)^2 (c_i + sigma^2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

#: A denominator of a metric, and the variance of its noise in units of that of a cell.
Support = tuple[float, float]

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
        Why there is none; else at what losses were clipped, and of how many records.

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

    def within(self, least: float, most: float) -> Estimate:
        """The nearest possible numbers, with ``low <= value <= high``."""
        value, low, high = (np.clip(each, least, most) for each in (self.value, self.low, self.high))
        found = value, np.minimum(low, value), np.maximum(high, value)
        value, low, high = (each if np.ndim(each) else float(each) for each in found)
        return replace(self, value=value, low=low, high=high)


@dataclass(frozen=True)
class Noisy:
    """Noisy counts in cells.

    Attributes
    ----------
    cells : ndarray
    sigma : float
        Standard deviation of the noise on each cell.
    covariance : ndarray or None
        Covariance of the noise along the first axis, in units of ``sigma**2``; None if it is independent.
    size_known : bool
        Whether their sum is exact.
    """

    cells: Array
    sigma: float
    covariance: Array | None = None
    size_known: bool = False

    def of_size(self, n_records: int | None) -> Noisy:
        """The likeliest counts that sum to the number of records, if that is public."""
        if n_records is None:
            return self
        along = self._mixed(np.ones_like(self.cells))
        moved = self.cells + along * (n_records - self.cells.sum()) / along.sum()
        return replace(self, cells=moved, size_known=True)

    def variances(self, metric: Metric) -> tuple[Array, Array]:
        """Variances of the metric due to sampling and due to noise."""
        slopes = _slopes(metric, self.cells)
        at_least_none = np.maximum(self.cells, 0.0).reshape(-1, *[1] * (slopes.ndim - 1))
        mixed = self._mixed(slopes.reshape(len(self.cells), -1)).reshape(slopes.shape)
        noise = (slopes * mixed).sum(axis=0)
        if self.size_known:  # `of_size` has removed the noise of the sum
            noise -= np.square(mixed.sum(axis=0)) / self._mixed(np.ones_like(self.cells)).sum()
        return (np.square(slopes) * at_least_none).sum(axis=0), self.sigma**2 * noise

    def _mixed(self, columns: Array) -> Array:
        return columns if self.covariance is None else self.covariance @ columns

    def is_clear(self, count: Array | float, noise: Any) -> Any:
        """Whether a count is large compared to its noise, of that variance in units of ``sigma**2``."""
        return count > CLEAR * self.sigma * np.sqrt(noise)


def _slopes(metric: Metric, cells: Array) -> Array:
    """Derivatives of the metric with respect to the cells (first axis), by complex steps."""
    found = []
    for start in range(0, cells.size, _CELLS_AT_A_TIME):
        moved = np.arange(start, min(start + _CELLS_AT_A_TIME, cells.size))
        steps = np.zeros((moved.size, cells.size), dtype=np.complex128)
        steps[np.arange(moved.size), moved] = 1j * _STEP
        found.append(metric(cells + steps.reshape(-1, *cells.shape)).imag / _STEP)
    return np.concatenate(found)


def around(value: float, variance: float) -> Estimate:
    """The normal interval."""
    half = QUANTILE * math.sqrt(variance)
    return Estimate(value, value - half, value + half)


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
        return of_share(self.value, self.sampling, self.noise, self.support)


def without_interval(value: float) -> Estimate:
    """The value alone, NaN after a division by zero."""
    return Estimate(value if math.isfinite(value) else np.nan, np.nan, np.nan, TOO_NOISY)


class MatrixMetric(NamedTuple):
    """A metric of a confusion matrix ``c[..., true, predicted]``.

    Attributes
    ----------
    metric : callable
    supports : callable
        Its denominators, each of which must be large compared to the noise.
    ratios : callable or None
        The ratio of each class with its denominator, if the metric is their mean or the second of two.
    """

    metric: Metric
    supports: Callable[[Array], Sequence[Support]]
    ratios: Metric | None = None


def _total(c: NDArray[Any]) -> Any:
    return c.sum(axis=(-2, -1))


def _of_class(ratios: NDArray[Any]) -> Any:
    """The value of the second of two classes, or the mean over more than two."""
    return ratios[..., 1] if ratios.shape[-1] == 2 else ratios.mean(axis=-1)


def _hits(c: NDArray[Any]) -> Any:
    return np.diagonal(c, axis1=-2, axis2=-1)


def _accuracy(c: NDArray[Any]) -> Any:
    return _hits(c).sum(axis=-1) / _total(c)


def _recalls(c: NDArray[Any]) -> Any:
    return _hits(c) / c.sum(axis=-1)


def _precisions(c: NDArray[Any]) -> Any:
    return _hits(c) / c.sum(axis=-2)


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
    "balanced_accuracy": MatrixMetric(
        lambda c: _recalls(c).mean(axis=-1), _of_classes(1, positive=False), _recalls
    ),
    "precision": MatrixMetric(lambda c: _of_class(_precisions(c)), _of_classes(0), _precisions),
    "recall": MatrixMetric(lambda c: _of_class(_recalls(c)), _of_classes(1), _recalls),
    "f1": MatrixMetric(_f1, _of_classes(0, 1)),
    "mcc": MatrixMetric(_mcc, _of_classes(0, 1, positive=False)),
}


def of_matrix(name: str, noisy: Noisy) -> Estimate:
    """A metric of a confusion matrix.

    Classes without errors vary, too: a mean over classes combines their own (Wilson's) intervals, as Zou and
    Donner (2008) do; the variance of the correlation is that after adding half the square of the quantile to
    the hits and to the errors of each class (Agresti and Coull 1998).
    """
    metric, find_supports, ratios = MATRIX_METRICS[name]
    supports, k = find_supports(noisy.cells), len(noisy.cells)
    share = Share.of(metric, noisy, supports)
    if not share.is_clear:
        return without_interval(share.value)
    if name == "mcc":
        more = QUANTILE**2 / 2.0 * np.where(np.eye(k, dtype=bool), 1.0, 1.0 / (k - 1))
        added = replace(noisy, cells=np.maximum(noisy.cells, 0.0) + more)
        return around(share.value, float(sum(added.variances(metric))))
    if ratios is None or len(supports) == 1:
        return share.estimate()
    each = of_share(ratios(noisy.cells), *noisy.variances(ratios), [count for count, _ in supports])
    values = np.clip(each.value, each.low, each.high)
    below, above = (np.linalg.norm(values - end) / k for end in (each.low, each.high))
    return Estimate(share.value, share.value - below, share.value + above)


def matrix_itself(noisy: Noisy) -> Estimate:
    """The counts, each with an interval for its expected value."""
    c, n = noisy.cells, noisy.cells.sum()
    spread = np.maximum(c, 0.0) * np.clip(1.0 - c / n, 0.0, 1.0) + noisy.sigma**2
    low, high = (around(0.0, 1.0).low * np.sqrt(spread) * sign for sign in (1.0, -1.0))
    return Estimate(c, c + low, c + high)
