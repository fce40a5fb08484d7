"""The records of a search, split by secret coins into a training and a validation part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting import LedgerPart
from dperm.accounting.ledger.records import rows_of
from dperm.data.files.record_files import RecordFiles
from dperm.data.multiplicity import Multiplicity


@dataclass(frozen=True)
class Records:
    """Records as the estimators take them.

    Attributes
    ----------
    X
        A matrix, a table, or files.
    y : array_like or None
        None with files.
    counts, weights : array_like or None
        Multiplicity and sample weight of each row.
    """

    X: Any
    y: Any
    counts: ArrayLike | None = None
    weights: ArrayLike | None = None

    @property
    def in_files(self) -> bool:
        """Whether the records are in files, which every pass reads again."""
        return isinstance(self.X, RecordFiles)

    @property
    def number(self) -> int:
        """The number of records, multiplicities included; at least 1."""
        if self.counts is not None:
            return Multiplicity(self.counts).n_records
        if self.in_files:
            return max(1, len(self.targets))
        return max(1, self.X.shape[0] if getattr(self.X, "shape", ()) else len(np.asarray(self.X)))

    @property
    def targets(self) -> NDArray[Any]:
        """Labels or real targets, read from the files if need be."""
        return np.asarray(self.X.targets() if self.in_files else self.y)

    def split(self, part: LedgerPart) -> tuple[Self, Self]:
        """The records of a part, and the others; they must have been validated for fitting."""
        X = self.X
        if hasattr(X, "tocsr"):
            X = X.tocsr()
        elif not hasattr(X, "shape") and not self.in_files:
            X = np.asarray(X)
        mask = part.mask(X)
        return self._where(X, mask), self._where(X, ~mask)

    def _where(self, X: Any, mask: NDArray[np.bool_]) -> Self:
        if self.in_files:
            return type(self)(X.where(mask), None)
        rows = np.flatnonzero(mask)
        y = np.asarray(self.y)
        others = (each if each is None else np.asarray(each)[rows] for each in (self.counts, self.weights))
        return type(self)(rows_of(X, rows), y.reshape(len(y))[rows], *others)
