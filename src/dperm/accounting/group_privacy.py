"""Group privacy: guarantees for data sets that differ in several records."""

from __future__ import annotations

import math

from dperm.accounting._checks import check_epsilon, check_probability, check_steps

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
