"""Estimates of the requested metrics from the released vector."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dperm.metrics.averages import Size, determination, hit_rate, mean_loss, mean_squared_error
from dperm.metrics.confusion import matrix_itself, of_matrix
from dperm.metrics.intervals import Array, Estimate, Noisy, Share
from dperm.metrics.parts import Determination, Loss, Scores
from dperm.metrics.plan import OF_MATRIX, OF_SCORES, Plan
from dperm.metrics.scores import ScoreCounts


class Released:
    """The released numbers, by part.

    Parameters
    ----------
    plan : Plan
    pieces : list of ndarray
        The numbers of each part of the plan.
    sigma : float
        Standard deviation of the noise on every number.
    n_records : int or None
        The number of records, if it is public.
    """

    def __init__(self, plan: Plan, pieces: list[Array], sigma: float, n_records: int | None) -> None:
        self._parts, self._sigma, self._n_records = plan.parts, sigma, n_records
        self._pieces = dict(zip(plan.parts, pieces, strict=True))

    def estimate(self, name: str) -> Estimate:
        """A metric; after a division by zero it is NaN, with infinite variance."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self._estimate(name)

    def _estimate(self, name: str) -> Estimate:
        if name == "accuracy" and "hits" in self._parts:
            return hit_rate(self._pieces["hits"], self._sigma, self.size)
        if name in OF_MATRIX:
            matrix = self._noisy(self._pieces["confusion"])
            return matrix_itself(matrix) if name == "confusion_matrix" else of_matrix(name, matrix)
        if name in OF_SCORES and "scores" in self._parts:
            return self._of_scores(name)
        sums = "r2" if name == "mse" and "r2" in self._parts else name
        part, piece = self._parts[sums], self._pieces[sums]
        if isinstance(part, Determination):
            found = determination if name == "r2" else mean_squared_error
            return found(part, piece, self._sigma, self.size)
        assert isinstance(part, Loss)
        return mean_loss(part, piece, self._sigma, self.size)

    @cached_property
    def size(self) -> Size:
        """The number of records: public, or from the part with the fewest cells."""
        if self._n_records is not None:
            return Size(float(self._n_records), 0.0)
        for name in ("count", "hits", "confusion", "scores"):
            if name in self._pieces:
                cells, times = self._pieces[name], self._parts[name].times_counted
                return Size(float(cells.sum()) / times, self._sigma**2 * cells.size / times**2)
        raise AssertionError("a plan counts the records")

    def _of_scores(self, name: str) -> Estimate:
        part = self._parts["scores"]
        assert isinstance(part, Scores)
        tables = [ScoreCounts(self._noisy(cells), part.middles) for cells in self._pieces["scores"]]
        found = [getattr(each, name)() for each in tables]
        if isinstance(found[0], Share):
            return Share.mean(found).estimate()
        return found[0]  # type: ignore[no-any-return]  # curves are of two classes

    def _noisy(self, cells: Array) -> Noisy:
        if self._n_records is None:
            return Noisy(cells, self._sigma)
        return Noisy.of_known_size(cells, self._sigma, self._n_records)
