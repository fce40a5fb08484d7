"""The sampler of rounded normal numbers, with fractions in place of fixed-width integers.

With 32-bit digits it reads bits in the order of the compiled sampler, so that both agree draw by draw on any
stream; with other widths they agree in distribution only.
"""

import functools
import math
from bisect import bisect_left
from fractions import Fraction

import mpmath
import numpy as np
from scipy.stats import norm

CUMULATIVE_BITS = 512


@functools.cache
def cumulative():
    """``floor(2^512 P(cell <= m))``, as long as that is not the probability of all cells."""
    with mpmath.workdps(400):
        weights = [mpmath.exp(-(mpmath.mpf(m) ** 2) / 512) for m in range(1000)]
        total, sums, result = mpmath.fsum(weights), mpmath.mpf(0), []
        for weight in weights:
            sums += weight
            result.append(int(mpmath.floor(sums / total * 2**CUMULATIVE_BITS)))
            if result[-1] == 2**CUMULATIVE_BITS - 1:
                return result


def accepted_fraction(first_digit):
    """Fields of a stream for a half-normal number below 1 whose first 32 bits are `first_digit`."""
    cell = first_digit >> 28
    below, up_to = (cumulative()[cell - 1] if cell else 0), cumulative()[cell]
    return [
        (32, (below + up_to) // 2 >> (CUMULATIVE_BITS - 32)),
        (28, first_digit & 0xFFFFFFF),
        (9, 511),  # none of the cases in which acceptance needs further numbers
    ]


class LazyUniform:
    """Bits are revealed up to multiples of `width`; the first ones may be given."""

    def __init__(self, reader, width, prefix_bits=0, prefix=0):
        self._reader, self._width = reader, width
        self.known, self._value = prefix_bits, prefix  # bits
        self.integer(1)

    def integer(self, digits):
        """The first digits as one integer."""
        wanted = digits * self._width
        while self.known < wanted:
            count = self._width - self.known % self._width
            self._value = self._value << count | self._reader.take(count)
            self.known += count
        return self._value >> (self.known - wanted)

    def less(self, other):
        digits = 1
        while self.integer(digits) == other.integer(digits):
            digits += 1
        return self.integer(digits) < other.integer(digits)

    def interval(self, digits):
        """Lower end and length of the interval known after the given number of digits."""
        length = Fraction(1, 1 << (self._width * digits))
        return self.integer(digits) * length, length


class ExactGaussian:
    def __init__(self, reader, width=32, first_digits=2):
        self._reader, self._width, self._first_digits = reader, width, first_digits

    def _cell(self):
        """The cell of width 1/16, by inversion."""
        u, digits = LazyUniform(self._reader, self._width), 1
        while True:
            unknown = CUMULATIVE_BITS - digits * self._width
            first, last = (
                bisect_left(cumulative(), end << unknown)
                for end in (u.integer(digits), u.integer(digits) + 1)
            )
            if first == last:
                return first
            digits += 1

    def _in_cell(self, cell):
        return LazyUniform(self._reader, self._width, 4, cell % 16)

    def _rate(self, cell, x):
        choice = self._reader.take(9)
        if choice == 2 * (cell % 256):
            return self._in_cell(cell).less(x)
        return choice < 2 * (cell % 256)

    def _stops_after_even_number(self, cell, x, rate):
        smallest, events = x, 0
        while rate(cell, x):
            z = self._in_cell(cell)
            if not z.less(smallest):
                break
            smallest, events = z, events + 1
        return events % 2 == 0

    def half_normal(self):
        """Integer part and fraction, with as many digits drawn as the decisions needed."""
        while True:
            cell = self._cell()
            x = self._in_cell(cell)
            rates = [lambda cell, x: True] * (cell // 256) + [self._rate]
            if all(self._stops_after_even_number(cell, x, rate) for rate in rates):
                return cell // 16, x

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
