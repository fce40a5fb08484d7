"""Checks of the numbers that callers hand to the accounting functions."""

from __future__ import annotations

import math
import numbers


def _as_float(name: str, value: object, expected: str) -> float:
    if type(value) is float:  # the common case, many times faster than asking for a Real
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {expected}, got {value!r} of type {type(value).__name__}.")
    return float(value)


def check_epsilon(value: float, name: str = "epsilon") -> float:
    """Return `value` as a float; it must be >= 0, and may be infinite (no privacy)."""
    expected = "a number >= 0 (math.inf for no privacy)"
    number = _as_float(name, value, expected)
    if not number >= 0.0:
        raise ValueError(f"{name} must be {expected}, got {value!r}.")
    return number


def check_positive_epsilon(value: float, name: str = "epsilon") -> float:
    """Return `value` as a float; it must be > 0, and may be infinite (no privacy)."""
    number = check_epsilon(value, name)
    if number == 0.0:
        raise ValueError(
            f"{name} must be > 0 (math.inf for no privacy), got {value!r}: "
            "with epsilon = 0 nothing useful can be released."
        )
    return number


def check_delta(value: float, name: str = "delta") -> float:
    """Return `value` as a float strictly between 0 and 1."""
    expected = "a number strictly between 0 and 1"
    number = _as_float(name, value, expected)
    if number == 0.0:
        raise ValueError(
            f"{name} must be > 0, got {value!r}: Gaussian noise never gives pure differential privacy. "
            "Choose a delta far below 1/n (1e-6, say), or a mechanism with a pure guarantee (norm-Laplace "
            "noise)."
        )
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be {expected}, got {value!r}.")
    return number


def check_non_negative(value: float, name: str) -> float:
    """Return `value` as a float >= 0, possibly infinite."""
    number = _as_float(name, value, "a number >= 0")
    if not number >= 0.0:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
    return number


def check_positive(value: float, name: str) -> float:
    """Return `value` as a float, finite and > 0."""
    number = _as_float(name, value, "a finite number > 0")
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    return number


def check_probability(value: float, name: str) -> float:
    """Return `value` as a float in [0, 1]."""
    number = _as_float(name, value, "a number from 0 to 1")
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}.")
    return number


def check_rate(value: float, name: str = "rate") -> float:
    """Return a sampling rate as a float in (0, 1]."""
    number = _as_float(name, value, "a number in (0, 1]")
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must be a number in (0, 1], got {value!r}.")
    return number


def check_steps(value: int, name: str = "steps") -> int:
    """Return a number of steps, an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer >= 1, got {value!r} of type {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}.")
    return int(value)
