"""Exact samples of records and random permutations, from cryptographic bits.

A sample that amplifies privacy is **secret**: do not publish which records are in it, nor how many. Divide a
sum by the public ``rate * n``, and release an empty batch like any other.
Arguments out of range raise ValueError, arguments of other types TypeError.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits
from dperm.accounting.random_trials import TruncatedNegativeBinomial
from dperm.mechanisms.block_counts import MAX_THRESHOLD, block_counts
from dperm.mechanisms.random_source import RandomState, random_bits

_WORDS = 1 << 64


def poisson_rate(q: float | Fraction) -> Fraction:
    """Return the actual probability of Poisson sampling: a multiple of 2^-64, at or below `q`.

    Use this number for accounting. A float means itself or the decimal number that it prints as, whichever is
    smaller: 0.01 becomes 184467440737095516 / 2^64.

    Raises ValueError if `q` is not a number from 0 to 1.
    """
    return Fraction(_threshold(q), _WORDS)


@functools.lru_cache(maxsize=256, typed=True)  # a run uses the same rate at each step
def _threshold(q: float | Fraction) -> int:
    if not 0 <= q <= 1:
        raise ValueError(f"q must be a number from 0 to 1, got {q}")
    rate = q if isinstance(q, Fraction) else min(Fraction(float(q)), Fraction(repr(float(q))))
    return math.floor(rate * _WORDS)


def poisson_sample(bits: RandomState | RandomBits, q: float | Fraction, n: int) -> NDArray[np.int64]:
    """Sample each of `n` records independently with probability ``poisson_rate(q)``, exactly.

    Parameters
    ----------
    bits : RandomBits, or a random_state
        None draws cryptographic bits. A seed makes the sample reproducible and **gives no privacy**.
    q : float or Fraction
        Sampling rate, 0 to 1.
    n : int
        Number of records.

    Returns
    -------
    ndarray of int64
        Indices of the sampled records, ascending. Their number is random, and as secret as they are.

    Notes
    -----
    A record is sampled if and only if a 64-bit word of its own is below ``floor(q 2^64)``, independently of
    all other records. Only as much of a word is drawn as the comparison needs, 8 bits in most cases; this
    changes no probability. At rates up to 1/32 the same distribution is sampled in blocks of records: first
    the binomial number of sampled records, by comparing a uniform number with the digits of the cumulative
    probabilities until they differ, then which ones. Time and bits then grow with the sample only. Skipping
    records by geometric gaps in floating point would not be exact.
    """
    if _threshold(q) == _WORDS:
        return np.arange(_number_of_records(n), dtype=np.int64)
    return poisson_draw(random_bits(bits), q, n)._result()


def poisson_draw(bits: RandomBits, q: float | Fraction, n: int) -> samplers.PoissonDraw:
    """A deferred :func:`poisson_sample`, drawn by its ``_result()`` or by compiled code during a pass.

    For `q` below 1.
    """
    return samplers.PoissonDraw(bits, *_poisson_plan(q, _number_of_records(n)))


@functools.lru_cache(maxsize=256, typed=True)
def _poisson_plan(q: float | Fraction, n: int) -> tuple[Any, ...]:
    """Arguments of a draw, other than the bits."""
    threshold = _threshold(q)
    if threshold == 0:
        return 0, 0, 0  # always empty
    mean = n * (threshold / _WORDS)
    capacity = math.ceil(mean + 8 * math.sqrt(mean) + 8)
    return threshold, n, capacity, block_counts(threshold) if threshold <= MAX_THRESHOLD else None


def _number_of_records(n: int) -> int:
    n = operator.index(n)
    if not 0 <= n < 1 << 62:
        raise ValueError(f"n must be from 0 to below 2^62, got {n}")
    return n


def uniform_integers(
    bits: RandomState | RandomBits, bound: int, size: int | Sequence[int]
) -> NDArray[np.int64]:
    """Draw independent uniform integers from ``0 .. bound - 1``, exactly.

    Parameters
    ----------
    bits : RandomBits, or a random_state
    bound : int
        1 to 2^63.
    size : int or sequence of ints
        Shape of the result.

    References
    ----------
    D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.
    """
    return samplers.uniform_integers(random_bits(bits), operator.index(bound), size)


def number_of_trials(bits: RandomState | RandomBits, law: TruncatedNegativeBinomial) -> int:
    """Draw the secret number of trials of a search, by inversion from a uniform number of 256 bits."""
    uniform = int.from_bytes(samplers.uniform_words(random_bits(bits), 4).tobytes(), "little")
    return law.quantile(Fraction(uniform, 1 << 256))


def permutation(bits: RandomState | RandomBits, n: int) -> NDArray[np.int32] | NDArray[np.int64]:
    """Return an exactly uniform random permutation of ``0 .. n - 1`` (Fisher-Yates).

    The dtype is int32 for up to 2^31 entries, else int64.
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"n must be at least 0, got {n}")
    return samplers.permutation(random_bits(bits), n, n <= 1 << 31)


def sample_without_replacement(bits: RandomState | RandomBits, n: int, size: int) -> NDArray[np.int64]:
    """Draw an exactly uniform random set of `size` of `n` records.

    Parameters
    ----------
    bits : RandomBits, or a random_state
    n : int
        Number of records, at most 2^62.
    size : int
        Number of records to draw, at most `n`. Memory and time grow with `size` only.

    Returns
    -------
    ndarray of int64, shape (size,)
        Indices, ascending.

    References
    ----------
    R. W. Floyd, in J. Bentley, "Programming Pearls: a sample of brilliance", CACM 30(9), 1987.
    """
    n, size = operator.index(n), operator.index(size)
    if not 0 <= size <= n <= 1 << 62:
        raise ValueError(f"size must be from 0 to n, and n at most 2^62; got size={size}, n={n}")
    return samplers.sample_without_replacement(random_bits(bits), n, size)
