"""Inputs of a command: files, folders, compressed files or standard input, as tables of the library."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO, Any

from dperm.data.files.arrow_tables import (
    CORRECT,
    CsvTables,
    ParquetTables,
    Tables,
    csv_columns,
    parquet_columns,
    pyarrow,
)
from dperm.data.files.csv_records import read_header
from dperm.data.files.file_kinds import check_is_csv
from dperm.data.files.unchanged_files import UnchangedFiles
from dperm.errors import DataError

_PARQUET = (".parquet", ".pq")
_TABLES = (*_PARQUET, ".csv", ".tsv", ".txt")
_SEPARATORS = ",;\t|"
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 24, 1 << 17
_HEADER_BYTES = 1 << 20
#: Advice in terms of options, by that in terms of arguments.
_ADVICE = {
    CORRECT: "Correct the file, or say how it is written: --separator, --decimal.",
    "drop_missing_labels=True": "--drop-missing-labels",
}


def _by_arrow(codec: str) -> Callable[[Path], Any]:
    return lambda path: pyarrow().CompressedInputStream(pyarrow().OSFile(str(path)), codec)


#: Openers of compressed files, by their magic bytes.
_COMPRESSED: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x28\xb5\x2f\xfd": _by_arrow("zstd"),
    b"\x04\x22\x4d\x18": _by_arrow("lz4"),
}


@dataclass(frozen=True)
class Inputs:
    """Files with the same columns, either all CSV or all Parquet.

    Attributes
    ----------
    paths : tuple of Path
    names : tuple of str
        Columns, in the order of the first file.
    separator : str or None
        None for Parquet files.
    decimal : str
        Decimal separator in CSV files.
    """

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    separator: str | None
    decimal: str = "."

    @property
    def n_bytes(self) -> int:
        """Size of the files."""
        return sum(path.stat().st_size for path in self.paths)

    def share(self, n_batches: int, n_rows: int) -> float:
        """The fraction of the data read after that many batches and rows."""
        if self.separator is not None:
            return n_batches * _BLOCK_BYTES / max(self.n_bytes, 1)
        of_all = sum(pyarrow().parquet.read_metadata(path).num_rows for path in self.paths)
        return n_rows / max(int(of_all), 1)

    def tables(self, types: Mapping[str, Any]) -> Tables:
        """Some columns, block by block; those of CSV files get the given Arrow types."""
        self.check_has(types)
        if self.separator is None:
            return ParquetTables(self.paths, tuple(types), _BLOCK_ROWS)
        return CsvTables(self.paths, types, _BLOCK_BYTES, self.separator, True, self.decimal)

    def batches(self, types: Mapping[str, Any]) -> Iterator[Any]:
        """Record batches of some columns."""
        files = UnchangedFiles(self.paths)
        with files.unchanged():
            yield from self.tables(types).batches(threads=True)

    def table(self, types: Mapping[str, Any]) -> Any:
        """Some columns in memory."""
        arrow = pyarrow()
        return arrow.Table.from_batches(self.batches(types), arrow.schema(self.tables(types).types()))

    def types_by_cells(self) -> dict[str, Any]:
        """Types of the columns inferred from all cells: numbers, strings, booleans, dates."""
        if self.separator is None:
            return dict.fromkeys(self.names)
        found: dict[str, set[Any]] = {name: set() for name in self.names}
        files = UnchangedFiles(self.paths)
        with files.unchanged():
            # Without types, Arrow infers those of each block from its cells.
            blocks = CsvTables(self.paths, {}, _BLOCK_BYTES, self.separator, True, self.decimal)
            for batch in blocks.batches(threads=True):
                for field in batch.schema:
                    found[field.name].add(field.type)
        return {name: _common_type(types) for name, types in found.items()}

    def check_has(self, names: Mapping[str, Any] | Sequence[str]) -> None:
        """Raise DataError unless these columns exist."""
        missing = [name for name in names if name not in self.names]
        if missing:
            hint = "" if self.separator is None else (
                f", separated by {self.separator!r} (--separator names another, --header the columns of "
                "a file that does not begin with their names)"
            )  # fmt: skip
            raise DataError(f"there is no column {missing[0]!r}; the columns are {_listed(self.names)}{hint}")


@contextmanager
def opened(
    given: Sequence[str | Path],
    separator: str | None = None,
    header: str | None = None,
    decimal: str = ".",
) -> Iterator[Inputs]:
    """Open the files that a user names, for several passes; unpacked copies are deleted on exit.

    Parameters
    ----------
    given : sequence of str or Path
        Files, folders, or ``-`` for standard input.
    separator : str, optional
        Separator in CSV files; by default guessed from the header.
    header : str, optional
        Comma-separated names of the columns, for CSV files without a header line.
    decimal : str
        Decimal separator in CSV files.

    Raises
    ------
    DataError, FileNotFoundError
        For data that cannot be read, also within the context: one sentence with the name given by the user.
    """
    with TemporaryDirectory(prefix="dperm-") as temporary:
        files = files_named(given)
        shown = {str(file.absolute()): str(file) for file in files}
        try:
            folder = Path(temporary)
            paths = [_plain(file, folder) for file in files]
            inputs = _inputs(paths, folder, separator, None if header is None else _split(header, ","))
            yield replace(inputs, decimal=_decimal(decimal, inputs.separator))
        except DataError as error:
            message = re.sub(rf"{re.escape(temporary)}/\w+/", "", str(error))
            if header is not None:  # the copy has one line more than the file
                message = re.sub(r", line (\d+)(?= \(row|: )", lambda m: f", line {int(m[1]) - 1}", message)
            for path, name in shown.items():
                message = message.replace(path, name)
            for advice, own in _ADVICE.items():
                message = message.replace(advice, own)
            raise DataError(message) from None


def _common_type(types: set[Any]) -> Any:
    """The type that can hold the cells of all blocks."""
    arrow = pyarrow()
    seen = types - {arrow.null()}
    if len(seen) < 2:
        return seen.pop() if seen else arrow.null()
    return arrow.float64() if seen == {arrow.int64(), arrow.float64()} else arrow.string()


def files_named(given: Sequence[str | Path]) -> list[Path]:
    """The files that a user names, and those in the folders."""
    return [file for each in given for file in _files_of(str(each))]


def _files_of(given: str) -> list[Path]:
    path = Path(given)
    if given == "-" or path.is_file() or path.is_fifo():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file {given!r}")
    found = [each for each in sorted(path.iterdir()) if set(each.suffixes) & set(_TABLES)]
    if not found:
        raise FileNotFoundError(f"the folder {given!r} holds no CSV or Parquet files")
    return [each for each in found if each.is_file()]


def _plain(file: Path, folder: Path) -> Path:
    """The file itself, or an unpacked copy if it is compressed or cannot be read twice."""
    path = file.absolute()
    if str(file) == "-" or path.is_fifo():
        path = _new_file(folder, "standard input")
        with open(path, "wb") as copy, _stream(file) as stream:
            shutil.copyfileobj(stream, copy)
    opener = next((how for magic, how in _COMPRESSED.items() if _first_bytes(path).startswith(magic)), None)
    if opener is None:
        return path
    unpacked = _new_file(folder, path.name if path.suffix in _TABLES else path.stem)
    try:
        with open(unpacked, "wb") as copy, opener(path) as stream:
            shutil.copyfileobj(stream, copy)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, pyarrow().ArrowException) as error:
        raise DataError(f"{file} cannot be decompressed: {error}") from None
    return unpacked


def _new_file(folder: Path, name: str) -> Path:
    return Path(mkdtemp(prefix="", dir=folder)) / name


@contextmanager
def _stream(file: Path) -> Iterator[IO[bytes]]:
    if str(file) == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed")
        yield sys.stdin.buffer
    else:
        with open(file, "rb") as stream:
            yield stream


def _first_bytes(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(8)


def _inputs(paths: list[Path], folder: Path, separator: str | None, header: list[str] | None) -> Inputs:
    if not paths:
        raise DataError("no file is named")
    kinds = {_is_parquet(path) for path in paths}
    if len(kinds) > 1:
        raise DataError("the files are CSV and Parquet: name files of one kind")
    if kinds == {True}:
        if header is not None or separator is not None:
            raise DataError("Parquet files have neither a header nor a separator: leave out those options")
        return Inputs(tuple(paths), _same_names(paths, parquet_columns), None)
    separator = _one_character(separator) or looks_separated_by(_header_of(paths[0]))
    own = [header or _clean_header(path, separator) for path in paths]
    paths = [
        path if names is None else _with_header(path, folder, names, separator, replaced=header is None)
        for path, names in zip(paths, own, strict=True)
    ]
    return Inputs(tuple(paths), _same_names(paths, lambda path: _csv_names(path, separator)), separator)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _PARQUET or (not path.suffix and _first_bytes(path).startswith(b"PAR1"))


def _one_character(separator: str | None) -> str | None:
    known = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
    separator = known.get(separator or "", separator)
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
        raise DataError(f"--separator must be one character, or 'tab', got {separator!r}")
    return separator


def _decimal(decimal: str, separator: str | None) -> str:
    if decimal not in (".", ",") or decimal == separator:
        raise DataError(f"--decimal must be '.' or ',', and not the separator, got {decimal!r}")
    if separator is None and decimal != ".":
        raise DataError("Parquet files hold numbers, not texts: leave out --decimal")
    return decimal


def _same_names(paths: Sequence[Path], names_of: Callable[[Path], tuple[str, ...]]) -> tuple[str, ...]:
    names = names_of(paths[0])
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"{paths[0]} has two columns called {repeated!r}")
    for path in paths[1:]:
        others = names_of(path)
        if sorted(others) != sorted(names):
            raise DataError(f"{path} has the columns {_listed(others)}, and {paths[0]} {_listed(names)}")
    return names


def _csv_names(path: Path, separator: str) -> tuple[str, ...]:
    names = csv_columns(path, separator)
    likely = looks_separated_by(_header_of(path))
    if len(names) == 1 and likely != separator and len(_split(_header_of(path), likely)) > 1:
        raise DataError(f"{path} looks separated by {likely!r}, not by {separator!r}: --separator {likely!r}")
    return names


def looks_separated_by(header: str) -> str:
    """The likely separator of a header: the character that gives the most cells."""
    return max(_SEPARATORS, key=lambda each: len(_split(header, each)))


def _split(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a cell beyond the field size limit
        return [line]


def _header_of(path: Path) -> str:
    check_is_csv(path)
    with open(path, "rb") as file:
        line = file.readline(_HEADER_BYTES)
    if b"\x00" in line:
        raise DataError(f"{path} begins with NUL characters, unlike text in UTF-8: save it as CSV in UTF-8")
    try:
        lines = line.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"the header of {path} is not text in UTF-8: save the file in UTF-8") from None
    return lines[0] if lines else ""


def _clean_header(path: Path, separator: str) -> list[str] | None:
    """The stripped names of the columns, if there are spaces around any of them."""
    header = _header_of(path)
    if all(cell == cell.strip() for cell in header.split(separator)):
        return None
    return [name.strip() for name in _split(header, separator)]


def _with_header(path: Path, folder: Path, names: list[str], separator: str, *, replaced: bool) -> Path:
    """A copy of a CSV file with this header, which replaces its own or is put before its first line."""
    line = io.StringIO()
    csv.writer(line, delimiter=separator, lineterminator="\n").writerow(names)
    copy = _new_file(folder, path.name)
    with open(path, "rb") as source, open(copy, "wb") as target:
        if replaced:
            source.seek(read_header(path, separator).size)
        target.write(line.getvalue().encode())
        shutil.copyfileobj(source, target)
    return copy


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names)} of them)"
