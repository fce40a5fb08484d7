"""Step size schedules: specification, validation, and evaluation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.algorithms import settings as check
from dperm.objective.objective import Array

#: Limit on the steps of a changing step size: all sizes are held in memory.
MOST_STEPS = 10**7
# Limit on the entries of a mapping, all of which appear in the statement.
_MOST_DROPS = 100

_EXPECTED = (
    'a number, "c/t" or "c/sqrt(t)" with a number c, a mapping from steps to the sizes from there on such '
    "as {1: 0.5, 100: 0.05}, or a function of the step, 1, 2, .."
)


@dataclass(frozen=True)
class StepSizes:
    """A step size schedule."""

    first: Callable[[int], Array]  # sizes of steps ``1 .. count``, the same in every call
    rule: object  # its `str` describes the schedule in the ledger and the statement

    @property
    def words(self) -> str:
        """Description for the ledger and the statement."""
        return str(self.rule)


#: Step size argument of an algorithm.
StepSize = float | str | Mapping[int, float] | Callable[[int], float] | StepSizes


def step_size(name: str, value: Any) -> float | StepSizes:
    """Check for a `Setting`: a number or a schedule, whose values :func:`step_sizes` checks."""
    if isinstance(value, StepSizes):
        return value
    if isinstance(value, str):
        return _by_name(name, value)
    if isinstance(value, Mapping):
        return _by_drops(name, value)
    if callable(value):
        called = _Called(name, value)
        return StepSizes(called, called)
    if np.ndim(value) > 0:
        raise ValueError(f"{name} must be {_EXPECTED}; got {value!r}")
    return check.positive(name, value)


def step_sizes(size: StepSize, steps: int) -> Array:
    """Sizes of steps ``1 .. steps``.

    Raises
    ------
    ValueError
        Unless all are between 1e-100 and 1e100, and at most `MOST_STEPS` if they change.
    """
    rule = step_size("step_size", size)
    if not isinstance(rule, StepSizes):
        return np.broadcast_to(np.float64(rule), steps)
    if steps > MOST_STEPS:
        raise ValueError(f"step_size must be a number for more than {MOST_STEPS:,} steps, got {steps:,}")
    sizes = rule.first(steps)
    bad = np.flatnonzero(~((sizes >= 1e-100) & (sizes <= 1e100)))
    if bad.size:
        raise ValueError(
            f"step_size must be between 1e-100 and 1e100 in every step, got {float(sizes[bad[0]])!r} in step "
            f"{bad[0] + 1:,}"
        )
    return sizes


def shrinking(size: float, steps: int) -> StepSizes:
    """`size` for the first half of `steps` steps, then falling linearly to 0 after the last one."""
    words = f"{size:.12g}, falling linearly to 0 in the second half of {steps} steps"
    return StepSizes(functools.partial(_shrinking, size, steps), words)


def _shrinking(size: float, steps: int, count: int) -> Array:
    return size * np.minimum(1.0, 2.0 * (1.0 - np.arange(count) / steps))


class _Called:
    """The values of a function, which is called once per step."""

    def __init__(self, name: str, rule: Callable[[int], float]) -> None:
        self._name, self._rule, self._known = name, rule, np.empty(0)

    def __call__(self, count: int) -> Array:
        done = self._known.size
        if count > done:
            more = (self._one(t) for t in range(done + 1, count + 1))
            self._known = np.concatenate([self._known, np.fromiter(more, np.float64, count - done)])
        return self._known[:count]

    def _one(self, t: int) -> float:
        return check.positive(f"{self._name} of step {t:,}", self._rule(t))

    def __str__(self) -> str:
        known = self._known
        shown = [f"{size:.4g}" for size in known[:3]] + [".."] * (known.size > 4)
        return "by step: " + ", ".join(shown + [f"{size:.4g}" for size in known[3:][-1:]])


def _by_name(name: str, text: str) -> StepSizes:
    found = re.fullmatch(r"\s*([^\s/]+)\s*/\s*(t|sqrt\(t\))\s*", text)
    try:
        scale = check.positive(name, float(found[1])) if found else None
    except ValueError:
        scale = None
    if found is None or scale is None:
        raise ValueError(f"{name} must be {_EXPECTED}; got {text!r}")
    return StepSizes(functools.partial(_power, scale, found[2] == "t"), f"{scale:.12g}/{found[2]}")


def _power(scale: float, by_step: bool, count: int) -> Array:
    t = np.arange(1.0, count + 1.0)
    return scale / (t if by_step else np.sqrt(t))


def _by_drops(name: str, sizes: Mapping[Any, Any]) -> StepSizes:
    if len(sizes) > _MOST_DROPS:
        raise ValueError(f"{name} must change at most {_MOST_DROPS} times, got {len(sizes)} sizes")
    pairs = sorted(
        (check.positive_integer(f"a step of {name}", step), check.positive(f"{name} from step {step}", size))
        for step, size in sizes.items()
    )
    if not pairs or pairs[0][0] != 1:
        raise ValueError(f"{name} must give the size from step 1 on, such as {{1: 0.5, 100: 0.05}}")
    starts, values = np.array([step for step, _ in pairs]), np.array([size for _, size in pairs])
    later = (f"{size:.12g} from step {step:,} on" for step, size in pairs[1:])
    return StepSizes(functools.partial(_drops, starts, values), ", ".join([f"{values[0]:.12g}", *later]))


def _drops(starts: Array, values: Array, count: int) -> Array:
    ends = np.append(np.minimum(starts[1:] - 1, count), count)
    return np.repeat(values, np.diff(ends, prepend=0))
