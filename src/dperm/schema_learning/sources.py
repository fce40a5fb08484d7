"""Tables of every sort: the types of their columns, and passes that count their records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

import numpy as np

from dperm.data.ahead import one_ahead
from dperm.data.dask_collections import added_up, delayed_blocks, is_dask_collection, task
from dperm.data.files.arrow_tables import CsvTables, Tables, pyarrow
from dperm.data.files.record_files import RecordFiles
from dperm.data.mapped import MappedFiles
from dperm.data.schema.table_columns import as_frame
from dperm.errors import DataError
from dperm.schema_learning.counting import Counting, Tally
from dperm.schema_learning.kinds import CATEGORICAL, NUMERIC


class Source(Protocol):
    """A table, wherever it is stored; `label` is the column to predict if the table names it."""

    label: str | None

    def types(self) -> dict[str, str]:
        """What each column holds, in terms of `dperm.schema_learning.kinds`; independent of the cells."""

    def total(self, counting: Counting) -> Tally:
        """The counts of all records, in one pass."""


def source_of(frame: Any, kinds: Mapping[str, str] | None) -> Source:
    """The source for a table of any sort.

    Raises TypeError or DataError if it is not a table whose columns have names and types.
    """
    if isinstance(frame, RecordFiles):
        return FileSource(frame.tables, frame.label, kinds or {})
    if isinstance(frame, Tables):
        return FileSource(frame, None, kinds or {})
    if is_dask_collection(frame):
        return DaskSource(frame)
    return TableSource(frame)


class TableSource:
    """A data frame in memory, or a mapping of arrays."""

    label: str | None = None

    def __init__(self, table: Any) -> None:
        if isinstance(table, np.ndarray):
            raise TypeError("the columns of an array have neither names nor types: pass a data frame")
        self._table = table

    def types(self) -> dict[str, str]:
        """What each column holds."""
        if isinstance(self._table, Mapping):
            return {name: _type_of_array(name, column) for name, column in self._table.items()}
        return frame_types(self._table)

    def total(self, counting: Counting) -> Tally:
        """The counts of all records."""
        return counting(self._table)


class FileSource:
    """Parquet or CSV files, which must not change between passes."""

    def __init__(self, tables: Tables, label: str | None, kinds: Mapping[str, str]) -> None:
        self.label, self._tables = label, tables
        if isinstance(self._tables, CsvTables):
            self._tables = dataclasses.replace(self._tables, column_types=_csv_types(self._tables, kinds))
        self._files = MappedFiles(self._tables.paths)

    def types(self) -> dict[str, str]:
        """What each column of the first file holds."""
        return frame_types(pyarrow().schema(list(self._tables.types().items())).empty_table())

    def total(self, counting: Counting) -> Tally:
        """The counts of all records, chunk by chunk with prefetching."""
        wanted, total = (*counting.numeric, *counting.categorical), counting.zero()
        batches = self._tables.only(wanted).batches(self._files, threads=True)
        with self._files.unchanged(), closing(one_ahead(batches, threaded=True)) as each:
            for batch in each:
                total += counting(pyarrow().Table.from_batches([batch]))
                del batch  # or it would stay in memory while waiting for the next one
        return total


class DaskSource:
    """A Dask data frame, whose partitions are counted by the workers."""

    label: str | None = None

    def __init__(self, frame: Any) -> None:
        if not hasattr(frame, "divisions") or frame.ndim != 2:
            raise TypeError("expected a Dask data frame: the columns of other collections have no names")
        self._frame = frame

    def types(self) -> dict[str, str]:
        """What each column holds, as the collection declares it."""
        return frame_types(self._frame._meta)

    def total(self, counting: Counting) -> Tally:
        """The counts of all records, by a tree reduction over the partitions."""
        total: Tally = added_up([task(counting)(part) for part in delayed_blocks(self._frame)]).compute()
        return total


def frame_types(table: Any) -> dict[str, str]:
    """What the columns of a data frame hold, according to their types rather than their cells."""
    frame = as_frame(table)
    return {name: _type_of_series(frame.get_column(name)) for name in frame.columns}


def _type_of_series(series: Any) -> str:
    import narwhals as nw

    if str(getattr(series.to_native(), "dtype", "")) == "object":  # narwhals would inspect the cells
        return "objects"
    dtype = series.dtype
    if dtype.is_numeric():
        return "numbers"
    words = {nw.Boolean: "truth values", nw.String: "texts", nw.Categorical: "texts", nw.Enum: "texts"}
    return next((word for kind, word in words.items() if dtype == kind), str(dtype))


def _type_of_array(name: Any, column: Any) -> str:
    if not hasattr(column, "dtype"):
        raise DataError(
            f"column {name!r} is a {type(column).__name__}, whose type depends on its cells, but types are "
            "public: make it an array or a series, or pass a data frame"
        )
    kind = getattr(column.dtype, "kind", "O")
    words = {"f": "numbers", "i": "numbers", "u": "numbers", "b": "truth values", "U": "texts"}
    return words.get(kind, "objects" if kind == "O" else str(column.dtype))


def _csv_types(tables: CsvTables, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Types in which the columns of a text file are read: as declared, unless `kinds` overrides them."""
    wanted = {NUMERIC: pyarrow().float64(), CATEGORICAL: pyarrow().string()}
    return {name: wanted.get(kinds.get(name, ""), kind) for name, kind in tables.column_types.items()}
