"""Turns scores into a decision, and the errors of that decision into a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import (
    Family,
    epsilon_from_rates,
    epsilon_of_mu,
    epsilon_of_profile,
    epsilon_of_rho,
    mu_from_pairs,
    mu_from_rates,
    rate_upper_bound,
    rho_from_pairs,
    rho_from_rates,
    strength_from_rates,
)

Array = NDArray[np.float64]
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
