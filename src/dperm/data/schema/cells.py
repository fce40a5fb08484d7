"""Checks of what a column's description says, and of its cells."""

from __future__ import annotations

import math
from datetime import date
from numbers import Integral, Real
from typing import Any

from dperm.errors import DataError

MAX_CATEGORIES = 65_535  # codes have 16 bits, and one of them means "no category"


def missing_cell(name: str, row: int, choices: str) -> DataError:
    """An error that names the cell, and what a schema may say of missing values."""
    return DataError(
        f"column {name!r} has a missing value at row {row}: fill it, or say in the schema how missing values "
        f"are treated (missing = {choices})"
    )


def check_name(name: Any) -> None:
    """Raise ValueError unless this is a nonempty string."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of a column must be a nonempty string, got {name!r}")


def set_real(column: Any, attribute: str, value: Any) -> None:
    """Set a finite number as a plain one; ValueError for anything else."""
    if not isinstance(value, Real) or isinstance(value, bool):
        advice = "; for dates give the unit, such as 'day'" if isinstance(value, str | date) else ""
        raise ValueError(f"column {column.name!r}: {attribute} must be a real number, got {value!r}{advice}")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer too large for a double
        finite = False
    if not finite:
        raise ValueError(f"column {column.name!r}: {attribute} must be finite, got {value!r}")
    plain: int | float = int(value) if isinstance(value, Integral) else float(value)
    object.__setattr__(column, attribute, plain)


def set_numbers(column: Any, setting: str, values: Any, expected: str, empty: bool = False) -> None:
    """Set a list of numbers as a tuple of plain ones; ValueError if it is none, or empty."""
    numbers = None if isinstance(values, str | bool) or not hasattr(values, "__iter__") else list(values)
    if (
        numbers is None
        or not (numbers or empty)
        or not all(isinstance(each, Real) and not isinstance(each, bool) for each in numbers)
    ):
        raise ValueError(f"column {column.name!r}: {setting} must be {expected}, got {values!r}")
    plain = tuple(int(each) if isinstance(each, Integral) else float(each) for each in numbers)
    object.__setattr__(column, setting, plain)
