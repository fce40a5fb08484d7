"""Exact Bernoulli(exp(-g)) and the exponential mechanism with fractions (Canonne, Kamath, Steinke 2020).

Bits are read in the order of the compiled sampler, so that both agree on any stream.
"""

import math
from fractions import Fraction


def _at_most_one(reader, g, shift):
    step = 1
    while reader.below(step) == 0:
        if g < 1:
            uniform = (reader.word() << 64 | reader.word()) % (1 << shift)
            if Fraction(uniform, 1 << shift) >= g:
                break
        step += 1
    return step % 2 == 1


def bernoulli_exp(reader, numerator, shift, distance=1):
    g = Fraction(numerator * distance, 1 << shift)
    whole = math.floor(g)
    if not all(_at_most_one(reader, Fraction(1), 0) for _ in range(whole)):
        return False
    return g == whole or _at_most_one(reader, g - whole, shift)


def exponential_mechanism(reader, scores, numerator, shift):
    while True:
        j = reader.below(len(scores))
        if bernoulli_exp(reader, numerator, shift, scores[j] - min(scores)):
            return j
