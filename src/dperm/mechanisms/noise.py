"""Noise for releases: rounded Gaussian, norm-Laplace and discrete Laplace, sampled exactly.

For a value ``v`` on a grid ``g``, ``round_g(v + Z) = v + round_g(Z)``: adding rounded continuous noise to an
exact sum is the continuous mechanism followed by rounding. So every guarantee proved for the continuous
mechanism holds for the program, down to the last bit.

Floating-point noise (``noise="float"``) is meant for simulations and for loops in which noise dominates the
cost. It is **idealised**: its guarantee holds for real numbers, not for the program.

Arguments out of range raise ValueError, arguments of other types TypeError.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits
from dperm.mechanisms.random_source import RandomState, random_bits
from dperm.mechanisms.selection import laplace_rate

# The sampler's scale is numerator / 2^shift with numerator <= 2^63 and 1 <= shift <= 63.
_NUMERATOR_BITS = 63
_MAX_SHIFT = 63

#: Largest sigma / grid. The sampler truncates at 2^62 grid steps, 64 standard deviations, where the
#: probability is below exp(-2,000).
LARGEST_SCALE = 2.0**56

# Largest scale * sqrt(d + 1) / grid of norm-Laplace noise in d dimensions: an entry of 128 times this size
# has probability below exp(-100), and the sampler's limit is 2^62 grid steps.
_MAX_NORM_LAPLACE = 2.0**55

# Used for any smaller sigma / grid (or scale / grid): either way rounded noise is zero except with
# probability below exp(-2^38), and more noise than requested never hurts the guarantee.
_MIN_SCALE = Fraction(1, 1 << 40)


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
        Standard deviation before rounding, in the unit of the released value; finite and nonnegative.
        ``sigma=0`` gives zeros and no privacy.
    grid : float
        Grid spacing ``g``, in the same unit; finite and positive. ``sigma / grid`` must be at most 2^56.
    size : int or sequence of ints
        Shape of the result.
    random_state : None, int, numpy Generator, SeedSequence or RandomState, default None
        None draws cryptographic noise. Anything else is reproducible and **gives no privacy**.

    Returns
    -------
    ndarray of float64, shape `size`
        ``g * Y`` with independent integers ``Y``,
        :math:`P(Y = j) = \Phi((j + 1/2) g/\sigma) - \Phi((j - 1/2) g/\sigma)`. The product is rounded to
        float64 if it has more than 53 bits.

    Notes
    -----
    Guarantee: added to a value on the grid, this is post-processing of the continuous Gaussian mechanism
    with a standard deviation of at least `sigma` (and at most ``1 + 2^-61`` times it if ``sigma / grid`` is
    at least 1/4). The sampler reads random bits and computes with integers: no floating-point number enters
    the noise. Its running time depends on the values drawn.

    References
    ----------
    J. von Neumann, "Various techniques used in connection with random digits", National Bureau of Standards
    Applied Mathematics Series 12, 1951; with digits drawn as needed, as in C. F. F. Karney, "Sampling exactly
    from the normal distribution", ACM Transactions on Mathematical Software 42(1), 2016.

    Examples
    --------
    >>> noise = rounded_gaussian(2.0, grid=0.25, size=(3, 2))
    >>> noise.shape, bool((noise % 0.25 == 0).all())
    ((3, 2), True)
    >>> float(rounded_gaussian(2.0, 0.25, 100_000, random_state=0).std().round(1))
    2.0
    """
    numerator, shift = gaussian_scale(float(sigma), float(grid))
    draw = samplers.GaussianDraw(random_bits(random_state), numerator, shift, size)
    return draw._result() * np.float64(grid)


def gaussian_integers(
    bits: RandomBits, sigma: float, grid_exponent: int, shape: int | Sequence[int]
) -> NDArray[np.int64]:
    """Sample ``round_g(N(0, sigma^2)) / g`` for the grid ``g = 2^grid_exponent``.

    The noise of a release in units of its grid, an integer between -2^62 and 2^62; see
    :func:`rounded_gaussian` for the distribution, the range of `sigma` and the guarantee.

    Parameters
    ----------
    bits : RandomBits
    sigma : float
        Standard deviation in the unit of the released value, finite and nonnegative.
    grid_exponent : int
        Base-2 logarithm of the grid in the same unit, -1074 to 1023.
    shape : int or sequence of ints
    """
    return gaussian_draw(bits, sigma, grid_exponent, shape)._result()


