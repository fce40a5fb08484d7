"""Public settings of an algorithm: dataclasses whose fields carry their own check."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

#: Steps of one fit, at most, unless the variable is set to more: a run of so many is a slip, or takes hours.
MAX_STEPS = 10**9

Check = Callable[[str, Any], Any]


def checked(check: Check) -> Any:
    """A field of a `Schedule` that ``check(name, value)`` converts, or refuses with a ValueError."""
    return field(metadata={"check": check})


@dataclass(frozen=True)
class Schedule:
    """Base of the settings of an algorithm, each a field declared with `checked`."""

    def replaced(self, **given: Any) -> Self:
        """The schedule with those of the given settings that are not None, after every check.

        Raises
        ------
        ValueError
            For a setting out of range.
        """
        chosen = replace(self, **{name: value for name, value in given.items() if value is not None})
        checks = {own.name: own.metadata["check"] for own in fields(chosen)}
        return replace(chosen, **{name: check(name, getattr(chosen, name)) for name, check in checks.items()})


def real(name: str, value: Any, expected: str) -> float:
    """`value` as a float, for a check to compare; what is no real number is refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be {expected}, got {value!r} of type {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be {expected}, got a number above 1e308") from None


def _within(name: str, value: Any, expected: str, allowed: Callable[[float], bool]) -> float:
    number = real(name, value, expected)
    if not allowed(number):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return number


def positive(name: str, value: Any) -> float:
    """A positive number that arithmetic in double precision has room around."""
    return _within(name, value, "between 1e-100 and 1e100", lambda x: 1e-100 <= x <= 1e100)


def positive_or_infinite(name: str, value: Any) -> float:
    """A positive number, or infinity for no limit."""
    allowed = "between 1e-100 and 1e100 (inf for no limit)"
    return _within(name, value, allowed, lambda x: 1e-100 <= x <= 1e100 or x == math.inf)


def non_negative(name: str, value: Any) -> float:
    """A number of at least 0."""
    return _within(name, value, "from 0 to 1e100", lambda x: 0.0 <= x <= 1e100)


def clip_norm(name: str, value: Any) -> float:
    """A bound on one record's contribution: exact sums know grids for these."""
    return _within(name, value, "between 2^-64 and 2^64", lambda x: 2.0**-64 <= x <= 2.0**64)


def clip_norm_or_infinite(name: str, value: Any) -> float:
    """The same, or infinity where the loss itself bounds the contribution."""
    return math.inf if value == math.inf else clip_norm(name, value)


def fraction(name: str, value: Any) -> float:
    """A number in (0, 1]."""
    return _within(name, value, "in (0, 1]", lambda x: 0.0 < x <= 1.0)


def share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    return _within(name, value, "strictly between 0 and 1", lambda x: 0.0 < x < 1.0)


def portion(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    return _within(name, value, "in [0, 1]", lambda x: 0.0 <= x <= 1.0)


def decay(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    return _within(name, value, "in [0, 1)", lambda x: 0.0 <= x < 1.0)


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
            f"{name} must be below {MAX_STEPS:,}, got {count:,}: so long a run is mostly a slip. Raise "
            "dperm.algorithms.settings.MAX_STEPS if it is meant"
        )
    return count


def candidate_count(name: str, value: Any) -> int:
    """A number of candidates that are held in memory together: a positive integer up to 100,000."""
    count = positive_integer(name, value)
    if count > 100_000:
        raise ValueError(f"{name} must be at most 100,000, got {count:,}")
    return count


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def if_given(check: Check, name: str, value: Any) -> Any:
    """The checked value, or None where the default is left to be chosen."""
    return None if value is None else check(name, value)


def one_of(*choices: str) -> Check:
    """A check for one of these strings."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
        return value

    return check


def check_callback(callback: Any) -> Any:
    """The callback, if it can be called or is None."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None, got {callback!r}")
    return callback
