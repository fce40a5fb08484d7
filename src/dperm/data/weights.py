"""Weights of records: private weights of single records, public weights of classes, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """Factors of the records' losses, applied before clipping."""

    bound: float  # public bound: weights of single records are in ``[0, bound]``
    each: Array | None  # weights of the rows, private like them
    of_classes: Mapping[float, float]  # public weights by target; 1 for targets that are not in it

    @classmethod
    def given(cls, weights: ArrayLike | None, bound: float, of_classes: Mapping[float, float]) -> Self:
        """Weights clamped to ``[0, bound]``, one by one; NaN becomes 0."""
        if weights is None:
            return cls(1.0, None, of_classes)
        each = np.asarray(weights)
        if each.dtype.kind not in "fiub" or each.ndim != 1:
            raise DataError(
                f"weights must be one real number for each record, got shape {each.shape} of {each.dtype}"
            )
        return cls(bound, np.fmin(np.fmax(each.astype(np.float64), 0.0), bound), of_classes)

    @property
    def largest(self) -> float:
        """Public bound on a record's weight."""
        return self.bound * max(self.of_classes.values(), default=1.0)

    def of(self, targets: NDArray[Any]) -> Array:
        """The weights of records with these targets."""
        if self.each is not None and self.each.shape != targets.shape:
            raise DataError(
                f"weights must be one number for each record, shape {targets.shape}, got {self.each.shape}"
            )
        weights = np.ones(len(targets)) if self.each is None else self.each.copy()
        for target, weight in self.of_classes.items():
            weights[targets == target] *= weight
        return weights

    def among(self, rows: NDArray[np.int64]) -> Self:
        """The weights of some rows."""
        return self if self.each is None else replace(self, each=self.each[rows])