def gaussian_draw(
    bits: RandomBits, sigma: float, grid_exponent: int, shape: int | Sequence[int]
) -> samplers.GaussianDraw:
    """A deferred :func:`gaussian_integers`, drawn by its ``_result()`` or by compiled code during a pass."""
    numerator, shift = gaussian_scale(float(sigma), math.ldexp(1.0, grid_exponent))
    return samplers.GaussianDraw(bits, numerator, shift, shape)


@functools.lru_cache(maxsize=64)  # an iterative algorithm needs the same scale at each step
def gaussian_scale(sigma: float, grid: float) -> tuple[int, int]:
    """Return ``(numerator, shift)`` with ``numerator / 2^shift >= sigma / grid``, for the sampler.

    Equal if ``sigma / grid`` has such a form: always if `grid` is a power of two and
    ``sigma / grid >= 2^-10``. Otherwise rounded up, by a factor of at most ``1 + 2^-61`` for
    ``sigma / grid >= 2^-2``, which grows to ``1 + 2^-22`` at ``2^-40``. ``(0, 1)`` for ``sigma = 0``.

    Raises ValueError if `sigma` is not finite and nonnegative, `grid` is not finite and positive, or
    ``sigma / grid > 2^56``.
    """
    return _dyadic_scale(sigma, grid, "sigma")


