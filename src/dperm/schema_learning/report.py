"""What a learned schema cuts off, according to noisy counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dperm._document import Document, Table

_HEAD = ("column", "learned", "below", "above", "unknown", "+-")


class LearnedReport:
    """What was learned about each column, and the noisy shares of the records that lie outside.

    Parameters
    ----------
    columns : sequence of mapping
        With ``name``, ``learned`` (as text), the shares ``below``, ``above`` or ``unknown`` (including
        missing values), and ``noise``, the standard deviation of their noise.

    Attributes
    ----------
    columns : tuple of dict
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.columns = tuple(map(dict, columns))

    def __str__(self) -> str:
        """Return a table as text."""
        rows = [_HEAD, *map(_row, self.columns)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table as HTML."""
        return Document("", [Table(_HEAD, [_row(each) for each in self.columns])]).to_fragment()


def _row(column: Mapping[str, Any]) -> tuple[str, ...]:
    shares = (_percent(column.get(key)) for key in ("below", "above", "unknown", "noise"))
    return (column["name"], column["learned"], *shares)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100.0 * share:.2g} %"
