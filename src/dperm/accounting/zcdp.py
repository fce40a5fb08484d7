"""Zero-concentrated differential privacy: conversions between rho and (epsilon, delta).

A Gaussian release with sensitivity Delta is ``Delta^2/(2 sigma^2)``-zCDP, an epsilon-DP one
``epsilon^2/2``-zCDP (Bun and Steinke 2016, Propositions 1.6 and 1.4); rho adds up under adaptive
composition. The conversion is that of Canonne, Kamath and Steinke 2020, Corollary 13. With
``x = order - 1 > 0`` it reads

    log delta <= x ((1 + x) rho - epsilon) - x log(1 + 1/x) - log(1 + x)

and holds for *every* x, so a result stays valid when the minimisation over x is not exact. Setting the
derivative in x to zero gives, in each direction, one monotone equation in one unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from dperm.accounting._checks import check_delta, check_epsilon, check_non_negative

_SMALLEST = math.ulp(0.0)
# Relative safety margin, far above the rounding errors of a dozen operations on terms of similar size.
_MARGIN = 1e-13
# e^700 and its inverse are doubles; the cap keeps the root finder's arithmetic finite out there.
_LOG_X_RANGE = 700.0
_CAP = 1e250


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho for which every rho-zCDP mechanism is shown to be (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0 (infinite gives infinity), delta strictly between 0 and 1.

    Returns
    -------
    float
        rho >= 0, rounded down by less than 1e-9 relative.

    Notes
    -----
    Canonne, Kamath and Steinke 2020, Corollary 13. For algorithms that only add Gaussian noise
    ``gdp_mu(epsilon, delta)**2 / 2`` is larger still.

    Examples
    --------
    >>> from dperm.accounting import gdp_mu
    >>> round(zcdp_rho(1.0, 1e-6), 5), round(gdp_mu(1.0, 1e-6) ** 2 / 2, 5)
    (0.02436, 0.02801)
    """
    epsilon = check_epsilon(epsilon)
    log_inverse = -math.log(check_delta(delta))
    if epsilon == math.inf:
        return math.inf

    def stationary(log_x: float) -> float:
        x = math.exp(log_x)
        return x / (2.0 + 1.0 / x) * (epsilon + _log1p_inverse(x)) + math.log1p(x) - log_inverse

    x = _solve_increasing(stationary)
    positive = epsilon + _log1p_inverse(x) + math.log1p(x) / x
    rho = (positive - log_inverse / x) / (1.0 + x)
    return max(0.0, rho - _MARGIN * (positive + log_inverse / x) / (1.0 + x))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon for which every rho-zCDP mechanism is shown to be (epsilon, delta)-DP.

    Parameters
    ----------
    rho : float
        At least 0.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        epsilon >= 0, rounded up by less than 1e-9 relative. It is 0 when `delta` alone covers rho.

    Notes
    -----
    Canonne, Kamath and Steinke 2020, Corollary 13.

    Examples
    --------
    >>> round(zcdp_epsilon(0.02, 1e-6), 3)
    0.9
    """
    rho = check_non_negative(rho, "rho")
    log_inverse = -math.log(check_delta(delta))
    if rho == 0.0 or rho == math.inf:
        return rho

    def stationary(log_x: float) -> float:
        x = math.exp(log_x)
        return x * (x * rho) + math.log1p(x) - log_inverse

    x = _solve_increasing(stationary)
    positive = (1.0 + x) * rho + log_inverse / x
    negative = _log1p_inverse(x) + math.log1p(x) / x
    return max(0.0, positive - negative + _MARGIN * (positive + negative))


def zcdp_rho_bun_steinke(epsilon: float, delta: float) -> float:
    """Rho of the older, looser conversion, as published (not rounded to the safe side).

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0 (infinite gives infinity), delta strictly between 0 and 1.

    Returns
    -------
    float
        ``(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2``.

    Notes
    -----
    Inverse of ``rho + 2 sqrt(rho log(1/delta))`` (Bun and Steinke 2016, Proposition 1.3); Lee and Kifer 2018,
    inequality (5). For reproducing papers: `zcdp_rho` is up to 1.6 times as large.

    Examples
    --------
    >>> round(zcdp_rho_bun_steinke(1.0, 1e-6), 5), round(zcdp_rho(1.0, 1e-6), 5)
    (0.01747, 0.02436)
    """
    epsilon = check_epsilon(epsilon)
    log_inverse = -math.log(check_delta(delta))
    if epsilon == math.inf:
        return math.inf
    return (epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))) ** 2


def _log1p_inverse(x: float) -> float:
    """``log(1 + 1/x)``, finite for every positive double in the search range."""
    return math.log1p(1.0 / x)


def _solve_increasing(function: Callable[[float], float]) -> float:
    """Return x > 0 with ``function(log x) = 0``, or the end of the search range next to it."""

    def capped(log_x: float) -> float:
        return min(function(log_x), _CAP)

    low, high = -_LOG_X_RANGE, _LOG_X_RANGE
    if capped(low) >= 0.0:
        return math.exp(low)
    if capped(high) <= 0.0:
        return math.exp(high)
    return math.exp(float(brentq(capped, low, high, xtol=1e-13, rtol=8.9e-16, maxiter=500)))
