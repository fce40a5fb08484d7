"""Public settings of an algorithm: dataclass fields that validate themselves."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from inspect import getattr_static
from typing import Any, Generic, Self, TypeVar, dataclass_transform

import numpy as np

#: Limit on the number of steps of one fit. So long a run is usually a mistake; assign a larger value if not.
MAX_STEPS = 10**9

T = TypeVar("T")
Check = Callable[[str, Any], T]


class Setting(Generic[T]):
    """A field of a `Schedule`, validated on every assignment.

    Parameters
    ----------
    check : callable
        ``check(name, value)`` returns the converted value or raises ValueError.
    default : optional
        None if a rule chooses the value from public numbers.
    stated : bool
        Whether the ledger entry and the privacy statement include it.
    """

    def __init__(self, check: Check[T], default: T | None = None, *, stated: bool = True) -> None:
        self.check, self.default, self.stated = check, default, stated

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, schedule: object | None, kind: type) -> T:
        # May also be None until a rule has chosen; algorithms read completed schedules only.
        value: Any = self.default if schedule is None else vars(schedule)[self.name]
        return value  # type: ignore[no-any-return]

    def __set__(self, schedule: object, value: T | None) -> None:
        chosen_later = value is None and self.default is None
        vars(schedule)[self.name] = None if chosen_later else self.check(self.name, value)


@dataclass_transform(kw_only_default=True)
@dataclass
class Schedule:
    """Base class for the settings of an algorithm: a dataclass, each field of which is a `Setting`."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True)(cls)

    @classmethod
    @functools.cache
    def declared(cls) -> dict[str, Setting[Any]]:
        """The settings by name."""
        found = {own.name: getattr_static(cls, own.name, None) for own in fields(cls)}
        return {name: setting for name, setting in found.items() if isinstance(setting, Setting)}

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that have a value."""
        values = {name: getattr(self, name) for name in self.declared()}
        return {name: value for name, value in values.items() if value is not None}

    def completed(self, default: Schedule | None = None, **further: Any) -> Self:
        """A copy that takes missing settings from `further` or from a default schedule."""
        return replace(self, **({} if default is None else default.chosen) | further | self.chosen)

    def stated(self) -> dict[str, Any]:
        """The settings to include in the ledger entry and the privacy statement."""
        declared = self.declared()
        chosen = {name: value for name, value in self.chosen.items() if declared[name].stated}
        return {name: getattr(value, "words", value) for name, value in chosen.items()}


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


@contextmanager
def closed_after(callback: Any) -> Iterator[None]:
    """Close a callback that has a `close` method, such as a progress bar, however the block ends."""
    try:
        yield
    finally:
        close = getattr(callback, "close", None)
        if callable(close):
            close()
