"""Checks of arguments, root finding on the safe side, and read-only mappings, for the whole accounting.

Messages of checks name the argument and what it must be. Real numbers of any type are converted to the
nearest double, and results are for that double. Numbers that would overflow to infinity or underflow to 0
(``10**400``, ``Fraction(1, 10**400)``) are rejected, because 0 and infinity have meanings of their own.
Strings, decimals and booleans are of the wrong type.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from scipy.optimize import brentq


def decreasing_root(
    excess: Callable[[float], float],
    guess: float,
    *,
    stride: float = 1.0,
    xtol: float = 1e-13,
    rtol: float = 2.0**-50,
    maxiter: int = 100,
) -> float:
    """Positive root of a decreasing function of ``log(x)``; the bracket is found from any starting point.

    Parameters
    ----------
    excess : callable
        Function of ``log(x)``, positive below the root and negative above.
    guess : float
        Where the search starts, > 0.
    stride : float, default=1.0
        Step of the search for a bracket, in ``log(x)``.
    xtol, rtol, maxiter
        As for `scipy.optimize.brentq`, in ``log(x)``.
    """
    high = math.log(guess)
    while excess(high) > 0.0:
        high += stride
    low = high - stride
    while excess(low) < 0.0:
        low -= stride
    return math.exp(float(brentq(excess, low, high, xtol=xtol, rtol=rtol, maxiter=maxiter)))


def nudged(x: float, fails: Callable[[float], bool], step: float) -> float:
    """Move `x` up (step > 0) or down (step < 0), by relative steps that double, until it no longer `fails`.

    Puts the result of a root finder, which may lie on either side of the root, on the safe side.
    """
    while fails(x):
        x *= 1.0 + step
        step *= 2.0
    return x


def bisected(
    holds: Callable[[float], bool], low: float, high: float, rtol: float, least: float = 0.0
) -> float:
    """Smallest number above `low` that satisfies `holds`, which is monotone and true at `high`.

    Rounded up, by `rtol` relative or to at most `least`.
    """
    while high > low * (1.0 + rtol) and high > least:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class ReadOnlyMapping(Mapping[str, Any]):
    """A deep copy of `items`, without methods to change it."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = copy.deepcopy(dict(items))

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


def plain(value: Any) -> Any:
    """Convert `value` to JSON types; infinities, NaN and objects of unknown type become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return plain(value.tolist())
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


#: Larger counts would not fit into 64-bit arithmetic.
MAX_COUNT = 2**62

Member = TypeVar("Member", bound=StrEnum)


def shown(value: object) -> str:
    """`value` as a short text for an error message."""
    try:
        text = repr(value)
    except Exception:  # an integer with thousands of digits, or a broken __repr__
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:40]}... of type {type(value).__name__}"


def check_real(value: float | Fraction, name: str, expected: str, holds: Callable[[float], bool]) -> float:
    """Return `value` as a float that satisfies `holds`; `expected` describes that condition in messages."""
    if type(value) is float:  # the common case; isinstance with an abstract base class is many times slower
        number = value
    else:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be {expected}, got {shown(value)} of type {type(value).__name__}.")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number != value and (number == 0.0 or math.isinf(number)):
            raise ValueError(
                f"{name} must be {expected}, within the range of double precision, got {shown(value)}."
            )
    if not holds(number):  # NaN fails every comparison
        raise ValueError(f"{name} must be {expected}, got {shown(value)}.")
    return number


def check_non_negative(value: float, name: str) -> float:
    """Return `value` as a float >= 0, possibly infinite."""
    return check_real(value, name, "a number >= 0", lambda number: number >= 0.0)


def check_positive(value: float, name: str) -> float:
    """Return `value` as a float, finite and > 0."""
    return check_real(value, name, "a finite number > 0", lambda number: 0.0 < number < math.inf)


def check_probability(value: float, name: str) -> float:
    """Return `value` as a float in [0, 1]."""
    return check_real(value, name, "a number from 0 to 1", lambda number: 0.0 <= number <= 1.0)


def check_rate(value: float | Fraction, name: str = "rate") -> float:
    """Return a sampling rate as a float in (0, 1]."""
    return check_real(value, name, "a number in (0, 1]", lambda number: 0.0 < number <= 1.0)


def check_multiplier(value: float, name: str = "noise_multiplier") -> float:
    """Return noise over sensitivity as a float whose powers do not overflow; 0 and infinity are allowed."""
    expected = "a number >= 0, and 0, infinite or between 1e-100 and 1e100"
    return check_real(value, name, expected, lambda z: z in (0.0, math.inf) or 1e-100 <= z <= 1e100)


def check_epsilon(value: float, name: str = "epsilon") -> float:
    """Return `value` as a float; it must be >= 0, and may be infinite (no privacy)."""
    expected = "a number >= 0 (math.inf for no privacy)"
    return check_real(value, name, expected, lambda number: number >= 0.0)


def check_positive_epsilon(value: float, name: str = "epsilon") -> float:
    """Return `value` as a float; it must be > 0, and may be infinite (no privacy)."""
    number = check_epsilon(value, name)
    if number == 0.0:
        raise ValueError(
            f"{name} must be > 0 (math.inf for no privacy), got {value!r}: "
            "with epsilon = 0 nothing useful can be released."
        )
    return number


def check_delta(value: float, name: str = "delta", least: float = 0.0) -> float:
    """Return `value` as a float strictly between 0 and 1, and not below `least`."""
    expected = "a number strictly between 0 and 1" + (f", at least {least:g}" if least > 0.0 else "")
    number = check_real(value, name, expected, lambda d: d == 0.0 or (0.0 < d < 1.0 and d >= least))
    if number == 0.0:
        raise ValueError(
            f"{name} must be > 0, got {value!r}: Gaussian noise never gives pure differential privacy. "
            "Choose a delta far below 1/n (1e-6, say), or a mechanism with a pure guarantee (norm-Laplace "
            "noise)."
        )
    return number


def check_steps(value: int, name: str = "steps", least: int = 1, most: int = MAX_COUNT) -> int:
    """Return a count, an integer from `least` to `most`."""
    expected = f"an integer >= {least}"
    # First of all a plain integer, as a budget is asked at every step.
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise TypeError(f"{name} must be {expected}, got {shown(value)} of type {type(value).__name__}.")
    if value < least:
        raise ValueError(f"{name} must be {expected}, got {shown(value)}.")
    if value > most:
        raise ValueError(f"{name} must be {expected} and at most {most}, got {shown(value)}.")
    return int(value)


def check_member(kind: type[Member], value: str, name: str) -> Member:
    """Return the member of a string enumeration that `value` names."""
    try:
        return kind(value)
    except (ValueError, TypeError):
        words = [repr(str(member)) for member in kind]
        names = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise ValueError(f"{name} must be {names}, got {shown(value)}.") from None


def check_text(value: str, name: str) -> str:
    """Return a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {shown(value)} of type {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be a string without lone surrogates, got {shown(value)}.") from None
    return value
