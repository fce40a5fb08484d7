"""Data sets in Parquet and CSV files, possibly larger than memory, read in chunks in every pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.checks import check_names
from dperm.data.chunked import ChunkedRows, Part, one_ahead
from dperm.data.dense import ColumnsMatrix
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
from dperm.data.files.unchanged_files import UnchangedFiles
from dperm.data.rows import Rows, RowSettings
from dperm.data.sources import rows_of
from dperm.data.tabular import stacked_tables
from dperm.errors import DataError

if TYPE_CHECKING:
    from dperm.data.schema.schema import Schema

Labels = NDArray[Any]
Encoder = Callable[[Labels], NDArray[Any]]

# Size of a chunk of numbers: large enough to be read efficiently, small enough for the cache.
_CHUNK_BYTES = 1 << 25
_CSV_BLOCK_BYTES = 1 << 24
#: What to do about records without a label.
DROP = ". drop_missing_labels=True leaves such records out, which costs no privacy: each is decided by itself"
_SCAN = "scan the files with columns=, the names of those that the model was fitted to"


def scan_parquet(
    paths: Paths,
    *,
    label: str,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    chunk_rows: int | None = None,
) -> RecordFiles:
    """Describe records in Parquet files, for `Objective` and the estimators with ``y=None``.

    No records are read yet.

    Parameters
    ----------
    paths : str, path, or sequence of them
        Files, or patterns such as ``"data/part-*.parquet"``; all with the same columns.
    label : str
        Column with the targets.
    columns : sequence of str, optional
        Numeric columns that make up the design matrix; by default every column but `label` and the index of
        a pandas frame.
    schema : Schema, optional
        Describes the columns instead: every chunk is encoded with it.
    chunk_rows : int, optional
        Records in a chunk; by default 32 MiB of them. The result does not depend on it. A chunk may occupy
        the next power of two in memory, because pyarrow's buffers grow by doubling.

    Returns
    -------
    RecordFiles

    Raises
    ------
    DataError
        For files that do not exist or cannot be read.
    ImportError
        Without pyarrow.

    Notes
    -----
    Every pass over the data reads the files once; the next chunk is prefetched while the kernels work on the
    current one. Memory holds at most three chunks and two pages of each column (usually of 1 MiB): a
    dictionary and the page that is being decompressed. With hundreds of columns these take more than the
    chunks; files without dictionaries, with small pages, need less. Allocators retain about as much again of
    freed memory, whatever the size of the files. The pages of the files themselves are in the page cache of
    the operating system, which drops them when memory is short.

    Full-batch algorithms need one pass per step. Algorithms on samples of records work but are slow: they
    need one pass over the files per sample (`dp_sgd`) or per four million sampled numbers (`dp_sgd_gradient`
    and the like).

    The files must not change while a model is trained: no guarantee covers files that do. A change of their
    size, time of modification, number of records or types of columns is a `DataError` before anything is
    released from the pass that notices it.

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
    """Describe records in CSV files with a header, like `scan_parquet`.

    Parameters
    ----------
    paths, label, columns, schema
        As for `scan_parquet`. Without a schema all columns are numeric.
    label_type : {"number", "text"}
        Type of the column `label`.
    delimiter : str
        One ASCII character, which separates the cells of a line.
    block_bytes : int, optional
        Bytes of text in a chunk, by default 16 MiB. The result does not depend on it.

    Returns
    -------
    RecordFiles

    Raises
    ------
    DataError
        For files that do not exist or cannot be read.
    ImportError
        Without pyarrow.

    Notes
    -----
    A cell that is empty or holds only spaces is missing. Words such as ``NA``, ``null`` and ``NaN`` mean
    missing numbers, but are taken literally as categories and as labels that are text.

    A cell that begins with a quote ends with the next one. Within it, two quotes stand for one, and
    delimiters and line breaks are text. A quote that is never closed, and text behind a closing quote, are
    refused with their line.

    About four chunks are in memory, whatever the number of threads: three of numbers, and the text being
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
    if not (
        isinstance(delimiter, str)
        and len(delimiter) == 1
        and delimiter.isascii()
        and delimiter not in '"\r\n'
    ):
        raise ValueError(
            f"delimiter must be one ASCII character other than a quote and a line break, got {delimiter!r}"
        )
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
    """A data set in files, as `scan_parquet` and `scan_csv` return it. Pass it as X, with ``y=None``.

    It holds names but no records, so it can be copied and sent to other processes.

    Attributes
    ----------
    tables : Tables
        The files and how to read them.
    label : str
        Column with the targets.
    schema : Schema or None
    encode : callable or None
        From an array of cells of the label column to targets.

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

    def with_columns(self, names: Sequence[str]) -> RecordFiles:
        """The same records with these columns in this order; DataError unless they are those of the files."""
        check_names(self._names(), names, table="X", by="the model", advice=_SCAN)
        tables = self.tables.only((*names, self.label))
        return dataclasses.replace(self, tables=tables)

    def with_targets(self, encode: Encoder) -> RecordFiles:
        """The same records with the targets ``encode(cells of the label column)``, chunk by chunk."""
        return dataclasses.replace(self, encode=encode)

    def where(self, kept: NDArray[np.bool_]) -> RecordFiles:
        """The records selected by a mask, which stays in memory: one byte per record of the files."""
        if isinstance(self.tables, KeptTables):
            whole = self.tables.kept.copy()
            whole[whole] = kept
            return dataclasses.replace(self, tables=dataclasses.replace(self.tables, kept=whole))
        return dataclasses.replace(self, tables=KeptTables(self.tables, kept))

    def labelled(self) -> RecordFiles:
        """The records that have a label, which a pass over the labels finds."""
        only = dataclasses.replace(self, tables=self.tables.only((self.label,)))
        return self.where(np.concatenate([~_missing(_cells(batch.column(0))) for batch in only._batches()]))

    def blocks(self) -> Iterator[Any]:
        """The records as stored in the files, without labels, in consecutive record batches."""
        return dataclasses.replace(self, tables=self.tables.only(tuple(self._names())))._batches()

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> Rows:
        """The records, checked in a first pass.

        Raises
        ------
        ValueError
            If `y` is given.
        DataError
            For invalid records.
        """
        if y is not None:
            raise ValueError(f"y must be None: the targets are in the column {self.label!r} of the files")
        return ChunkedRows(FileParts(self, settings))

    def labels(self) -> NDArray[Any]:
        """The distinct cells of the label column, sorted. NOT private.

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
        """The label column as stored, one cell per record, to compare predictions with. NOT private."""
        return np.concatenate(list(self._label_cells()))

    def _label_cells(self) -> Iterator[NDArray[Any]]:
        """The label column in consecutive parts; nothing else is read."""
        tables = self.tables.only((self.label,))
        for batch, first_row in dataclasses.replace(self, tables=tables)._numbered_batches():
            yield self._labels_of(batch, first_row)

    def _labels_of(self, batch: Any, first_row: int) -> NDArray[Any]:
        cells = _cells(batch.column(self.label))
        missing = _missing(cells)
        if missing.any():
            row = first_row + int(np.argmax(missing))
            raise DataError(f"column {self.label!r} holds no label at row {row}{DROP}")
        return cells

    def matrices(self) -> Iterator[Any]:
        """The design matrix in consecutive parts: arrays, or tabular matrices if there is a schema."""
        dtype = self.matrix_dtype
        for batch in self._batches():
            yield self._dense_or_tabular(batch, dtype)

    def labelled_matrices(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """The same, each part with the cells of the label column; DataError for a cell without a label."""
        dtype = self.matrix_dtype
        for batch, first_row in self._numbered_batches():
            try:
                matrix = self._dense_or_tabular(batch, dtype)
            except DataError as error:
                raise DataError(f"rows from {first_row} on: {error}") if first_row else error from None
            yield matrix, self._labels_of(batch, first_row)

    def _numbered_batches(self) -> Iterator[tuple[Any, int]]:
        """One pass over the files, with the number of the first row of each batch."""
        first_row = 0
        for batch in self._batches():
            yield batch, first_row
            first_row += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        """One pass over the files."""
        files = UnchangedFiles(self.tables.paths)
        with files.unchanged():
            yield from self.tables.batches(threads=True)

    @property
    def matrix_dtype(self) -> np.dtype[Any]:
        """Dtype of the design matrix: float32 if all columns of the files have it, else float64."""
        types = self.tables.types()
        single = self.schema is None and all(
            str(types[name]) in ("float", "halffloat") for name in self._names()
        )
        return np.dtype(np.float32 if single else np.float64)

    def _names(self) -> list[str]:
        """Columns of the files that the design matrix is made of."""
        return [name for name in self.tables.names if name != self.label]

    def _dense_or_tabular(self, batch: Any, dtype: np.dtype[Any]) -> Any:
        matrix = self._matrix(batch, dtype)
        return matrix.to_dense() if isinstance(matrix, ColumnsMatrix) else matrix

    def _matrix(self, batch: Any, dtype: np.dtype[Any]) -> Any:
        if self.schema is not None:
            return self.schema.encode(pyarrow().Table.from_batches([batch.select(self._names())]))
        wanted = pyarrow().from_numpy_dtype(dtype)
        columns = zip(batch.schema.names, batch.schema.types, batch.columns, strict=True)
        features = (each for each in columns if each[0] != self.label)
        arrays = {name: _numbers(column, name, kind, wanted) for name, kind, column in features}
        return ColumnsMatrix([arrays[name] for name in self._names()])

    def _targets(self, batch: Any) -> NDArray[Any]:
        column = batch.column(self.label)
        if self.encode is not None:
            return self.encode(_cells(column))
        # Floats as they are, others as doubles: targets are rounded only once, to the dtype of the matrix.
        double = pyarrow().float64()
        wanted = column.type if column.type in (pyarrow().float32(), double) else double
        return _numbers(column, self.label, column.type, wanted)


class FileParts:
    """The records of files in parts, with prefetching."""

    def __init__(self, source: RecordFiles, settings: RowSettings) -> None:
        self._source, self._settings = source, settings
        self._files = UnchangedFiles(source.tables.paths)
        self._dtype = source.matrix_dtype
        self._threaded = settings.n_threads != 1
        self._checked = False

    def read(self) -> Generator[Part, None, None]:
        """All parts in order; DataError if the files have changed."""
        batches = self._source.tables.batches(threads=self._threaded)
        # The last check follows the work on the last part, so it covers everything that was read.
        with self._files.unchanged(), closing(one_ahead(batches, threaded=self._threaded)) as each:
            first_row = 0
            for batch in each:
                start, first_row = first_row, first_row + batch.num_rows
                if batch.num_rows:
                    yield self._part(batch, start)
                del batch  # or it would stay in memory while waiting for the next one
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
        """Rows of the vertically stacked matrices of several parts."""
        if self._source.schema is not None:
            return rows_of(stacked_tables(matrices), targets, self._settings)
        return rows_of(np.concatenate(matrices), targets, self._settings)


def _column_names(
    label: str, columns: Sequence[str] | None, schema: Schema | None, in_file: Callable[[], Sequence[str]]
) -> tuple[str, ...]:
    """Columns that make up the design matrix."""
    if schema is not None:
        if columns is not None:
            raise ValueError("columns and schema cannot both be given: the schema names the columns")
        names = tuple(schema.column_names)
    else:
        names = tuple(columns) if columns is not None else _default_columns(in_file(), label)
    if not names:
        raise ValueError("the design matrix needs at least one column besides the label")
    if label in names or len(set(names)) != len(names):
        raise ValueError(f"columns must be distinct and not contain the label {label!r}; got {list(names)}")
    return names


def _default_columns(found: Sequence[str], label: str) -> tuple[str, ...]:
    """All columns but the label; DataError if a name is missing, or does not tell which column is meant."""
    advice = "name it in the file, or choose columns by columns=[...] or a schema"
    for name in found:
        if not name:
            raise DataError(f"column {found.index(name) + 1} of the file has no name: {advice}")
        if found.count(name) > 1:
            raise DataError(f"the file has {found.count(name)} columns called {name!r}: {advice}")
    return tuple(name for name in found if name != label)


def _positive(name: str, value: int) -> int:
    if not (isinstance(value, Integral) and not isinstance(value, bool) and value >= 1):
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _numbers(column: Any, name: str, kind: Any, wanted: Any) -> NDArray[Any]:
    """An Arrow array of type `kind` as numbers of type `wanted`, NaN for nulls; not copied if possible."""
    if kind == wanted and not column.null_count:  # the usual case
        return column.to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]
    arrow = pyarrow()
    types = arrow.types
    if not any(
        is_(kind) for is_ in (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    ):
        raise DataError(
            f"column {name!r} holds {kind}, not numbers: leave it out through columns=[...], or describe the "
            "columns with a schema"
        )
    if kind != wanted:
        column = arrow.compute.cast(column, wanted, safe=False)
    if column.null_count:
        column = arrow.compute.fill_null(column, float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=True))


def _missing(cells: Labels) -> NDArray[np.bool_]:
    return np.asarray(cells != cells if cells.dtype.kind == "f" else cells == np.array(None))


def _cells(column: Any) -> Labels:
    """The cells of a label column; a missing one is None among texts, NaN among numbers."""
    if pyarrow().types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))
