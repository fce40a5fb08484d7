"""How many records of a block are in a Poisson sample: the binomial law, to more digits than draws need."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

#: Rates up to this threshold / 2^64, 1/32, are drawn block by block: above, bits for every record cost less.
LARGEST_THRESHOLD = 1 << 59

_DIGITS = 32  # of 32 bits each: LAZY_UNIFORM_DIGITS of the samplers
_BITS = 32 * _DIGITS
_LARGEST_LOG2_BLOCK = 32
_FEWEST_COUNTS = 16  # that the sampler looks through at first


@functools.lru_cache(maxsize=64)
def block_counts(threshold: int) -> tuple[NDArray[np.uint32], int]:
    """Law of the number of records in a block, each in with probability ``threshold / 2^64``.

    Parameters
    ----------
    threshold : int
        1 to `LARGEST_THRESHOLD`.

    Returns
    -------
    digits : ndarray of uint32, shape (32, size)
        Column j: the probability of at most j records, 1024 bits of it, the most significant 32 first. All
        bits are right: probabilities are computed as intervals, in integers, until both ends agree.
    log2_block : int
        Blocks have ``2^log2_block`` records, of which 2 to 4 are in on average where that is possible.
    """
    log2_block = min(_LARGEST_LOG2_BLOCK, 66 - (threshold - 1).bit_length())
    extra = 128
    while (law := _cumulative(threshold, log2_block, extra)) is None:
        extra *= 2
    law += [(1 << _BITS) - 1] * max(1, _FEWEST_COUNTS - len(law))
    rows = [np.frombuffer(value.to_bytes(_BITS // 8, "big"), dtype=">u4") for value in law]
    digits = np.ascontiguousarray(np.stack(rows, axis=1), dtype=np.uint32)
    digits.flags.writeable = False
    return digits, log2_block


def _cumulative(threshold: int, log2_block: int, extra: int) -> list[int] | None:
    """``floor(2^1024 P(at most j))`` for j = 0, 1, .. while it is below ``2^1024 - 1``.

    None where `extra` more bits do not tell it.
    """
    precision, block = _BITS + extra, 1 << log2_block
    others = (1 << 64) - threshold
    low = high = others << (precision - 64)
    for _ in range(log2_block):
        low, high = low * low >> precision, _ceil_shift(high * high, precision)
    law: list[int] = []
    at_least, at_most = low, high  # sums of the probabilities so far
    for j in range(block):
        digits = at_least >> extra
        if digits != min(at_most >> extra, (1 << _BITS) - 1):
            return None
        if digits == (1 << _BITS) - 1:
            break
        law.append(digits)
        up, down = (block - j) * threshold, (j + 1) * others
        low, high = low * up // down, -(-high * up // down)
        at_least, at_most = at_least + low, at_most + high
    return law


def _ceil_shift(value: int, bits: int) -> int:
    return -(-value >> bits)
