"""From X as a caller passes it to the rows that an objective reads, in this process or on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.aggregation import aggregate
from dperm.data.checks import check_readable
from dperm.data.dask_collections import blocks_of, is_dask_collection
from dperm.data.dask_rows import DistributedRows
from dperm.data.passes import Pass
from dperm.data.rows import Rows, RowSettings, RowsInMemory, RowSource
from dperm.data.sources import rows_of
from dperm.data.targets import Multiplicity

# Building takes about as long as so many passes, so starting after as many at most doubles the time of a fit.
_PASSES_BEFORE = 16
_PASSES_AHEAD = 4 * _PASSES_BEFORE  # with so many to come it is built at once
_SAMPLE_SIZE = 1024  # records; the whole data repeat no less than a sample does
_MIN_RECORDS = _PASSES_BEFORE * _SAMPLE_SIZE
_MIN_SAVING = 0.25  # of the records
_MAX_NUMBERS = 1 << 27  # in the copy: 1 GiB


class CompactRows:
    """Identical records merged into rows with a multiplicity.

    A pass over the compact rows gives the sums of a pass over the records, bit for bit. Its time reveals how
    many records are identical, just as the time of any fit reveals how many there are.

    Parameters
    ----------
    matrix : ndarray, TabularMatrix or CSR matrix
    y : ndarray
        Targets as the kernels take them.
    settings : RowSettings
        Of the records.
    n_entries : int
        Numbers stored for the matrix.
    """

    def __init__(self, matrix: Any, y: NDArray[Any], settings: RowSettings, n_entries: int) -> None:
        self._matrix, self._y, self._settings, self._n_entries = matrix, y, settings, n_entries
        self._passes_left = _PASSES_BEFORE if len(y) >= _MIN_RECORDS else -1
        self._rows: RowsInMemory | None = None

    def expect(self, passes: int) -> None:
        """Build at the next pass if many passes are to come."""
        if self._passes_left > 0 and passes >= _PASSES_AHEAD:
            self._passes_left = 0

    def rows_for(self, pass_: Pass) -> RowsInMemory | None:
        """Compact rows for a pass; None if it has to read all records."""
        if not pass_.multiplies_rows:
            return None
        if self._passes_left > 0:
            self._passes_left -= 1
        elif self._passes_left == 0:
            self._passes_left = -1
            try:
                self._rows = self._merged()
            except MemoryError:  # the budget is spent already, and the fit can do without
                self._rows = None
        if self._rows is None or not pass_.reads_also(self._rows.n_stored):
            return None
        return self._rows

    def _merged(self) -> RowsInMemory | None:
        """The merged records; None where that would save little."""
        n = len(self._y)
        sample = np.arange(0, n, n // _SAMPLE_SIZE)
        distinct = len(aggregate(self._matrix[sample], self._keys[sample], n_threads=1)[1]) / sample.size
        if distinct > 1.0 - _MIN_SAVING or distinct * self._n_entries > _MAX_NUMBERS:
            return None
        X, keys, counts = aggregate(self._matrix, self._keys, n_threads=self._settings.n_threads)
        settings = replace(self._settings, multiplicity=Multiplicity(counts))
        if keys.dtype.names is None:
            return cast(RowsInMemory, rows_of(X, keys, settings))
        assert settings.weights is not None
        targets, weights = (np.ascontiguousarray(keys[name]) for name in ("target", "weight"))
        settings = replace(settings, weights=replace(settings.weights, each=weights))
        return cast(RowsInMemory, rows_of(X, targets, settings))

    @property
    def _keys(self) -> NDArray[Any]:
        """What must be equal besides the rows: targets, and individual weights."""
        weights = self._settings.weights
        if weights is None or weights.each is None:
            return self._y
        keys = np.empty(len(self._y), dtype=[("target", self._y.dtype), ("weight", np.float64)])
        keys["target"], keys["weight"] = self._y, weights.each
        return keys


def rows_of_input(X: ArrayLike | RowSource, y: ArrayLike | None, settings: RowSettings) -> Rows:
    """Rows of the records ``(X, y)``: a Dask collection stays on its workers, see `rows_of` for the rest.

    Raises DataError for invalid data. Nothing is drawn or charged before this check.
    """
    check_readable(X=X, y=y)
    if is_dask_collection(X):
        return DistributedRows(blocks_of(X, y), settings)
    rows = rows_of(X, y, settings)
    if isinstance(rows, RowsInMemory) and rows.stored is not None and settings.multiplicity is None:
        rows.compact = CompactRows(rows.stored, rows.y, settings, rows.n_entries)
    return rows
