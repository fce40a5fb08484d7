"""A first draft of a schema, read from data, for people to correct."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.table_columns import TableColumn, as_frame, read_columns
from dperm.errors import DataError, PrivacyWarning, warn_caller

MAX_CATEGORIES = 200  # a column of more texts is a name or a number of the record rather than a category
_SMALLEST_UNIT = 1e-300  # powers of ten below it are 0 at some point
_LARGEST_WHOLE = 2**53  # larger doubles are whole whatever they stand for


def draft_columns(table: Any) -> tuple[list[SchemaColumn], list[str]]:
    """Descriptions of the columns of a table, and the names of those that no description suits.

    Bounds and categories are those of the data, so the result is NOT private; a `PrivacyWarning` says so.
    """
    names = list(table) if isinstance(table, Mapping) else list(as_frame(table).columns)
    drafts = {column.name: _draft(column) for column in read_columns(table, names)}
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


def _draft(column: TableColumn) -> SchemaColumn | None:
    if not column.is_number():
        return _draft_categories(column.name, column.distinct(), bool(column.missing().any()))
    values = np.asarray(column.numbers(), dtype=np.float64)
    return _draft_numbers(column.name, values[np.isfinite(values)], bool(column.missing().any()))


def _draft_numbers(name: str, values: NDArray[np.float64], missing: bool) -> Numeric | None:
    """Bounds a little wider than the data's: one digit, in units of their distance."""
    if values.size == 0:
        return None
    least, most = float(values.min()), float(values.max())
    if math.isinf(most - least):
        return None
    unit = max(10.0 ** math.floor(math.log10(most - least or abs(most) or 1.0)), _SMALLEST_UNIT)
    low, high = math.floor(least / unit) * unit, math.ceil(most / unit) * unit
    if low == high:
        high += unit
    # Without the noise in the last digits that the multiplication left.
    low, high = min(float(f"{low:.12g}"), least), max(float(f"{high:.12g}"), most)
    if math.isinf(high - low):
        return None
    if (values == np.rint(values)).all() and max(-low, high) <= _LARGEST_WHOLE:
        low, high = math.floor(low), math.ceil(high)
    return Numeric(name, low, high, missing="column" if missing else "error")


def _draft_categories(name: str, found: Sequence[Any], missing: bool) -> Categorical | None:
    kinds = {type(value) for value in found}
    if not 1 <= len(found) <= MAX_CATEGORIES or len(kinds) > 1 or not kinds <= {str, int, bool}:
        return None
    return Categorical(name, sorted(found), missing="zero" if missing else "error")
