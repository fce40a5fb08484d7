"""Parquet and CSV files as sequences of record batches, read by pyarrow."""

from __future__ import annotations

import dataclasses
import glob
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.files.csv_faults import csv_fault
from dperm.data.files.file_kinds import check_is_csv, check_is_parquet
from dperm.data.schema.columns import Numeric, SchemaColumn
from dperm.errors import DataError

#: A file, a pattern such as ``"part-*.parquet"``, or several of them.
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

_READ_BYTES = 1 << 18  # buffer for the pages of a Parquet column
# The least text that a thread parses of a block, provided that lines are no longer than the second number.
_SHARE_BYTES, _SHORT_LINE_BYTES = 1 << 20, 1 << 16

_OTHER_COLUMNS = ". Name other columns, or set delimiter=...."
#: Advice on a malformed file, for users of the Python interface.
CORRECT = (
    "Correct the file, or set its delimiter (delimiter=...). Leave out columns that are not numbers through "
    "columns=[...], or describe them with a schema; labels that are text are read with label_type='text'."
)


def pyarrow(use: str = "reading Parquet and CSV files") -> Any:
    """The pyarrow package with all submodules used here; an ImportError names the `use`."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{use} needs pyarrow: pip install 'dperm[data]'", name="pyarrow") from error
    return pyarrow


def files_of(paths: Paths) -> tuple[Path, ...]:
    """The files that paths and patterns refer to, sorted by name for a pattern; DataError without any."""
    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    found: list[Path] = []
    for path in given:
        each = fspath(path)
        matches = [each] if Path(each).exists() else sorted(glob.glob(each, recursive=True))
        if not matches:
            raise DataError(f"there is no file {each!r}, nor does any file match it as a pattern")
        found += [Path(match).absolute() for match in matches]
    for file in found:
        if file.is_dir():
            raise DataError(f"{file} is a folder: pass its files, for instance {str(file / '*.parquet')!r}")
    if not found:
        raise DataError("no files were given")
    return tuple(found)


@dataclass(frozen=True)
class ParquetTables:
    """Parquet files."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]  # columns that are read
    chunk_rows: int  # records in a batch

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns in the first file."""
        first = self.paths[0]
        with _parquet_file(first) as file:
            return _types(file.schema_arrow, self.names, first)

    def only(self, names: tuple[str, ...]) -> ParquetTables:
        """The same files with some of the columns."""
        return dataclasses.replace(self, names=names)

    def batches(self, *, threads: bool) -> Iterator[Any]:
        """The records of all files in order, as record batches of no more than a chunk."""
        expected = self.types()
        for path in self.paths:
            with _parquet_file(path) as file:
                _same_types(_types(file.schema_arrow, self.names, path), expected, path)
                yield from file.iter_batches(self.chunk_rows, columns=list(self.names), use_threads=threads)


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    # Read on demand: memory does not grow with the size of row groups.
    reading = {"buffer_size": _READ_BYTES, "pre_buffer": False, "page_checksum_verification": True}
    check_is_parquet(path)
    with (
        _errors_of(path, "Parquet"),
        pyarrow().OSFile(str(path)) as source,
        pyarrow().parquet.ParquetFile(source, **reading) as file,
    ):
        yield file


@dataclass(frozen=True)
class CsvTables:
    """CSV files with a header."""

    paths: tuple[Path, ...]
    column_types: Mapping[str, Any]  # arrow type of every column that is read
    block_bytes: int  # bytes of text in a batch
    delimiter: str = ","
    trim: bool = False  # whether to strip whitespace around text
    decimal: str = "."  # decimal separator

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are read."""
        return tuple(self.column_types)

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns."""
        return dict(self.column_types)

    def only(self, names: tuple[str, ...]) -> CsvTables:
        """The same files with some of the columns."""
        return dataclasses.replace(self, column_types={name: self.column_types[name] for name in names})

    def batches(self, *, threads: bool) -> Iterator[Any]:
        """The records of all files in order, as record batches of about a block.

        All threads share one block of text, because pyarrow's streaming reader would decode as many blocks
        ahead as there are threads.
        """
        for path in self.paths:
            with self._faults_of(path):
                names = csv_columns(path, self.delimiter)
                with pyarrow().OSFile(str(path)) as source:
                    for index, text in enumerate(_blocks_of_lines(source, self.block_bytes)):
                        yield from self._batches_of(text, names if index else None, threads)

    def _batches_of(self, text: Any, names: Sequence[str] | None, threads: bool) -> list[Any]:
        """The records of some lines as at most one batch; without `names` the first line is the header."""
        long_lines = b"\n" not in text.slice(0, min(len(text), _SHORT_LINE_BYTES)).to_pybytes()
        block = len(text) if long_lines else max(len(text) // 8, min(len(text), _SHARE_BYTES))
        options = self._options(column_names=names, block_size=block, use_threads=threads)
        table = pyarrow().csv.read_csv(text, **options)
        table = trimmed_texts(table) if self.trim else table
        return empty_texts_missing(table.combine_chunks()).to_batches()  # type: ignore[no-any-return]

    def _options(self, **reading: Any) -> dict[str, Any]:
        csv = pyarrow().csv
        return {
            "read_options": csv.ReadOptions(**reading),
            "parse_options": csv.ParseOptions(delimiter=self.delimiter),
            "convert_options": csv.ConvertOptions(
                include_columns=list(self.names),
                column_types=dict(self.column_types),
                # "NA" and the like mean a missing number, but are ordinary text elsewhere.
                strings_can_be_null=False,
                decimal_point=self.decimal,
            ),
        }

    @contextmanager
    def _faults_of(self, path: Path) -> Iterator[None]:
        """Turn errors of pyarrow into DataErrors that locate the fault."""
        with _errors_of(path, "CSV"):
            try:
                yield
            except pyarrow().ArrowException as error:
                names = csv_columns(path, self.delimiter)
                separated = f", separated by {self.delimiter!r},"
                for name in self.names:
                    _check_occurs_once(name, names, path, separated, _OTHER_COLUMNS)
                serial = self._error_of_one_thread(path) or error
                fault = csv_fault(serial, names) or csv_fault(error, names)
                if fault is None:
                    raise
                raise DataError(f"{fault.place(path)}{fault.problem}. {CORRECT}") from error

    def _error_of_one_thread(self, path: Path) -> Exception | None:
        """The error of a serial reader, which unlike a parallel one reports the row."""
        csv, options = pyarrow().csv, self._options(block_size=self.block_bytes, use_threads=False)
        try:
            with csv.open_csv(str(path), **options) as reader:
                for _ in reader:
                    pass
        except pyarrow().ArrowException as error:
            return error  # type: ignore[no-any-return]
        return None


@dataclass(frozen=True, eq=False)
class KeptTables:
    """A subset of the records of files."""

    whole: ParquetTables | CsvTables
    kept: NDArray[np.bool_]  # one for each record of the files, in order

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return self.whole.paths

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self.whole.names

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns."""
        return self.whole.types()

    def only(self, names: tuple[str, ...]) -> KeptTables:
        """The same records with some of the columns."""
        return dataclasses.replace(self, whole=self.whole.only(names))

    def batches(self, *, threads: bool) -> Iterator[Any]:
        """The records that are kept, in order, as record batches of no more than a chunk."""
        row = 0
        for batch in self.whole.batches(threads=threads):
            kept = self.kept[row : row + batch.num_rows]
            row += batch.num_rows
            if kept.any():
                yield batch.filter(pyarrow().array(kept))
        if row != len(self.kept):
            raise DataError(f"the files hold {row} records, and held {len(self.kept)} when they were split")


