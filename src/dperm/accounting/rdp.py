"""Renyi differential privacy of subsampled Gaussian steps, at orders fixed in advance.

Renyi divergences add up under composition, so the cost of one step is computed once. Every order gives a
valid epsilon; the reported one is the smallest. Notation: ``q`` sampling rate, ``mu`` sensitivity of the
batch sum over the standard deviation of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from dperm.accounting._checks import check_delta
from dperm.accounting.pld.profiles import Array, log_gaussian_profile

RDP_ORDERS: tuple[float, ...] = (
    *(1.0 + k / 10.0 for k in range(1, 100)),
    *(float(k) for k in range(11, 65)),
    *(80.0, 96.0, 128.0, 160.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 1536.0, 2048.0),
)
# Relative margin, above the error of the quadratures (they converge exponentially).
_MARGIN = 1e-11
_NODES = 16
_MAX_NODES = 1_000_000


def rdp_to_epsilon(orders: Sequence[float], rdp: Sequence[float], delta: float) -> tuple[float, float]:
    """Smallest epsilon that Renyi divergences at fixed orders give, and the order it comes from.

    Parameters
    ----------
    orders : sequence of float
        Orders, each > 1.
    rdp : sequence of float
        Renyi divergence of the whole computation at each order, >= 0; infinite where there is none.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    epsilon, order : float
        epsilon >= 0, infinite if every divergence is.

    Raises
    ------
    ValueError, TypeError
        If the sequences differ in length or are empty, or an argument is outside its range.

    Notes
    -----
    ``D + log(1 - 1/a) - (log delta + log a)/(a - 1)``, minimised over the orders (Canonne, Kamath and
    Steinke 2020, Proposition 12).
    """
    log_delta = math.log(check_delta(delta))
    a, divergence = np.array(orders, dtype=np.float64), np.array(rdp, dtype=np.float64)
    if a.ndim != 1 or a.shape != divergence.shape or a.size == 0:
        raise ValueError(f"orders and rdp must be sequences of the same length > 0, got {orders!r}, {rdp!r}.")
    if not (np.all(a > 1.0) and np.all(divergence >= 0.0)):
        raise ValueError("orders must be > 1 and rdp must be >= 0 (infinite where there is no bound).")
    epsilon = divergence + np.log1p(-1.0 / a) - (log_delta + np.log(a)) / (a - 1.0)
    best = int(np.argmin(epsilon))
    return max(0.0, float(epsilon[best]) * (1.0 + 1e-13)), float(a[best])


@lru_cache(maxsize=4096)
def poisson_rdp(q: float, mu: float, orders: tuple[float, ...] = RDP_ORDERS) -> tuple[float, ...]:
    """Renyi divergences of a Poisson-sampled Gaussian step, add-or-remove neighbours.

    Parameters
    ----------
    q : float
        Sampling rate, in (0, 1].
    mu : float
        Clip over the standard deviation of the noise on the sum, > 0.
    orders : tuple of float
        Orders > 1.

    Returns
    -------
    tuple of float
        Upper bounds that hold in both directions.

    Notes
    -----
    ``int phi(t) r(t)^a dt`` with ``r(t) = 1 - q + q e^(mu t - mu^2/2)``, by the trapezoidal rule, which
    converges exponentially here. Removing is the worse direction (Mironov, Talwar and Zhang 2019,
    Theorem 5). As ``int phi r = 1``, what is summed is ``r^a - 1 - a (r - 1) >= 0``: no cancellation.
    """
    gap = min(0.1, 0.5 / mu)
    return tuple(_poisson_divergence(q, mu, order, gap) for order in orders)


@lru_cache(maxsize=4096)
def symmetric_rdp(
    q: float, mu: float, orders: tuple[float, ...] = RDP_ORDERS, poisson: bool = False
) -> tuple[float, ...]:
    """Renyi divergences of a subsampled Gaussian step when one record is replaced.

    Parameters
    ----------
    q : float
        Sampling rate, in (0, 1].
    mu : float
        Without replacement: twice the clip over the standard deviation of the noise on the sum, > 0.
        Poisson: the clip over it.
    orders : tuple of float
        Orders > 1.
    poisson : bool
        Whether the sample is a Poisson sample; otherwise it has a fixed size.

    Returns
    -------
    tuple of float
        Upper bounds; infinite where the quadrature would be too long.

    Notes
    -----
    For a symmetric relation with profile h, by integration by parts,
    ``E_Q (P/Q)^a = 1 + a (a-1) int_0^inf [e^((a-1) x) + e^(-a x)] h(x) dx``: the divergence of the pair
    that has this profile, tighter than bounds from moments. Positive terms, Gauss-Legendre panels in
    ``log(1 + (e^x - 1)/q)``.
    """
    wide = 2.0 * mu if poisson else mu
    panel = min(wide, 1.0)
    nodes, log_weights = _panels(panel, (max(orders) + 2.0) * wide * wide + 45.0 * wide)
    log_v = _log_amplification(nodes, q)
    log_h = math.log(q) + log_gaussian_profile(nodes, mu)
    if poisson:
        t = np.exp(np.minimum(log_v - nodes, 0.0))
        with np.errstate(divide="ignore"):
            log_h = np.logaddexp(
                np.log1p(-t) + log_h, np.log(t) + math.log(q) + log_gaussian_profile(nodes, 2.0 * mu)
            )
    log_measure = log_h + log_weights + math.log(q) + nodes - log_v
    rdp = []
    for order in orders:
        needed = math.ceil(((order + 2.0) * wide * wide + 45.0 * wide) / panel) * _NODES
        if needed > nodes.size:
            rdp.append(math.inf)
            continue
        lv = log_v[:needed]
        powers = np.logaddexp((order - 1.0) * lv, -order * lv) + log_measure[:needed]
        excess = math.log(order * (order - 1.0)) + float(logsumexp(powers))
        rdp.append(_divergence(excess, order))
    return tuple(rdp)


def _poisson_divergence(q: float, mu: float, order: float, gap: float) -> float:
    if q == 1.0:
        return 0.5 * order * mu * mu * (1.0 + _MARGIN)
    low, high = -40.0, order * mu + 40.0
    if (high - low) / gap > _MAX_NODES:
        return math.inf
    t = gap * np.arange(math.floor(low / gap), math.ceil(high / gap) + 1, dtype=np.float64)
    log_r = _log_amplification(mu * t - mu * mu / 2.0, q)
    power = order * log_r
    moderate = np.minimum(power, 30.0)
    small = np.expm1(moderate) - order * np.expm1(moderate / order)
    with np.errstate(divide="ignore", under="ignore"):
        # Above e^30 the subtracted terms are left out, which only raises the bound.
        log_integrand = np.where(power <= 30.0, np.log(np.maximum(small, 0.0)), power)
        log_sum = float(logsumexp(log_integrand - 0.5 * t * t))
    return _divergence(log_sum + math.log(gap / math.sqrt(2.0 * math.pi)), order)


def _log_amplification(x: Array, q: float) -> Array:
    """``log(1 + q (e^x - 1))``, for every x."""
    near = np.log1p(q * np.expm1(np.minimum(x, 30.0)))
    large = np.maximum(x, 30.0)
    far = large + np.log(q + (1.0 - q) * np.exp(-large))
    return np.where(x <= 30.0, near, far)


def _panels(panel: float, length: float) -> tuple[Array, Array]:
    """Nodes and log-weights of composite Gauss-Legendre quadrature on [0, length]."""
    count = max(1, min(math.ceil(length / panel), _MAX_NODES // _NODES))
    base, weights = np.polynomial.legendre.leggauss(_NODES)
    starts = panel * np.arange(count, dtype=np.float64)
    nodes = (starts[:, None] + 0.5 * panel * (base + 1.0)[None, :]).ravel()
    return nodes, np.log(np.tile(0.5 * panel * weights, count))


def _divergence(log_excess: float, order: float) -> float:
    """Renyi divergence from the log of ``E - 1``, rounded up."""
    return float(np.logaddexp(0.0, log_excess)) / (order - 1.0) * (1.0 + _MARGIN)
