"""Statistics that distinguish two data sets, decisions by them, and the bounds that their errors prove."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
