"""Costs of private selection (exponential mechanism, report-noisy-max) and of pure-DP releases.

Candidate j has a score u_j, smaller is better. Let r bound the *range* of one record's effect on the
scores, ``max_j d_j - min_j d_j <= r`` with ``d = u(D) - u(D')``. The exponential mechanism picks j with
probability proportional to ``exp(-c u_j)`` (the same law as report-noisy-max with Gumbel noise of scale
``1/c``). The log-ratio of its probabilities lies in an interval of length ``eta = c r``: it is
*eta-bounded range* (Durfee and Rogers 2019), which costs much less under composition than eta-DP.
"""

from __future__ import annotations

import math

from scipy.special import erf, erfinv, log_ndtr, ndtri, ndtri_exp

from dperm.accounting._checks import check_delta, check_non_negative, check_positive, check_steps
from dperm.accounting.neighbours import Neighbours

# Relative safety margin, above the error of the special functions used here.
_MARGIN = 1e-13


def bounded_range_rho(eta: float) -> float:
    """Cost in zCDP of a selection of bounded range `eta` >= 0: rho = ``eta^2 / 8``, rounded up.

    A quarter of what pure eta-DP costs (Cesar and Rogers 2021; Rogers and Steinke 2021).

    Examples
    --------
    >>> round(bounded_range_rho(1.0), 6)
    0.125
    """
    eta = check_non_negative(eta, "eta")
    return math.nextafter(eta * eta / 8.0, math.inf) if eta > 0.0 else 0.0


def bounded_range_eta(rho: float) -> float:
    """Largest eta whose `bounded_range_rho` is at most `rho` >= 0: ``sqrt(8 rho)``, rounded down.

    Examples
    --------
    >>> round(bounded_range_eta(0.125), 6)
    1.0
    """
    rho = check_non_negative(rho, "rho")
    return rho if rho in (0.0, math.inf) else math.sqrt(8.0 * rho) * (1.0 - 2.0**-50)


def bounded_range_mu(eta: float) -> float:
    """GDP cost of an eta-bounded-range selection: it is mu-GDP.

    Parameters
    ----------
    eta : float
        Length of the interval of log-ratios, at least 0.

    Returns
    -------
    float
        ``mu = -2 Phi^{-1}(1 / (1 + e^(eta/2)))``, rounded up.

    Notes
    -----
    Proof. For log-ratios in [t - eta, t] every hockey-stick divergence is largest for the pair on two
    points with log-ratios t and t - eta (convex order). Its trade-off curve has one corner, at type I
    error q and power p with ``logit p - logit q = eta``, so the pair is mu-GDP with
    ``mu = Phi^{-1}(p) - Phi^{-1}(q)``. As a function of z = Phi^{-1}(p), the derivative of ``logit p`` is
    ``phi(z)/Phi(z) + phi(z)/Phi(-z)``, even, and convex because the normal hazard rate is convex (Sampford
    1953); so mu is largest for the symmetric pair, ``logit p = eta/2``.

    Examples
    --------
    >>> round(bounded_range_mu(1.0), 4)
    0.6239
    """
    eta = check_non_negative(eta, "eta")
    if eta in (0.0, math.inf):
        return eta
    half = eta / 2.0
    if half < 2.0:
        mu = 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(half / 2.0)))
    else:
        # log(1 + e^half) without overflow
        mu = -2.0 * float(ndtri_exp(-(half + math.log1p(math.exp(-half)))))
    return mu * (1.0 + _MARGIN)


def bounded_range_eta_from_mu(mu: float) -> float:
    """Largest eta whose `bounded_range_mu` is at most `mu` >= 0, rounded down.

    Examples
    --------
    >>> round(bounded_range_eta_from_mu(bounded_range_mu(1.0)), 6)
    1.0
    """
    mu = check_non_negative(mu, "mu")
    if mu in (0.0, math.inf):
        return mu
    if mu < 2.0:
        eta = 4.0 * math.atanh(float(erf(mu / math.sqrt(8.0))))
    else:
        eta = 2.0 * float(log_ndtr(mu / 2.0) - log_ndtr(-mu / 2.0))
    return eta * (1.0 - 2.0 * _MARGIN)


