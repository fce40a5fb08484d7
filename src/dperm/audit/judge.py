"""How scores are turned into a decision, and the errors of the decision into a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import (
    epsilon_from_rates,
    epsilon_of_mu,
    mu_from_pairs,
    mu_from_rates,
    rate_upper_bound,
)

Array = NDArray[np.float64]
METHODS = ("gdp", "gdp_threshold", "clopper_pearson")

# Thresholds tried on the trainings that are set aside for choosing.
_THRESHOLDS = 200


class Judge:
    """Decides by a threshold, or by comparing pairs (threshold None), and bounds what that shows."""

    def __init__(self, delta: float, confidence: float, method: str) -> None:
        self.delta, self.confidence, self.method = delta, confidence, method

    def choose(self, first: Array, second: Array) -> float | None:
        """The decision that certifies most on these scores, were they the ones that count.

        Both intervals are as wide as so few scores make them: a threshold far out, where a handful of
        runs seem to tell a lot, must earn its place. For the same reason "gdp" prefers pairs unless the
        best threshold certifies more than pairs might show if luck was against them.
        """
        candidates = self._thresholds(first, second)
        best = max(
            candidates, key=lambda threshold: self._value(*self._rates_high(first, second, threshold, 0.95))
        )
        if self.method != "gdp":
            return best
        by_pairs = mu_from_pairs(rate_upper_bound(_lost_pairs(first, second), len(first), 0.05))
        return best if mu_from_rates(*self._rates_high(first, second, best, 0.95)) > by_pairs else None

    def certify(
        self, first: Array, second: Array, threshold: float | None
    ) -> tuple[float, float | None, float, float]:
        """Epsilon, mu, and the two observed error rates."""
        trials = len(first)
        if threshold is None:
            losses = _lost_pairs(first, second)
            mu = max(0.0, mu_from_pairs(rate_upper_bound(losses, trials, self.confidence)))
            return epsilon_of_mu(mu, self.delta), mu, losses / trials, losses / trials
        false_positives, false_negatives = self._errors(first, second, threshold)
        rates = false_positives / trials, false_negatives / trials
        each = 1.0 - (1.0 - self.confidence) / 2.0  # two intervals share the error
        bound = max(0.0, self._value(*self._rates_high(first, second, threshold, each)))
        if self.method == "clopper_pearson":
            return bound, None, *rates
        return epsilon_of_mu(bound, self.delta), bound, *rates

    def _value(self, alpha_high: float, beta_high: float) -> float:
        """Epsilon or mu that these error rates certify."""
        if self.method == "clopper_pearson":
            return epsilon_from_rates(alpha_high, beta_high, self.delta)
        return mu_from_rates(alpha_high, beta_high)

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
    def _thresholds(first: Array, second: Array) -> list[float]:
        both = np.concatenate([first, second])
        return [
            float(t) for t in np.unique(np.quantile(both, np.linspace(0, 1, _THRESHOLDS), method="lower"))
        ]

    @staticmethod
    def _errors(first: Array, second: Array, threshold: float) -> tuple[int, int]:
        """False positives and false negatives."""
        return int(np.count_nonzero(first > threshold)), int(np.count_nonzero(second <= threshold))


def _lost_pairs(first: Array, second: Array) -> int:
    """Pairs in the wrong order; a coin that knows nothing of the scores decides ties."""
    coins = np.random.default_rng(0).random(len(first)) < 0.5
    return int(np.count_nonzero((second < first) | ((second == first) & coins)))
