"""Targets of records: what a loss expects, and checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import DataError


@dataclass(frozen=True)
class Targets:
    """What is publicly known about the targets."""

    bound: float = math.inf  # real targets are clamped to ``[-bound, bound]``; may be infinite
    labels: bool = False  # whether they are -1 or +1
    n_classes: int | None = None  # for softmax: targets are codes ``0 .. n_classes - 1``

    def array(self, y: ArrayLike, dtype: Any) -> NDArray[Any]:
        """``y`` in the matrix's dtype, clamped to the bound; NaN and infinite targets stay as they are."""
        targets = np.asarray(y)
        if targets.dtype.kind not in "fiub":
            raise DataError(f"y must hold real numbers, got dtype {targets.dtype}")
        with np.errstate(over="ignore"):  # a target beyond float32 becomes infinite, hence not finite
            ready = np.require(targets, dtype=dtype, requirements=["C", "ALIGNED"])
            limit = ready.dtype.type(self.bound)
        if math.isinf(self.bound):
            return np.asarray(ready)
        if float(limit) > self.bound:  # the bound was rounded up to a float32
            limit = np.nextafter(limit, ready.dtype.type(0))
        too_far = (np.abs(ready) > limit) & np.isfinite(ready)
        if too_far.any():
            ready = np.where(too_far, np.copysign(limit, ready), ready)
        return np.asarray(ready)

    def check(self, y: NDArray[Any], non_finite: str, first_row: int = 0) -> None:
        """Raise DataError unless all targets (with ``non_finite="zero"``, all finite ones) suit the loss.

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
            expected, accepted = "be -1 or +1 for a classification loss", "any two labels"
            if self.n_classes is not None:
                expected = f"hold class codes 0 .. {self.n_classes - 1} (n_classes={self.n_classes})"
                accepted = "any labels"
            raise DataError(
                f"y must {expected}, got {y[row]!r} at row {first_row + row}. "
                f"The estimators accept {accepted}."
            )
