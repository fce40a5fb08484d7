"""A first draft of a schema, read from data, to be corrected by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.table_columns import TableColumn, as_frame, read_columns
from dperm.errors import DataError, PrivacyWarning, warn_caller

MAX_CATEGORIES = 200  # a column with more distinct texts holds names or identifiers rather than categories
_BY_HAND = " Dates are a Numeric with a unit; texts with many values may be a Categorical with buckets."
_MIN_UNIT = 1e-300  # smaller powers of ten underflow
_MAX_WHOLE = 2**53  # larger doubles are always whole


def draft_columns(parts: Iterable[Any]) -> tuple[list[SchemaColumn], list[str]]:
    """Descriptions of the columns of a table, and the names of columns that cannot be described.

    The table may come in parts, each of which is read once. Bounds and categories are those of the data, so
    the result is NOT private; a `PrivacyWarning` says so.
    """
    seen: dict[str, _Seen] = {}
    for part in parts:
        names = list(part) if isinstance(part, Mapping) else list(as_frame(part).columns)
        for column in read_columns(part, names):
            seen.setdefault(column.name, _Seen(column.name)).add(column)
    if not seen:
        raise DataError("there are no records to draft a schema from")
    drafts = {name: column.draft() for name, column in seen.items()}
    left_out = [name for name, column in drafts.items() if column is None]
    if len(left_out) == len(drafts):
        raise DataError(
            f"none of the table's columns {left_out} can be described: a schema describes finite numbers, "
            f"and columns of at most {MAX_CATEGORIES} distinct texts or truth values"
        )
    warn_caller(
        "this schema was read from the data and is a draft: its bounds and categories reveal information "
        "about the records, so a guarantee that rests on them is void. Before using it, replace every entry "
        "by what is publicly known about the column."
        + (f" No description fits {', '.join(map(repr, left_out))}: ignored.{_BY_HAND}" if left_out else ""),
        PrivacyWarning,
    )
    return [column for column in drafts.values() if column is not None], left_out


@dataclass
class _Seen:
    """What is known so far about the cells of a column."""

    name: str
    is_number: bool = False
    missing: bool = False
    whole: bool = True
    min: float = math.inf
    max: float = -math.inf
    values: set[Any] = field(default_factory=set)

    def add(self, column: TableColumn) -> None:
        """Include a part of the column."""
        self.is_number = column.is_number()
        self.missing |= bool(column.missing().any())
        if self.is_number:
            numbers = np.asarray(column.numbers(), dtype=np.float64)
            numbers = numbers[np.isfinite(numbers)]
            self.whole &= bool((numbers == np.rint(numbers)).all())
            self.min = min(self.min, float(numbers.min(initial=math.inf)))
            self.max = max(self.max, float(numbers.max(initial=-math.inf)))
        elif len(self.values) <= MAX_CATEGORIES:  # with more it is not categorical anyway
            self.values.update(column.distinct())

    def draft(self) -> SchemaColumn | None:
        """A description that fits all parts; None if there is none."""
        return self._numbers() if self.is_number else self._categories()

    def _numbers(self) -> Numeric | None:
        """The bounds of the data, rounded outwards to the leading digit of their difference."""
        lowest, highest = self.min, self.max
        if not math.isfinite(highest - lowest):  # the case without any number included
            return None
        unit = max(10.0 ** math.floor(math.log10(highest - lowest or abs(highest) or 1.0)), _MIN_UNIT)
        low, high = math.floor(lowest / unit) * unit, math.ceil(highest / unit) * unit
        if low == high:
            high += unit
        # Remove the rounding errors of the multiplication from the last digits.
        low, high = min(float(f"{low:.12g}"), lowest), max(float(f"{high:.12g}"), highest)
        if math.isinf(high - low):
            return None
        if self.whole and max(-low, high) <= _MAX_WHOLE:
            low, high = math.floor(low), math.ceil(high)
        return Numeric(self.name, low, high, missing="column" if self.missing else "error")

    def _categories(self) -> Categorical | None:
        kinds = {type(value) for value in self.values}
        if not 1 <= len(self.values) <= MAX_CATEGORIES or len(kinds) > 1 or not kinds <= {str, int, bool}:
            return None
        return Categorical(self.name, sorted(self.values), missing="zero" if self.missing else "error")
