"""CSV as text: the header, where records end, and pyarrow's errors in terms of columns, rows and lines."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dperm._kernels import record_kernels
from dperm.data.files.file_kinds import check_is_csv
from dperm.errors import DataError

_HEADER_BYTES = 1 << 16  # read at first
_LONGEST_RECORD = 1 << 28  # bytes; a quote that is not closed must not read a large file into memory
_MARK = b"\xef\xbb\xbf"  # many programs begin files in UTF-8 with it
_QUOTING = 'a quote within a quoted cell is doubled (""). Correct the file'

_MAX_SHOWN = 40  # characters of a cell
_KINDS = {"double": "a number", "int64": "a whole number", "bool": "true or false", "string": "text in UTF-8"}
_FAULT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): |CSV parse error: )(?:Row #(?P<row>\d+): )?"
    r"(?:CSV conversion error to (?P<kind>\w+): invalid (?:value '(?P<cell>.*)'|.*)"
    r"|Expected (?P<expected>\d+) columns, got (?P<found>\d+): (?P<line>.*))",
    re.DOTALL,
)


class Header(NamedTuple):
    """The names of the columns of a CSV file, and the number of bytes up to the first record."""

    names: tuple[str, ...]
    size: int


def read_header(path: Path, delimiter: str) -> Header:
    """The first line that is not empty; a quoted name may go on in the next.

    Raises
    ------
    DataError
        If there is none, or for one that is not text in UTF-8.
    OSError
    """
    check_is_csv(path)
    wanted = _HEADER_BYTES
    with open(path, "rb") as file:
        while True:
            file.seek(0)
            text = file.read(wanted)
            start = len(_MARK) if text.startswith(_MARK) else 0
            start += len(text) - start - len(text[start:].lstrip(b"\r\n"))
            ends = _Ends.of(text[start:], delimiter)
            is_whole = len(text) < wanted
            ends.check(path, start, is_whole)
            if ends.first or is_whole:
                break
            wanted = _longer(path, start, wanted)
    size = start + ends.first if ends.first else len(text)
    try:
        line = text[start:size].decode()
        names = next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the header is not text in UTF-8: save the file in UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}: the header cannot be read: {error}") from error
    if not names:
        raise DataError(f"{path} is empty: a CSV file begins with the names of its columns")
    return Header(tuple(names), size)


class Block(NamedTuple):
    """Whole records of a CSV file."""

    start: int  # place of its first byte in the file
    text: Any  # a buffer
    broken: bool  # whether a quoted cell contains a line end


def blocks_of_records(
    path: Path, source: Any, start: int, block_bytes: int, delimiter: str
) -> Iterator[Block]:
    """The records from the byte `start` on in blocks of at most `block_bytes`, or of one record.

    Raises
    ------
    DataError
        For a quoted cell that does not end, or with text behind its closing quote: which cells and records
        were meant is not known then.
    """
    wanted, size = block_bytes, source.size()
    while start < size:
        source.seek(start)
        text = source.read_buffer(wanted)
        is_last = start + len(text) >= size
        ends = _Ends.of(text, delimiter)
        ends.check(path, start, is_last)
        end = len(text) if is_last else ends.last
        if end:
            yield Block(start, text.slice(0, end), ends.broken)
            start, wanted = start + end, block_bytes
        elif not len(text):  # the file has been truncated
            return
        else:
            wanted = _longer(path, start, wanted)


class _Ends(NamedTuple):
    """See csrc/records/csv_records.h."""

    first: int
    last: int
    open: int
    behind: int
    broken: bool

    @classmethod
    def of(cls, text: Any, delimiter: str) -> _Ends:
        """The ends of the records in a buffer that starts with one."""
        return cls(*record_kernels.csv_ends_of(np.frombuffer(text, dtype=np.uint8), ord(delimiter)))

    def check(self, path: Path, start: int, is_last: bool) -> None:
        """Raise DataError for an invalid quote in the text from the byte `start` of the file on."""
        if self.behind >= 0:
            _refuse(path, start + self.behind, f"text follows the closing quote of a cell; {_QUOTING}")
        if self.open >= 0 and is_last:
            _refuse(path, start + self.open, f"a cell begins with a quote that is never closed; {_QUOTING}")


def _longer(path: Path, start: int, wanted: int) -> int:
    """The number of bytes to read next, since a record is longer than `wanted`."""
    if wanted >= _LONGEST_RECORD:
        _refuse(path, start, f"a record has more than {wanted >> 20} MiB; is a quote not closed? {_QUOTING}")
    return 2 * wanted


def _refuse(path: Path, place: int, problem: str) -> NoReturn:
    raise DataError(f"{path}, line {_lines_before(path, place) + 1}: {problem}")


def _lines_before(path: Path, place: int) -> int:
    """The number of lines that end in the first bytes of a file."""
    counts = [0, 0]
    with open(path, "rb") as file:
        while place > 0 and (text := file.read(min(place, 1 << 20))):
            place -= len(text)
            counts = [counts[0] + text.count(b"\n"), counts[1] + text.count(b"\r")]
    return counts[0] or counts[1]


@dataclass(frozen=True)
class CsvFault:
    """A cell that does not fit the type of its column, or a line with too many or too few cells."""

    row: int | None  # counted from 0 in the text; None if pyarrow read with several threads
    problem: str

    def place(self, path: Path, block: Block, first_row: int, delimiter: str) -> str:
        """File, line and row, for a fault in a block whose first record has the number `first_row`."""
        if self.row is None:
            return str(path)
        line = _lines_before(path, block.start) + _line_of_row(bytes(block.text), self.row, delimiter) + 1
        return f"{path}, line {line} (row {first_row + self.row})"


def _line_of_row(text: bytes, row: int, delimiter: str) -> int:
    """The number of lines above a record; empty lines are none."""
    start, is_open, rows = 0, False, -1
    for number, line in enumerate(text.splitlines(keepends=True)):
        if not is_open:
            start, rows = number, rows + bool(line.strip(b"\r\n"))
        if rows == row:
            break
        is_open = _Ends.of(b'"' + line if is_open else line, delimiter).open >= 0
    return start


def csv_fault(
    error: Exception, names: Sequence[str], text: Any = b"", delimiter: str = ","
) -> CsvFault | None:
    """The fault that pyarrow reports in a text with columns `names`; None for other errors.

    A cell is quoted as it is in the text, from which pyarrow strips spaces.
    """
    found = _FAULT.search(str(error))
    if found is None:
        return None
    row = int(found["row"]) - 1 if found["row"] else None
    if found["column"] is None:
        return CsvFault(
            row, f": a line has {found['found']} cells, expected {found['expected']}: {found['line']!r}"
        )
    column, cell = int(found["column"]), found["cell"]
    problem = f", column {names[column]!r}: expected {_KINDS.get(found['kind'], found['kind'])}"
    if row is not None and cell is not None:
        with contextlib.suppress(csv.Error, UnicodeDecodeError, StopIteration, IndexError):
            lines = csv.reader(io.StringIO(bytes(text).decode(), newline=""), delimiter=delimiter)
            cell = next(itertools.islice(filter(None, lines), row, None))[column]
    if cell is not None:
        problem += f", got {cell if len(cell) <= _MAX_SHOWN else f'{cell[:_MAX_SHOWN]}...'!r}"
    return CsvFault(row, problem)
