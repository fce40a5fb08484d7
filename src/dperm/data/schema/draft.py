"""A first draft of a schema, read from data, for people to correct."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.table_columns import TableColumn, as_frame, read_columns
from dperm.errors import DataError, PrivacyWarning, warn_caller

MAX_CATEGORIES = 200  # a column of more texts is a name or a number of the record rather than a category
_SMALLEST_UNIT = 1e-300  # powers of ten below it are 0 at some point
_LARGEST_WHOLE = 2**53  # larger doubles are whole whatever they stand for


def draft_columns(parts: Iterable[Any]) -> tuple[list[SchemaColumn], list[str]]:
    """Descriptions of the columns of a table, and the names of those that no description suits.

    The table may come in parts, each of which is looked at once. Bounds and categories are those of the data,
    so the result is NOT private; a `PrivacyWarning` says so.
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
            f"no description suits any of the table's columns {left_out}: a schema describes finite numbers, "
            f"and columns of at most {MAX_CATEGORIES} different texts or truth values"
        )
    warn_caller(
        "this schema was read from the data and is a draft: bounds and categories that were measured on "
        "records tell about records, and a guarantee that rests on them covers nothing. Check every entry "
        "against what is publicly known of the column, and replace it by that, before the schema is used."
        + (f" No description suits {', '.join(map(repr, left_out))}: ignored." if left_out else ""),
        PrivacyWarning,
    )
    return [column for column in drafts.values() if column is not None], left_out


@dataclass
class _Seen:
    """What the cells of a column were so far."""

    name: str
    is_number: bool = False
    missing: bool = False
    whole: bool = True
    least: float = math.inf
    most: float = -math.inf
    values: set[Any] = field(default_factory=set)

    def add(self, column: TableColumn) -> None:
        """Look at a part of the column."""
        self.is_number = column.is_number()
        self.missing |= bool(column.missing().any())
        if self.is_number:
            numbers = np.asarray(column.numbers(), dtype=np.float64)
            numbers = numbers[np.isfinite(numbers)]
            self.whole &= bool((numbers == np.rint(numbers)).all())
            self.least = min(self.least, float(numbers.min(initial=math.inf)))
            self.most = max(self.most, float(numbers.max(initial=-math.inf)))
        elif len(self.values) <= MAX_CATEGORIES:  # else it is none of categories
            self.values.update(column.distinct())

    def draft(self) -> SchemaColumn | None:
        """The description that suits all parts."""
        return self._numbers() if self.is_number else self._categories()

    def _numbers(self) -> Numeric | None:
        """Bounds a little wider than the data's: one digit, in units of their distance."""
        least, most = self.least, self.most
        if not math.isfinite(most - least):  # without a number, too
            return None
        unit = max(10.0 ** math.floor(math.log10(most - least or abs(most) or 1.0)), _SMALLEST_UNIT)
        low, high = math.floor(least / unit) * unit, math.ceil(most / unit) * unit
        if low == high:
            high += unit
        # Without the noise in the last digits that the multiplication left.
        low, high = min(float(f"{low:.12g}"), least), max(float(f"{high:.12g}"), most)
        if math.isinf(high - low):
            return None
        if self.whole and max(-low, high) <= _LARGEST_WHOLE:
            low, high = math.floor(low), math.ceil(high)
        return Numeric(self.name, low, high, missing="column" if self.missing else "error")

    def _categories(self) -> Categorical | None:
        kinds = {type(value) for value in self.values}
        if not 1 <= len(self.values) <= MAX_CATEGORIES or len(kinds) > 1 or not kinds <= {str, int, bool}:
            return None
        return Categorical(self.name, sorted(self.values), missing="zero" if self.missing else "error")
