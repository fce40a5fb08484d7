"""Errors of pyarrow about malformed CSV files, in terms of columns, rows and lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MAX_SHOWN = 40  # characters of a cell
_KINDS = {"double": "a number", "int64": "a whole number", "bool": "true or false", "string": "text in UTF-8"}
_FAULT = re.compile(
    r"(?:In CSV column #(?P<column>\d+): |CSV parse error: )(?:Row #(?P<row>\d+): )?"
    r"(?:CSV conversion error to (?P<kind>\w+): invalid (?:value '(?P<cell>.*)'|.*)"
    r"|Expected (?P<expected>\d+) columns, got (?P<found>\d+): (?P<line>.*))",
    re.DOTALL,
)


@dataclass(frozen=True)
class CsvFault:
    """A cell that does not fit the type of its column, or a line with too many or too few cells."""

    row: int | None  # counted from 0 below the header; None if pyarrow read with several threads
    problem: str

    def place(self, path: Path) -> str:
        """File, line and row; pyarrow does not count empty lines."""
        if self.row is None:
            return str(path)
        with open(path, "rb") as file:
            filled = (number for number, line in enumerate(file, 1) if line.strip(b"\r\n"))
            number = next((number for count, number in enumerate(filled) if count == self.row + 1), None)
        return f"{path}, row {self.row}" if number is None else f"{path}, line {number} (row {self.row})"


def csv_fault(error: Exception, names: Sequence[str]) -> CsvFault | None:
    """The fault that pyarrow reports in a file with columns `names`; None for other errors."""
    found = _FAULT.search(str(error))
    if found is None:
        return None
    row = int(found["row"]) - 2 if found["row"] else None  # the header is row 1
    if found["column"] is None:
        return CsvFault(
            row, f": a line has {found['found']} cells, expected {found['expected']}: {found['line']!r}"
        )
    problem = f", column {names[int(found['column'])]!r}: expected {_KINDS.get(found['kind'], found['kind'])}"
    cell = found["cell"]
    if cell is not None:
        problem += f", got {cell if len(cell) <= _MAX_SHOWN else f'{cell[:_MAX_SHOWN]}...'!r}"
    return CsvFault(row, problem)
