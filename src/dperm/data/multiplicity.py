"""Multiplicities: rows that represent several identical records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.record_kernels import RecordIndex
from dperm.data.readable import check_readable
from dperm.errors import DataError

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
