"""Exact counts of the values in the columns of tables of every sort, by what the columns hold."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dperm.data.chunked import one_ahead
from dperm.data.dask_collections import added_up, delayed_blocks, is_dask_collection, task
from dperm.data.files.arrow_tables import CsvTables, Tables, pyarrow
from dperm.data.files.record_files import RecordFiles
from dperm.data.files.unchanged_files import UnchangedFiles
from dperm.data.schema.table_columns import Category, as_frame, read_columns
from dperm.errors import DataError
from dperm.schema_learning.bounds import Histogram, Integers

NUMERIC, CATEGORICAL, IGNORED = "numeric", "categorical", "ignored"

#: Possible kinds of a column of each type, the default first; and the type of its categories.
_CHOICES: dict[str, tuple[tuple[str, ...], type[Category]]] = {
    "numbers": ((NUMERIC, CATEGORICAL), int),
    "truth values": ((CATEGORICAL, NUMERIC), bool),
    "texts": ((CATEGORICAL,), str),
    "objects": ((CATEGORICAL, NUMERIC), str),
}


@dataclass(frozen=True)
class Kinds:
    """What is publicly known about the columns of a table before anything is counted."""

    numeric: tuple[str, ...]
    #: Categorical columns, and the type of their categories: str, int or bool.
    categorical: Mapping[str, type[Category]]
    ignored: tuple[str, ...]
    label: str | None  # the column to predict
    names: tuple[str, ...]  # all columns, in the order of the table

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns that are counted, in each of which a record counts at most once."""
        return (*self.numeric, *self.categorical)

    def words(self) -> dict[str, str]:
        """The kind of each counted column as text."""
        values = {str: "text", int: "whole numbers", bool: "truth values"}
        categories = {name: f"{CATEGORICAL} ({values[kind]})" for name, kind in self.categorical.items()}
        return {name: categories.get(name, NUMERIC) for name in self.names if name in self.counted}


def kinds_of(types: Mapping[str, str], kinds: Mapping[str, str] | None, label: str | None) -> Kinds:
    """The kind of every column: the given one, or else the default for its type; a label is categorical.

    Parameters
    ----------
    types : mapping of str to str
        What each column holds: a key of `_CHOICES`, or anything else.
    kinds : mapping of str to {"numeric", "categorical", "ignored"}, optional
    label : str, optional

    Raises
    ------
    ValueError
        For columns that do not exist or cannot be of the given kind.
    """
    if kinds is not None and not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must be a mapping from columns to kinds, got {type(kinds).__name__}")
    given = dict(kinds or {})
    for name in (*given, *([] if label is None else [label])):
        if name not in types:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(map(repr, types))}")
    if label is not None:
        given.setdefault(label, CATEGORICAL)
        if given[label] == IGNORED:
            raise ValueError(f"the label {label!r} cannot be ignored: leave out label=")
    chosen = {name: _kind(name, what, given.get(name)) for name, what in types.items()}
    numeric = tuple(name for name, kind in chosen.items() if kind == NUMERIC)
    categorical = {name: _CHOICES[types[name]][1] for name, kind in chosen.items() if kind == CATEGORICAL}
    if not {*numeric, *categorical} - {label}:
        raise ValueError("there is no column to describe besides the label and ignored columns")
    ignored = tuple(name for name, kind in chosen.items() if kind == IGNORED)
    return Kinds(numeric, categorical, ignored, label, tuple(types))


def _kind(name: Any, what: str, given: str | None) -> str:
    if not isinstance(name, str) or not name:
        raise DataError(f"the name of a column must be a text that is not empty, got {name!r}")
    possible, _ = _CHOICES.get(what, ((), str))
    if given == IGNORED or given in possible:
        return str(given)
    if given is None and possible:
        return possible[0]
    if given not in (None, NUMERIC, CATEGORICAL):
        raise ValueError(f"kinds[{name!r}] must be 'numeric', 'categorical' or 'ignored', got {given!r}")
    wanted = "neither a numeric nor a categorical column" if given is None else f"no {given} column"
    raise ValueError(
        f"column {name!r} holds {what}, which is {wanted}: convert it, or leave it out with "
        f"kinds={{{name!r}: 'ignored'}} and describe dates by hand, Numeric({name!r}, low, high, unit='day')"
    )


_BLOCK_ROWS = 32_768  # doubles that stay in the cache while they are counted


@dataclass(frozen=True, repr=False)
class Tally:
    """Exact counts of some records, NOT private."""

    bins: Integers  # the concatenated histograms
    values: tuple[Counter[Category], ...]  # for each categorical column, the counts of its values

    def __add__(self, other: Tally) -> Tally:
        """The counts of both sets of records together."""
        values = (one + another for one, another in zip(self.values, other.values, strict=True))
        return Tally(self.bins + other.bins, tuple(values))


@dataclass(frozen=True)
class Counting:
    """What to count; public, and sent to the workers of a cluster.

    A record counts at most once in each column, in a bin or for a value that depends on its cell alone.
    """

    numeric: Mapping[str, Histogram]
    categorical: Mapping[str, type[Category]]
    names: tuple[str, ...]  # all columns that a table may have
    #: How many records each row of a table in memory stands for; 1 by default.
    repeats: Integers | None = None

    def zero(self) -> Tally:
        """The counts of no records."""
        n_bins = sum(each.n_bins for each in self.numeric.values())
        return Tally(np.zeros(n_bins, np.int64), tuple(Counter() for _ in self.categorical))

    def __call__(self, table: Any) -> Tally:
        """The counts of a table."""
        columns = iter(read_columns(table, [*self.numeric, *self.categorical], self.names))
        bins = [
            _histogram(histogram, histogram.read(column), self.repeats)
            for histogram, column in zip(self.numeric.values(), columns, strict=False)
        ]
        values = [
            Counter(column.occurrences(kind))
            for kind, column in zip(self.categorical.values(), columns, strict=True)
        ]
        return Tally(np.concatenate([*bins, np.zeros(0, np.int64)]), tuple(values))


def _histogram(histogram: Histogram, values: Any, repeats: Integers | None) -> Integers:
    counts = np.zeros(histogram.n_bins, np.int64)
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS].astype(np.float64)
        if repeats is not None:
            block = np.repeat(block, repeats[start : start + _BLOCK_ROWS])
        counts += histogram.counts(block)
    return counts


class Source(Protocol):
    """A table, wherever it is stored; `label` is the column to predict if the table names it."""

    label: str | None

    def types(self) -> dict[str, str]:
        """What each column holds, in terms of `dperm.schema_learning.sources`; independent of the cells."""

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
        self._files = UnchangedFiles(self._tables.paths)

    def types(self) -> dict[str, str]:
        """What each column of the first file holds."""
        return frame_types(pyarrow().schema(list(self._tables.types().items())).empty_table())

    def total(self, counting: Counting) -> Tally:
        """The counts of all records, chunk by chunk with prefetching."""
        wanted, total = (*counting.numeric, *counting.categorical), counting.zero()
        batches = self._tables.only(wanted).batches(threads=True)
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
