"""Records in a shorter form, made on the way once passes over them have taken as long as that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dperm.data.aggregation import aggregate, alike_together
from dperm.data.multiplicity import Multiplicity
from dperm.data.one_hot import as_table, nonzero_share
from dperm.data.passes import Pass
from dperm.data.rows import RowSettings, RowsInMemory
from dperm.data.sources import rows_of

# That takes about as long as so many passes: whoever waits for them first loses half at most.
_PASSES_BEFORE = 16
_PASSES_AHEAD = 4 * _PASSES_BEFORE  # for which nobody waits
_LOOKED_AT = 1024  # records: the whole data repeat no less than a sample of them does
_FEWEST_RECORDS = _PASSES_BEFORE * _LOOKED_AT
_WORTH_WHILE = 0.25  # of the records, which passes then need not read
_MOST_NUMBERS = 1 << 27  # of the copy: 1 GiB


class CompactRows:
    """Identical records as one row that is counted as often, one-hot columns as codes, as soon as it pays.

    A pass over them gives the sums of a pass over the records, bit for bit. How long it takes tells how many
    are identical, as the time of any fit tells how many there are.

    Parameters
    ----------
    matrix : ndarray, TabularMatrix or CSR matrix
    y : ndarray
        Targets as the kernels take them.
    settings : RowSettings
        Of the records.
    n_entries : int
        Numbers that are kept of the matrix.
    """

    def __init__(self, matrix: Any, y: NDArray[Any], settings: RowSettings, n_entries: int) -> None:
        self._matrix, self._y, self._settings, self._n_entries = matrix, y, settings, n_entries
        self._passes_left = _PASSES_BEFORE if len(y) >= _FEWEST_RECORDS else -1
        self._rows: RowsInMemory | None = None
        self._nonzero = 0.0

    def expect(self, passes: int) -> None:
        """Do not wait, if many passes are to come."""
        if self._passes_left > 0 and passes >= _PASSES_AHEAD:
            self._passes_left = 0

    def rows_for(self, pass_: Pass) -> RowsInMemory | None:
        """None for a pass that is to read all records."""
        if not pass_.multiplies_rows:
            return None
        if self._passes_left > 0:
            self._passes_left -= 1
        elif self._passes_left == 0:
            self._passes_left = -1
            self._rows = self._found(pass_)
        return self._rows if self._rows is not None and self._serves(pass_, self._rows) else None

    def _serves(self, pass_: Pass, rows: RowsInMemory) -> bool:
        """Whether a pass may read these rows, and gains by it."""
        if rows.n_stored == len(self._y):
            return self._nonzero <= pass_.densest_for_codes
        norms = getattr(pass_, "clip_norms", None)  # of the rows that were there when they were found
        return norms is None or len(norms) == rows.n_stored

    def _found(self, pass_: Pass) -> RowsInMemory | None:
        """What this pass can read in place of all records; None where it would save little."""
        try:
            merged = self._merged(pass_)
            return self._tabular(pass_) if merged is None else merged
        except MemoryError:  # the fit has been paid for, and can do without
            return None

    def _merged(self, pass_: Pass) -> RowsInMemory | None:
        n = len(self._y)
        sample = np.arange(0, n, n // _LOOKED_AT)
        different = len(aggregate(self._matrix[sample], self._keys[sample], n_threads=1)[1]) / sample.size
        if different > 1.0 - _WORTH_WHILE or different * self._n_entries > _MOST_NUMBERS:
            return None
        X, keys, counts = aggregate(self._matrix, self._keys, n_threads=self._settings.n_threads)
        table = as_table(X) if nonzero_share(X) <= pass_.densest_for_codes else None
        if table is not None:
            order = alike_together(table)
            X, keys, counts = table[order], keys[order], counts[order]
        return cast(RowsInMemory, rows_of(X, *self._apart(keys, Multiplicity(counts))))

    def _tabular(self, pass_: Pass) -> RowsInMemory | None:
        self._nonzero = nonzero_share(self._matrix)
        table = as_table(self._matrix) if self._nonzero <= pass_.densest_for_codes else None
        return None if table is None else cast(RowsInMemory, rows_of(table, self._y, self._settings))

    @property
    def _keys(self) -> NDArray[Any]:
        """What must be the same of records beside their rows: targets, and weights of their own."""
        weights = self._settings.weights
        if weights is None or weights.each is None:
            return self._y
        keys = np.empty(len(self._y), dtype=[("target", self._y.dtype), ("weight", np.float64)])
        keys["target"], keys["weight"] = self._y, weights.each
        return keys

    def _apart(self, keys: NDArray[Any], multiplicity: Multiplicity) -> tuple[NDArray[Any], RowSettings]:
        """Targets and settings of merged records."""
        settings = replace(self._settings, multiplicity=multiplicity)
        if keys.dtype.names is None:
            return keys, settings
        assert settings.weights is not None
        each = np.ascontiguousarray(keys["weight"])
        return np.ascontiguousarray(keys["target"]), replace(
            settings, weights=replace(settings.weights, each=each)
        )
