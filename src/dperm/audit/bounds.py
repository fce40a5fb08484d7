"""Certified lower bounds from the counted errors of a distinguisher.

Scores above a threshold are classified as data set 1, others as data set 0. A false positive is a run on data
set 0 classified as 1, a false negative a run on data set 1 classified as 0; ``alpha`` and ``beta`` are their
probabilities. All bounds hold for any statistic and threshold chosen without looking at these counts. A
negative bound proves nothing, but still ranks decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, ndtri

from dperm.accounting._checks import nudged
from dperm.accounting.gaussian import gdp_epsilon, gdp_mu
from dperm.accounting.zcdp import zcdp_epsilon, zcdp_rho

#: Maps a strength > 0 to a privacy profile ``epsilon -> delta``, which grows with the strength.
Family = Callable[[float], Callable[[float], float]]

_ORDERS = 1.0 + np.geomspace(1e-6, 1e4, 400)


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
        than the one on data set 1, with ties broken by a fair coin.

    Notes
    -----
    Guessing the order of a pair of runs, one on each data set, distinguishes ``(M(D), M(D'))`` from ``(M(D'),
    M(D))``, which are sqrt(2) mu-GDP by composition (Dong, Roth and Su 2022, Corollary 3.3). Both errors of
    that guess have probability at most ``loss``, so ``sqrt(2) mu >= -2 Phi^{-1}(loss)``. This takes one count
    and one interval, without a threshold or a union bound.
    """
    return -math.sqrt(2.0) * float(ndtri(loss_high))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon at delta, rounded down, of the Gaussian mechanism with this mu.

    Any claim of a smaller epsilon that rests on mu'-GDP needs ``mu' < mu``.
    """
    if mu <= 0.0 or delta == 0.0:
        return 0.0 if mu <= 0.0 else math.inf
    epsilon = gdp_epsilon(mu, delta)
    return nudged(epsilon, lambda epsilon: epsilon > 0.0 and gdp_mu(epsilon, delta) > mu, -1e-12)


def rho_from_rates(alpha_high: float, beta_high: float) -> float:
    """Rho below which no rho-zCDP mechanism has errors as small as these; 0 if they prove nothing.

    Notes
    -----
    The decision is a Bernoulli variable, 1 with probability ``p >= 1 - beta_high`` on data set 1 and ``q <=
    alpha_high`` on data set 0. Post-processing does not increase a Renyi divergence, so ``D_a(p, q) <= rho
    a`` for every order ``a > 1`` (Bun and Steinke 2016, Definition 1.1 and Lemma 2.2), and the same with the
    data sets exchanged. ``D_a(p, q)`` increases in p and decreases in q as long as ``p > q``. This is
    stronger than the (epsilon, delta) curve that zCDP implies.
    """
    if not 1.0 - beta_high > alpha_high:
        return 0.0
    return max(_coin_rho(1.0 - beta_high, alpha_high), _coin_rho(1.0 - alpha_high, beta_high))


def rho_from_pairs(loss_high: float) -> float:
    """Rho below which no rho-zCDP mechanism is ordered as well as this; see `mu_from_pairs`.

    A pair of runs, one on each data set, is 2 rho-zCDP by composition, and both errors are at most the loss.
    """
    return 0.5 * rho_from_rates(loss_high, loss_high)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Epsilon at delta, rounded down, of rho-zCDP: claims of less that rest on zCDP need a smaller rho."""
    if rho <= 0.0 or delta == 0.0:
        return 0.0 if rho <= 0.0 else math.inf
    epsilon = zcdp_epsilon(rho, delta)
    return nudged(epsilon, lambda epsilon: epsilon > 0.0 and zcdp_rho(epsilon, delta) > rho, -1e-12)


