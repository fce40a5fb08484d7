"""Data sets in files, larger than memory: Parquet and CSV, read chunk by chunk in every pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.ahead import one_ahead
from dperm.data.chunked import ChunkedRows, Part
from dperm.data.columns import ColumnsMatrix
from dperm.data.files.arrow_tables import (
    CsvTables,
    KeptTables,
    ParquetTables,
    Paths,
    Tables,
    csv_columns,
    csv_type,
    files_of,
    parquet_columns,
    pyarrow,
)
from dperm.data.mapped import MappedFiles
from dperm.data.rows import Rows, RowSettings
from dperm.data.sources import rows_of
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError

if TYPE_CHECKING:
    from dperm.data.schema.schema import Schema

Labels = NDArray[Any]
Encoder = Callable[[Labels], NDArray[Any]]

# Size of a chunk of numbers: long enough for the reader, short enough for its cache.
_CHUNK_BYTES = 1 << 25
_CSV_BLOCK_BYTES = 1 << 24


def scan_parquet(
    paths: Paths,
    *,
    label: str,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    chunk_rows: int | None = None,
) -> RecordFiles:
    """Records in Parquet files, for `Objective` and the estimators, with ``y=None``: nothing is read yet.

    Parameters
    ----------
    paths : str, path, or sequence of them
        Files, or patterns such as ``"data/part-*.parquet"``; all with the same columns.
    label : str
        Column with the targets.
    columns : sequence of str, optional
        Columns of the design matrix, numbers all of them; by default every column but `label`.
    schema : Schema, optional
        Describes the columns instead: every chunk is encoded with it.
    chunk_rows : int, optional
        Records in a chunk; by default as many as make 32 MiB. The result does not depend on it. In memory a
        chunk may take the room of the next power of two: pyarrow's buffers grow so.

    Returns
    -------
    RecordFiles

    Raises
    ------
    DataError
        For files that are not there, or cannot be read.
    ImportError
        Without pyarrow.

    Notes
    -----
    Every pass over the data reads the files once; while the kernels work on one chunk, the next is read.
    At most three chunks are in memory, and two pages of each column (of 1 MiB, as most programs write them):
    a dictionary and the page that is decompressed. With hundreds of columns that is more than the chunks;
    files without dictionaries, in small pages, need less. Allocators keep about as much again of what was
    freed, whatever the size of the files. Pages of the files themselves are the system's cache: it drops
    them when memory is short.

    Full-batch algorithms need one pass per step. Algorithms on samples of records work, at one pass over the
    files per sample (`dp_sgd`) or per four million numbers sampled (`dp_sgd_gradient` and its kin), which is
    slow.

    The files must not change while a model is trained. Their size, their place on the disk and the time of
    their last change are checked before and after each pass, and the number of records and types of columns
    in each pass: a change is a `DataError` before anything is released.

    Examples
    --------
    >>> import pyarrow.parquet
    >>> import tempfile
    >>> from dperm import Objective
    >>> path = f"{tempfile.mkdtemp()}/people.parquet"
    >>> pyarrow.parquet.write_table(pyarrow.table({"age": [0.25, 0.5], "sick": [-1, 1]}), path)
    >>> objective = Objective("logistic", scan_parquet(path, label="sick"), None)
    >>> objective.n_public, round(objective.value([0.0]), 4)
    (2, 0.6931)
    """
    files = files_of(paths)
    names = _column_names(label, columns, schema, lambda: parquet_columns(files[0]))
    tables = ParquetTables(files, (*names, label), 1)
    source = RecordFiles(tables, label, schema)
    fit = max(1024, _CHUNK_BYTES // (source.matrix_dtype.itemsize * len(names)))
    chunk_rows = fit if chunk_rows is None else _positive("chunk_rows", chunk_rows)
    return dataclasses.replace(source, tables=dataclasses.replace(tables, chunk_rows=chunk_rows))


def scan_csv(
    paths: Paths,
    *,
    label: str,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    label_type: str = "number",
    delimiter: str = ",",
    block_bytes: int | None = None,
) -> RecordFiles:
    """Records in CSV files with a header, as `scan_parquet`.

    Parameters
    ----------
    paths, label, columns, schema
        As for `scan_parquet`. Without a schema all columns are numbers.
    label_type : {"number", "text"}
        What the column `label` holds.
    delimiter : str
        Between the cells of a line.
    block_bytes : int, optional
        Text in a chunk, by default 16 MiB. The result does not depend on it.

    Returns
    -------
    RecordFiles

    Raises
    ------
    DataError
        For files that are not there, or cannot be read.
    ImportError
        Without pyarrow.

    Notes
    -----
    An empty cell is missing. Words such as ``NA``, ``null`` and ``NaN`` are missing numbers; as a category or
    a label that is text they are what they say. A cell must not hold the end of a line.

    About four chunks are in memory, whatever the number of threads: three of numbers, and the text that is
    parsed.

    Examples
    --------
    >>> import pyarrow.csv
    >>> import tempfile
    >>> from dperm import Objective
    >>> path = f"{tempfile.mkdtemp()}/people.csv"
    >>> pyarrow.csv.write_csv(pyarrow.table({"age": [0.25, 0.5], "sick": [-1, 1]}), path)
    >>> Objective("logistic", scan_csv(path, label="sick"), None).n_public
    2
    """
    types = {"number": "float64", "text": "string"}
    if label_type not in types:
        raise ValueError(f"label_type must be 'number' or 'text', got {label_type!r}")
    files, arrow = files_of(paths), pyarrow()
    names = _column_names(label, columns, schema, lambda: csv_columns(files[0], delimiter))
    column_types = {name: arrow.float64() for name in names}
    if schema is not None:
        column_types |= {column.name: csv_type(column) for column in schema.columns}
    column_types[label] = getattr(arrow, types[label_type])()
    block = _CSV_BLOCK_BYTES if block_bytes is None else _positive("block_bytes", block_bytes)
    return RecordFiles(CsvTables(files, column_types, block, delimiter), label, schema)


@dataclass(frozen=True)
class RecordFiles:
    """A data set in files: what `scan_parquet` and `scan_csv` return. Pass it as X, with ``y=None``.

    It holds names, and no records: it can be copied and sent to other processes.

    Attributes
    ----------
    tables : Tables
        The files and how they are read.
    label : str
        Column with the targets.
    schema : Schema or None
    encode : callable or None
        Turns an array of cells of the label column into targets.

    Examples
    --------
    >>> import pyarrow.parquet
    >>> import tempfile
    >>> from dperm import Numeric, Schema
    >>> from dperm.data import scan_parquet
    >>> path = f"{tempfile.mkdtemp()}/people.parquet"
    >>> pyarrow.parquet.write_table(pyarrow.table({"age": [25, 50], "sick": [-1, 1]}), path)
    >>> files = scan_parquet(path, label="sick", schema=Schema([Numeric("age", 0, 100)]))
    >>> files.feature_names, files.label
    (('age',), 'sick')
    """

    tables: Tables
    label: str
    schema: Schema | None = None
    encode: Encoder | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix."""
        if self.schema is not None:
            return tuple(self.schema.feature_names)
        return tuple(self._names())

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix."""
        return len(self.feature_names)

    def with_targets(self, encode: Encoder) -> RecordFiles:
        """The same records with other targets: ``encode(cells of the label column)``, chunk by chunk."""
        return dataclasses.replace(self, encode=encode)

    def where(self, kept: NDArray[np.bool_]) -> RecordFiles:
        """Some of the records, told by a mask that is kept in memory: a byte for each record of the files."""
        if isinstance(self.tables, KeptTables):
            whole = self.tables.kept.copy()
            whole[whole] = kept
            return dataclasses.replace(self, tables=dataclasses.replace(self.tables, kept=whole))
        return dataclasses.replace(self, tables=KeptTables(self.tables, kept))

    def blocks(self) -> Iterator[Any]:
        """The records as they are in the files, without labels, in consecutive record batches."""
        return dataclasses.replace(self, tables=self.tables.only(tuple(self._names())))._batches()

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> Rows:
        """The records, checked in a first pass.

        Raises
        ------
        ValueError
            For targets that are not in the files.
        DataError
            For records that cannot be used.
        """
        if y is not None:
            raise ValueError(f"y must be None: the targets are in the column {self.label!r} of the files")
        return ChunkedRows(FileParts(self, settings))

    def labels(self) -> NDArray[Any]:
        """The different cells of the label column, in order. NOT private.

        Raises
        ------
        DataError
            For a cell without a label.
        """
        found: set[Any] = set()
        for cells in self._label_cells():
            found.update(np.unique(cells).tolist())
        return np.array(sorted(found))

    def targets(self) -> NDArray[Any]:
        """The label column as it is, one cell per record: to compare predictions with. NOT private."""
        return np.concatenate(list(self._label_cells()))

    def _label_cells(self) -> Iterator[NDArray[Any]]:
        """The label column in consecutive parts; nothing else is read."""
        tables = self.tables.only((self.label,))
        for batch, first_row in dataclasses.replace(self, tables=tables)._numbered_batches():
            yield self._labels_of(batch, first_row)

    def _labels_of(self, batch: Any, first_row: int) -> NDArray[Any]:
        cells = _cells(batch.column(self.label))
        missing = cells != cells if cells.dtype.kind == "f" else cells == np.array(None)
        if missing.any():
            row = first_row + int(np.argmax(missing))
            raise DataError(f"column {self.label!r} holds no label at row {row}")
        return cells

    def matrices(self) -> Iterator[Any]:
        """The design matrix in consecutive parts: arrays, or tabular matrices where there is a schema."""
        dtype = self.matrix_dtype
        for batch in self._batches():
            matrix = self._matrix(batch, dtype)
            yield matrix.to_dense() if isinstance(matrix, ColumnsMatrix) else matrix

    def labelled_matrices(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """The same, each part with the cells of the label column; DataError for a cell without a label."""
        dtype = self.matrix_dtype
        for batch, first_row in self._numbered_batches():
            try:
                matrix = self._matrix(batch, dtype)
            except DataError as error:
                raise DataError(f"rows from {first_row} on: {error}") if first_row else error from None
            dense = matrix.to_dense() if isinstance(matrix, ColumnsMatrix) else matrix
            yield dense, self._labels_of(batch, first_row)

    def _numbered_batches(self) -> Iterator[tuple[Any, int]]:
        """One pass over the files, with the number of the first row of each batch."""
        first_row = 0
        for batch in self._batches():
            yield batch, first_row
            first_row += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        """One pass over the files."""
        files = MappedFiles(self.tables.paths)
        with files.unchanged():
            yield from self.tables.batches(files, threads=True)

    @property
    def matrix_dtype(self) -> np.dtype[Any]:
        """Of the design matrix: float32 where the files have that in all columns, else float64."""
        types = self.tables.types()
        single = self.schema is None and all(
            str(types[name]) in ("float", "halffloat") for name in self._names()
        )
        return np.dtype(np.float32 if single else np.float64)

    def _names(self) -> list[str]:
        """Columns of the files that the design matrix is made of."""
        return [name for name in self.tables.names if name != self.label]

    def _matrix(self, batch: Any, dtype: np.dtype[Any]) -> Any:
        if self.schema is not None:
            return self.schema.encode(pyarrow().Table.from_batches([batch.select(self._names())]))
        wanted = pyarrow().from_numpy_dtype(dtype)
        columns = zip(batch.schema.names, batch.schema.types, batch.columns, strict=True)
        arrays = {name: _numbers(column, name, kind, wanted) for name, kind, column in columns
                  if name != self.label}  # fmt: skip
        return ColumnsMatrix([arrays[name] for name in self._names()])

    def _targets(self, batch: Any) -> NDArray[Any]:
        column = batch.column(self.label)
        if self.encode is not None:
            return self.encode(_cells(column))
        # As they are, or as doubles: what a loss reads is rounded once, to the type of the matrix.
        wanted = column.type if column.type in _reals() else pyarrow().float64()
        return _numbers(column, self.label, column.type, wanted)


class FileParts:
    """The records of files in parts, each read while the one before it is worked on."""

    def __init__(self, source: RecordFiles, settings: RowSettings) -> None:
        self._source, self._settings = source, settings
        self._files = MappedFiles(source.tables.paths)
        self._dtype = source.matrix_dtype
        self._threaded = settings.n_threads != 1
        self._checked = False

    def read(self) -> Generator[Part, None, None]:
        """All parts in order; DataError if the files have changed."""
        batches = self._source.tables.batches(self._files, threads=self._threaded)
        # The last check comes after the work on the last part: nothing that it reads can have changed.
        with self._files.unchanged(), closing(one_ahead(batches, threaded=self._threaded)) as each:
            first_row = 0
            for batch in each:
                start, first_row = first_row, first_row + batch.num_rows
                if batch.num_rows:
                    yield self._part(batch, start)
                del batch  # not kept while the next one is waited for
        self._checked = True

    def _part(self, batch: Any, first_row: int) -> Part:
        try:
            matrix, targets = self._source._matrix(batch, self._dtype), self._source._targets(batch)
        except DataError as error:
            raise DataError(f"rows from {first_row} on: {error}") from error
        settings = dataclasses.replace(self._settings, first_row=first_row)
        if self._checked and isinstance(matrix, ColumnsMatrix):
            return Part(matrix.rows_for_one_pass(targets, settings), matrix, targets)
        return Part(rows_of(matrix, targets, settings), matrix, targets)

    def stacked(self, matrices: list[Any], targets: NDArray[Any]) -> Rows:
        """Rows of some parts' matrices, one below the other."""
        first = matrices[0]
        if isinstance(first, TabularMatrix):
            numeric = np.concatenate([matrix.numeric for matrix in matrices])
            codes = np.concatenate([matrix.codes for matrix in matrices])
            return rows_of(first.with_rows(numeric, codes), targets, self._settings)
        return rows_of(np.concatenate(matrices), targets, self._settings)


