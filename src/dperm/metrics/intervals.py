"""Intervals that count both the sampling of the records and the noise of the release.

Counts of records in cells vary like independent Poisson numbers, as far as a metric ``f`` is concerned that
is the same for all counts doubled, and each carries noise of variance sigma^2. By the delta method the
variance of ``f`` is ``sum_i (df/dc_i)^2 (c_i + sigma^2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
#: A function of cells, in the last axes of its argument; analytic, so that complex steps differentiate it.
Metric = Callable[[NDArray[Any]], Any]

#: Of the normal distribution, for intervals of 95 %.
QUANTILE = float(ndtri(0.975))

#: A denominator must exceed its noise so many times, or there is no interval.
CLEAR = 5.0

#: A sum of cells that a metric divides by, and of how many.
Support = tuple[float, int]

TOO_NOISY = "no interval: counts are comparable to the noise"

_STEP = 1e-100
_CELLS_AT_A_TIME = 512


@dataclass(frozen=True)
class Estimate:
    """A metric with its interval of 95 %.

    Attributes
    ----------
    value : float, or array of them
        NaN where it is not defined.
    low, high : float, or array of them
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
    """Counts in cells with noise.

    Attributes
    ----------
    cells : ndarray
    sigma : float
        Of the noise of each of them.
    size_known : bool
        Whether their sum is exact.
    """

    cells: Array
    sigma: float
    size_known: bool = False

    @classmethod
    def of_known_size(cls, cells: Array, sigma: float, n_records: int) -> Noisy:
        """The nearest counts that sum to a public number of records."""
        return cls(cells + (n_records - cells.sum()) / cells.size, sigma, size_known=True)

    def variances(self, metric: Metric) -> tuple[Array, Array]:
        """Of the metric at these counts: by sampling, and by noise."""
        slopes = _slopes(metric, self.cells)
        at_least_none = np.maximum(self.cells, 0.0).reshape(-1, *[1] * (slopes.ndim - 1))
        noise = np.square(slopes).sum(axis=0)
        if self.size_known:  # the noise of the sum was taken off
            noise -= np.square(slopes.sum(axis=0)) / self.cells.size
        return (np.square(slopes) * at_least_none).sum(axis=0), self.sigma**2 * noise

    def is_clear(self, count: Array | float, n_cells: int) -> Any:
        """Whether a sum of so many cells stands out of the noise."""
        return count > CLEAR * self.sigma * math.sqrt(n_cells)


def _slopes(metric: Metric, cells: Array) -> Array:
    """Derivatives of the metric by each cell (first axis), by complex steps: exact but for rounding."""
    found = []
    for start in range(0, cells.size, _CELLS_AT_A_TIME):
        moved = np.arange(start, min(start + _CELLS_AT_A_TIME, cells.size))
        steps = np.zeros((moved.size, cells.size), dtype=np.complex128)
        steps[np.arange(moved.size), moved] = 1j * _STEP
        found.append(metric(cells + steps.reshape(-1, *cells.shape)).imag / _STEP)
    return np.concatenate(found)


def around(value: float, variance: float, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """The normal interval, within the range of the metric."""
    half = QUANTILE * math.sqrt(variance)
    return Estimate(value, max(value - half, least), min(value + half, most))


def of_share(value: Any, sampling: Any, noise: Any, support: Any) -> Estimate:
    """The interval of a metric between 0 and 1, elementwise: Wilson's, with the variance of the noise added.

    All x with ``(x - value)^2 <= z^2 (x (1 - x) / m + noise)``, m the number of records for which a share
    has the sampling variance of the metric; the support where it has none.
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
    support : float
        The fewest records that it divides by.
    is_clear : bool
        Whether all that it divides by stands out of the noise.
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
        """A metric of noisy counts; its value is that at these counts where none is given."""
        sampling, noise = noisy.variances(metric)
        value = float(metric(noisy.cells)) if value is None else value
        clear = all(noisy.is_clear(*each) for each in supports)
        return cls(value, float(sampling), float(noise), min(count for count, _ in supports), clear)

    @classmethod
    def mean(cls, shares: Sequence[Share]) -> Share:
        """Of shares with independent noise, whose samples may depend on each other in any way."""
        spread = float(np.mean([math.sqrt(each.sampling) for each in shares]))
        return cls(
            float(np.mean([each.value for each in shares])),
            spread**2,
            sum(each.noise for each in shares) / len(shares) ** 2,
            min(each.support for each in shares),
            all(each.is_clear for each in shares),
        )

    def estimate(self) -> Estimate:
        """With its interval, if it has one."""
        if not self.is_clear:
            return without_interval(self.value)
        found = of_share(self.value, self.sampling, self.noise, self.support)
        return Estimate(min(max(self.value, 0.0), 1.0), float(found.low), float(found.high))


def without_interval(value: float, least: float = 0.0, most: float = 1.0) -> Estimate:
    """The value alone, NaN where noise has left it outside of its range."""
    return Estimate(value if least <= value <= most else np.nan, np.nan, np.nan, TOO_NOISY)
