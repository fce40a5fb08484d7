"""Private selection among candidates with integer scores, sampled exactly."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits

# The sampler's rate is numerator / 2^shift with numerator < 2^64 and shift <= 127.
_NUMERATOR_BITS = 64
_LARGEST_SHIFT = 127


def exponential_mechanism(bits: RandomBits, scores: ArrayLike, rate: float | Fraction) -> int:
    """Choose a candidate with probability proportional to ``exp(-rate * score)``, exactly.

    Parameters
    ----------
    bits : RandomBits
    scores : array-like of integers, shape (n_candidates,)
        Small scores are likely. Integers in units of the grid of the scores, within int64.
    rate : float or Fraction
        Per grid step; finite and at least 0, below 2^64. Rounded down where it has no exact form
        (see :func:`dyadic_rate`), towards more privacy. 0 chooses uniformly.

    Returns
    -------
    int
        Index of the chosen candidate.

    Raises
    ------
    TypeError
        If `scores` are not integers.
    ValueError
        If `scores` is empty or not one-dimensional, or `rate` is out of range.

    Notes
    -----
    Guarantee: if one record changes the scores by ``d`` with ``max(d) - min(d) <= r``, the choice has
    ``rate * r``-bounded range: it is ``rate * r``-DP and ``(rate * r)^2 / 8``-zCDP. Nothing is charged here.

    The number of trials, and so the running time, depends on the scores.

    References
    ----------
    F. McSherry, K. Talwar, "Mechanism Design via Differential Privacy", 2007; C. Canonne, G. Kamath,
    T. Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithm 1 (exact sampling).
    """
    candidates = np.asarray(scores)
    if candidates.ndim != 1 or candidates.size == 0:
        raise ValueError(f"scores must have shape (n_candidates,), not empty; got {candidates.shape}")
    if not np.can_cast(candidates.dtype, np.int64):
        raise TypeError(f"scores must be integers within int64, got dtype {candidates.dtype}")
    numerator, shift = dyadic_rate(rate if isinstance(rate, Fraction) else float(rate))
    return samplers.exponential_mechanism(
        bits, np.ascontiguousarray(candidates, dtype=np.int64), numerator, shift
    )


@functools.lru_cache(maxsize=64)
def dyadic_rate(rate: float | Fraction) -> tuple[int, int]:
    """Return ``(numerator, shift)`` with ``numerator / 2^shift <= rate``, for the sampler.

    Equal for every float of at least 2^-74. Otherwise rounded down, by a factor of at least ``1 - 2^-62``
    down to ``rate = 2^-64`` and of at least ``1 - 2^-30`` down to 2^-96.

    Raises
    ------
    ValueError
        If `rate` is not finite, negative, or 2^64 or more.
    """
    if not (math.isfinite(rate) and 0 <= rate < 1 << _NUMERATOR_BITS):
        raise ValueError(f"rate must be a number from 0 to below 2^64, got {rate}")
    exact = Fraction(rate)
    integer_bits = math.floor(exact).bit_length()
    if integer_bits > 0 or exact == 0:
        shift = _NUMERATOR_BITS - integer_bits
    else:
        leading_zeros = (exact.denominator // exact.numerator).bit_length() - 1
        shift = min(_NUMERATOR_BITS - 1 + leading_zeros, _LARGEST_SHIFT)
    return math.floor(exact * (1 << shift)), shift
