"""What records have besides rows: targets, weights, and multiplicities of identical ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.record_kernels import RecordIndex
from dperm.data.checks import check_readable
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
        check_readable(weights=weights)
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


Integers = NDArray[np.int64]

MAX_RECORDS = 1 << 50


class Multiplicity:
    """How many identical records each row of a matrix represents. Private, as the records are.

    Records are numbered as the rows of ``np.repeat(X, counts, axis=0)``, so adding one record may renumber
    others. No release depends on that: samples and orders of records are drawn from distributions that are
    invariant under renumbering.

    Parameters
    ----------
    counts : (n_rows,) array_like of int
        Nonnegative; a row of count 0 represents no record.

    Raises
    ------
    DataError
        For counts that are negative, fractional or NaN, or too large in total.

    Attributes
    ----------
    each : (n_rows,) ndarray of int64
    n_records : int
        Their sum.
    """

    def __init__(self, counts: ArrayLike) -> None:
        self.each = _whole_numbers(counts)
        ends = np.cumsum(self.each)
        self.n_records = int(ends[-1])
        self._index = RecordIndex(ends)
        self._by_digit: list[Integers] | None = None

    def rows_of(self, records: Integers) -> Integers:
        """The row of each record; ``n_rows`` for a record that does not exist."""
        return self._index.rows(records)

    def sum_over_records(self, sum_over_rows: Callable[[Integers], Integers]) -> Integers:
        """An exact sum over the records.

        ``sum_over_rows(rows)`` has to count each of some ascending rows once. It is called once for each
        binary digit of the counts, from the least significant one on.
        """
        if self._by_digit is None:
            digits = range(int(self.each.max()).bit_length())
            self._by_digit = [np.flatnonzero(self.each >> digit & 1) for digit in digits]
        total: Integers = sum_over_rows(self._by_digit[0])
        for digit, rows in enumerate(self._by_digit[1:], start=1):
            if rows.size:
                total += sum_over_rows(rows) << digit
        return total


def _whole_numbers(counts: ArrayLike) -> Integers:
    """Checked counts as int64."""
    check_readable(counts=counts)
    given = np.asarray(counts)
    if given.ndim != 1 or given.size == 0:
        raise DataError(f"counts must have one number per row of X, shape (n_rows,), got shape {given.shape}")
    if given.dtype.kind not in "iuf":
        raise DataError(f"counts must hold whole numbers, got dtype {given.dtype}")
    wrong = ~((given >= 0) & (given <= MAX_RECORDS))  # catches NaN as well
    if given.dtype.kind == "f":
        wrong |= given != np.rint(given)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"counts must hold whole numbers from 0 to 2^50, the number of records that each row stands for; "
            f"got {given[row]} at row {row}. Counts are not weights."
        )
    if not 1.0 <= float(given.sum(dtype=np.float64)) <= MAX_RECORDS:
        raise DataError("counts must stand for at least 1 and at most 2^50 records in all")
    return np.require(given, dtype=np.int64, requirements=["C", "ALIGNED"])


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
