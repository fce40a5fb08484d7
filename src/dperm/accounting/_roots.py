"""Root finding for calibration, with results on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

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
