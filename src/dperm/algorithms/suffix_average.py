"""Mean of the later iterates of a run whose length is not known in advance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class LateMean:
    """Mean of the last iterates: of three or more at least half and at most three quarters.

    Sums restart whenever the count reaches a power of two; the sum started at the last but one restart
    is the one in use. Two vectors are kept, however long the run.
    """

    def __init__(self) -> None:
        self._count = 0
        self._older: tuple[int, NDArray[np.float64] | float] = (0, 0.0)  # start, sum since then
        self._newer: tuple[int, NDArray[np.float64] | float] = (0, 0.0)

    def add(self, w: NDArray[np.float64]) -> None:
        """Take one more iterate."""
        if self._count & (self._count - 1) == 0 and self._count > 0:
            self._older, self._newer = self._newer, (self._count, 0.0)
        self._count += 1
        self._older = (self._older[0], self._older[1] + w)
        self._newer = (self._newer[0], self._newer[1] + w)

    def mean(self) -> NDArray[np.float64]:
        """The mean; at least one iterate must have been added."""
        start, total = self._older
        return np.asarray(total / (self._count - start), dtype=np.float64)