def strength_from_rates(family: Family, alpha_high: float, beta_high: float) -> float:
    """Strength below which no mechanism with a profile of the family has errors as small as these.

    Parameters
    ----------
    family : callable
        ``family(strength)`` is a profile: ``family(strength)(epsilon)`` is at least the delta of every
        claim of that strength, for all ``epsilon >= 0`` and both directions; it grows with the strength.
    alpha_high, beta_high : float
        Simultaneous upper bounds on the two error probabilities.

    Returns
    -------
    float
        At least 0, and refuted itself; 0 if nothing is proved.

    Notes
    -----
    A profile implies ``1 - beta <= e^epsilon alpha + delta(epsilon)`` for *every* epsilon at once, and the
    same with alpha and beta exchanged: the trade-off curve (Dong, Roth and Su 2022, Proposition 2.12). The
    errors are bounded once, so testing at many epsilons needs no union bound.
    """
    if not 1.0 - beta_high > alpha_high:
        return 0.0

    def refuted(strength: float) -> bool:
        profile = family(strength)
        return any(_exceeds(profile, *rates) for rates in ((alpha_high, beta_high), (beta_high, alpha_high)))

    low, high = 0.0, 1.0
    if refuted(high):
        while refuted(high) and high < 2.0**40:
            low, high = high, 2.0 * high
    else:
        low = 0.5
        while not refuted(low):
            low, high = 0.5 * low, low
            if low < 2.0**-40:
                return 0.0
    while high > low * (1.0 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def epsilon_of_profile(profile: Callable[[float], float], delta: float) -> float:
    """An epsilon, close to the largest, at which the profile exceeds delta; 0 if there is none."""
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > delta:
        low, high = high, 2.0 * high
        if high > 1e6:
            return low
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return low


def _exceeds(profile: Callable[[float], float], alpha_high: float, beta_high: float) -> bool:
    """Whether ``1 - beta - e^epsilon alpha > delta(epsilon)`` was found at some ``epsilon >= 0``."""

    def shortfall(epsilon: float) -> float:
        return profile(epsilon) - (1.0 - beta_high - math.exp(epsilon) * alpha_high)

    end = _log_ratio(1.0 - beta_high, alpha_high)
    if not end > 0.0 or shortfall(0.0) < 0.0:
        return end > 0.0
    best = min(np.linspace(0.0, end, 9)[1:-1].tolist(), key=shortfall)
    if shortfall(best) < 0.0:
        return True
    around = (max(0.0, best - end / 8.0), min(end, best + end / 8.0))
    return bool(minimize_scalar(shortfall, bounds=around, method="bounded", options={"maxiter": 8}).fun < 0.0)


def _coin_rho(p: float, q: float) -> float:
    """``max over orders a of D_a(p, q) / a`` for two coins with ``p > q > 0``, rounded down."""
    with np.errstate(divide="ignore"):
        one = _ORDERS * np.log(p) + (1.0 - _ORDERS) * np.log(q)
        other = _ORDERS * np.log1p(-p) + (1.0 - _ORDERS) * np.log1p(-q)
    rates = (np.logaddexp(one, other) / (_ORDERS - 1.0) - 1e-9) / _ORDERS
    return max(0.0, float(np.max(rates)) * (1.0 - 1e-12))


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0.0 else -math.inf


Array = NDArray[np.float64]
#: Observations of shape (runs, size) to scores of shape (runs,); the second data set scores higher.
Statistic = Callable[[Array], Array]


def learn_statistic(first: Array, second: Array) -> Statistic:
    """The projection that orders held-out observations best.

    Candidates are the difference of the means, whitened by the covariance shrunk towards its diagonal
    (linear discriminant), by the diagonal alone, and the single coordinate that differs most. They are
    fitted to one half of the observations and compared on the other; the best is fitted to all.

    Parameters
    ----------
    first, second : (runs, size) ndarray
        Observations on the two data sets; infinite values are replaced by very large ones.

    Returns
    -------
    callable
        Maps observations to scores.
    """
    first, second = _finite(first), _finite(second)
    if len(first) < 4 or first.shape[1] == 1:
        return _projection(next(_candidates(first, second)))
    halves = [rows[::2] for rows in (first, second)], [rows[1::2] for rows in (first, second)]
    wins = [share_ordered(*(rows @ axis for rows in halves[1])) for axis in _candidates(*halves[0])]
    return _projection(list(_candidates(first, second))[int(np.argmax(wins))])


def share_ordered(first: Array, second: Array) -> float:
    """Share of all pairs whose second score is the larger one; ties count one half."""
    order = np.sort(first)
    below = np.searchsorted(order, second, "left") + np.searchsorted(order, second, "right")
    return float(below.mean()) / (2.0 * len(first))


def _candidates(first: Array, second: Array) -> Iterator[Array]:
    """Directions to project on."""
    shift = second.mean(axis=0) - first.mean(axis=0)
    residuals = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    variances = residuals.var(axis=0)
    # A coordinate without noise reveals everything; the floor keeps its weight finite.
    variances = np.maximum(variances, 1e-12 * (shift**2 + variances.max()) + 1e-300)
    diagonal = shift / variances
    yield diagonal / (np.linalg.norm(diagonal) or 1.0)
    if len(shift) == 1:
        return
    single = np.zeros_like(shift)
    best = int(np.argmax(np.abs(shift) / np.sqrt(variances)))
    single[best] = np.sign(shift[best])
    yield single
    scaled = residuals / np.sqrt(variances)
    shrinkage = min(1.0, len(shift) / len(scaled) + 1e-3)
    correlation = (1.0 - shrinkage) * (scaled.T @ scaled) / len(scaled) + shrinkage * np.eye(len(shift))
    full = np.linalg.solve(correlation, shift / np.sqrt(variances)) / np.sqrt(variances)
    yield full / (np.linalg.norm(full) or 1.0)


def _projection(axis: Array) -> Statistic:
    return lambda observations: np.asarray(_finite(observations) @ axis)


def _finite(observations: Array) -> Array:
    return np.nan_to_num(observations, posinf=1e100, neginf=-1e100)


METHODS = ("gdp", "gdp_threshold", "zcdp", "profile", "clopper_pearson")
# Methods that may compare runs in pairs.
_PAIRED = ("gdp", "zcdp")

# Thresholds tried on the trainings that are set aside for choosing.
_THRESHOLDS = 200


class Judge:
    """Decides by a threshold, or by comparing pairs (threshold None), and certifies a bound."""

    def __init__(self, delta: float, confidence: float, method: str, family: Family | None = None) -> None:
        self.delta, self.confidence, self.method, self.family = delta, confidence, method, family

    def choose(self, first: Array, second: Array) -> float | None:
        """The decision that would certify the largest bound on these scores.

        It is judged by confidence bounds, so that an extreme threshold that looks good on a handful of runs
        is not preferred by chance. For the same reason pairs are preferred, unless the best threshold
        certifies more than an optimistic bound for pairs.
        """

        def value(threshold: float) -> float:
            return self._value(*self._rates_high(first, second, threshold, 0.95))

        levels = np.linspace(0, 1, _THRESHOLDS)
        candidates = np.unique(np.quantile(np.concatenate([first, second]), levels, method="lower"))
        best: float = max(candidates.tolist(), key=value)
        if self.method not in _PAIRED:
            return best
        by_pairs = self._of_pairs(rate_upper_bound(_lost_pairs(first, second), len(first), 0.05))
        return best if value(best) > by_pairs else None

    def certify(
        self, first: Array, second: Array, threshold: float | None
    ) -> tuple[float, float | None, float, float]:
        """Epsilon, the parameter it comes from (mu, rho or strength), and the two observed error rates."""
        trials = len(first)
        if threshold is None:
            losses = _lost_pairs(first, second)
            bound = max(0.0, self._of_pairs(rate_upper_bound(losses, trials, self.confidence)))
            return self._epsilon(bound), bound, losses / trials, losses / trials
        false_positives, false_negatives = self._errors(first, second, threshold)
        rates = false_positives / trials, false_negatives / trials
        each = 1.0 - (1.0 - self.confidence) / 2.0  # union bound over the two intervals
        high = self._rates_high(first, second, threshold, each)
        if self.family is not None:
            bound = strength_from_rates(self.family, *high)
        else:
            bound = max(0.0, self._value(*high))
        return self._epsilon(bound), None if self.method == "clopper_pearson" else bound, *rates

    def _value(self, alpha_high: float, beta_high: float) -> float:
        """Epsilon, rho or mu that these error rates certify; for a family, mu is a proxy of strength."""
        if self.method == "clopper_pearson":
            return epsilon_from_rates(alpha_high, beta_high, self.delta)
        if self.method == "zcdp":
            return rho_from_rates(alpha_high, beta_high)
        return mu_from_rates(alpha_high, beta_high)

    def _of_pairs(self, loss_high: float) -> float:
        return rho_from_pairs(loss_high) if self.method == "zcdp" else mu_from_pairs(loss_high)

    def _epsilon(self, bound: float) -> float:
        """Epsilon at delta of what was certified."""
        if self.method == "clopper_pearson":
            return bound
        if self.method == "zcdp":
            return epsilon_of_rho(bound, self.delta)
        if self.family is not None:
            return epsilon_of_profile(self.family(bound), self.delta) if bound > 0.0 else 0.0
        return epsilon_of_mu(bound, self.delta)

    def _rates_high(
        self, first: Array, second: Array, threshold: float, confidence: float
    ) -> tuple[float, float]:
        """Upper bounds on both error rates, each with this confidence."""
        false_positives, false_negatives = self._errors(first, second, threshold)
        trials = len(first)
        return (
            rate_upper_bound(false_positives, trials, confidence),
            rate_upper_bound(false_negatives, trials, confidence),
        )

    @staticmethod
    def _errors(first: Array, second: Array, threshold: float) -> tuple[int, int]:
        """False positives and false negatives."""
        return int(np.count_nonzero(first > threshold)), int(np.count_nonzero(second <= threshold))


def _lost_pairs(first: Array, second: Array) -> int:
    """Number of pairs in the wrong order; ties are broken by coins that do not depend on the scores."""
    coins = np.random.default_rng(0).random(len(first)) < 0.5
    return int(np.count_nonzero((second < first) | ((second == first) & coins)))
