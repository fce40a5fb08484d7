"""Suffix averages: means of the last iterates of a run."""

from __future__ import annotations

import math

import numpy as np

from dperm.algorithms.defaults.constants import Average
from dperm.objective.objective import Array

_BLOCKS = Average.BLOCKS


def average_of(count: int, tail: float, *, extended: bool, units: Array | float = 1.0) -> SuffixAverage:
    """Mean of the last ``ceil(tail * count)`` of `count` iterates, extended or not to those that had settled.

    Parameters
    ----------
    count : int
        Number of iterates, at least 1.
    tail : float
        In [0, 1]; 0 for the last iterate.
    extended : bool
        Whether to include earlier ones: :class:`SettledAverage`.
    units : ndarray or float
        Of each weight, in which the noise of the iterates is about equal.
    """
    length = max(1, math.ceil(tail * count))
    return SettledAverage(count, length, units) if extended else SuffixAverage(count, length)


class SuffixAverage:
    """Mean of the last `length` of `count` iterates."""

    def __init__(self, count: int, length: int) -> None:
        self._skipped, self._length = count - length, length
        self._total: Array | float = 0.0

    def add(self, w: Array) -> None:
        """Add the next iterate."""
        if self._skipped > 0:
            self._skipped -= 1
        else:
            self._total = self._total + w

    def mean(self) -> Array:
        """The mean, after all iterates were added."""
        return np.asarray(self._total / self._length, dtype=np.float64)


class SettledAverage(SuffixAverage):
    """Mean of the last `length` of `count` iterates, and of those before them that had settled already.

    A descent with much noise is as near to the optimum as it gets long before half of its run, and further
    iterates make the average less noisy. Without much noise it converges until the end. As in tests for the
    burn-in of a Markov chain, the run is cut into blocks, whose means are compared. The later half says how
    much they differ when the descent has settled.
    """

    def __init__(self, count: int, length: int, units: Array | float = 1.0) -> None:
        super().__init__(count, length)
        before = np.linspace(0, count - length, _BLOCKS + 1)[:-1]
        self._starts = np.ceil([*before, *np.linspace(count - length, count, _BLOCKS + 1)]).astype(int)
        self._sums: list[Array | float] = [0.0] * (2 * _BLOCKS)
        self._added, self._block = 0, 0
        self._units = units

    def add(self, w: Array) -> None:
        """Add the next iterate."""
        while self._added >= self._starts[self._block + 1]:
            self._block += 1
        self._sums[self._block] = self._sums[self._block] + w
        self._added += 1

    def mean(self) -> Array:
        """The mean, after all iterates were added."""
        first = self._first_settled()
        return np.asarray(sum(self._sums[first:]) / (self._added - self._starts[first]), dtype=np.float64)

    def _first_settled(self) -> int:
        """The first block to include."""
        counts = np.diff(self._starts)
        if not counts.all():  # too few iterates
            return _BLOCKS
        means = [np.ravel(total / (n * self._units)) for total, n in zip(self._sums, counts, strict=True)]
        late = np.array(means[_BLOCKS:])
        moved = float(np.mean(np.sum(np.diff(late, axis=0) ** 2, axis=1)))
        first, centre = _BLOCKS, np.average(late, axis=0, weights=counts[_BLOCKS:])
        while first > 1 and float(np.sum((means[first - 1] - centre) ** 2)) <= Average.SETTLED * moved:
            first -= 1
        return first


class DoublingSuffixAverage:
    """Mean of the last iterates of a run whose length is not known in advance.

    After three or more iterates it covers at least the last half and at most the last three quarters. A new
    sum starts whenever the count reaches a power of two, and the one before the newest is used: two vectors
    are kept, however long the run.
    """

    def __init__(self) -> None:
        self._count = 0
        self._older: tuple[int, Array | float] = (0, 0.0)  # start, sum since then
        self._newer: tuple[int, Array | float] = (0, 0.0)

    def add(self, w: Array) -> None:
        """Add one more iterate."""
        if self._count & (self._count - 1) == 0 and self._count > 0:
            self._older, self._newer = self._newer, (self._count, 0.0)
        self._count += 1
        self._older = (self._older[0], self._older[1] + w)
        self._newer = (self._newer[0], self._newer[1] + w)

    def mean(self) -> Array:
        """The mean; at least one iterate must have been added."""
        start, total = self._older
        return np.asarray(total / (self._count - start), dtype=np.float64)
