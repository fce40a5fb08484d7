"""From noisy histograms to bounds that leave little more than a public share of the records outside.

Everything here is post-processing of released counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from dperm.data.schema.columns import Numeric
from dperm.schema_learning.histograms import Grid, Magnitudes, Numbers

#: Share of the records that may lie beyond a bound.
OUTSIDE = 0.005
_CONFIDENCE = 0.99  # that no empty bin of any column is taken for a nonempty one
_SPREAD = 8.0  # a logarithmic scale is used if half of the numbers are below the bound over that


@dataclass(frozen=True)
class NoisyCounts:
    """A released histogram."""

    counts: Numbers
    sigma: float  # standard deviation of the noise of a count
    n_bins: int  # number of bins released together

    def detected(self) -> Numbers:
        """The significant counts, and 0 for the others."""
        z = float(ndtri(_CONFIDENCE ** (1.0 / self.n_bins)))
        return np.where(self.counts > z * self.sigma, self.counts, 0.0)

    def noise_of(self, bins: int) -> float:
        """Standard deviation of a sum over that many bins."""
        return self.sigma * math.sqrt(bins)


@dataclass(frozen=True)
class LearnedBounds:
    """What was learned about a numeric column."""

    low: float
    high: float
    log: bool  # whether most numbers are far below the bound
    constant: bool  # whether only one number has a significant count
    missing: bool  # whether the count of missing values is significant
    mass: float  # noisy number of records
    below: float  # noisy count of the records that are clipped from below
    above: float  # and from above
    noise: float  # standard deviation of the noisier of the two

    def column(self, name: str) -> Numeric:
        """The description of the column."""
        transform = "log1p" if self.log else "none"
        missing = "column" if self.missing else "zero"
        return Numeric(name, _plain(self.low), _plain(self.high), transform=transform, missing=missing)

    @property
    def grid(self) -> Grid | None:
        """A finer grid to count on; None if that would not help."""
        return None if self.log or self.constant else Grid(self.low, self.high)


def rough_bounds(noisy: NoisyCounts) -> LearnedBounds | None:
    """Powers of two between which nearly all numbers lie; None if no count is significant."""
    detected = noisy.detected()
    values, mass = detected[:-1], float(detected.sum())
    if not values.any():
        return None
    start, stop = _outside(values, mass), len(values) - _outside(values[::-1], mass)
    if start >= stop:  # hardly a record has a number: the share is of those that have one
        present = float(values.sum())
        start, stop = _outside(values, present), len(values) - _outside(values[::-1], present)
    edges = Magnitudes().edges
    low, high = float(edges[start]), float(edges[stop])
    counts, bins = noisy.counts[:-1], max(start, len(values) - stop)
    return LearnedBounds(
        low,
        high if high > low else low + 1.0,
        _is_spread(values[start:stop], edges[start : stop + 1]),
        not high > low,
        bool(detected[-1]),
        mass,
        float(counts[:start].sum()),
        float(counts[stop:].sum()),
        noisy.noise_of(bins),
    )


def _outside(counts: Numbers, mass: float, sigma: float = 0.0) -> int:
    """How many bins, from the first on, together hold at most the share that may be outside.

    Plus the noise of their sum: bounds that are too wide do less harm than bounds that clip too much.
    """
    noise = sigma * np.sqrt(np.arange(1, len(counts) + 1))
    more = np.cumsum(counts) > OUTSIDE * mass + noise
    return int(more.argmax()) if more.any() else len(counts)


def _is_spread(values: Numbers, edges: Numbers) -> bool:
    """Whether half of the positive numbers are far below the bound, and the bound is many units wide."""
    if edges[0] < 0.0 or edges[-1] < 2.0 * _SPREAD:
        return False
    above = np.where(edges[1:] > 0.0, values, 0.0)
    middle = int(np.searchsorted(np.cumsum(above), 0.5 * above.sum()))
    return bool(edges[middle + 1] * _SPREAD <= edges[-1])


def refined(rough: LearnedBounds, grid: Grid, noisy: NoisyCounts) -> LearnedBounds:
    """Bounds at edges of the grid between rough bounds."""
    edges, counts = grid.edges, noisy.counts
    start = _outside(counts, rough.mass, noisy.sigma)
    stop = len(counts) - _outside(counts[::-1], rough.mass, noisy.sigma)
    if start >= min(stop, len(edges)):  # too much noise: nothing stands out between the rough bounds
        return rough
    low = max(start - 1, 0)
    high = max(min(stop - 1, len(edges) - 1), low + 1)
    return replace(
        rough,
        low=float(edges[low]),
        high=float(edges[high]),
        below=float(counts[: low + 1].sum()) if low else rough.below,
        above=float(counts[high + 1 :].sum()),
        noise=noisy.noise_of(max(low + 1, len(counts) - high - 1)),
    )


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number
