"""What is wrong with a CSV file that pyarrow could not read: the place and the cell, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_MOST_SHOWN = 40  # characters of a cell or line in a message
_ADVICE = (
    "Correct the file. Columns other than numbers are left out through columns=[...], or described with a "
    "schema; labels that are text are read with label_type='text'."
)


def csv_fault(
    arrow: Any,
    path: Path,
    names: Sequence[str],
    column_types: Mapping[str, Any],
    delimiter: str,
    block_bytes: int,
) -> str | None:
    """A message about the first fault of a file with columns `names`; None where none is found.

    Reads the file again up to the fault, as text.
    """
    for name in column_types:
        if names.count(name) != 1:
            return _column_fault(path, name, names, delimiter)
    reader = _Reader(arrow, path, delimiter, block_bytes)
    try:
        found = _first_bad_cell(reader, column_types)
    except (arrow.ArrowException, OSError):
        return None
    line = reader.bad_line
    if line is not None and (found is None or line[0] <= found[0]):
        row, text, expected, actual = line
        return (
            f"{_place(path, row)} has {actual} cells, the header {expected}: {_shown(text)}. Correct the "
            f"file, or name what separates its cells (delimiter={delimiter!r})."
        )
    if found is None:
        return None
    row, name, cell = found
    kind = _kind(arrow, column_types[name])
    return f"{_place(path, row)}, column {name!r}: expected {kind}, got {_shown(cell)}. {_ADVICE}"


class _Reader:
    """The file's cells as bytes, block by block, up to the first line that has too many or too few."""

    def __init__(self, arrow: Any, path: Path, delimiter: str, block_bytes: int) -> None:
        self.arrow, self._path, self._delimiter, self._block_bytes = arrow, path, delimiter, block_bytes
        self.bad_line: tuple[int, str, int, int] | None = None

    def blocks(self, names: Sequence[str]) -> Iterator[Any]:
        """Tables of bytes; lines of another length are left out, and the first of them is kept in mind."""

        def skip(line: Any) -> str:
            if self.bad_line is None:  # the header is line 1
                self.bad_line = line.number - 2, line.text, line.expected_columns, line.actual_columns
            return "skip"

        csv, binary = self.arrow.csv, self.arrow.binary()
        with csv.open_csv(
            str(self._path),
            # One thread: rows have numbers.
            read_options=csv.ReadOptions(block_size=self._block_bytes, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, invalid_row_handler=skip),
            convert_options=csv.ConvertOptions(
                include_columns=list(names),
                column_types=dict.fromkeys(names, binary),
                strings_can_be_null=True,
            ),
        ) as reader:
            for block in reader:
                yield block
                if self.bad_line is not None:
                    return


def _first_bad_cell(reader: _Reader, column_types: Mapping[str, Any]) -> tuple[int, str, str] | None:
    """Row, column and text of the first cell that its type does not admit."""
    first_row = 0
    for block in reader.blocks(tuple(column_types)):
        cells = [
            (row, name)
            for name, kind in column_types.items()
            if (row := _first_bad_row(reader.arrow, block.column(name), kind)) is not None
        ]
        if cells:
            row, name = min(cells, key=lambda cell: cell[0])
            text = block.column(name)[row].as_py().decode(errors="backslashreplace")
            return first_row + row, name, text
        first_row += block.num_rows
    return None


def _first_bad_row(arrow: Any, column: Any, kind: Any) -> int | None:
    """By halves."""
    if _admits(arrow, column, kind):
        return None
    first, length = 0, len(column)
    while length > 1:
        half = length // 2
        if _admits(arrow, column.slice(first, half), kind):
            first, length = first + half, length - half
        else:
            length = half
    return first


def _admits(arrow: Any, column: Any, kind: Any) -> bool:
    try:
        text = arrow.compute.cast(column, arrow.string())
        if not arrow.types.is_string(kind):
            arrow.compute.cast(arrow.compute.utf8_trim_whitespace(text), kind)
    except arrow.ArrowInvalid:
        return False
    return True


def _place(path: Path, row: int) -> str:
    """The file, the line, which pyarrow does not count where it is empty, and the row."""
    with open(path, "rb") as file:
        filled = (number for number, line in enumerate(file, 1) if line.strip(b"\r\n"))
        number = next((number for count, number in enumerate(filled) if count == row + 1), None)
    return f"{path}, row {row}" if number is None else f"{path}, line {number} (row {row})"


def _column_fault(path: Path, name: str, names: Sequence[str], delimiter: str) -> str:
    count = names.count(name)
    found = "no column" if count == 0 else f"{count} columns"
    return (
        f"{path} has {found} called {name!r}; its columns, separated by {delimiter!r}, are {list(names)}. "
        "Name others, or what separates them (delimiter=...)."
    )


def _kind(arrow: Any, kind: Any) -> str:
    """A type, for people."""
    if arrow.types.is_floating(kind):
        return "a number"
    if arrow.types.is_integer(kind):
        return "a whole number"
    return "true or false" if arrow.types.is_boolean(kind) else "text in UTF-8"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")
