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


class Scores:
    """The only column is a score."""

    classes_ = np.array([0, 1])

    def decision_function(self, X):
        return X[:, 0]


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


def gathered(separation, share, center, spread):
    """Records whose scores are close together."""

    def draw(rng, n):
        y = (rng.random(n) < share).astype(int)
        return rng.normal(center + spread * separation * y, spread)[:, None], y

    return Scores(), draw, ["roc_auc", "average_precision"]


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
    "gathered": (*gathered(0.36, 0.2, -2.0, 0.05), 10_000, 1.0, "add_or_remove"),
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
    bounds = {"mae": 6.0, "mse": 36.0, "target": 6.0, "log_loss": 4.0 + math.log(2.0)}
    found = evaluate(model, X, y, math.inf, 1e-6, metrics=names, loss_bound=bounds, bins=200)
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
    assert all(each >= least for each in hits.values()), {k: v / runs for k, v in hits.items()}
    # The unknown order within wide bins makes intervals of areas too wide where few records are positive.
    areas = ("roc_auc", "average_precision")
    assert all(each <= most for name, each in hits.items() if name not in areas), hits


@pytest.mark.parametrize("design", ["small", "gathered", "normal errors"])
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

    settings = {"metrics": "roc_auc"}
    exact = evaluate(Argmax(), *draw(1_000_000), math.inf, 1e-6, metrics="roc_auc", bins=200)["roc_auc"].value
    for seed in range(100):
        found = evaluate(Argmax(), *draw(3000), 4.0, 1e-6, random_state=seed, **settings)["roc_auc"]
        hits += found.low <= exact <= found.high
    assert hits >= binom.ppf(FALSE_ALARM, 100, 0.95)


@pytest.mark.parametrize(
    "cells", [[[9000, 500], [1.2, 38.8]], [[500, 50, 2], [40, 450, 3], [0.5, 0.5, 30]]], ids=["two", "three"]
)
def test_a_rare_class_without_errors_has_a_sampling_variance(cells):
    share = np.array(cells) / np.sum(cells)
    k, rng = len(share), np.random.default_rng(4)
    X, y = np.divmod(np.arange(k * k), k)[::-1]

    class Lookup:
        classes_ = np.arange(k)

        def predict(self, X):
            return X[:, 0]

    names = ["balanced_accuracy", "mcc"]
    found = [
        evaluate(Lookup(), X[:, None], y, math.inf, 0.0, metrics=names, counts=each)
        for each in rng.multinomial(int(np.sum(cells)), share.ravel(), RUNS)
    ]
    n = (share * 10**9).astype(int).ravel()
    truth = evaluate(Lookup(), X[:, None], y, math.inf, 0.0, metrics=names, counts=n)
    for name in names:
        hits = sum(each[name].low <= truth[name].value <= each[name].high for each in found)
        assert hits >= binom.ppf(FALSE_ALARM, RUNS, 0.93)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_no_number_is_out_of_its_range(epsilon):
    ranges = {"mse": (0.0, 36.0), "mae": (0.0, 6.0), "r2": (-math.inf, 1.0), "mcc": (-1.0, 1.0)}
    perfect = np.repeat([[-30.0], [30.0]], [900, 60], axis=0)
    line = np.linspace(-1.0, 1.0, 960)[:, None]
    for seed in range(40):
        settings = {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}
        found = dict(evaluate(Logit(), perfect, (perfect[:, 0] > 0).astype(int), **settings).metrics)
        found |= evaluate(FirstColumn(), line, line[:, 0], metrics=["mae", "mse", "r2"], **settings).metrics
        assert (found.pop("confusion_matrix").value >= 0.0).all()
        for name, each in found.items():
            if np.ndim(each.value) == 0 and not isinstance(each.value, dict):
                least, most = ranges.get(name, (0.0, 1.0))
                assert math.isnan(each.value) or least <= each.value <= most
                assert math.isnan(each.low) or least <= each.low <= each.value <= each.high <= most


def test_intervals_that_ignore_the_noise_are_caught(monkeypatch):
    honest = Noisy.variances
    monkeypatch.setattr(Noisy, "variances", lambda self, metric: (honest(self, metric)[0], 0.0))
    hits = coverage("small", RUNS)
    assert hits["roc_auc"] < binom.ppf(FALSE_ALARM, RUNS, 0.93)
