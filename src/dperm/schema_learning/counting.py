"""Exact counts of the values in the columns of a table, or of a part of one, in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.data.schema.table_columns import Category, read_columns
from dperm.schema_learning.histograms import Histogram, Integers

_BLOCK_ROWS = 32_768  # doubles that stay in the cache while they are counted


@dataclass(frozen=True, repr=False)
class Tally:
    """Exact counts of some records, NOT private."""

    bins: Integers  # the concatenated histograms
    values: tuple[Counter[Category], ...]  # for each categorical column, the counts of its values

    def __add__(self, other: Tally) -> Tally:
        """The counts of both sets of records together."""
        values = (one + another for one, another in zip(self.values, other.values, strict=True))
        return Tally(self.bins + other.bins, tuple(values))


@dataclass(frozen=True)
class Counting:
    """What to count; public, and sent to the workers of a cluster.

    A record counts at most once in each column, in a bin or for a value that depends on its cell alone.
    """

    numeric: Mapping[str, Histogram]
    categorical: Mapping[str, type[Category]]
    names: tuple[str, ...]  # all columns that a table may have

    def zero(self) -> Tally:
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
