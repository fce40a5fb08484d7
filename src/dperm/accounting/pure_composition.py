"""Advanced composition and group privacy of (epsilon, delta) guarantees about which nothing else is known.

For Gaussian noise this is a baseline; `sgd_epsilon` with ``accountant="pld"`` needs far less noise.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from dperm.accounting._checks import check_delta, check_epsilon, check_probability, check_rate, check_steps
from dperm.accounting.gaussian import gaussian_sigma, gdp_epsilon


def advanced_composition(epsilon: float, steps: int, slack: float) -> float:
    """Epsilon of `steps` epsilon-DP releases, at the cost of `slack` in delta.

    Parameters
    ----------
    epsilon : float
        Of one release, at least 0.
    steps : int
        At least 1.
    slack : float
        Strictly between 0 and 1, added to the deltas of the releases.

    Returns
    -------
    float
        ``epsilon sqrt(2 T log(1/slack)) + T epsilon (e^epsilon - 1)``.

    Notes
    -----
    Dwork, Rothblum and Vadhan 2010, Theorem III.3.

    Examples
    --------
    >>> round(advanced_composition(0.01, steps=1000, slack=1e-6), 3)
    1.763
    """
    epsilon, steps, slack = check_epsilon(epsilon), check_steps(steps), check_delta(slack, "slack")
    if epsilon > 700.0:
        return math.inf
    return epsilon * math.sqrt(-2.0 * steps * math.log(slack)) + steps * epsilon * math.expm1(epsilon)


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Epsilon of an epsilon-DP release on a Poisson sample: ``log(1 + q (e^epsilon - 1))``, rounded up.

    Balle, Barthe and Gaboardi 2018, Theorem 8; add_or_remove neighbours, sampling rate q in (0, 1].

    Examples
    --------
    >>> round(amplified_epsilon(1.0, rate=0.01), 4)
    0.017
    """
    epsilon, rate = check_epsilon(epsilon), check_rate(rate)
    if epsilon > 30.0:
        return min(epsilon, epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon)) + 1e-12)
    return math.log1p(rate * math.expm1(epsilon)) * (1.0 + 1e-13)


def sgd_advanced_epsilon(multiplier: float, delta: float, rate: float, steps: int) -> float:
    """Epsilon of subsampled Gaussian steps by amplification and advanced composition.

    `multiplier` is the noise over the sensitivity of the batch sum. Half of delta goes to the composition,
    the other half to T steps of ``q delta_0``; one step is ``(log(1 + q (e^epsilon_0 - 1)), q delta_0)``-DP
    (Balle, Barthe and Gaboardi 2018, Theorem 9).
    """
    delta_0 = delta / (2.0 * steps * rate)
    epsilon_0 = gdp_epsilon(1.0 / multiplier, min(delta_0, 1.0 - 2.0**-53))
    if epsilon_0 > 700.0:
        return math.inf
    return advanced_composition(amplified_epsilon(epsilon_0, rate), steps, delta / 2.0)


def sgd_advanced_step_epsilon(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Largest epsilon_0 before amplification whose composition meets (epsilon, delta).

    Root of ``advanced_composition(log(1 + q (e^epsilon_0 - 1)), steps, delta/2) = epsilon``.
    """
    epsilon, delta, steps = check_epsilon(epsilon), check_delta(delta), check_steps(steps)
    rate = check_rate(rate)

    def excess(epsilon_1: float) -> float:
        return advanced_composition(epsilon_1, steps, delta / 2.0) - epsilon

    epsilon_1 = (
        float(brentq(excess, 0.0, epsilon, xtol=1e-300, rtol=8.9e-16)) if excess(epsilon) > 0 else epsilon
    )
    return math.log1p(math.expm1(epsilon_1) / rate) * (1.0 - 1e-13)


def sgd_advanced_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Noise over sensitivity that meets (epsilon, delta) by advanced composition; see the functions above."""
    epsilon_0 = sgd_advanced_step_epsilon(epsilon, delta, rate, steps)
    delta_0 = min(delta / (2.0 * steps * rate), 1.0 - 2.0**-53)
    return gaussian_sigma(epsilon_0, delta_0)


_UP = 1.0 + 1e-12


def group_privacy_target(epsilon: float, delta: float, hops: int = 2) -> tuple[float, float]:
    """Guarantee for neighbours that gives (epsilon, delta) to data sets `hops` neighbours apart.

    Parameters
    ----------
    epsilon, delta : float
        epsilon >= 0, delta in [0, 1].
    hops : int, default=2
        Number of steps, >= 1. Two (remove, then add) lead from ``add_or_remove`` to ``replace_one``.

    Returns
    -------
    epsilon, delta : float
        ``epsilon / hops`` and delta over ``1 + e^(epsilon/hops) + ..``, rounded down.

    Notes
    -----
    Dwork and Roth 2014, Lemma 2.2 with its delta: each hop multiplies by e^epsilon and adds delta.

    Examples
    --------
    >>> epsilon, delta = group_privacy_target(1.0, 1e-6)
    >>> round(epsilon, 6), round(delta * 1e6, 4)
    (0.5, 0.3775)
    """
    epsilon, delta = check_epsilon(epsilon), check_probability(delta, "delta")
    hops = check_steps(hops, "hops", most=10_000)
    if hops == 1:
        return epsilon, delta
    each = epsilon / hops * (2.0 - _UP)
    if (hops - 1) * each > 700.0:
        return each, 0.0
    return each, delta / math.fsum(math.exp(hop * each) for hop in range(hops)) * (2.0 - _UP) ** 2
