"""How the benchmarks measure: both sides of a ratio alternately, and the median of the rounds' ratios.

This makes them insensitive to a machine whose speed drifts.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dperm

Call = Callable[[], object]

# The threads of numpy's linear algebra spin on their cores for about 80 ms after a product.
IDLE_SECONDS = 0.15
REPEATED_SECONDS = 0.02


def seconds(call: Call) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def per_unit(call: Callable[[], int]) -> float:
    """Wall time of one call per unit of work; the call returns their number."""
    start = time.perf_counter()
    units = call()
    return (time.perf_counter() - start) / units


def milliseconds(call: Call, rounds: int = 3) -> float:
    """The shortest time of several calls."""
    return 1e3 * min(seconds(call) for _ in range(rounds))


def ratio(slow: Call, fast: Call, rounds: int) -> float:
    """Median over rounds of time(slow) / time(fast)."""
    repeats = {call: max(1, math.ceil(REPEATED_SECONDS / _second_call(call))) for call in (slow, fast)}

    def one_of_several(call: Call) -> float:
        call()  # wakes the threads
        return seconds(lambda: [call() for _ in range(repeats[call])]) / repeats[call]

    return median_ratio(lambda: one_of_several(slow), lambda: one_of_several(fast), rounds)


def _second_call(call: Call) -> float:
    call()
    return seconds(call)


def median_ratio(slow: Callable[[], float], fast: Callable[[], float], rounds: int) -> float:
    """Median over rounds of the ratio of two functions' measurements, made while other threads sleep."""

    def undisturbed(call: Callable[[], float]) -> float:
        time.sleep(IDLE_SECONDS)
        return call()

    return float(np.median([undisturbed(slow) / undisturbed(fast) for _ in range(rounds)]))


def entry_sum(rows: Any, n_threads: int) -> float:
    """A pass that only reads the matrix."""
    return float(rows.entry_sum(n_threads))


def times_in_turn(calls: Mapping[str, Call], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each call in each round, after one untimed call."""
    for call in calls.values():
        call()
    times = [{name: seconds(call) for name, call in calls.items()} for _ in range(rounds)]
    return {name: np.array([each[name] for each in times]) for name in calls}


def show(what: str, value: float) -> None:
    """One line of a table."""
    digits = max(0, 2 - int(math.log10(max(value, 1e-9))))
    print(f"| {what:<62} | {value:10.{digits}f} |", flush=True)


def show_ratios(sides: Mapping[str, tuple[Call, Call]], rounds: int) -> None:
    """One line for each pair (slow, fast)."""
    for what, (slow, fast) in sides.items():
        show(what, ratio(slow, fast, rounds))


def show_row(name: str, values: list[list[float]]) -> None:
    """A line of means and standard deviations over the first axis."""
    mean, deviation = np.mean(values, axis=0), np.std(values, axis=0)
    cells = [f"{m:.2f} ({s:.2f})" for m, s in zip(mean, deviation, strict=True)]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def show_heading(title: str, first: str, epsilons: list[float]) -> None:
    """The heading of a table of `show_row`."""
    print(f"{title}\n| {first} | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |", flush=True)


def command_line(description: str | None, **defaults: Any) -> argparse.Namespace:
    """Parse the command line, and print how the package was built.

    A default may be a value, a list if several can be given, a tuple of choices of which the first is the
    default, the type of an optional value, or False for a switch.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
            continue
        several = isinstance(default, list)
        first = default[0] if isinstance(default, list | tuple) else default
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=default if isinstance(default, type) else type(first),
            nargs="+" if several else None,
            choices=default if isinstance(default, tuple) else None,
            default=None if isinstance(default, type) else default if several else first,
        )
    found = parser.parse_args()
    print(dperm.build_info())
    return found
