"""Poisson samples, bounded integers, permutations and Floyd's samples in plain Python.

Bits are read in the order of the compiled samplers, so that both can be compared on any stream.
"""

POISSON_BLOCK = 2048
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


def below(reader, bound, first=None):
    """Lemire's method: the smallest multiple of 1/2^width that is kept of each result's share."""
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
