"""Public bins for numbers: powers of two, and a uniform grid between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_EXPONENT, LARGEST_EXPONENT = -30, 50
_MAGNITUDES = LARGEST_EXPONENT - LEAST_EXPONENT + 1


@dataclass(frozen=True)
class Magnitudes:
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
class Grid:
    """Bins of equal width from `low` to `high`, and one bin on either side.

    Bin i lies between edges i - 1 and i, the upper edge included. Values up to and including `low` are in bin
    0. Missing values are in none.
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
        place[values > self.high] = self.n_lines + 1
        present = place == place
        inside = place if present.all() else place[present]
        return np.bincount(inside.astype(np.int64), minlength=self.n_bins).astype(np.int64, copy=False)


Histogram = Magnitudes | Grid
