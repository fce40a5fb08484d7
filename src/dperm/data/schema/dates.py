"""Dates as whole public units since 1970-01-01, and texts as public buckets: functions of a cell alone."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DataError

#: Units of dates, and their names in numpy.
UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}


def units_of(moments: NDArray[Any], unit: str) -> NDArray[np.float64]:
    """Whole units from 1970-01-01 to each moment, rounded down; NaN for a missing one."""
    whole = moments.astype(f"datetime64[{UNITS[unit]}]")
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64))


def date_text(number: float, unit: str) -> str:
    """The first day or second of the unit that is, or follows, so many after 1970-01-01."""
    first = np.array(math.ceil(number)).astype(f"datetime64[{UNITS[unit]}]")
    return str(first.astype("datetime64[D]" if unit in ("year", "month", "day") else "datetime64[s]"))


def moment(cell: Any) -> np.datetime64[Any]:
    """A date, a time (in UTC if it has no zone), or a text in ISO 8601; ValueError for anything else."""
    if isinstance(cell, str):
        return _moment_in(cell)
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    if isinstance(cell, np.datetime64):
        return cell
    if isinstance(cell, date):
        return np.datetime64(cell, "us")
    raise ValueError("not a date")


@lru_cache(1 << 16)  # dates repeat
def _moment_in(text: str) -> np.datetime64[Any]:
    return moment(datetime.fromisoformat(text.strip()))


def bucket(value: Any, buckets: int) -> int:
    """The bucket of a text without spaces around it, or of a whole number's digits, by SHA-256.

    Raises
    ------
    DataError
        For anything else.
    """
    if isinstance(value, float) and value.is_integer():  # a column of integers where some are missing
        value = int(value)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise DataError(f"{value!r} of type {type(value).__name__}: only texts and whole numbers are hashed")
    digest = hashlib.sha256(str(value).strip().encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % buckets
