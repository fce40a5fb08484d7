"""Parquet and CSV files as sequences of record batches, read by pyarrow."""

from __future__ import annotations

import dataclasses
import functools
import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.files.csv_records import Block, Header, blocks_of_records, csv_fault, read_header
from dperm.data.files.file_kinds import check_is_parquet
from dperm.data.schema.columns import Numeric, SchemaColumn
from dperm.errors import DataError

#: A file, a pattern such as ``"part-*.parquet"``, or several of them.
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

_READ_BYTES = 1 << 18  # buffer for the pages of a Parquet column
_SHARE_BYTES = 1 << 20  # the least text that a thread parses of a block

_BLANKS = range(2, 65)  # numbers of spaces in a cell that is missing; files of fixed width fill up cells

_INDEX = re.compile(r"__index_level_\d+__")  # pandas' name of an index without one
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
            with _errors_of(path, "CSV"):
                header = read_header(path, self.delimiter)
                separated = f", separated by {self.delimiter!r},"
                for name in self.names:
                    _check_occurs_once(name, header.names, path, separated, _OTHER_COLUMNS)
                with pyarrow().OSFile(str(path)) as source:
                    yield from self._batches_of(path, header, source, threads)

    def _batches_of(self, path: Path, header: Header, source: Any, threads: bool) -> Iterator[Any]:
        """The records of one file."""
        row, arrow = 0, pyarrow()
        for block in blocks_of_records(path, source, header.size, self.block_bytes, self.delimiter):
            try:
                table = self._table(block.text, header, block.broken, threads)
            except arrow.ArrowException as error:
                raise self._fault(path, header, block, row, error) from error
            table = trimmed_texts(table) if self.trim else table
            yield from empty_texts_missing(table.combine_chunks()).to_batches()
            row += table.num_rows

    def _table(self, text: Any, header: Header, broken: bool, threads: bool) -> Any:
        """The records of a text."""
        block = max(len(text) // 8, min(len(text), _SHARE_BYTES))
        try:
            return self._parsed(text, header, broken, block_size=block, use_threads=threads)
        except pyarrow().ArrowInvalid as error:
            if "straddling" not in str(error):  # otherwise a record is longer than a thread's share
                raise
        return self._parsed(text, header, broken, block_size=len(text), use_threads=False)

    def _parsed(self, text: Any, header: Header, broken: bool, **reading: Any) -> Any:
        csv = pyarrow().csv
        return csv.read_csv(
            text,
            csv.ReadOptions(column_names=header.names, **reading),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=broken),
            csv.ConvertOptions(
                include_columns=list(self.names),
                column_types=dict(self.column_types),
                # "NA" and the like mean a missing number, but are ordinary text elsewhere.
                strings_can_be_null=False,
                null_values=_missing_numbers(),
                decimal_point=self.decimal,
            ),
        )

    def _fault(self, path: Path, header: Header, block: Block, first_row: int, error: Exception) -> Exception:
        """A DataError that locates the fault in a block; the error of pyarrow if it is of another kind."""
        serial = error
        try:  # a serial reader, unlike a parallel one, reports the row
            self._parsed(block.text, header, block.broken, block_size=len(block.text), use_threads=False)
        except pyarrow().ArrowException as found:
            serial = found
        fault = csv_fault(serial, header.names, block.text, self.delimiter)
        fault = fault or csv_fault(error, header.names)
        if fault is None:
            return error
        return DataError(f"{fault.place(path, block, first_row, self.delimiter)}{fault.problem}. {CORRECT}")


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
    """Names of the columns of a Parquet file without pandas' index; DataError if it cannot be read."""
    with _parquet_file(path) as file:
        schema = file.schema_arrow
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return tuple(name for name in schema.names if name not in index and not _INDEX.fullmatch(name))


def csv_columns(path: Path, delimiter: str) -> tuple[str, ...]:
    """Names of the columns of a CSV file; DataError if it cannot be read."""
    with _errors_of(path, "CSV"):
        return read_header(path, delimiter).names


def csv_type(column: SchemaColumn) -> Any:
    """Arrow type of a column of a schema in a CSV file."""
    arrow = pyarrow()
    if isinstance(column, Numeric):
        return arrow.float64() if column.unit is None else arrow.string()
    return {str: arrow.string(), int: arrow.int64(), bool: arrow.bool_()}[type(column.categories[0])]


@functools.cache
def _missing_numbers() -> list[str]:
    """Texts that mean a missing number: pyarrow's, also next to a space, and spaces alone."""
    words = pyarrow().csv.ConvertOptions().null_values
    return [
        *words,
        *(f" {each}" for each in words),
        *(f"{each} " for each in words),
        *map(" ".__mul__, _BLANKS),
    ]


def empty_texts_missing(table: Any) -> Any:
    """The table with strings that are empty, or hold nothing but spaces, replaced by nulls."""

    def without_empty(column: Any) -> Any:
        compute = pyarrow().compute
        empty = compute.or_(compute.equal(column, ""), compute.utf8_is_space(column))
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
