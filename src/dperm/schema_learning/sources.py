"""Tables of every sort, read in passes: their columns' types, and a sum over their parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np

from dperm.data.ahead import one_ahead
from dperm.data.dask.collections import is_dask_collection
from dperm.data.files.arrow_tables import CsvTables, Tables, pyarrow
from dperm.data.files.record_files import RecordFiles
from dperm.data.mapped import MappedFiles
from dperm.data.schema.table_columns import as_frame
from dperm.errors import DataError
from dperm.schema_learning.counting import Counting, Tally
from dperm.schema_learning.kinds import CATEGORICAL, NUMERIC


class Source(Protocol):
    """A table, wherever it is; `label` is the column to predict, where the table itself says so."""

    label: str | None

    def types(self) -> dict[str, str]:
        """What each column holds, in words of `dperm.schema_learning.kinds`; no cell is looked at."""

    def total(self, counting: Counting) -> Tally:
        """The counts of all records, in one pass."""


def source_of(frame: Any, kinds: Mapping[str, str] | None) -> Source:
    """The table that a caller means.

    Raises
    ------
    TypeError, DataError
        For what is no table with names and types of its columns.
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
        """Those of the columns."""
        if isinstance(self._table, Mapping):
            return {name: _type_of_array(name, column) for name, column in self._table.items()}
        return frame_types(self._table)

    def total(self, counting: Counting) -> Tally:
        """Column by column."""
        return counting(self._table)


class FileSource:
    """Parquet or CSV files, which must not change from one pass to the next."""

    def __init__(self, tables: Tables, label: str | None, kinds: Mapping[str, str]) -> None:
        self.label, self._tables = label, tables
        if isinstance(self._tables, CsvTables):
            self._tables = dataclasses.replace(self._tables, column_types=_csv_types(self._tables, kinds))
        self._files = MappedFiles(self._tables.paths)

    def types(self) -> dict[str, str]:
        """Those of the first file."""
        return frame_types(pyarrow().schema(list(self._tables.types().items())).empty_table())

    def total(self, counting: Counting) -> Tally:
        """Chunk by chunk, each read while the one before it is counted."""
        wanted, total = (*counting.numeric, *counting.categorical), counting.nothing()
        batches = self._tables.only(wanted).batches(self._files, threads=True)
        with self._files.unchanged(), closing(one_ahead(batches, threaded=True)) as each:
            for batch in each:
                total += counting(pyarrow().Table.from_batches([batch]))
                del batch  # not kept while the next one is waited for
        return total


class DaskSource:
    """A Dask data frame: workers count their partitions."""

    label: str | None = None

    def __init__(self, frame: Any) -> None:
        if not hasattr(frame, "divisions") or frame.ndim != 2:
            raise TypeError("expected a Dask data frame: the columns of other collections have no names")
        self._frame = frame

    def types(self) -> dict[str, str]:
        """Those that the collection declares."""
        return frame_types(self._frame._meta)

    def total(self, counting: Counting) -> Tally:
        """Partition by partition; their sums are added up two by two."""
        import dask

        count, added = dask.delayed(counting), dask.delayed(Tally.__add__)
        sums = [count(part) for part in self._frame.to_delayed()]
        while len(sums) > 1:
            sums = [added(*pair) if len(pair) == 2 else pair[0] for pair in _pairs(sums)]
        (total,) = dask.compute(*sums)
        return total  # type: ignore[no-any-return]


def frame_types(table: Any) -> dict[str, str]:
    """What the columns of a data frame hold: their types, and not their cells, say so."""
    frame = as_frame(table)
    return {name: _type_of_series(frame.get_column(name)) for name in frame.columns}


def _type_of_series(series: Any) -> str:
    import narwhals as nw

    if str(getattr(series.to_native(), "dtype", "")) == "object":  # narwhals would look at the cells
        return "objects"
    dtype = series.dtype
    if dtype.is_numeric():
        return "numbers"
    words = {nw.Boolean: "truth values", nw.String: "texts", nw.Categorical: "texts", nw.Enum: "texts"}
    return next((word for kind, word in words.items() if dtype == kind), str(dtype))


def _type_of_array(name: Any, column: Any) -> str:
    if not hasattr(column, "dtype"):
        raise DataError(
            f"column {name!r} is a {type(column).__name__}, whose cells alone tell its type, and types are "
            "public: make it an array or a series, or pass a data frame"
        )
    kind = getattr(column.dtype, "kind", "O")
    words = {"f": "numbers", "i": "numbers", "u": "numbers", "b": "truth values", "U": "texts"}
    return words.get(kind, "objects" if kind == "O" else str(column.dtype))


def _csv_types(tables: CsvTables, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Types in which the columns of a text file are read: those that were declared, but for `kinds`."""
    wanted = {NUMERIC: pyarrow().float64(), CATEGORICAL: pyarrow().string()}
    return {name: wanted.get(kinds.get(name, ""), kind) for name, kind in tables.column_types.items()}


def _pairs(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + 2] for start in range(0, len(items), 2))