#: Files of one format and the columns that are read from them; public and picklable.
Tables = ParquetTables | CsvTables | KeptTables


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Names of the columns of a Parquet file; DataError if it cannot be read."""
    with _parquet_file(path) as file:
        return tuple(file.schema_arrow.names)


def csv_columns(path: Path, delimiter: str) -> tuple[str, ...]:
    """Names of the columns of a CSV file; DataError if it cannot be read."""
    csv = pyarrow().csv
    check_is_csv(path)
    with _errors_of(path, "CSV"), open(path, "rb") as source:
        header = io.BytesIO(_header(source))  # errors in other lines do not matter here
        parse = csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda _: "skip")
        with csv.open_csv(header, parse_options=parse) as reader:
            return tuple(reader.schema.names)


def _header(source: IO[bytes]) -> bytes:
    """The first nonblank line, with continuation lines of quoted cells."""
    line = source.readline()
    while not line.strip() or line.count(b'"') % 2:
        more = source.readline()
        if not more:
            break
        line += more
    return line


def csv_type(column: SchemaColumn) -> Any:
    """Arrow type of a column of a schema in a CSV file."""
    arrow = pyarrow()
    if isinstance(column, Numeric):
        return arrow.float64()
    return {str: arrow.string(), int: arrow.int64(), bool: arrow.bool_()}[type(column.categories[0])]


def empty_texts_missing(table: Any) -> Any:
    """The table with empty strings replaced by nulls."""

    def without_empty(column: Any) -> Any:
        compute = pyarrow().compute
        empty = compute.equal(column, "")
        if not compute.any(empty).as_py():
            return column
        return compute.if_else(empty, pyarrow().scalar(None, column.type), column)

    return _with_texts(table, without_empty)


def trimmed_texts(table: Any) -> Any:
    """The table without whitespace around text: many files put a space after a comma."""
    return _with_texts(table, pyarrow().compute.utf8_trim_whitespace)


def _with_texts(table: Any, change: Callable[[Any], Any]) -> Any:
    for place, field in enumerate(table.schema):
        if pyarrow().types.is_string(field.type):
            table = table.set_column(place, field.name, change(table.column(place)))
    return table


def _blocks_of_lines(source: Any, block_bytes: int) -> Iterator[Any]:
    """A text in blocks of whole lines, of at most `block_bytes` unless a line is longer.

    A quoted cell must not contain a line break.
    """
    start, wanted, size = 0, block_bytes, source.size()
    while start < size:
        source.seek(start)
        text = source.read_buffer(wanted)
        end = len(text) if start + len(text) >= size else _end_of_lines(text)
        if end:
            yield text.slice(0, end)
        elif not len(text):  # the file has been truncated
            return
        start, wanted = start + end, block_bytes if end else 2 * wanted


def _end_of_lines(text: Any) -> int:
    """End of the last complete line; 0 without one."""
    for length in (min(_SHORT_LINE_BYTES, len(text)), len(text)):
        tail: bytes = text.slice(len(text) - length).to_pybytes()
        end = tail.rfind(b"\n") + 1
        if end:
            return len(text) - length + end
    return tail.rfind(b"\r", 0, -1) + 1  # the last byte may be half of "\r\n"


@contextmanager
def _errors_of(path: Path, kind: str) -> Iterator[None]:
    """Turn errors of pyarrow and of the system into DataErrors that name the file."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except (pyarrow().ArrowException, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path} cannot be read as {kind}: {reason}") from error


def _types(schema: Any, names: Sequence[str], path: Path) -> dict[str, Any]:
    for name in names:
        _check_occurs_once(name, schema.names, path)
    return {name: schema.field(name).type for name in names}


def _check_occurs_once(name: str, names: Sequence[str], path: Path, how: str = "", advice: str = "") -> None:
    count = names.count(name)
    if count != 1:
        found = "no column" if count == 0 else f"{count} columns"
        raise DataError(f"{path} has {found} called {name!r}; its columns{how} are {list(names)}{advice}")


def _same_types(types: Mapping[str, Any], expected: Mapping[str, Any], path: Path) -> None:
    for name, each in types.items():
        if each != expected[name]:
            raise DataError(
                f"column {name!r} of {path} has type {each}, but {expected[name]} in the first file"
            )
