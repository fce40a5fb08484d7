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


def report_noisy_min(bits: RandomBits, scores: ArrayLike, scale: float) -> int:
    """Return the index of the smallest score after adding discrete Laplace noise to each.

    Kept for published algorithms; :func:`exponential_mechanism` chooses better for the same privacy.

    Parameters
    ----------
    bits : RandomBits
    scores : array-like of integers, shape (n_candidates,)
    scale : float
        Scale ``t`` of the noise in grid steps, at least 1: ``P(Y = k)`` is proportional to
        ``exp(-|k| / t)``. Rounded up by at most a millionth.

    Notes
    -----
    Guarantee: if one record moves all scores the same way, by at most ``r``, the choice is
    ``(r / t)``-DP; if they may move in opposite ways, ``(2 r / t)``-DP. Nothing is charged here.

    References
    ----------
    C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Claim 3.9 (noisy max);
    Canonne, Kamath, Steinke 2020, algorithm 2 (discrete Laplace).
    """
    if not 1.0 <= scale <= 2.0**60:
        raise ValueError(f"scale must be from 1 to 2^60 grid steps, got {scale}")
    noisy = [int(score) + _discrete_laplace(bits, scale) for score in np.asarray(scores)]
    return noisy.index(min(noisy))


def _discrete_laplace(bits: RandomBits, scale: float) -> int:
    """One draw of ``P(Y = k)`` proportional to ``exp(-|k| rate)``, with ``rate = numerator/2^shift``.

    ``|Y| = U + 2^m V``: U uniform below 2^m, kept with probability ``exp(-U rate)``, V the number of
    successes with probability ``exp(-2^m rate)`` before a failure. A negative zero is drawn again.
    """
    m = math.ceil(math.log2(scale))
    shift = m + 20
    numerator = math.floor(Fraction(1 << shift) / Fraction(scale))
    while True:
        word = int(samplers.uniform_words(bits, 1)[0])
        uniform = word >> (64 - m) if m else 0
        if not _happens(bits, numerator * uniform, shift):
            continue
        blocks = 0
        while _happens(bits, numerator << m, shift):
            blocks += 1
        magnitude = uniform + (blocks << m)
        negative = bool(int(samplers.uniform_words(bits, 1)[0]) >> 63)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def _happens(bits: RandomBits, numerator: int, shift: int) -> bool:
    """Bernoulli trial with probability ``exp(-numerator / 2^shift)``, exactly."""
    divisor = numerator & -numerator  # cancel common powers of two: the sampler takes 64 bits
    common = min(divisor.bit_length() - 1, shift) if numerator else shift
    return bool(samplers.bernoulli_exp(bits, numerator >> common, shift - common, 1)[0])
