"""Private value counts, including counts of values that nobody listed in advance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.private_values.opaque import Unchangeable

Integers = NDArray[np.int64]


class OpenCounts(Unchangeable):
    """Counts of records by column: in public bins, and by the values that occur.

    The values and their number are private. Only `dperm.mechanisms` releases values, by their noisy counts.

    Parameters
    ----------
    bins : (b,) ndarray of int64
        Counts in public bins, for any number of columns.
    values : sequence of mapping
        For each further column the counts of the values that occur. The values of a column must be sortable.
    columns : int
        Largest number of columns that a record is counted in, once in each.

    Attributes
    ----------
    add_or_remove, replace_one : float
        Sensitivity in the Euclidean norm. Public.
    shape : tuple of int
        Shape of the public bins.
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
        """All bins, and for each column the values whose noisy count reaches the threshold, sorted.

        Noise is drawn for the bins first and then for the sorted values, so it does not depend on the order
        of counting.
        """
        columns = [sorted(each.items()) for each in self._values]
        drawn = noise(self._bins.size + sum(map(len, columns)))
        rest = iter(drawn[self._bins.size :].tolist())
        noisy = [{value: count + next(rest) for value, count in column} for column in columns]
        shown = [{value: count for value, count in each.items() if count >= threshold} for each in noisy]
        return self._bins + drawn[: self._bins.size], shown

    def _every_count(self) -> dict[Any, int]:
        """All counts, keyed by what they count: for audits of releases."""
        bins = enumerate(self._bins.tolist())
        return {
            **{("bin", place): count for place, count in bins},
            **{(j, value): count for j, each in enumerate(self._values) for value, count in each.items()},
        }

    def __repr__(self) -> str:
        return f"<OpenCounts, {self._bins.size} bins, {len(self._values)} columns, not released>"

    __array_ufunc__ = None
    __iter__ = __len__ = __getitem__ = __bool__ = Unchangeable._refuse
