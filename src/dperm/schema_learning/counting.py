"""One pass over a table, or a part of one: exact counts of what its columns hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.data.schema.table_columns import Category, read_columns
from dperm.schema_learning.histograms import Histogram, Integers

_BLOCK_ROWS = 32_768  # doubles that stay in cache while they are counted


@dataclass(frozen=True, repr=False)
class Tally:
    """Exact counts, NOT private: what one part of the records adds to those of another.

    Attributes
    ----------
    bins : ndarray of int64
        Of all histograms, one after the other.
    values : tuple of Counter
        For each column of categories, the values that occur.
    """

    bins: Integers
    values: tuple[Counter[Category], ...]

    def __add__(self, other: Tally) -> Tally:
        """Counts of the records of both."""
        values = (one + another for one, another in zip(self.values, other.values, strict=True))
        return Tally(self.bins + other.bins, tuple(values))


@dataclass(frozen=True)
class Counting:
    """What is counted of each record: public, and sent to the workers of a cluster.

    A record counts once in each column at most: which bin or value depends on its own cell alone.

    Attributes
    ----------
    numeric : mapping of str to Histogram
    categorical : mapping of str to type
    names : tuple of str
        All columns that a table may have.
    """

    numeric: Mapping[str, Histogram]
    categorical: Mapping[str, type[Category]]
    names: tuple[str, ...]

    def nothing(self) -> Tally:
        """The counts of no records."""
        n_bins = sum(each.n_bins for each in self.numeric.values())
        return Tally(np.zeros(n_bins, np.int64), tuple(Counter() for _ in self.categorical))

    def __call__(self, table: Any) -> Tally:
        """The counts of a table."""
        columns = iter(read_columns(table, [*self.numeric, *self.categorical], self.names))
        bins = [
            _histogram(histogram, column.numbers_or_missing())
            for histogram, column in zip(self.numeric.values(), columns, strict=False)
        ]
        values = [
            Counter(column.occurrences(kind))
            for kind, column in zip(self.categorical.values(), columns, strict=True)
        ]
        return Tally(np.concatenate([*bins, np.zeros(0, np.int64)]), tuple(values))


def _histogram(histogram: Histogram, values: Any) -> Integers:
    counts = np.zeros(histogram.n_bins, np.int64)
    for start in range(0, len(values), _BLOCK_ROWS):
        counts += histogram.counts(values[start : start + _BLOCK_ROWS].astype(np.float64))
    return counts
