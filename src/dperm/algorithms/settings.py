"""Public settings of an algorithm: dataclass fields that validate themselves."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

#: Limit on the number of steps of one fit. So long a run is usually a mistake; assign a larger value if not.
MAX_STEPS = 10**9

T = TypeVar("T")
Check = Callable[[str, Any], T]


def setting(check: Check[Any], default: Any = MISSING, *, stated: bool = True) -> Any:
    """A field of :class:`Settings`.

    Parameters
    ----------
    check : callable
        ``check(name, value)`` returns the converted value or raises ValueError.
    default : optional
        None for a setting that may be absent.
    stated : bool
        Whether the ledger entry and the privacy statement include it.
    """
    return field(default=default, metadata={"check": check, "stated": stated})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base class for all settings of a run: a frozen dataclass, each field of which is a :func:`setting`."""

    def __post_init__(self) -> None:
        for name, value in self.checked(**vars(self)).items():
            object.__setattr__(self, name, value)

    @classmethod
    def checked(cls, **given: Any) -> dict[str, Any]:
        """Those of the given settings that are not None, checked and converted."""
        checks = {own.name: own.metadata["check"] for own in fields(cls)}
        return {name: checks[name](name, value) for name, value in given.items() if value is not None}

    def stated(self) -> dict[str, Any]:
        """The settings to include in the ledger entry and the privacy statement."""
        values = {own.name: getattr(self, own.name) for own in fields(self) if own.metadata["stated"]}
        return {name: getattr(value, "words", value) for name, value in values.items() if value is not None}


def real(name: str, value: Any, expected: str) -> float:
    """`value` as a float; ValueError if it is not a real number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be {expected}, got {value!r} of type {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be {expected}, got a number above 1e308") from None


def within(expected: str, allowed: Callable[[float], bool]) -> Check[float]:
    """A check for real numbers; its message says what was expected."""

    def check(name: str, value: Any) -> float:
        number = real(name, value, expected)
        if not allowed(number):
            raise ValueError(f"{name} must be {expected}, got {value!r}")
        return number

    return check


#: Positive numbers far enough from the ends of the double range to compute with.
positive = within("between 1e-100 and 1e100", lambda x: 1e-100 <= x <= 1e100)
positive_or_infinite = within(
    "between 1e-100 and 1e100 (inf for no limit)", lambda x: 1e-100 <= x <= 1e100 or x == math.inf
)
non_negative = within("from 0 to 1e100", lambda x: 0.0 <= x <= 1e100)
#: Bounds on one record's contribution for which exact sums have a grid.
clip_norm = within("between 2^-64 and 2^64", lambda x: 2.0**-64 <= x <= 2.0**64)
#: The same, or infinity where the loss itself bounds it.
clip_norm_or_infinite = within(
    "between 2^-64 and 2^64 (inf for no clip)", lambda x: 2.0**-64 <= x <= 2.0**64 or x == math.inf
)
fraction = within("in (0, 1]", lambda x: 0.0 < x <= 1.0)
share = within("strictly between 0 and 1", lambda x: 0.0 < x < 1.0)
portion = within("in [0, 1]", lambda x: 0.0 <= x <= 1.0)
below_one = within("in [0, 1)", lambda x: 0.0 <= x < 1.0)


def positive_integer(name: str, value: Any) -> int:
    """An integer of at least 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be a positive integer, got {value!r} of type {type(value).__name__}")
    if not 1 <= int(value) < 2**62:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def step_count(name: str, value: Any) -> int:
    """A number of steps: a positive integer below `MAX_STEPS`."""
    count = positive_integer(name, value)
    if count >= MAX_STEPS:
        raise ValueError(
            f"{name} must be below {MAX_STEPS:,}, got {count:,}: so long a run is usually a mistake. Raise "
            "dperm.algorithms.settings.MAX_STEPS if it is intended"
        )
    return count


def candidate_count(name: str, value: Any) -> int:
    """A number of candidates that are held in memory at once: a positive integer up to 100,000."""
    count = positive_integer(name, value)
    if count > 100_000:
        raise ValueError(f"{name} must be at most 100,000, got {count:,}")
    return count


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def boolean_or_auto(name: str, value: Any) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


def one_of(*choices: str) -> Check[str]:
    """A check for one of these strings."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
        return value

    return check


def check_callback(callback: Any) -> Any:
    """The callback itself; TypeError unless it is callable or None."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None, got {callback!r}")
    return callback


def close(callback: Any) -> None:
    """Close a callback that has a `close` method, such as a progress bar."""
    if callable(getattr(callback, "close", None)):
        callback.close()
