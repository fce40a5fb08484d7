"""Targets of records: what a loss expects, and the check that it is there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import DataError


@dataclass(frozen=True)
class Targets:
    """Public knowledge of the targets.

    Attributes
    ----------
    bound : float
        Real targets beyond it are moved onto it; infinite for none.
    labels : bool
        Whether they are -1 or +1.
    n_classes : int or None
        Whether they are codes ``0 .. n_classes - 1``, for softmax.
    """

    bound: float = math.inf
    labels: bool = False
    n_classes: int | None = None

    def array(self, y: ArrayLike, dtype: Any) -> NDArray[Any]:
        """``y`` in the matrix's dtype, clamped to the bound; targets that are not finite stay so."""
        targets = np.asarray(y)
        if targets.dtype.kind not in "fiub":
            raise DataError(f"y must hold real numbers, got dtype {targets.dtype}")
        with np.errstate(over="ignore"):  # a target beyond float32 becomes infinite, hence not finite
            ready = np.require(targets, dtype=dtype, requirements=["C", "ALIGNED"])
            limit = ready.dtype.type(self.bound)
        if math.isinf(self.bound):
            return np.asarray(ready)
        if float(limit) > self.bound:  # the bound has no float32 equal: a comparison in float32 would miss it
            limit = np.nextafter(limit, ready.dtype.type(0))
        too_far = (np.abs(ready) > limit) & np.isfinite(ready)
        if too_far.any():
            ready = np.where(too_far, np.copysign(limit, ready), ready)
        return np.asarray(ready)

    def check(self, y: NDArray[Any], non_finite: str, first_row: int = 0) -> None:
        """Raise DataError unless all targets (or all finite ones) are of the kind that the loss wants.

        ``first_row`` is the number of the first record, for the message.
        """
        if self.n_classes is not None:
            wrong = ~((y >= 0.0) & (y < self.n_classes) & (y == np.rint(y)))
        elif self.labels:
            wrong = np.abs(y) != 1.0
        else:
            return
        if non_finite == "zero":
            wrong &= np.isfinite(y)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"y must {self._expected()}, got {y[row]!r} at row {first_row + row}. {self._advice()}"
            )

    def _expected(self) -> str:
        if self.n_classes is None:
            return "be -1 or +1 for a classification loss"
        return f"hold class codes 0 .. {self.n_classes - 1} (n_classes={self.n_classes})"

    def _advice(self) -> str:
        return f"The estimators accept any {'two ' if self.n_classes is None else ''}labels."
