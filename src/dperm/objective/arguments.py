"""Validation of the public arguments of an objective."""

from __future__ import annotations

import functools
import math
import os
import sys
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_CLIP, MAX_CLIP = 2.0**-64, 2.0**64
# So that squares of a row do not over- or underflow, on a grid as well, for rows up to twice as long.
MIN_ROW_NORM, MAX_ROW_NORM = 2.0**-256, 2.0**1000


def number(name: str, value: Any) -> float:
    """A real number as a float, NaN included.

    Raises
    ------
    TypeError
        For anything else, such as a string, a bool, None or an array.
    ValueError
        For a number beyond the range of doubles.
    """
    if type(value) is float:
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a double can hold, got {value!r}") from None


def number_from(name: str, value: Any, low: float, high: float, expected: str) -> float:
    """A real number from `low` to `high`; ValueError or TypeError otherwise, naming what was `expected`."""
    checked = number(name, value)
    if not low <= checked <= high:  # also for NaN
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return checked


def finite_number(name: str, value: Any) -> float:
    """A real number that is neither infinite nor NaN."""
    return number_from(name, value, -sys.float_info.max, sys.float_info.max, "finite")


def clip_bound(clip: Any, name: str = "clip") -> float:
    """A bound on one record's contribution to a sum."""
    expected = "between 2^-64 and 2^64 (scale the columns and row_norm if the loss needs another one)"
    return number_from(name, clip, MIN_CLIP, MAX_CLIP, expected)


def upper_bound(name: str, value: Any) -> float:
    """A bound, infinite for none."""
    return number_from(name, value, 0.0, math.inf, "a number of at least 0 (math.inf for no bound)")


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """An array of any shape as doubles in C order; TypeError unless it holds real numbers."""
    array = np.asarray(values)
    try:
        if array.dtype.kind in "fiubO":
            return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):  # objects that are no numbers
        pass
    raise TypeError(f"{name} must hold real numbers, got an array of {array.dtype}")


def flag(name: str, value: Any) -> bool:
    """True or False; TypeError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def public_number_of_records(n_public: Any) -> int:
    """A positive integer; ValueError for anything else."""
    if isinstance(n_public, (bool, np.bool_)) or not isinstance(n_public, Integral) or n_public < 1:
        raise ValueError(f"n_public must be a positive integer, got {n_public!r}")
    return int(n_public)


_SLACK = 1 << 26  # bytes, for what is small


def check_memory(n_bytes: float, what: str) -> None:
    """Raise ValueError unless so much memory is there and a limit of this process allows it."""
    available = machine_memory()
    if n_bytes <= available:
        try:
            np.empty(int(n_bytes) + _SLACK, dtype=np.uint8)  # never touched
        except MemoryError:
            available = 0.0
    if n_bytes > available:
        has = f"this machine has {available / 1e9:.3g} GB" if available else "this process cannot have it"
        raise ValueError(
            f"{what} takes about {n_bytes / 1e9:.3g} GB of memory, and {has}: use fewer columns or a "
            "smaller batch_size, or an algorithm that needs less (noisy_gd, dp_sgd)"
        )


@functools.cache  # needed before every fit
def machine_memory() -> float:
    """Bytes of memory that this process may use at most; infinite if unknown."""
    try:
        physical = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return math.inf
    try:
        return min(physical, float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return physical
