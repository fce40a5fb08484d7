"""From counted errors of a distinguisher to certified lower bounds.

Data set 0 gives a score below the threshold, data set 1 a score above it. A false positive is a run on
data set 0 called 1, a false negative a run on data set 1 called 0; ``alpha`` and ``beta`` are their
probabilities. All bounds hold for any statistic and threshold chosen without looking at these counts.
A negative bound shows nothing; it still tells a better decision from a worse one.
"""

from __future__ import annotations

import math

from scipy.special import betaincinv, ndtri

from dperm.accounting.gaussian import gdp_epsilon, gdp_mu


def rate_upper_bound(events: int, trials: int, confidence: float) -> float:
    """Upper end of the one-sided Clopper-Pearson interval of a probability.

    Parameters
    ----------
    events, trials : int
        ``0 <= events <= trials``, ``trials >= 1``, independent.
    confidence : float
        Probability, in (0, 1), that the true rate is at most the result.

    Returns
    -------
    float
        In (0, 1].

    References
    ----------
    C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934.
    """
    return 1.0 if events >= trials else float(betaincinv(events + 1, trials - events, confidence))


def epsilon_from_rates(alpha_high: float, beta_high: float, delta: float) -> float:
    """Epsilon below which no (epsilon, delta)-DP mechanism has errors as small as these.

    Parameters
    ----------
    alpha_high, beta_high : float
        Simultaneous upper bounds on the two error probabilities.
    delta : float
        In [0, 1).

    Returns
    -------
    float
        ``max log((1 - beta - delta)/alpha), log((1 - alpha - delta)/beta)``.

    Notes
    -----
    (epsilon, delta)-DP means ``1 - beta <= e^epsilon alpha + delta`` and the same with alpha and beta
    exchanged (Kairouz, Oh and Viswanath 2015, Theorem 2.1). Nothing else is assumed.
    """
    return max(
        _log_ratio(1.0 - beta_high - delta, alpha_high), _log_ratio(1.0 - alpha_high - delta, beta_high)
    )


def mu_from_rates(alpha_high: float, beta_high: float) -> float:
    """Mu below which no mu-GDP mechanism has errors as small as these.

    Notes
    -----
    mu-GDP means ``beta >= Phi(Phi^{-1}(1 - alpha) - mu)`` (Dong, Roth and Su 2022, Definition 2.6), hence
    ``mu >= Phi^{-1}(1 - alpha) - Phi^{-1}(beta)``.
    """
    return -float(ndtri(alpha_high)) - float(ndtri(beta_high))


def mu_from_pairs(loss_high: float) -> float:
    """Mu below which no mu-GDP mechanism is ordered as well as this.

    Parameters
    ----------
    loss_high : float
        Upper bound on the probability that, of two independent runs, the one on data set 0 scores higher
        than the one on data set 1, or as high and loses the toss of a coin.

    Notes
    -----
    Guessing the order of a pair of runs, one on each data set, tells ``(M(D), M(D'))`` from
    ``(M(D'), M(D))``, which are sqrt(2) mu-GDP by composition (Dong, Roth and Su 2022, Corollary 3.3). Both
    errors of that guess have probability at most ``loss``, so ``sqrt(2) mu >= -2 Phi^{-1}(loss)``. One
    count, one interval: nothing is lost to a threshold or to a union bound.
    """
    return -math.sqrt(2.0) * float(ndtri(loss_high))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Largest epsilon, rounded down, that a mechanism which is not mu'-GDP for ``mu' < mu`` exceeds.

    A mu-GDP mechanism can be no better than (epsilon, delta)-DP with this epsilon.
    """
    if mu <= 0.0 or delta == 0.0:
        return 0.0 if mu <= 0.0 else math.inf
    epsilon = gdp_epsilon(mu, delta)
    step = 1e-12
    while epsilon > 0.0 and gdp_mu(epsilon, delta) > mu:
        epsilon *= 1.0 - step
        step *= 2.0
    return epsilon


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0.0 else -math.inf
