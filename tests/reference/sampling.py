"""Poisson samples, bounded integers, permutations and Floyd's samples in plain Python.

Bits are read in the order of the compiled samplers, so that both agree on any stream.
"""

import functools
import math

import mpmath as mp

POISSON_BLOCK = 2048
SPARSE_CHUNK = 32
PERMUTATION_BATCH = 128


def poisson_sample(reader, threshold, n):
    chosen = []
    for first in range(0, n, POISSON_BLOCK):
        rows = min(POISSON_BLOCK, n - first)
        lanes = [reader.take(8) for _ in range(rows)]
        reader.take(8 * (-rows % 4))
        for row, lane in enumerate(lanes):
            word = lane << 56
            if lane == threshold >> 56:
                word |= reader.word() >> 8
            if word < threshold:
                chosen.append(first + row)
    return chosen


PRECISION = 1088  # bits of a probability: 64 more than the samplers have


@functools.cache
def binomial_at_most(threshold, block):
    """``floor(2^1088 P(at most j))`` for block trials of probability threshold / 2^64, j = 0 .. 260."""
    with mp.workprec(PRECISION + 300):
        rate, total, cumulative = mp.mpf(threshold) / 2**64, mp.mpf(0), []
        for j in range(min(block, 260) + 1):
            total += math.comb(block, j) * rate**j * (1 - rate) ** (block - j)
            cumulative.append(int(mp.floor(min(total, 1) * 2**PRECISION)))
    return cumulative


def block_count(reader, threshold, block, digits):
    """Number of sampled rows of a block: that of the probabilities not above a uniform number."""
    for j, at_most in enumerate(binomial_at_most(threshold, block)):
        known = 1
        while True:
            while len(digits) < known:
                digits.append(reader.take(32))
            prefix = sum(digit << 32 * (known - 1 - i) for i, digit in enumerate(digits[:known]))
            share = at_most >> (PRECISION - 32 * known)
            if prefix != share:
                break
            known += 1
        if prefix < share:
            return j
    raise AssertionError("the probabilities end at 1")


def sparse_sample(reader, threshold, log2_block, n):
    block, rows = 1 << log2_block, []
    for chunk in range(0, n, SPARSE_CHUNK * block):
        firsts = range(chunk, min(n, chunk + SPARSE_CHUNK * block), block)
        digits = [reader.take(32) for _ in firsts]
        counts = [block_count(reader, threshold, block, [digit]) for digit in digits]
        owners = [first for first, count in zip(firsts, counts, strict=True) for _ in range(count)]
        chosen, again = set(), []
        for first in owners:
            row = first + (reader.take(32) >> (32 - log2_block))
            if row in chosen:
                again.append(first)
            chosen.add(row)
        for first in again:
            while (row := first + (reader.take(32) >> (32 - log2_block))) in chosen:
                pass
            chosen.add(row)
        rows += sorted(row for row in chosen if row < n)
    return rows


def below(reader, bound, first=None):
    """Lemire's method, with rejection of the surplus of each result."""
    width = 32 if bound < 1 << 32 else 64
    while True:
        x = first
        if x is None:
            x = reader.take(32) if width == 32 else reader.word()
        first = None
        product = x * bound
        if product % (1 << width) >= (1 << width) % bound:
            return product >> width


def permutation(reader, n):
    out = list(range(n))
    last = n - 1
    while last >= 1:
        batch = min(last, PERMUTATION_BATCH)
        digits = [reader.take(32) for _ in range(batch)]
        chosen = [below(reader, last + 1 - b, digit) for b, digit in enumerate(digits)]
        for b, j in enumerate(chosen):
            out[last - b], out[j] = out[j], out[last - b]
        last -= batch
    return out


def sample_without_replacement(reader, n, size):
    chosen = set()
    for last in range(n - size, n):
        j = below(reader, last + 1)
        chosen.add(last if j in chosen else j)
    return sorted(chosen)
