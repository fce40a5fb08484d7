"""The binomial distribution of the number of sampled records in a block, in high precision."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

#: Rates up to this threshold / 2^64 = 1/32 are drawn block by block; above, bits for each record are cheaper.
MAX_THRESHOLD = 1 << 59

_DIGITS = 32  # of 32 bits each: LAZY_UNIFORM_DIGITS of the samplers
_BITS = 32 * _DIGITS
_MAX_LOG2_BLOCK = 32
_MIN_COUNTS = 16  # that the sampler searches at first


@functools.lru_cache(maxsize=64)
def block_counts(threshold: int) -> tuple[NDArray[np.uint32], int]:
    """Distribution of the number of sampled records in a block, for the rate ``threshold / 2^64``.

    Parameters
    ----------
    threshold : int
        1 to `MAX_THRESHOLD`.

    Returns
    -------
    digits : ndarray of uint32, shape (32, size)
        Column j: the probability of at most j records to 1024 bits, the most significant 32 first. All bits
        are correct: probabilities are computed in integer interval arithmetic until both ends agree.
    log2_block : int
        Blocks have ``2^log2_block`` records, of which 2 to 4 are sampled on average if that is possible.
    """
    log2_block = min(_MAX_LOG2_BLOCK, 66 - (threshold - 1).bit_length())
    extra = 128
    while (cumulative := _cumulative(threshold, log2_block, extra)) is None:
        extra *= 2
    cumulative += [(1 << _BITS) - 1] * max(1, _MIN_COUNTS - len(cumulative))
    rows = [np.frombuffer(value.to_bytes(_BITS // 8, "big"), dtype=">u4") for value in cumulative]
    digits = np.ascontiguousarray(np.stack(rows, axis=1), dtype=np.uint32)
    digits.flags.writeable = False
    return digits, log2_block


def _cumulative(threshold: int, log2_block: int, extra: int) -> list[int] | None:
    """``floor(2^1024 P(at most j))`` for j = 0, 1, .. while it is below ``2^1024 - 1``.

    None if `extra` more bits of precision do not determine it.
    """
    precision, block = _BITS + extra, 1 << log2_block
    others = (1 << 64) - threshold
    low = high = others << (precision - 64)
    for _ in range(log2_block):
        low, high = low * low >> precision, -(-high * high >> precision)
    cumulative: list[int] = []
    at_least, at_most = low, high  # bounds on the sum of the probabilities so far
    for j in range(block):
        digits = at_least >> extra
        if digits != min(at_most >> extra, (1 << _BITS) - 1):
            return None
        if digits == (1 << _BITS) - 1:
            break
        cumulative.append(digits)
        up, down = (block - j) * threshold, (j + 1) * others
        low, high = low * up // down, -(-high * up // down)
        at_least, at_most = at_least + low, at_most + high
    return cumulative
