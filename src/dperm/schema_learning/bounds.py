"""Bounds of numeric columns from noisy histograms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm._cached import cached_property
from dperm.data.schema.columns import Numeric
from dperm.data.schema.table_columns import TableColumn

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_EXPONENT, LARGEST_EXPONENT = -30, 50
_MAGNITUDES = LARGEST_EXPONENT - LEAST_EXPONENT + 1


class Histogram(Protocol):
    """Public bins of the numbers of a column."""

    @property
    def n_bins(self) -> int:
        """Number of counts."""

    def read(self, column: TableColumn) -> NDArray[Any]:
        """The numbers of a column of a table, NaN where missing."""
        return column.numbers_or_missing()

    def counts(self, values: Numbers) -> Integers:
        """How many of the numbers are in each bin."""


@dataclass(frozen=True)
class Magnitudes(Histogram):
    """Bins by sign and magnitude, ``2^(e-1) < |x| <= 2^e``; one for 0; one for missing values.

    They are in ascending order, missing values last. Magnitudes below the smallest bin count as 0, those
    above the largest bin count in that.
    """

    n_bins = 2 * _MAGNITUDES + 2

    @property
    def edges(self) -> Numbers:
        """Edges of the bins other than the last, ascending: bin i lies between edges i and i + 1."""
        powers = np.exp2(np.arange(LEAST_EXPONENT, LARGEST_EXPONENT + 1))
        return np.concatenate([-powers[::-1], [0.0, 0.0], powers])

    def counts(self, values: Numbers) -> Integers:
        """How many of the values are in each bin."""
        # The upper 12 bits of (the bits of a double, minus 1): the same for all values of a bin.
        raw = (values.view(np.uint64) - np.uint64(1)) >> np.uint64(52)
        every = np.bincount(raw.view(np.int64), minlength=4096)
        odd = int(every[_ZERO_OR_NAN].sum())
        zeros = values.size - int(np.count_nonzero(values)) if odd else 0
        every[_ZERO_OR_NAN] = 0
        counts = np.zeros(self.n_bins, np.int64)
        np.add.at(counts, _BINS, every)
        counts[_MAGNITUDES] += zeros
        counts[-1] = odd - zeros
        return counts


# Zeros fall among NaNs of the other sign: -0 and NaN in the first, 0 and -NaN in the second.
_ZERO_OR_NAN = [2047, 4095]


def _bin_of_raw() -> Integers:
    """The bin for each of the 4096 upper bits of (the bits of a double, minus 1)."""
    raw = np.arange(4096)
    rank = np.clip((raw & 2047) - 1022, LEAST_EXPONENT - 1, LARGEST_EXPONENT) - LEAST_EXPONENT + 1
    bins: Integers = np.where(raw >> 11, _MAGNITUDES - rank, _MAGNITUDES + rank)
    return bins


_BINS = _bin_of_raw()


@dataclass(frozen=True)
class Grid(Histogram):
    """Bins of equal width from `low` to `high`, and one bin on either side.

    Bin i lies between edges i - 1 and i, the upper edge included; `low` itself is in bin 1. Missing values
    are in none.
    """

    low: float
    high: float

    n_lines = 64
    n_bins = n_lines + 2

    @cached_property
    def edges(self) -> Numbers:
        """Edges of the bins between the bounds."""
        return np.linspace(self.low, self.high, self.n_lines + 1)

    def counts(self, values: Numbers) -> Integers:
        """How many of the values are in each bin."""
        place = np.clip(values, self.low, self.high)
        place -= self.low
        place *= self.n_lines / (self.high - self.low)
        np.ceil(place, out=place)
        place[values == self.low] = 1.0
        place[values > self.high] = self.n_lines + 1
        present = place == place
        inside = place if present.all() else place[present]
        return np.bincount(inside.astype(np.int64), minlength=self.n_bins).astype(np.int64, copy=False)


#: Share of the records that may lie beyond a bound.
OUTSIDE = 0.005
_CONFIDENCE = 0.99  # that no empty bin of any column is taken for a nonempty one
_Z95 = float(ndtri(0.975))
_SPREAD = 8.0  # a logarithmic scale is used if half of the numbers are below the bound over that


class NoisySum(NamedTuple):
    """A noisy count of records."""

    value: float
    sigma: float  # standard deviation of its noise

    def share(self, records: float) -> list[float]:
        """Share of the records, and the ends of its 95 % interval."""
        return [min(max((self.value + z * self.sigma) / records, 0.0), 1.0) for z in (0.0, -_Z95, _Z95)]


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

    def sum_of(self, bins: slice) -> NoisySum:
        """Their sum."""
        chosen = self.counts[bins]
        return NoisySum(float(chosen.sum()), self.sigma * math.sqrt(chosen.size))


@dataclass(frozen=True)
class LearnedBounds:
    """What was learned about a numeric column."""

    low: float
    high: float
    log: bool  # whether most numbers are far below the bound
    constant: bool  # whether only one number has a significant count
    missing: bool  # whether the count of missing values is significant
    mass: NoisySum  # number of records
    below: NoisySum  # records that are clipped from below
    above: NoisySum  # and from above

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
    return LearnedBounds(
        low,
        high if high > low else low + 1.0,
        _is_spread(values[start:stop], edges[start : stop + 1]),
        not high > low,
        bool(detected[-1]),
        NoisySum(mass, noisy.sigma * math.sqrt(np.count_nonzero(detected))),
        noisy.sum_of(slice(0, start)),
        noisy.sum_of(slice(stop, len(values))),
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
    start = _outside(counts, rough.mass.value, noisy.sigma)
    stop = len(counts) - _outside(counts[::-1], rough.mass.value, noisy.sigma)
    if start >= min(stop, len(edges)):  # too much noise: nothing stands out between the rough bounds
        return rough
    low = max(start - 1, 0)
    high = max(min(stop - 1, len(edges) - 1), low + 1)
    return replace(
        rough,
        low=float(edges[low]),
        high=float(edges[high]),
        below=noisy.sum_of(slice(0, low + 1)),
        above=noisy.sum_of(slice(high + 1, len(counts))),
    )


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number
