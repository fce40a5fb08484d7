"""Private hyperparameter search: the cost of releasing only the best of a random number of trials.

The number of trials K is drawn from a truncated negative binomial distribution and **stays secret** (the best
of a known number k can cost k times as much as a trial). Trials are independent, equally private runs of one
mechanism, whose output includes the score that ranks them. There are two bounds:

* `profile_epsilon`, for any privacy profile, computed for mu-GDP: ``delta(e + (1 + eta) h) <= E[K]
  delta_trial(e)`` for every real e, where ``h = log(e^a + (1 - gamma)/gamma delta_trial(a))`` for any public
  ``a >= 0``. Proof. With ties broken uniformly, the output has the density ``q f'(F)``: q is that of a trial,
  F the probability that a trial does no better, f the generating function of K, ``f'(x) = E[K] (gamma / (1 -
  (1 - gamma) x))^(eta + 1) <= E[K]``. A trial does better than a given output with probability ``T = 1 - F``
  on one data set and ``T' <= e^a T + delta_trial(a)`` on the other, so ``f'(F) / f'(F') = ((gamma + (1 -
  gamma) T') / (gamma + (1 - gamma) T))^(eta + 1) <= e^((1 + eta) h)``. Hence ``f'(F) q - e^(e + (1 + eta) h)
  f'(F') q' <= f'(F) (q - e^e q')``, whose positive part integrates to at most ``E[K] delta_trial(e)``.
* `renyi_bound`, for the Renyi divergences of rho-zCDP (Papernot and Steinke, "Hyperparameter tuning with
  Renyi differential privacy", ICLR 2022, Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar

from dperm.accounting._checks import (
    bisected,
    check_delta,
    check_positive,
    check_positive_epsilon,
    check_real,
    decreasing_root,
    nudged,
)
from dperm.accounting.approximate_gdp import lies_below
from dperm.accounting.gaussian import gaussian_delta, gdp_epsilon
from dperm.accounting.ledger.cost import Cost, FitCost
from dperm.accounting.units import units_as_float

# Results are rounded to the safe side by this, far more than the rounding error of a few dozen operations.
_UP = 1.0 + 1e-11
# Precision at which the distribution of K is evaluated: its error is negligible next to any delta.
_DIGITS = Context(prec=80)
_POINTS = 200


@dataclass(frozen=True)
class TruncatedNegativeBinomial:
    """Distribution of the number of trials: negative binomial, conditioned on being positive.

    ``P(k) = (1 - gamma)^k / (gamma^-eta - 1) prod_{l < k} (l + eta)/(l + 1)`` for k = 1, 2, ...; for eta = 0
    its limit, the logarithmic distribution ``(1 - gamma)^k / (k log(1/gamma))``; for eta = 1 the geometric
    one.

    Parameters
    ----------
    eta : float
        Above -1. With larger values the number varies less and the search costs more.
    gamma : float
        Strictly between 0 and 1. Smaller values give more trials.
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        check_real(self.eta, "eta", "a finite number above -1", lambda eta: -1.0 < eta < math.inf)
        check_real(self.gamma, "gamma", "a number strictly between 0 and 1", lambda g: 0.0 < g < 1.0)

    @property
    def mean(self) -> float:
        """``E[K]``."""
        spread = -math.log(self.gamma) if self.eta == 0.0 else -math.expm1(self.eta * math.log(self.gamma))
        return (1.0 - self.gamma) / self.gamma * (self.eta or 1.0) / spread

    def quantile(self, uniform: Fraction) -> int:
        """The smallest k with ``P(K <= k) > uniform``, for a number in [0, 1)."""
        with localcontext(_DIGITS):
            eta, gamma = Decimal(self.eta), Decimal(self.gamma)
            spread = -gamma.ln() if eta == 0 else ((-eta * gamma.ln()).exp() - 1) / eta
            k, probability = 1, (1 - gamma) / spread
            below, aim = probability, Decimal(uniform.numerator) / Decimal(uniform.denominator)
            while below <= aim:
                probability *= (1 - gamma) * (k + eta) / (k + 1)
                k, below = k + 1, below + probability
        return k


