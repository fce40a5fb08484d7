"""Rounded norm-Laplace vectors with Python integers, and the real numbers whose leading bits are drawn.

`NormLaplace.draw` reads bits in the order of the compiled sampler. `rounded` computes the correct result for
any continuation of the digits drawn, with mpmath, at a precision that decides every rounding.
"""

import math

import mpmath
import numpy as np

from reference.exact_gaussian import ExactGaussian

DIGITS = 32


class Number:
    def __init__(self, gaussian, reader):
        self.k, self.x = gaussian.half_normal()
        self.negative = reader.take(1)

    def at(self, digits):
        return (self.k << 32 * digits) + self.x.integer(digits)

    def real(self, continuation):
        """The number whose digits drawn so far are followed by a fraction in [0, 1]."""
        known = self.x.known // 32
        return (mpmath.mpf(self.at(known)) + continuation) / mpmath.mpf(2) ** (32 * known)


class NormLaplace:
    def __init__(self, reader, numerator, shift, first_digits=3):
        self.reader, self.p, self.shift, self.first_digits = reader, numerator, shift, first_digits

    def draw(self, dimension):
        gaussian = ExactGaussian(self.reader)
        numbers = []
        for _ in range(2 * dimension + 1):
            numbers.append(Number(gaussian, self.reader))
            numbers[-1].x.integer(self.first_digits)
        self.radius, self.entries = numbers[: dimension + 1], numbers[dimension + 1 :]
        result, digits, open_entries = {}, self.first_digits, range(dimension)
        self.rounds = 0
        while open_entries:
            assert digits <= DIGITS
            squares = sum(number.at(digits) ** 2 for number in self.radius)
            low = math.isqrt(squares)
            high = low + 1 + math.isqrt(dimension) + 1  # 1 + ceil(sqrt(d + 1))
            ends = [
                [
                    (2 * self.p * radius * n + (1 << (self.shift + 64 * digits)))
                    >> (self.shift + 64 * digits + 1)
                    for radius, n in ((low, entry.at(digits)), (high, entry.at(digits) + 1))
                ]
                for entry in (self.entries[j] for j in open_entries)
            ]
            for j, (lowest, highest) in zip(open_entries, ends, strict=True):
                if min(lowest, 1 << 62) == min(highest, 1 << 62):
                    magnitude = min(lowest, 1 << 62)
                    result[j] = -magnitude if self.entries[j].negative else magnitude
            open_entries = [j for j in open_entries if j not in result]
            if open_entries:
                digits = min(2 * digits, DIGITS)
                for number in [*self.radius, *(self.entries[j] for j in open_entries)]:
                    number.x.integer(digits)
                self.rounds += 1
        return [result[j] for j in range(dimension)]

    def rounded(self, continuations):
        """round(s ||N'|| N) for the last drawn vector; continuations: one number in [0, 1] per normal."""
        with mpmath.workdps(800):
            reals = [
                number.real(c) for number, c in zip([*self.radius, *self.entries], continuations, strict=True)
            ]
            radius = mpmath.sqrt(mpmath.fsum(r * r for r in reals[: len(self.radius)]))
            scale = mpmath.mpf(self.p) / mpmath.mpf(2) ** self.shift * radius
            result = []
            for real, entry in zip(reals[len(self.radius) :], self.entries, strict=True):
                magnitude = min(int(mpmath.floor(scale * real + mpmath.mpf(1) / 2)), 1 << 62)
                result.append(-magnitude if entry.negative else magnitude)
            return result


def symmetric_probabilities(tail):
    """Probabilities of rounded values from the upper tails of a symmetric distribution at 1/2, 3/2, ..."""
    positive = tail[:-1] - tail[1:]
    return np.concatenate([positive[::-1], [1 - 2 * tail[0]], positive])


def rounded_laplace_probabilities(scale, largest):
    """P(round(z) = j), j = -largest .. largest, for the density exp(-|z| / scale) / (2 scale)."""
    edges = (np.arange(largest + 1) + 0.5) / scale
    return symmetric_probabilities(0.5 * np.exp(-edges))


def rounded_marginal_in_3d(scale, largest):
    """The same for one entry of a vector of three: density (1 + |z|/scale) exp(-|z|/scale) / (4 scale)."""
    edges = (np.arange(largest + 1) + 0.5) / scale
    return symmetric_probabilities((edges + 2) * np.exp(-edges) / 4)
