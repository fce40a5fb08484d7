"""The Gaussian mechanism, exactly: privacy profile, calibration and mu-GDP conversions.

Notation: ``mu = sensitivity / sigma``. A Gaussian release is (epsilon, delta)-DP if and only if
``delta_G(epsilon, mu) <= delta`` with

    delta_G(epsilon, mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8). Any number of adaptive Gaussian releases with ``mu_t`` is exactly as
private as one with ``mu^2 = sum mu_t^2`` (Dong, Roth and Su 2022, Corollary 3.3).

Laplacian smoothing ``A^-1``, ``A = I - s L`` (circulant), post-processes a noisy gradient: it changes the
utility and never the guarantee. The variance of the smoothed noise is given in closed form.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from dperm.accounting._checks import (
    check_delta,
    check_epsilon,
    check_non_negative,
    check_positive,
    check_steps,
    decreasing_root,
    nudged,
)

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALLEST = math.ulp(0.0)
# First relative step by which results of root finding are moved to the safe side.
_FIRST_STEP = 1e-13


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Smallest delta for which Gaussian noise is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        At least 0; infinite means no privacy (the result is 0).
    sigma : float
        Standard deviation of the noise per coordinate, in the unit of `sensitivity`, at least 0.
    sensitivity : float, default=1.0
        Largest Euclidean distance of the noiseless outputs on neighbouring data sets, finite, > 0.

    Returns
    -------
    float
        delta in [0, 1], rounded up by a bound on the error of its evaluation (relative 1e-12 in usual
        regimes). It is never 0 for finite noise: below the range of doubles it is the smallest double.

    Notes
    -----
    Balle and Wang 2018, Theorem 8 (exact, for every epsilon >= 0).

    Examples
    --------
    >>> round(gaussian_delta(1.0, sigma=2.0), 12)
    0.006829594983
    """
    epsilon = check_epsilon(epsilon)
    sigma = check_non_negative(sigma, "sigma")
    sensitivity = check_positive(sensitivity, "sensitivity")
    if epsilon == math.inf or sigma == math.inf:
        return 0.0
    mu = max(sensitivity / sigma, _SMALLEST) if sigma > 0.0 else math.inf
    log_delta = _log_delta(epsilon, mu)
    return min(1.0, max(math.exp(log_delta), _SMALLEST)) if log_delta < 0.0 else 1.0


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest standard deviation for which Gaussian noise is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0 (infinite: no noise, no privacy), delta strictly between 0 and 1.
    sensitivity : float, default=1.0
        Largest Euclidean distance of the noiseless outputs on neighbouring data sets, finite, > 0.

    Returns
    -------
    float
        Standard deviation per coordinate in the unit of `sensitivity`, rounded up by less than 1e-9
        relative.

    Notes
    -----
    Inverse of `gaussian_delta`, exact for every epsilon. ``sqrt(2 log(1.25/delta))/epsilon`` is invalid for
    large epsilon and up to twice too large for small ones.

    Examples
    --------
    >>> round(gaussian_sigma(1.0, 1e-5), 6)
    3.730632
    """
    sensitivity = check_positive(sensitivity, "sensitivity")
    mu = gdp_mu(epsilon, delta)
    if mu == math.inf:
        return 0.0
    return sensitivity / mu * (1.0 + 2.0**-50)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0 (infinite gives infinity), delta strictly between 0 and 1.

    Returns
    -------
    float
        mu > 0, rounded down by less than 1e-9 relative. A Gaussian release has ``mu = sensitivity / sigma``.

    Notes
    -----
    Root of the privacy profile in mu (Dong, Roth and Su 2022, Corollary 2.13).

    Examples
    --------
    >>> round(gdp_mu(1.0, 1e-6), 4)
    0.2367
    """
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta)
    return math.inf if epsilon == math.inf else _gdp_mu(epsilon, delta)


