"""Intervals of 95 % cover the truth 93 to 97 times in a hundred, whatever the noise."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from dperm.metrics import evaluate
from dperm.metrics.intervals import Noisy

# A test fails for an interval of coverage between 93 and 97 % with at most this probability.
FALSE_ALARM = 1e-6
RUNS, LONG_RUNS = 300, 1_000


class Logit:
    """The only column is the log-odds."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)

    def decision_function(self, X):
        return X[:, 0]

    def predict_proba(self, X):
        p = expit(X[:, 0])
        return np.column_stack([1.0 - p, p])


class FirstColumn:
    """A regressor."""

    target_bound = 6.0

    def predict(self, X):
        return X[:, 0]


def two_classes(separation, share):
    """Records whose log-odds are right: normal scores of either class."""

    def draw(rng, n):
        y = (rng.random(n) < share).astype(int)
        mean = (y - 0.5) * separation + math.log(share / (1.0 - share))
        return rng.normal(mean, math.sqrt(separation))[:, None], y

    return Logit(), draw, ["accuracy", "roc_auc", "log_loss"]


def linear(spread, degrees):
    """Targets of a misspecified model, with errors of that many degrees of freedom."""

    def draw(rng, n):
        x = rng.normal(size=n)
        y = 0.5 + 1.2 * x + spread * rng.standard_t(degrees, size=n)
        return x[:, None], np.clip(y, -6.0, 6.0)

    return FirstColumn(), draw, ["mae", "mse", "r2"]


#: Model, law of the records and metrics; records, epsilon, relation.
DESIGNS = {
    "small": (*two_classes(2.0, 0.5), 1000, 1.0, "add_or_remove"),
    "known size": (*two_classes(2.0, 0.2), 5000, 0.4, "replace_one"),
    "rare": (*two_classes(4.0, 0.05), 10_000, 1.0, "add_or_remove"),
    "noisy": (*two_classes(1.0, 0.3), 20_000, 0.1, "add_or_remove"),
    "exact": (*two_classes(6.0, 0.5), 500, math.inf, "add_or_remove"),
    "normal errors": (*linear(0.5, 1e6), 2000, 1.0, "add_or_remove"),
    "heavy tails": (*linear(0.8, 5.0), 5000, 0.4, "replace_one"),
    "little noise": (*linear(1.0, 1e6), 1000, 8.0, "replace_one"),
    "moments that the noise hides": (*linear(0.8, 5.0), 1000, 8.0, "replace_one"),
    "exact, heavy tails": (*linear(0.8, 5.0), 1000, math.inf, "add_or_remove"),
}


@cache
def truth(design):
    """Metrics of practically infinitely many records, with bins of negligible width."""
    model, draw, names, *_ = DESIGNS[design]
    X, y = draw(np.random.default_rng(1), 2_000_000)
    bounds = (
        {"log_loss": 4.0 + math.log(2.0)}
        if names[0] == "accuracy"
        else {"mae": 6.0, "mse": 36.0, "target": 6.0}
    )
    found = evaluate(model, X, y, math.inf, 1e-6, metrics=names, loss_bound=bounds, bins=4096)
    return {name: found[name].value for name in names}


def coverage(design, runs):
    model, draw, names, n, epsilon, relation = DESIGNS[design]
    rng, hits = np.random.default_rng(2), dict.fromkeys(names, 0)
    bounds = {"mae": 6.0, "mse": 36.0, "target": 6.0} if epsilon == math.inf and names[0] == "mae" else None
    for _ in range(runs):
        settings = {"metrics": names, "neighbors": relation, "random_state": int(rng.integers(2**62))}
        found = evaluate(model, *draw(rng, n), epsilon, 1e-6, loss_bound=bounds, **settings)
        for name in names:
            hits[name] += found[name].low <= truth(design)[name] <= found[name].high
    return hits


def check(design, runs):
    least, most = binom.ppf(FALSE_ALARM / 6, runs, 0.93), binom.isf(FALSE_ALARM / 6, runs, 0.97)
    hits = coverage(design, runs)
    assert all(least <= each <= most for each in hits.values()), {k: v / runs for k, v in hits.items()}


@pytest.mark.parametrize("design", ["small", "normal errors"])
def test_coverage(design):
    check(design, RUNS)


@pytest.mark.simulation
@pytest.mark.parametrize("design", DESIGNS)
def test_coverage_in_many_runs(design):
    check(design, LONG_RUNS)


def test_the_mean_of_several_classes_is_covered_at_least():
    """The samples of the classes may be dependent, so the intervals are conservative."""
    rng, hits = np.random.default_rng(3), 0

    def draw(n):
        codes = rng.integers(0, 3, n)
        return rng.normal(size=(n, 3)) + np.eye(3)[codes], codes

    class Argmax:
        classes_ = np.arange(3)

        def decision_function(self, X):
            return X

    settings = {"metrics": "roc_auc", "bins": 16}
    exact = evaluate(Argmax(), *draw(1_000_000), math.inf, 1e-6, metrics="roc_auc", bins=512)["roc_auc"].value
    for seed in range(RUNS):
        found = evaluate(Argmax(), *draw(3000), 4.0, 1e-6, random_state=seed, **settings)["roc_auc"]
        hits += found.low <= exact <= found.high
    assert hits >= binom.ppf(FALSE_ALARM, RUNS, 0.95)


def test_intervals_that_ignore_the_noise_are_caught(monkeypatch):
    honest = Noisy.variances
    monkeypatch.setattr(Noisy, "variances", lambda self, metric: (honest(self, metric)[0], 0.0))
    hits = coverage("small", RUNS)
    assert hits["roc_auc"] < binom.ppf(FALSE_ALARM, RUNS, 0.93)