# -- the profile bound -----------------------------------------------------------------------------------


def profile_epsilon(law: TruncatedNegativeBinomial, mu: float, delta: float) -> float:
    """Epsilon at delta of a search with mu-GDP trials, by the profile bound; rounded up."""
    spent = gdp_epsilon(check_positive(mu, "mu"), check_delta(delta) / law.mean / _UP)
    return (spent + _selection_epsilon(law, mu)) * _UP


def profile_mu(law: TruncatedNegativeBinomial, epsilon: float, delta: float) -> float:
    """Largest mu of the trials for which the search is (epsilon, delta)-DP, rounded down.

    Examples
    --------
    >>> ten = TruncatedNegativeBinomial(0.0, 0.0269182596)
    >>> round(ten.mean, 6), round(profile_mu(ten, 1.0, 1e-6), 4)
    (10.0, 0.1469)
    """
    return _largest(lambda mu: profile_epsilon(law, mu, delta), check_positive_epsilon(epsilon))


def _selection_epsilon(law: TruncatedNegativeBinomial, mu: float) -> float:
    """``(1 + eta) h``, for the best a."""

    def ratio(log_a: float) -> float:
        a = math.exp(log_a)
        return a + math.log1p((1.0 - law.gamma) / law.gamma * math.exp(-a) * gaussian_delta(a, 1.0 / mu))

    best = minimize_scalar(ratio, bounds=(math.log(mu) - 7.0, math.log(mu * (mu + 40.0))), method="bounded")
    return (1.0 + law.eta) * float(best.fun) * _UP


def profile_cost(law: TruncatedNegativeBinomial, mu: float, caps: Cost) -> Callable[[float], FitCost]:
    """What a ledger is charged for a search with mu-GDP trials, as a function of the slack.

    Notes
    -----
    With ``c = (1 + eta) h + t`` the profile is at most ``H(e) = E[K] delta_trial(e + t)`` at ``c + e``. The
    search costs c in pure epsilon and ``m^2`` if ``H(e) <= slack + delta_G(e; m)`` for *every* real e
    (:mod:`dperm.accounting.ledger.cost`). That is certified, as in `approximate_gdp`, between some ``start <
    0`` with ``H(start) <= 1 - e^start`` and where H falls below the slack. Below `start` it follows: the
    profile is convex in ``e^e`` and at most 1 at 0, hence below the chord ``1 - e^(e - start) (1 -
    H(start))``, which is at most ``1 - e^e <= delta_G(e; m)``. Of several t, the one that uses the smallest
    share of the caps is taken.
    """
    least, unit, pure = _selection_epsilon(law, mu), units_as_float(caps.units), units_as_float(caps.pure)

    def cost(slack: float) -> FitCost:
        reserves = least + mu * np.linspace(1.0, 8.0, 15)
        choices = [(_dominating_mu(law, mu, own - least, slack), own) for own in reserves.tolist()]
        m, own = min(choices, key=lambda choice: choice[0] ** 2 / unit + choice[1] / pure)
        return FitCost(mu=m, slack=slack, epsilon=own)

    return cost


def _dominating_mu(law: TruncatedNegativeBinomial, mu: float, shift: float, slack: float) -> float:
    """Smallest m with ``E[K] delta_trial(e + shift) <= slack + delta_G(e; m)`` for every real e, or inf."""
    end = max(gdp_epsilon(mu, slack / law.mean / _UP) - shift, 0.0) + 1e-3 * mu
    points = np.linspace(-shift, end, _POINTS)
    heights = np.array([law.mean * _UP * _delta(point + shift, mu) for point in points])
    steep = np.flatnonzero((points < 0.0) & (heights <= -np.expm1(points) * (2.0 - _UP)))
    if not steep.size:
        return math.inf
    points, heights = points[steep[-1] :], heights[steep[-1] :]
    largest = 64.0 * mu
    if not lies_below(points, heights, slack, largest):
        return math.inf
    return bisected(lambda m: lies_below(points, heights, slack, m), 0.0, largest, rtol=1e-4)