@lru_cache(maxsize=256)
def _gdp_mu(epsilon: float, delta: float) -> float:
    log_delta = math.log(delta)

    def excess(log_mu: float) -> float:
        return log_delta - _log_delta(epsilon, math.exp(log_mu))

    mu = decreasing_root(excess, _rough_mu(epsilon, delta), xtol=1e-300, rtol=8.9e-16, maxiter=500)
    return nudged(mu, lambda mu: _log_delta(epsilon, mu) > log_delta, -_FIRST_STEP)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        At least 0. Gaussian releases with ``mu_t = sensitivity_t / sigma_t`` have together
        ``mu = sqrt(sum mu_t^2)``.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        epsilon >= 0, rounded up by less than 1e-9 relative. It is 0 when `delta` alone covers mu.

    Notes
    -----
    Root of the privacy profile in epsilon (Dong, Roth and Su 2022, Corollary 2.13).

    Examples
    --------
    Two Gaussian releases, of noise 4 and 5 times their sensitivity:

    >>> import math
    >>> mu = math.hypot(1 / 4, 1 / 5)
    >>> round(gdp_epsilon(mu, 1e-6), 3)
    1.386
    """
    mu = check_non_negative(mu, "mu")
    delta = check_delta(delta)
    if mu == math.inf:
        return math.inf
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        return _log_delta(epsilon, mu) - log_delta

    if mu == 0.0 or excess(0.0) <= 0.0:
        return 0.0
    # delta_G <= Phi(-a) <= exp(-a^2/2) with a = epsilon/mu - mu/2; here a = sqrt(2 log(1/delta)).
    high = mu * (mu / 2.0 + math.sqrt(-2.0 * log_delta))
    if high == math.inf:
        return high
    while excess(high) > 0.0:
        high *= 2.0
    epsilon = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=8.9e-16, maxiter=500))
    return nudged(epsilon, lambda epsilon: excess(epsilon) > 0.0, _FIRST_STEP)


def _rough_mu(epsilon: float, delta: float) -> float:
    """First guess for the root in mu: the concentrated-DP tail bound, or delta alone at epsilon = 0."""
    log_inverse = -math.log(delta)
    tail = math.sqrt(2.0) * epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
    return max(tail, delta)


def _log_delta(epsilon: float, mu: float) -> float:
    """Upper bound on ``log delta_G(epsilon, mu)``, mu > 0: its value plus a bound on the rounding error.

    With ``a = epsilon/mu - mu/2``, ``b = a + mu`` and the Mills ratio ``m(x) = Phi(-x)/phi(x)``, the
    identity ``e^epsilon phi(b) = phi(a)`` gives ``delta_G = phi(a) (m(a) - m(b))``: no huge factor
    times a tiny one.
    """
    if mu == math.inf:
        return 0.0
    scale = epsilon / mu + mu / 2.0
    a = epsilon / mu - mu / 2.0
    if a > 1e100:  # a*a is about to overflow, and the profile is 0 far beyond the range of doubles
        return -math.inf
    if mu < 0.5 * max(1.0, a):
        value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(_mills_difference(a, mu))
    elif a > 0.0:
        value = -0.5 * a * a - _LOG_SQRT_2PI + math.log(_mills(a) - _mills(a + mu))
    else:
        density = math.exp(-0.5 * a * a - _LOG_SQRT_2PI)
        value = math.log(float(ndtr(-a)) - density * _mills(a + mu))
    # |d log delta_G / da| <= |a| + 2, and a carries the rounding errors of epsilon/mu and mu/2.
    return value + 2.0**-50 * (16.0 + abs(value) + (2.0 + abs(a)) * scale)


def _mills(x: float) -> float:
    """Mills ratio Phi(-x)/phi(x)."""
    return math.sqrt(math.pi / 2.0) * float(erfcx(x / math.sqrt(2.0)))


@lru_cache(maxsize=1)
def _quadrature_rule() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def _mills_difference(a: float, mu: float) -> float:
    """``m(a) - m(a + mu)`` without cancellation, for mu small against max(1, a).

    From ``m(x) = int_0^inf exp(-t^2/2 - x t) dt``: the integrand of the difference,
    ``exp(-t^2/2 - a t) (1 - e^(-mu t))``, is positive and smooth; beyond `end` it is below e^-40.
    """
    end = 80.0 / (math.sqrt(a * a + 80.0) + a)
    nodes, weights = _quadrature_rule()
    t = end * nodes
    integrand = np.exp(-t * (0.5 * t + a)) * -np.expm1(-mu * t)
    return max(end * float(weights @ integrand), _SMALLEST)


def smoothing_gamma(smoothing: float, dimension: int) -> float:
    """Mean of ``z' A^-1 z / d`` for standard normal z: ``(1/d) trace(A^-1)``.

    Parameters
    ----------
    smoothing : float
        s, at least 0 (the result is 1 at s = 0).
    dimension : int
        d, >= 1.

    Returns
    -------
    float
        ``(1 + a^d)/((1 - a^d) sqrt(4 s + 1))``, ``a = (2 s + 1 - sqrt(4 s + 1))/(2 s)``; tends to
        ``1/sqrt(1 + 4 s)``, not to 0, as d grows.

    Notes
    -----
    DP-LSSGD, Proposition 1.

    Examples
    --------
    >>> round(smoothing_gamma(1.0, 5), 10)
    0.4545454545
    """
    smoothing, dimension = check_non_negative(smoothing, "smoothing"), check_steps(dimension, "dimension")
    if smoothing == 0.0:
        return 1.0
    power = _decay(smoothing) ** dimension
    return (1.0 + power) / ((1.0 - power) * math.sqrt(4.0 * smoothing + 1.0))


def smoothing_beta(smoothing: float, dimension: int) -> float:
    """Mean of ``||A^-1 z||^2 / d`` for standard normal z: ``(1/d) trace(A^-2)``.

    Parameters
    ----------
    smoothing, dimension
        As in `smoothing_gamma`.

    Returns
    -------
    float
        With ``r = sqrt(4 s + 1)``, ``(2 s + 1)(1 + a^d)/(r^3 (1 - a^d)) + 2 d a^d/(r^2 (1 - a^d)^2)``; tends
        to ``(1 + 2 s)/(1 + 4 s)^(3/2)`` as d grows.

    Notes
    -----
    DP-LSSGD, Proposition 2.

    Examples
    --------
    >>> round(smoothing_beta(1.0, 5), 10)
    0.2892561983
    """
    smoothing, dimension = check_non_negative(smoothing, "smoothing"), check_steps(dimension, "dimension")
    if smoothing == 0.0:
        return 1.0
    power, root = _decay(smoothing) ** dimension, math.sqrt(4.0 * smoothing + 1.0)
    leading = (2.0 * smoothing + 1.0) * (1.0 + power) / (root**3 * (1.0 - power))
    return leading + 2.0 * dimension * power / (root * root * (1.0 - power) ** 2)


def _decay(smoothing: float) -> float:
    return 2.0 * smoothing / (2.0 * smoothing + 1.0 + math.sqrt(4.0 * smoothing + 1.0))
