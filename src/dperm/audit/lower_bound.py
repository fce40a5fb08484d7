"""Certified lower bounds on epsilon from repeated trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting._checks import check_delta
from dperm.audit.bounds import (
    epsilon_from_rates,
    epsilon_of_mu,
    mu_from_pairs,
    mu_from_rates,
    rate_upper_bound,
)
from dperm.audit.statistics import Statistic, learn_statistic
from dperm.audit.trainings import Fit, RandomState, observe

Array = NDArray[np.float64]
METHODS = ("gdp", "gdp_threshold", "clopper_pearson")

# Thresholds tried on the trainings that are set aside for choosing.
_THRESHOLDS = 200


@dataclass(frozen=True)
class AuditResult:
    """Lower bound on what a mechanism leaks.

    Attributes
    ----------
    epsilon : float
        With probability ``confidence`` over the trainings, the mechanism is not (epsilon', delta)-DP in
        the sense of ``method`` for any epsilon' below this; 0 when nothing was found.
    mu : float or None
        The same in Gaussian differential privacy; None for "clopper_pearson".
    delta, confidence : float
    method : str
        "gdp", "gdp_threshold" or "clopper_pearson", see :func:`epsilon_lower_bound`.
    trainings, certified : int
        All trainings, and those that the bound was computed from; half of them on each data set.
    threshold : float or None
        Scores above it were called the second data set; None when runs were compared in pairs.
    false_positive_rate, false_negative_rate : float
        Observed errors of the threshold on the first and second data set; with pairs both are the
        share of pairs in the wrong order.
    claim : float or None
        Epsilon at ``delta`` that the mechanism claims, if told; infinite when it claims nothing.
    """

    epsilon: float
    mu: float | None
    delta: float
    confidence: float
    method: str
    trainings: int
    certified: int
    threshold: float | None
    false_positive_rate: float
    false_negative_rate: float
    claim: float | None = None

    def violates(self, claim_epsilon: float | None = None) -> bool:
        """Whether the bound refutes (claim_epsilon, delta); by default the claim of the audit.

        A true claim is refuted with probability at most ``1 - confidence``.
        """
        claim = self.claim if claim_epsilon is None else claim_epsilon
        if claim is None:
            raise ValueError("no claim to compare with: pass claim_epsilon")
        return self.epsilon > claim

    def __str__(self) -> str:
        lines = [
            f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}"
            + (f" (mu >= {self.mu:.4g})" if self.mu is not None else "")
            + f", confidence {self.confidence:.9g}",
            f"  {self.trainings} trainings, {self.certified} of them for the bound; method {self.method}",
            "  "
            + (
                "pairs of runs in the wrong order: "
                if self.threshold is None
                else f"threshold {self.threshold:.4g}, false positives {self.false_positive_rate:.4g}, "
                "false negatives "
            )
            + f"{self.false_negative_rate:.4g}",
        ]
        if self.claim == math.inf:
            lines.append("  NOT PRIVATE: the mechanism claims no finite epsilon")
        elif self.claim is not None:
            verdict = "VIOLATED" if self.violates() else "not contradicted"
            lines.append(f"  claim: epsilon = {self.claim:.4g}, {verdict}")
        return "\n".join(lines)


def epsilon_lower_bound(
    fit: Fit,
    neighbours: Sequence[Any],
    *,
    delta: float,
    trainings: int = 10_000,
    confidence: float = 0.95,
    statistic: Statistic | None = None,
    method: str = "gdp",
    learn_share: float | None = None,
    claim: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> AuditResult:
    """Train many times on two neighbouring data sets and bound epsilon from below.

    Some trainings are set aside to learn a statistic and to choose how to decide by it. The others, never
    looked at before, are counted: their errors certify the bound.

    Parameters
    ----------
    fit : callable
        ``fit(data, seed) -> observation``, a number or array of fixed size: the final weights
        (:class:`dperm.audit.Coefficients`), everything released (:class:`dperm.audit.Transcript`), or
        anything that the guarantee covers. It must be picklable unless ``n_jobs=1``, and use the seed for
        all its noise; seeded noise is fine here, since the data are made up.
    neighbours : pair of data sets
        Handed to ``fit``; see :func:`dperm.audit.worst_case_neighbours`.
    delta : float
        In (0, 1); for "clopper_pearson" it may be 0.
    trainings : int
        In all, half on each data set; at least 20.
    confidence : float
        In (0, 1): a true claim is contradicted with probability at most ``1 - confidence``.
    statistic : callable, optional
        Observations of shape (runs, size) to scores of shape (runs,), larger on the second data set.
        Learned when not given: see :func:`dperm.audit.statistics.learn_statistic`.
    method : {"gdp", "gdp_threshold", "clopper_pearson"}
        "clopper_pearson" assumes nothing: it refutes (epsilon, delta)-DP itself, whatever the mechanism.
        "gdp" and "gdp_threshold" refute *mu-GDP*, and so a claim of (epsilon, delta) that rests on
        mu-GDP (Gaussian noise, ``privacy.mu`` given): mu larger than claimed. Against a mechanism whose
        claim is (epsilon, delta) or zCDP alone they prove nothing, but their bounds are much
        larger. "gdp" compares runs in pairs or, where a rare event gives more away, by a threshold,
        whichever certified more on the trainings set aside; "gdp_threshold" uses thresholds only.
    learn_share : float, optional
        Share of the trainings set aside, in (0, 1). By default 0.1 when an observation is a single number or
        a statistic is given, else one half; at least 10 trainings.
    claim : float, optional
        Epsilon that the mechanism claims at ``delta``, for the report.
    n_jobs : int, optional
        Processes; None for all cores, 1 for none but this.
    progress : bool
        Show a bar, if rich is installed.
    random_state : None, int, Generator or SeedSequence
        Source of all seeds: an integer makes the audit reproducible.

    Returns
    -------
    AuditResult

    Raises
    ------
    ValueError
        If an argument is outside its range, or an observation is NaN.

    Notes
    -----
    One-sided Clopper-Pearson intervals, two of them (each with half the error) for thresholds, one for
    pairs. The bounds and their sources are in :mod:`dperm.audit.bounds`. The idea of measuring mu instead of
    epsilon: Nasr et al. 2023, "Tight auditing of differentially private machine learning".

    Examples
    --------
    >>> import numpy as np
    >>> def fit(data, seed):
    ...     return data + np.random.default_rng(seed).normal(scale=2.0)
    >>> result = epsilon_lower_bound(fit, (0.0, 1.0), delta=1e-5, claim=2.1, n_jobs=1, random_state=0)
    >>> 0.4 < result.mu < 0.5
    True
    >>> result.violates()
    False
    """
    _check(trainings, confidence, delta, method, learn_share, neighbours)
    runs = trainings // 2
    first, second = observe(
        fit, neighbours, runs, n_jobs=n_jobs, progress=progress, random_state=random_state
    )
    if learn_share is None:
        learn_share = 0.5 if statistic is None and first.shape[1] > 1 else 0.1
    learn = min(max(5, round(learn_share * runs)), runs - 1)
    score = statistic or learn_statistic(first[:learn], second[:learn])
    scores = [np.asarray(score(rows), dtype=np.float64) for rows in (first, second)]
    if any(values.shape != (runs,) or np.isnan(values).any() for values in scores):
        raise ValueError("statistic must return one number, not NaN, per observation")
    judge = _Judge(delta, confidence, method)
    decision = judge.choose(scores[0][:learn], scores[1][:learn], runs - learn)
    epsilon, mu, alpha, beta = judge.certify(scores[0][learn:], scores[1][learn:], decision)
    return AuditResult(
        epsilon=epsilon,
        mu=mu,
        delta=delta,
        confidence=confidence,
        method=method,
        trainings=2 * runs,
        certified=2 * (runs - learn),
        threshold=decision,
        false_positive_rate=alpha,
        false_negative_rate=beta,
        claim=claim,
    )


class _Judge:
    """Decides by a threshold, or by comparing pairs (threshold None), and bounds what that shows."""

    def __init__(self, delta: float, confidence: float, method: str) -> None:
        self.delta, self.confidence, self.method = delta, confidence, method

    def choose(self, first: Array, second: Array, trials: int) -> float | None:
        """The decision that promises most for ``trials`` further runs on each data set."""
        if self.method == "gdp":
            # Thresholds win only where what they certify here exceeds all that pairs may show: noise in
            # the best of many thresholds must not decide.
            losses = int(np.count_nonzero(second <= first))
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
            losses = int(np.count_nonzero(second <= first))
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


def _check(
    trainings: int,
    confidence: float,
    delta: float,
    method: str,
    learn_share: float | None,
    neighbours: Sequence[Any],
) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    if trainings < 20:
        raise ValueError(f"trainings must be at least 20, got {trainings!r}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    if not (method == "clopper_pearson" and delta == 0.0):
        check_delta(delta)
    if learn_share is not None and not 0.0 < learn_share < 1.0:
        raise ValueError(f"learn_share must be in (0, 1), got {learn_share!r}")
    if len(neighbours) != 2:
        raise ValueError(f"neighbours must be a pair of data sets, got {len(neighbours)}")
