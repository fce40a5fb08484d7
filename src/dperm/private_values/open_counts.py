"""Private counts of the records that hold this or that, also of values that nobody listed in advance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.private_values.opaque import Unchangeable

Integers = NDArray[np.int64]


class OpenCounts(Unchangeable):
    """In how many records a column holds what: public bins, and values that occur.

    Neither the values nor their number leaves but through `dperm.mechanisms`, where their counts say so.

    Parameters
    ----------
    bins : (b,) ndarray of int64
        Counts in public bins, of any number of columns.
    values : sequence of mapping
        For each further column how often its values occur: those that do, and no others. The values of a
        column can be sorted.
    columns : int
        A record is counted once in each of so many columns, at most.

    Attributes
    ----------
    add_or_remove, replace_one : float
        Sensitivity: Euclidean norm of what one record changes. Public.
    shape : tuple of int
        Of the public bins.
    """

    _refusal = "counts of values are private, and so is which values there are: release them"
    __slots__ = ("_bins", "_values", "add_or_remove", "replace_one")

    _bins: Integers
    _values: tuple[Mapping[Any, int], ...]
    add_or_remove: float
    replace_one: float
    grid = 1.0
    scores = False

    def __init__(self, bins: Integers, values: Sequence[Mapping[Any, int]], *, columns: int) -> None:
        put = object.__setattr__
        put(self, "_bins", bins)
        put(self, "_values", tuple(values))
        put(self, "add_or_remove", math.sqrt(columns) * (1.0 + 2.0**-50))
        put(self, "replace_one", math.sqrt(2.0 * columns) * (1.0 + 2.0**-50))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the public bins."""
        return self._bins.shape

    def sensitivity(self, neighbors: str) -> float:
        """Largest change between neighbours."""
        return self.replace_one if neighbors == "replace_one" else self.add_or_remove

    def _noisy(
        self, noise: Callable[[int], Integers], threshold: int
    ) -> tuple[Integers, list[dict[Any, int]]]:
        """All bins, and the values of each column whose noisy count is at least the threshold, sorted.

        Noise is drawn for the bins first and then for the sorted values: in which order they were counted
        plays no part.
        """
        columns = [sorted(each.items()) for each in self._values]
        drawn = noise(self._bins.size + sum(map(len, columns)))
        rest = iter(drawn[self._bins.size :].tolist())
        noisy = [{value: count + next(rest) for value, count in column} for column in columns]
        shown = [{value: count for value, count in each.items() if count >= threshold} for each in noisy]
        return self._bins + drawn[: self._bins.size], shown

    def _every_count(self) -> dict[Any, int]:
        """All counts by what they count: for audits of releases."""
        bins = enumerate(self._bins.tolist())
        return {
            **{("bin", place): count for place, count in bins},
            **{(j, value): count for j, each in enumerate(self._values) for value, count in each.items()},
        }

    def __repr__(self) -> str:
        return f"<OpenCounts, {self._bins.size} bins, {len(self._values)} columns, not released>"

    __array_ufunc__ = None
    __iter__ = __len__ = __getitem__ = __bool__ = Unchangeable._refuse
