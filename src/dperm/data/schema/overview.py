"""A schema as a table for display."""

from __future__ import annotations

from collections.abc import Sequence

from dperm._document import Block, Table, Text
from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn

MAX_ROWS = 60  # beyond that a table is not an overview
_MAX_CATEGORIES = 12
_RULES = {"error": "an error", "zero": "zeros", "column": "a column of its own"}


def schema_blocks(columns: Sequence[SchemaColumn], ignored: Sequence[str]) -> list[Block]:
    """A table of the columns, and the names of ignored ones."""
    heads = ["column", "kind", "values", "if missing", "if not listed", "features"]
    found: list[Block] = [Table(heads, [_row(each) for each in columns[:MAX_ROWS]])]
    if len(columns) > MAX_ROWS:
        found.append(Text(f"And {len(columns) - MAX_ROWS:,} further columns.", "small"))
    if ignored:
        found.append(Text(f"Not used: {', '.join(ignored)}.", "small"))
    return found


def _row(column: SchemaColumn) -> list[str | int]:
    if isinstance(column, Categorical):
        rules = [_rule(column.missing), _rule(column.unknown)]
        return [column.name, "category", _listed(column.categories), *rules, len(column.categories)]
    return [column.name, "number", _range(column), _rule(column.missing), "", len(column.feature_names)]


def _range(column: Numeric) -> str:
    words = f"{column.low:g} to {column.high:g}"
    if column.transform != "none":
        words += ", on a logarithmic scale"
    return words if column.bins is None else f"{words}, in {len(column.borders) + 1} bins"


def _listed(categories: Sequence[object]) -> str:
    shown = ", ".join(map(str, categories[:_MAX_CATEGORIES]))
    more = len(categories) - _MAX_CATEGORIES
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _rule(rule: object) -> str:
    return _RULES.get(rule, rule) if isinstance(rule, str) else str(rule)
