"""Private selection among candidates with integer scores, sampled exactly.

Small scores are preferred. Let one record change the scores by ``d`` and let ``r`` bound the *range* of its
effect, ``max_j d_j - min_j d_j <= r``: for sums of losses in ``[0, C]``, ``r = C`` under ``add_or_remove``
(the scores are monotone: all move in the same direction) and ``2 C`` under ``replace_one``. With rate ``c``:

====================================  =====================================  ==========================
mechanism                             guarantee                              use it
====================================  =====================================  ==========================
:func:`exponential_mechanism`         ``c r``-bounded range: ``c r``-DP and  under composition (zCDP,
                                      ``(c r)^2 / 8``-zCDP                   GDP): a quarter of the cost
:func:`permute_and_flip`              ``c r``-DP, not bounded range          for a pure guarantee: never
                                                                             worse than the above
:func:`report_noisy_min`,             ``c r``-DP, not bounded range          for published algorithms
noise "exponential" or "laplace"
====================================  =====================================  ==========================

A selection that is not of bounded range costs ``(c r)^2 / 2`` in zCDP, like any ``c r``-DP release. Nothing
is charged here. Arguments out of range raise ValueError, arguments of other types TypeError.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits

# The sampler's rate is numerator / 2^shift with numerator < 2^64 and shift <= 127.
_NUMERATOR_BITS = 64
_MAX_SHIFT = 127


def exponential_mechanism(bits: RandomBits, scores: ArrayLike, rate: float | Fraction) -> int:
    """Select a candidate with probability proportional to ``exp(-rate * score)``, exactly.

    Parameters
    ----------
    bits : RandomBits
    scores : array-like of integers, shape (n_candidates,)
        In units of their grid, within int64; small scores are preferred.
    rate : float or Fraction
        Per grid step; nonnegative and below 2^64. Rounded down, towards more privacy, if it has no exact form
        (see :func:`dyadic_rate`). 0 selects uniformly.

    Returns
    -------
    int
        Index of the selected candidate.

    Notes
    -----
    Guarantee: if one record changes the scores by ``d`` with ``max(d) - min(d) <= r``, the selection has
    ``rate * r``-bounded range: it is ``rate * r``-DP and ``(rate * r)^2 / 8``-zCDP. Nothing is charged here.

    The number of trials, and so the running time, depends on the scores.

    References
    ----------
    F. McSherry, K. Talwar, "Mechanism Design via Differential Privacy", 2007; C. Canonne, G. Kamath,
    T. Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithm 1 (exact sampling).
    """
    numerator, shift = dyadic_rate(rate if isinstance(rate, Fraction) else float(rate))
    return samplers.exponential_mechanism(bits, _candidates(scores), numerator, shift)


def permute_and_flip(bits: RandomBits, scores: ArrayLike, rate: float | Fraction) -> int:
    """Visit the candidates in random order and select the first that a biased coin accepts, exactly.

    Candidate ``j`` is accepted with probability ``exp(-rate * (score_j - smallest score))``.

    Parameters
    ----------
    bits, scores, rate
        As for :func:`exponential_mechanism`.

    Returns
    -------
    int
        Index of the selected candidate.

    Notes
    -----
    Guarantee: if one record changes the scores by ``d`` with ``max(d) - min(d) <= r``, the selection is
    ``rate * r``-DP. It is **not** of bounded range, and costs ``(rate * r)^2 / 2`` in zCDP. The gap between
    the selected and the best score is never larger, in expectation and in distribution, than with the
    exponential mechanism at the same rate. Nothing is charged here.

    The number of trials, at most one per candidate, depends on the scores.

    References
    ----------
    R. McKenna, D. Sheldon, "Permute-and-Flip: A new mechanism for differentially private selection", NeurIPS
    2020, Theorem 1 and section 4.
    """
    numerator, shift = dyadic_rate(rate if isinstance(rate, Fraction) else float(rate))
    return samplers.permute_and_flip(bits, _candidates(scores), numerator, shift)


def _candidates(scores: ArrayLike) -> NDArray[np.int64]:
    candidates = np.asarray(scores)
    if candidates.ndim != 1 or candidates.size == 0:
        raise ValueError(f"scores must have shape (n_candidates,), not empty; got {candidates.shape}")
    if not np.can_cast(candidates.dtype, np.int64):
        raise TypeError(f"scores must be integers within int64, got dtype {candidates.dtype}")
    return np.ascontiguousarray(candidates, dtype=np.int64)


@functools.lru_cache(maxsize=64)
def dyadic_rate(rate: float | Fraction) -> tuple[int, int]:
    """Return ``(numerator, shift)`` with ``numerator / 2^shift <= rate``, for the sampler.

    Equal for every float of at least 2^-74. Otherwise rounded down, by a factor of at least ``1 - 2^-62``
    for ``rate >= 2^-64`` and of at least ``1 - 2^-30`` for ``rate >= 2^-96``.

    Raises ValueError if `rate` is not finite, negative, or 2^64 or more.
    """
    if not (math.isfinite(rate) and 0 <= rate < 1 << _NUMERATOR_BITS):
        raise ValueError(f"rate must be a number from 0 to below 2^64, got {rate}")
    exact = Fraction(rate)
    integer_bits = math.floor(exact).bit_length()
    if integer_bits > 0 or exact == 0:
        shift = _NUMERATOR_BITS - integer_bits
    else:
        leading_zeros = (exact.denominator // exact.numerator).bit_length() - 1
        shift = min(_NUMERATOR_BITS - 1 + leading_zeros, _MAX_SHIFT)
    return math.floor(exact * (1 << shift)), shift


def laplace_rate(scale: float | Fraction) -> tuple[int, int]:
    """Return ``(numerator, shift)`` with ``numerator / 2^shift <= 1 / scale``, so never too little noise.

    Raises ValueError if `scale` is not above 2^-64 and at most 2^60.
    """
    if not 2.0**-64 < scale <= 2.0**60:
        raise ValueError(f"scale must be above 2^-64 and at most 2^60 steps, got {scale}")
    return dyadic_rate(1 / Fraction(scale))


def report_noisy_min(
    bits: RandomBits,
    scores: ArrayLike,
    scale: float | Fraction,
    noise: Literal["laplace", "exponential"] = "laplace",
) -> int:
    """Subtract independent noise from each score and return the index of the smallest, exactly.

    Kept for published algorithms. With the same guarantee :func:`permute_and_flip` is more accurate on its
    own, and :func:`exponential_mechanism` under composition.

    Parameters
    ----------
    bits, scores
        As for :func:`exponential_mechanism`.
    scale : float or Fraction
        Scale ``t`` of the noise in grid steps, at most 2^60; rounded up if ``1 / t`` has more than 64
        significant bits.
    noise : {"laplace", "exponential"}, default "laplace"
        Integers ``Y`` with ``P(Y = k)`` proportional to ``exp(-|k| / t)``: of both signs, or ``k >= 0`` only.

    Returns
    -------
    int
        Index of the selected candidate; the first of equal ones.

    Notes
    -----
    Guarantee: if one record changes the scores by ``d`` with ``max(d) - min(d) <= r``, the selection is
    ``r/t``-DP, not of bounded range. Proof: given the noise of the others, ``j`` wins if and only if its
    noise is at least some integer; the record moves this integer by at most ``r``; and
    ``P(Y >= k + r) >= exp(-r/t) P(Y >= k)``. So sums of losses in ``[0, C]`` need ``t = C/epsilon`` if a
    record is added or removed (monotone scores) and ``2 C/epsilon`` if one is replaced. *Adding* exponential
    noise to the scores, the wrong sign, would lose up to ``n_candidates - 1`` times as much privacy.
    Nothing is charged here.

    References
    ----------
    C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Claim 3.9 (noisy max);
    Canonne, Kamath, Steinke 2020, algorithm 2 (the noise).
    """
    if noise not in ("laplace", "exponential"):
        raise ValueError(f'noise must be "laplace" or "exponential", got {noise!r}')
    numerator, shift = laplace_rate(scale)
    return samplers.report_noisy_min(bits, _candidates(scores), numerator, shift, noise == "laplace")
