"""Weights of records: private ones of their own, public ones of their classes, or both."""

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
    """What multiplies the loss of each record, before any clip.

    Attributes
    ----------
    bound : float
        Public: own weights are in ``[0, bound]``.
    each : ndarray or None
        Own weights of the rows, private like them; None where there are none.
    of_classes : mapping of number to float
        Public weights of the targets; 1 for those that are not in it.
    """

    bound: float
    each: Array | None
    of_classes: Mapping[float, float]

    @classmethod
    def given(cls, weights: ArrayLike | None, bound: float, of_classes: Mapping[float, float]) -> Self:
        """Own weights moved into ``[0, bound]``, each by itself; NaN counts 0."""
        if weights is None:
            return cls(1.0, None, of_classes)
        own = np.asarray(weights)
        if own.dtype.kind not in "fiub" or own.ndim != 1:
            raise DataError(
                f"weights must be one real number for each record, got shape {own.shape} of {own.dtype}"
            )
        return cls(bound, np.fmin(np.fmax(own.astype(np.float64), 0.0), bound), of_classes)

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
        """Those of some rows."""
        return self if self.each is None else replace(self, each=self.each[rows])