def _column_names(
    label: str, columns: Sequence[str] | None, schema: Schema | None, in_file: Callable[[], Sequence[str]]
) -> tuple[str, ...]:
    """Columns that the design matrix is made of."""
    if schema is not None:
        if columns is not None:
            raise ValueError("columns and schema cannot both be given: the schema names the columns")
        names = tuple(schema.column_names)
    else:
        names = tuple(columns) if columns is not None else tuple(each for each in in_file() if each != label)
    if not names:
        raise ValueError("the design matrix needs at least one column beside the label")
    if label in names or len(set(names)) != len(names):
        raise ValueError(f"columns must be different, and other than the label {label!r}; got {list(names)}")
    return names


def _positive(name: str, value: int) -> int:
    if not (isinstance(value, Integral) and not isinstance(value, bool) and value >= 1):
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _reals() -> tuple[Any, Any]:
    """Arrow types that the kernels read."""
    arrow = pyarrow()
    return arrow.float32(), arrow.float64()


def _numbers(column: Any, name: str, kind: Any, wanted: Any) -> NDArray[Any]:
    """An Arrow array of a type `kind` as numbers of the type `wanted`, NaN where there is none.

    Without a copy where that is possible.
    """
    if kind == wanted and not column.null_count:  # as a rule
        return column.to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]
    arrow = pyarrow()
    is_type = arrow.types
    if not (is_type.is_floating(kind) or is_type.is_integer(kind) or is_type.is_boolean(kind)
            or is_type.is_decimal(kind)):  # fmt: skip
        raise DataError(
            f"column {name!r} holds {kind}, not numbers: leave it out through columns=[...], or describe the "
            "columns with a schema"
        )
    if kind != wanted:
        column = arrow.compute.cast(column, wanted, safe=False)
    if column.null_count:
        column = arrow.compute.fill_null(column, float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=True))


def _cells(column: Any) -> Labels:
    """The cells of a label column; None where there is none among texts, NaN among numbers."""
    if pyarrow().types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))
