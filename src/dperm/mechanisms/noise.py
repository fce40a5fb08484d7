"""Rounded Gaussian noise, sampled exactly.

For a value ``v`` on a grid ``g``, ``round_g(v + Z) = v + round_g(Z)``: adding rounded Gaussian noise to an
exact sum is the continuous Gaussian mechanism followed by rounding. Every guarantee proved for the
continuous mechanism holds for the program, down to the last bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits
from dperm.mechanisms.random_source import RandomState, random_bits

# The sampler's scale is numerator / 2^shift with numerator <= 2^63 and 1 <= shift <= 63.
_NUMERATOR_BITS = 63
_LARGEST_SHIFT = 63

#: Largest sigma / grid. Six standard deviations then stay below the sampler's limit of 2^62 grid steps.
LARGEST_SCALE = 2.0**59

# Where sigma / grid is smaller, this is used instead: rounded noise is zero either way but for a
# probability below exp(-2^76), and more noise than asked for never hurts the guarantee.
_SMALLEST_SCALE = Fraction(1, 1 << 40)


def rounded_gaussian(
    sigma: float,
    grid: float,
    size: int | Sequence[int],
    random_state: RandomState | RandomBits = None,
) -> NDArray[np.float64]:
    r"""Sample ``round_g(N(0, sigma^2))`` exactly.

    Parameters
    ----------
    sigma : float
        Standard deviation before rounding, in the unit of the released value; finite and at least 0.
        ``sigma=0`` gives zeros and no privacy.
    grid : float
        Distance ``g`` between neighbouring results, in the same unit; finite and positive.
        ``sigma / grid`` is at most 2^59.
    size : int or sequence of ints
        Shape of the result.
    random_state : None, int, numpy Generator, SeedSequence or RandomState, default None
        None draws cryptographic noise. Anything else is reproducible and **protects nobody**.

    Returns
    -------
    ndarray of float64, shape `size`
        ``g * Y`` with independent integers ``Y``,
        :math:`P(Y = j) = \Phi((j + 1/2) g/\sigma) - \Phi((j - 1/2) g/\sigma)`. The product is rounded to
        float64 where it needs more than 53 bits.

    Raises
    ------
    ValueError
        If `sigma` or `grid` is out of range.
    TypeError
        If `random_state` is of another type.

    Notes
    -----
    Guarantee: added to a value on the grid, this is post-processing of the continuous Gaussian mechanism
    with a standard deviation of at least `sigma` (and at most ``1 + 2^-61`` times it, where
    ``sigma / grid >= 2^-40``). The sampler reads random bits and computes with integers: no
    floating-point number enters the noise. Its running time depends on the values drawn.

    References
    ----------
    C. F. F. Karney, "Sampling exactly from the normal distribution", ACM Transactions on Mathematical
    Software 42(1), 2016.
    """
    numerator, shift = gaussian_scale(float(sigma), float(grid))
    return _draw(random_bits(random_state), numerator, shift, size) * np.float64(grid)


def gaussian_integers(
    bits: RandomBits, sigma: float, grid_exponent: int, shape: int | Sequence[int]
) -> NDArray[np.int64]:
    """Sample ``round_g(N(0, sigma^2)) / g`` for the grid ``g = 2^grid_exponent``.

    The noise of a release in units of its grid; see :func:`rounded_gaussian` for the distribution, the
    range of `sigma` and the guarantee. Magnitudes stay at or below 2^62.

    Parameters
    ----------
    bits : RandomBits
    sigma : float
        Standard deviation in the unit of the released value, finite and at least 0.
    grid_exponent : int
        Base-2 logarithm of the grid, in the same unit (negative for a fine grid), -1074 to 1023.
    shape : int or sequence of ints

    Returns
    -------
    ndarray of int64
    """
    numerator, shift = gaussian_scale(float(sigma), math.ldexp(1.0, grid_exponent))
    return _draw(bits, numerator, shift, shape)


@functools.lru_cache(maxsize=64)  # an iterative algorithm asks for the same scale at each step
def gaussian_scale(sigma: float, grid: float) -> tuple[int, int]:
    """Return ``(numerator, shift)`` with ``numerator / 2^shift >= sigma / grid``, for the sampler.

    Equal wherever ``sigma / grid`` has such a form: always if `grid` is a power of two and
    ``sigma / grid >= 2^-10``. Otherwise rounded up, by a factor of at most ``1 + 2^-61`` down to
    ``sigma / grid = 2^-2``, and growing to ``1 + 2^-22`` at ``2^-40``. ``(0, 1)`` for ``sigma = 0``.

    Raises
    ------
    ValueError
        If `sigma` is not a finite number of at least 0, `grid` is not finite and positive, or
        ``sigma / grid > 2^59``.
    """
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be a finite number of at least 0, got {sigma}")
    if not (math.isfinite(grid) and grid > 0):
        raise ValueError(f"grid must be a finite positive number, got {grid}")
    scale = Fraction(sigma) / Fraction(grid)
    if scale > LARGEST_SCALE:
        raise ValueError(f"sigma / grid must be at most 2^59, got sigma={sigma}, grid={grid}")
    if scale == 0:
        return 0, 1
    scale = max(scale, _SMALLEST_SCALE)
    integer_bits = math.floor(scale).bit_length()
    shift = min(_NUMERATOR_BITS - integer_bits, _LARGEST_SHIFT)
    return math.ceil(scale * (1 << shift)), shift


def _draw(bits: RandomBits, numerator: int, shift: int, shape: int | Sequence[int]) -> NDArray[np.int64]:
    if numerator == 0:
        return np.zeros(shape, dtype=np.int64)
    return samplers.rounded_gaussian(bits, numerator, shift, shape)
