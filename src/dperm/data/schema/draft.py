"""A first draft of a schema, read from data, to be corrected by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.table_columns import TableColumn, as_frame, read_columns
from dperm.errors import DataError, PrivacyWarning, warn_caller

MAX_CATEGORIES = 200  # a column with more distinct texts holds names or identifiers rather than categories
_BY_HAND = " Dates are a Numeric with a unit; texts with many values may be a Categorical with buckets."
_MAX_LABELS = 20  # a label with more distinct whole numbers is an amount rather than a class
_MANY = 10_000  # more distinct numbers are not kept
_FEW = 20  # fewer records may differ by chance
_MIN_UNIT = 1e-300  # smaller powers of ten underflow
_MAX_WHOLE = 2**53  # larger doubles are always whole


@dataclass(frozen=True)
class Draft:
    """Descriptions of columns, names of those that cannot be described, and remarks on some."""

    columns: Sequence[SchemaColumn]
    left_out: Sequence[str]
    remarks: Mapping[str, str]


def draft_columns(parts: Iterable[Any], label: str = "") -> Draft:
    """Descriptions of the columns of a table.

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
    if label and label not in seen:
        raise DataError(
            f"there is no column {label!r} to predict; the columns are {', '.join(map(repr, seen))}"
        )
    drafts = {name: each.label() if name == label else each.draft() for name, each in seen.items()}
    left_out = [name for name, column in drafts.items() if column is None and name != label]
    if len(left_out) + bool(label) == len(drafts):
        raise DataError(
            f"none of the table's columns {left_out} can be described: a schema describes finite numbers, "
            f"and columns of at most {MAX_CATEGORIES} distinct texts or truth values"
        )
    remarks = {name: remark for name, each in seen.items() if name != label and (remark := each.remark())}
    if isinstance(drafts.get(label), Numeric):
        remarks[label] = "to predict: the larger of |low| and |high| becomes target_bound."
    warn_caller(
        "this schema was read from the data and is a draft: its bounds and categories reveal information "
        "about the records, so a guarantee that rests on them is void. Before using it, replace every entry "
        "by what is publicly known about the column."
        + (f" No description fits {', '.join(map(repr, left_out))}: ignored.{_BY_HAND}" if left_out else "")
        + "".join(f" {name!r} is {remark}" for name, remark in remarks.items()),
        PrivacyWarning,
    )
    return Draft([column for column in drafts.values() if column is not None], left_out, remarks)


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
    n: int = 0
    differ: bool = True  # no two cells are equal
    ascend: bool = True  # each cell is the one before it plus 1
    last: float = math.nan

    def add(self, column: TableColumn) -> None:
        """Include a part of the column."""
        self.is_number = column.is_number()
        missing = column.missing()
        self.missing |= bool(missing.any())
        known = len(self.values)
        if self.is_number:
            numbers = np.asarray(column.numbers(), dtype=np.float64)
            numbers = numbers[np.isfinite(numbers)]
            self.whole &= bool((numbers == np.rint(numbers)).all())
            self.min = min(self.min, float(numbers.min(initial=math.inf)))
            self.max = max(self.max, float(numbers.max(initial=-math.inf)))
            before = numbers[:1] - 1.0 if self.n == 0 else np.array([self.last])
            with np.errstate(over="ignore"):
                self.ascend &= bool((np.diff(numbers, prepend=before) == 1.0).all())
            self.last = float(numbers[-1]) if len(numbers) else self.last
            found = np.unique(numbers)[: _MANY + 1].tolist()
            limit = _MANY
        else:
            found, limit = column.distinct(), MAX_CATEGORIES
        self.n += len(missing)
        if known <= limit:  # with more it is not categorical anyway
            self.values.update(found)
            self.differ &= len(self.values) - known == min(len(missing), _MANY + 1)

    def draft(self) -> SchemaColumn | None:
        """A description that fits all parts; None if there is none."""
        return self._numbers() if self.is_number else self._categories()

    def label(self) -> SchemaColumn | None:
        """The same for the column to predict, whose missing cells have no rule."""
        found = sorted(self.values)
        if self.is_number and self.whole and 2 <= len(found) <= _MAX_LABELS:
            return Categorical(self.name, [int(each) for each in found])
        column = self.draft()
        return None if column is None else replace(column, missing="error")

    def remark(self) -> str:
        """What makes it useless as a feature; empty if nothing does."""
        if len(self.values) == 1 and self.n > 1 and not self.missing:
            return "the same in every record: of no use as a feature."
        if self.n < _FEW or self.missing or not (self.whole and self.differ):
            return ""
        kind = "numbered like rows" if self.is_number and self.ascend else "different in every record"
        return f"{kind}: an identifier? Then list it as ignored."

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
