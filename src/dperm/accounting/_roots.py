"""Search for the smallest noise that meets a target."""

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
    """Positive root of a function of the logarithm that decreases, from any guess.

    Parameters
    ----------
    excess : callable
        Of ``log(x)``; positive below the root and negative above.
    guess : float
        Where the search starts, > 0.
    stride : float, default=1.0
        Step of the search for an interval around the root, in ``log(x)``.
    xtol, rtol, maxiter
        Of `scipy.optimize.brentq`, in ``log(x)``.
    """
    high = math.log(guess)
    while excess(high) > 0.0:
        high += stride
    low = high - stride
    while excess(low) < 0.0:
        low -= stride
    return math.exp(float(brentq(excess, low, high, xtol=xtol, rtol=rtol, maxiter=maxiter)))