def _dyadic_scale(width: float, grid: float, name: str) -> tuple[int, int]:
    if not (math.isfinite(width) and width >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, got {width}")
    if not (math.isfinite(grid) and grid > 0):
        raise ValueError(f"grid must be a finite positive number, got {grid}")
    scale = Fraction(width) / Fraction(grid)
    if scale > LARGEST_SCALE:
        raise ValueError(
            f"{name} / grid must be at most 2^56, got {name}={width}, grid={grid}: that much noise would "
            "overwhelm the sum, and cannot be drawn exactly. Use a larger epsilon or delta"
        )
    if scale == 0:
        return 0, 1
    scale = max(scale, _MIN_SCALE)
    integer_bits = math.floor(scale).bit_length()
    shift = min(_NUMERATOR_BITS - integer_bits, _MAX_SHIFT)
    return math.ceil(scale * (1 << shift)), shift


def norm_laplace(
    scale: float,
    size: int | tuple[int, int],
    random_state: RandomState | RandomBits = None,
    *,
    noise: Literal["float", "exact"] = "float",
    grid: float | None = None,
) -> NDArray[np.float64]:
    r"""Sample vectors with density proportional to ``exp(-||z||_2 / scale)``.

    Parameters
    ----------
    scale : float
        Euclidean sensitivity divided by epsilon; finite and nonnegative. 0 gives zeros and no privacy.
    size : int or (int, int)
        ``d``, the number of dimensions, or ``(k, d)`` for `k` independent vectors; ``d >= 1``.
    random_state : None, int, numpy Generator, SeedSequence or RandomState, default None
        None draws cryptographic noise. Anything else is reproducible and **gives no privacy**.
    noise : {"float", "exact"}, default "float"
        "float": fast floating-point numbers, **idealised**: the guarantee holds on paper, but not for the
        program. "exact": ``round_g(z)``, exactly sampled.
    grid : float
        Grid spacing ``g``, required for ``noise="exact"`` and only then; finite and positive, with
        ``scale * sqrt(d + 1) / grid`` at most 2^55.

    Returns
    -------
    ndarray of float64, shape `size`

    Notes
    -----
    Guarantee with ``noise="exact"``: added to a value on the grid whose Euclidean sensitivity is at most
    ``epsilon * scale``, the result is epsilon-DP: it is the rounding of a mechanism whose density changes
    by a factor of at most ``exp(||v - v'|| / scale)`` (triangle inequality). The sampler reads random bits
    and computes with integers; it reads more bits until they determine the rounding. Its running time depends
    on the values drawn.

    ``||z||`` has the distribution Gamma(d, scale), so :math:`E||z||^2 = d(d+1)\,scale^2`.

    References
    ----------
    K. Chaudhuri, C. Monteleoni, A. D. Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 12,
    2011; M. Hardt, K. Talwar, "On the Geometry of Differential Privacy", STOC 2010.

    Examples
    --------
    A vector of 10 numbers, with an average norm of 10 times the scale:

    >>> norm_laplace(0.1, 10).shape
    (10,)
    >>> import numpy as np
    >>> noise = norm_laplace(0.1, (100_000, 10), random_state=0)
    >>> float(np.linalg.norm(noise, axis=1).mean().round(2))
    1.0
    """
    scale = float(scale)
    shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
    if len(shape) not in (1, 2) or shape[-1] < 1 or shape[0] < 0:
        raise ValueError(f"size must be d or (k, d) with d >= 1, got {size}")
    vectors = shape[0] if len(shape) == 2 else 1
    if noise not in ("float", "exact"):
        raise ValueError(f'noise must be "float" or "exact", got {noise!r}')
    if (noise == "exact") != (grid is not None):
        raise ValueError(f'grid must be given for noise="exact", and only then; got {noise=}, {grid=}')
    if grid is not None:
        integers = _norm_laplace_integers(random_bits(random_state), scale, float(grid), vectors, shape[-1])
        return (integers * np.float64(grid)).reshape(shape)
    if not (math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale must be a finite number of at least 0, got {scale}")
    return samplers.norm_laplace_float(random_bits(random_state), scale, vectors, shape[-1]).reshape(shape)


def norm_laplace_integers(
    bits: RandomBits, scale: float, grid_exponent: int, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Sample ``round_g(z) / g`` for one norm-Laplace ``z`` and the grid ``g = 2^grid_exponent``.

    The noise of a release in units of its grid. The Euclidean norm is that of all entries, whatever the
    shape; see :func:`norm_laplace` for the distribution and the guarantee.

    Parameters
    ----------
    bits : RandomBits
    scale : float
        In the unit of the released value, finite and nonnegative.
    grid_exponent : int
        Base-2 logarithm of the grid, -1074 to 1023.
    shape : tuple of int
    """
    dimension = math.prod(shape)
    if dimension == 0:
        return np.zeros(shape, dtype=np.int64)
    grid = math.ldexp(1.0, grid_exponent)
    return _norm_laplace_integers(bits, float(scale), grid, 1, dimension).reshape(shape)


def check_norm_laplace(scale: float, grid_exponent: int, shape: tuple[int, ...]) -> None:
    """Raise the ValueError that :func:`norm_laplace_integers` would raise, without drawing anything."""
    _norm_laplace_scale(float(scale), math.ldexp(1.0, grid_exponent), math.prod(shape))


@functools.lru_cache(maxsize=64)
def _norm_laplace_scale(scale: float, grid: float, dimension: int) -> tuple[int, int]:
    numerator, shift = _dyadic_scale(scale, grid, "scale")
    if scale / grid * math.sqrt(dimension + 1.0) > _MAX_NORM_LAPLACE:
        raise ValueError(
            f"scale * sqrt(d + 1) / grid must be at most 2^55, got {scale=}, {grid=}, d={dimension}"
        )
    return numerator, shift


def _norm_laplace_integers(
    bits: RandomBits, scale: float, grid: float, vectors: int, dimension: int
) -> NDArray[np.int64]:
    numerator, shift = _norm_laplace_scale(scale, grid, dimension)
    if numerator == 0:
        return np.zeros((vectors, dimension), dtype=np.int64)
    return samplers.norm_laplace(bits, numerator, shift, vectors, dimension)


def discrete_laplace(
    scale: float | Fraction,
    size: int | Sequence[int],
    random_state: RandomState | RandomBits = None,
) -> NDArray[np.int64]:
    r"""Sample integers with :math:`P(k) \propto \exp(-|k| / scale)`, exactly.

    Parameters
    ----------
    scale : float or Fraction
        Sensitivity divided by epsilon, in units of the released integer; above 2^-64 and at most 2^60.
        Rounded up if ``1 / scale`` has more than 64 significant bits.
    size : int or sequence of ints
        Shape of the result.
    random_state : None, int, numpy Generator, SeedSequence or RandomState, default None
        None draws cryptographic noise. Anything else is reproducible and **gives no privacy**.

    Returns
    -------
    ndarray of int64, shape `size`
        Magnitudes are truncated at 2^62.

    Notes
    -----
    Guarantee: added to an integer of sensitivity ``epsilon * scale``, the result is epsilon-DP.

    References
    ----------
    A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", STOC 2009;
    C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", 2020, algorithm 2.

    Examples
    --------
    A count of sensitivity 1, released with epsilon = 0.5:

    >>> noisy = 100 + discrete_laplace(2, size=1)
    >>> noise = discrete_laplace(2, size=100_000, random_state=0)
    >>> float(noise.mean().round(1)), float(abs(noise).mean().round(1))
    (0.0, 1.9)
    """
    return samplers.discrete_laplace(random_bits(random_state), *laplace_rate(scale), size)


def check_epsilon(epsilon: float) -> None:
    """Raise ValueError unless epsilon is positive."""
    if not epsilon > 0:
        raise ValueError(f"epsilon must be above 0, got {epsilon}")


def grid_exponent(grid: float) -> int:
    """Base-2 logarithm of a power of two."""
    return math.frexp(grid)[1] - 1