def exponential_mechanism_rate(eta: float, score_range: float) -> float:
    """Rate c of the exponential mechanism ``P(j) ~ exp(-c u_j)`` that is eta-bounded range.

    Parameters
    ----------
    eta : float
        At least 0. For a pure guarantee epsilon take ``eta = epsilon``; for a zCDP cost rho take
        ``bounded_range_eta(rho)``, for a GDP cost mu ``bounded_range_eta_from_mu(mu)``.
    score_range : float
        Bound r on the range of one record's effect on the scores, in the unit of the scores, > 0. For
        sums of losses in [0, C] it is ``C * Neighbours.score_range_factor``.

    Returns
    -------
    float
        ``c = eta / r``, rounded down, in one over the unit of the scores. Gumbel noise has scale ``1/c``.

    Notes
    -----
    Durfee and Rogers 2019; Dong, Durfee and Rogers 2020.

    Examples
    --------
    A choice by sums of losses in [0, 3], 0.1-zCDP under replace_one, where a record moves scores apart by 6:

    >>> rate = exponential_mechanism_rate(bounded_range_eta(0.1), score_range=6.0)
    >>> round(rate, 4)
    0.1491
    """
    eta = check_non_negative(eta, "eta")
    rate = eta / check_positive(score_range, "score_range")
    return rate if rate in (0.0, math.inf) else math.nextafter(rate, 0.0)


def offspring_range(
    entry_bound: float, stride: float, neighbors: str = "add_or_remove", clip: float = math.inf
) -> float:
    """Range of one record's effect on the loss sums of the candidates.

    Parameters
    ----------
    entry_bound : float
        ``|x_j| <= L_inf``, times the Lipschitz constant of the loss in the margin, > 0.
    stride : float
        h, > 0.
    neighbors : {"add_or_remove", "replace_one"}
        Relation.
    clip : float, default=inf
        Clip of the losses, if any.

    Returns
    -------
    float
        ``r_1 = min(clip, 2 L_inf h)`` under add_or_remove, ``2 r_1`` under replace_one.
    """
    single = min(2.0 * check_positive(entry_bound, "entry_bound") * check_positive(stride, "stride"), clip)
    return Neighbours.parse(neighbors).score_range_factor * single


def privgene_rate(rho: float, generations: int, score_range: float) -> float:
    """Rate ``c = sqrt(8 rho/T)/r`` of each selection, under zCDP."""
    share = check_non_negative(rho, "rho") / check_steps(generations, "generations")
    return exponential_mechanism_rate(bounded_range_eta(share), score_range)


def publication_threshold(sigma: float, slack: float, columns: int) -> int:
    """Smallest noisy count at which a value may be shown.

    Parameters
    ----------
    sigma : float
        Standard deviation of the Gaussian noise of a count, before it is rounded to an integer; at least 0.
    slack : float
        By how much the release may exceed the profile of its Gaussian noise; in (0, 1).
    columns : int
        Number of columns; a record counts at most once in each.

    Returns
    -------
    int
        ``T = ceil(3/2 + sigma Phi^-1((1 - slack)^(1/columns)))``, with the quantile rounded up.

    Notes
    -----
    Every value that occurs is counted; noise, rounded to an integer, is added to its count, and the result is
    shown if it is at least T. Let this be mu-GDP on the values that two neighbouring data sets have in
    common. A value that only one of them has was counted once, so it is shown if ``round(Z) >= T - 1``, which
    has probability ``1 - Phi((T - 3/2) / sigma)``. Each data set has at most one such value in each column,
    so none of them is shown with probabilities pi_U and pi_V, both at least ``1 - slack``; then only common
    values are shown. With H the profile of the common part, which is at most that of the Gaussian pair, the
    profile at ``g = e^epsilon`` is

        1 - pi_U + pi_U H(g pi_V / pi_U) <= slack + (1 - slack) delta_G(epsilon; mu),

    because the left side decreases in pi_V and, at ``pi_V = 1 - slack``, in pi_U: its derivative in pi_U is
    ``-1 + H(h) - h H'(h)``, ``h = g pi_V / pi_U``, and ``H(h) - h H'(h)`` is a probability. So the release is
    mu-GDP up to `slack`, and composes as in `dperm.accounting.approximate_gdp`.

    Examples
    --------
    >>> publication_threshold(2.0, 1e-6, 1), publication_threshold(5.0, 1e-7, 14)
    (12, 30)
    """
    sigma = check_non_negative(sigma, "sigma")
    tail = -math.expm1(math.log1p(-check_delta(slack, "slack")) / check_steps(columns, "columns"))
    quantile = max(-float(ndtri(tail)), 0.0) * (1.0 + 1e-12)
    return math.ceil(1.5 + sigma * quantile)