def _delta(epsilon: float, mu: float) -> float:
    return gaussian_delta(max(epsilon, 0.0), 1.0 / mu)


# -- the Renyi bound -------------------------------------------------------------------------------------


def renyi_bound(law: TruncatedNegativeBinomial, rho: float, order: float) -> float:
    """Renyi divergence of an order above 1 of the search with rho-zCDP trials, rounded up."""
    return (_fixed_part(law, rho) + order * rho + math.log(law.mean) / (order - 1.0)) * _UP


def _fixed_part(law: TruncatedNegativeBinomial, rho: float) -> float:
    """``(1 + eta) ((1 - 1/m) m rho + log(1/gamma) / m)`` for the best order m."""
    inverse = -math.log(law.gamma)
    m = max(1.0, math.sqrt(inverse / rho))
    return (1.0 + law.eta) * ((m - 1.0) * rho + inverse / m)


def renyi_epsilon(law: TruncatedNegativeBinomial, rho: float, delta: float) -> float:
    """Epsilon at delta of a search with rho-zCDP trials, by the Renyi bound; rounded up.

    The conversion of :mod:`dperm.accounting.zcdp`, which is valid at every order.
    """
    log_delta = math.log(check_delta(delta))

    def epsilon(log_x: float) -> float:
        x = math.exp(log_x)  # order - 1
        return renyi_bound(law, rho, 1.0 + x) - math.log1p(1.0 / x) - (log_delta + math.log1p(x)) / x

    best = minimize_scalar(epsilon, bounds=(-10.0, 20.0), method="bounded", options={"xatol": 1e-9})
    return max(float(best.fun), 0.0) * _UP


def renyi_rho(law: TruncatedNegativeBinomial, epsilon: float, delta: float) -> float:
    """Largest rho of the trials for which the search is (epsilon, delta)-DP, rounded down."""
    return _largest(lambda rho: renyi_epsilon(law, rho, delta), check_positive_epsilon(epsilon))


def renyi_cost(law: TruncatedNegativeBinomial, rho: float) -> FitCost:
    """What a zCDP ledger is charged for a search with rho-zCDP trials: rho and a pure epsilon.

    Notes
    -----
    Renyi divergences grow with the order, so the bound at order l is the smallest bound at any larger order:
    for ``A + l rho + B/(l - 1)``, ``B = log E[K]``, this is ``A + rho + 2 sqrt(B rho)`` up to ``l - 1 =
    sqrt(B/rho)``, and the formula itself beyond. So it is at most ``xi + l rho`` for every order above 1,
    with ``xi = A + 2 sqrt(B rho)``. Such bounds add up under adaptive composition, so the proof in
    :mod:`dperm.accounting.ledger.cost` holds, with F the largest profile of any mechanism whose divergences
    are at most ``E + l R``; it converts to delta like R-zCDP at ``epsilon - E``.
    """
    xi = _fixed_part(law, rho) + 2.0 * math.sqrt(math.log(law.mean) * rho)
    return FitCost(mu=math.sqrt(2.0 * rho) * _UP, epsilon=xi * _UP)


def _largest(epsilon_of: Callable[[float], float], epsilon: float) -> float:
    """Largest x with ``epsilon_of(x) <= epsilon``, for an increasing function; rounded down."""
    found = decreasing_root(lambda log_x: epsilon - epsilon_of(math.exp(log_x)), 0.01)
    return nudged(found, lambda x: epsilon_of(x) > epsilon, -1e-12)
