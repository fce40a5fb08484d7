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

    def choose(self, first: Array, second: Array, trials: int) -> float | None:
        """The decision that promises most for ``trials`` further runs on each data set."""
        if self.method == "gdp":
            # Thresholds win only where what they certify here exceeds all that pairs may show: noise in
            # the best of many thresholds must not decide.
            losses = _lost_pairs(first, second)
            by_pairs = mu_from_pairs(rate_upper_bound(losses, len(first), 0.5))
            best = max(self._thresholds(first, second), key=lambda t: self._mu(first, second, t))
            return best if self._mu(first, second, best) > by_pairs else None

        def promise(threshold: float) -> float:
            counts = (
                trials * rate_upper_bound(count, len(first), 0.5)
                for count in self._errors(first, second, threshold)
            )
            alpha, beta = (rate_upper_bound(min(count, trials), trials, self._each) for count in counts)
            if self.method == "gdp_threshold":
                return mu_from_rates(alpha, beta)
            return epsilon_from_rates(alpha, beta, self.delta)

        return max(self._thresholds(first, second), key=promise)

    def certify(
        self, first: Array, second: Array, threshold: float | None
    ) -> tuple[float, float | None, float, float]:
        """Epsilon, mu, and the two observed error rates."""
        trials = len(first)
        if threshold is None:
            losses = _lost_pairs(first, second)
            mu = mu_from_pairs(rate_upper_bound(losses, trials, self.confidence))
            return epsilon_of_mu(mu, self.delta), mu, losses / trials, losses / trials
        false_positives, false_negatives = self._errors(first, second, threshold)
        rates = false_positives / trials, false_negatives / trials
        if self.method == "clopper_pearson":
            alpha = rate_upper_bound(false_positives, trials, self._each)
            beta = rate_upper_bound(false_negatives, trials, self._each)
            return epsilon_from_rates(alpha, beta, self.delta), None, *rates
        mu = self._mu(first, second, threshold)
        return epsilon_of_mu(mu, self.delta), mu, *rates

    @property
    def _each(self) -> float:
        """Confidence of each of two intervals."""
        return 1.0 - (1.0 - self.confidence) / 2.0

    def _mu(self, first: Array, second: Array, threshold: float) -> float:
        alpha, beta = (
            rate_upper_bound(count, len(first), self._each)
            for count in self._errors(first, second, threshold)
        )
        return mu_from_rates(alpha, beta)

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
