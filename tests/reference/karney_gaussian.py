"""Karney's sampler of rounded normal numbers, with fractions in place of fixed-width integers.

Written from the paper (C. F. F. Karney, 2016). With 32-bit digits it reads bits in the order of the compiled
sampler, so that both agree draw by draw on any stream; with other widths they agree in distribution only.
"""

import math
from fractions import Fraction

import numpy as np
from scipy.stats import norm


class LazyUniform:
    def __init__(self, reader, width):
        self._reader, self._width = reader, width
        self._digits = [reader.take(width)]

    def digit(self, index):
        while len(self._digits) <= index:
            self._digits.append(self._reader.take(self._width))
        return self._digits[index]

    def less(self, other):
        index = 0
        while self.digit(index) == other.digit(index):
            index += 1
        return self.digit(index) < other.digit(index)

    def integer(self, digits):
        """The first digits as one integer."""
        self.digit(digits - 1)
        value = 0
        for digit in self._digits[:digits]:
            value = value << self._width | digit
        return value

    def interval(self, digits):
        """Lower end and length of the interval known after the given number of digits."""
        self.digit(digits - 1)
        value = sum(Fraction(d, 1 << (self._width * (i + 1))) for i, d in enumerate(self._digits[:digits]))
        return value, Fraction(1, 1 << (self._width * digits))


class KarneyGaussian:
    def __init__(self, reader, width=32, first_digits=2):
        self._reader, self._width, self._first_digits = reader, width, first_digits

    def _uniform(self):
        return LazyUniform(self._reader, self._width)

    def _exp_minus_half(self):
        step = 1
        while self._reader.below(2 * step) == 0:
            step += 1
        return step % 2 == 1

    def _integer_part(self):
        while True:
            k = 0
            while self._exp_minus_half():
                k += 1
            if all(self._exp_minus_half() for _ in range(k * (k - 1))):
                return k

    def _trial(self, k, x):
        y, m = x, 0
        while True:
            z = self._uniform()
            if not z.less(y):
                break
            f = self._reader.below(2 * k + 2)
            if f == 2 * k + 1:
                break
            if f == 2 * k and not self._uniform().less(x):
                break
            y, m = z, m + 1
        return m % 2 == 0

    def half_normal(self):
        """Integer part and fraction, with as many digits drawn as the decisions needed."""
        while True:
            k, x = self._integer_part(), self._uniform()
            if all(self._trial(k, x) for _ in range(k + 1)):
                return k, x

    def draw(self, scale):
        k, x = self.half_normal()
        digits = self._first_digits
        while True:
            low, length = x.interval(digits)
            lowest = math.floor(scale * (k + low) + Fraction(1, 2))
            highest = math.ceil(scale * (k + low + length) + Fraction(1, 2)) - 1
            if lowest == highest:
                break
            digits += 1
        magnitude = min(lowest, 1 << 62)
        return -magnitude if self._reader.take(1) else magnitude


def rounded_gaussian_probabilities(scale, largest):
    """P(round(N(0, scale^2)) = j) for j = -largest .. largest, as differences of upper tails."""
    edges = (np.arange(largest + 2) - 0.5) / scale
    tail = norm.sf(edges)
    positive = tail[:-1] - tail[1:]
    return np.concatenate([positive[:0:-1], positive])
