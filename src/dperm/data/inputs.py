"""From X as a caller passes it to the rows that an objective reads, in this process or on a cluster."""

from __future__ import annotations

from numpy.typing import ArrayLike

from dperm.data.compact_rows import CompactRows
from dperm.data.dask_collections import blocks_of, is_dask_collection
from dperm.data.dask_rows import DistributedRows
from dperm.data.readable import check_readable
from dperm.data.rows import Rows, RowSettings, RowsInMemory, RowSource
from dperm.data.sources import rows_of


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
