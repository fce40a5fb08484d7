"""Means of the last iterates of a run."""

from __future__ import annotations

import math

import numpy as np

from dperm.objective.objective import Array


class TailAverage:
    """Mean of the last ``ceil(tail * count)`` of `count` iterates; of the last one for a tail of 0."""

    def __init__(self, count: int, tail: float) -> None:
        self._length = max(1, math.ceil(tail * count))
        self._skipped = count - self._length
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


class DoublingTailAverage:
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
