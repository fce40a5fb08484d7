"""Noisy gradient descent: calibration, numpy reference, audit, default schedule, several fits together."""

import math

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from algorithms.problems import objective, separable, zero_rows
from dperm import Objective, datasets
from dperm.accounting import gdp_mu, units
from dperm.algorithms import dp_sgd, fit, noisy_gd, nonprivate
from dperm.algorithms.noisy_gd import NoisyGDSchedule
from dperm.algorithms.problem import PublicProblem
from dperm.errors import BudgetExceededError, PrivacyWarning
from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Logistic,
    Pinball,
    SquaredError,
    SquaredHinge,
)
from reference import numpy_algorithms as twin


# Published tables: sigma of the mean gradient for T iterates, that is T - 1 noisy gradients.
@pytest.mark.parametrize(
    ("n", "T", "clip", "epsilon", "delta", "neighbors", "sigma"),
    [
        (1000, 100, 1.0, 1.0, 1e-5, "replace_one", 0.07423863218),
        (1000, 100, 1.0, 1.0, 1e-5, "add_or_remove", 0.03711931609),
        (45211, 50, 11.1803398875, 0.5, 1e-8, "replace_one", 0.03414848698),
    ],
)
def test_noise_of_the_published_examples(n, T, clip, epsilon, delta, neighbors, sigma):
    obj = zero_rows(n, "squared_hinge")
    result = noisy_gd(obj, epsilon, delta, steps=T - 1, clip=clip, neighbors=neighbors)
    assert result.privacy.noise_scale / n == pytest.approx(sigma, rel=1e-8)
    assert result.n_iter == result.privacy.steps == T - 1


@pytest.mark.parametrize(
    ("neighbors", "sigma"), [("replace_one", 0.04079767243), ("add_or_remove", 0.02713639446)]
)
def test_noise_on_a_ball_uses_the_gradient_bound_of_the_loss_there(neighbors, sigma):
    result = noisy_gd(zero_rows(1000), 1.0, 1e-5, steps=99, clip=2.0, radius=1.0, neighbors=neighbors)
    # 2^-18 of the bound is reserved for rounding
    assert sigma <= result.privacy.noise_scale / 1000 <= sigma * (1 + 2.0**-17)


@pytest.mark.parametrize("tail", [1.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_noise_it_equals_the_numpy_reference(momentum, tail):
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    settings = {"steps": 50, "clip": 0.3, "step_size": 2.0, "momentum": momentum, "tail": tail}
    result = noisy_gd(obj, math.inf, 1e-6, **settings)
    rows = twin.scaled_rows(X, 1.5, True)
    expected = twin.noisy_gd(rows, y, 0.0, NoisyGDSchedule(**settings), np.random.default_rng())
    np.testing.assert_allclose(result.coef, expected, atol=1e-8)
    assert not result.privacy.private


def test_without_noise_it_reaches_the_optimum():
    obj = objective(l2=0.01)
    result = noisy_gd(obj, math.inf, 1e-6, steps=3000, clip=10.0, tail=0.01)
    np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=1e-6)


def test_exceeding_the_planned_budget_is_refused(monkeypatch):
    planned = units.gaussian_noise_multiplier
    monkeypatch.setattr(fit, "gaussian_noise_multiplier", lambda *args: planned(*args) * (1 - 1e-6))
    with pytest.raises(BudgetExceededError):
        noisy_gd(objective(), 1.0, 1e-6, steps=50)


def test_paper_mode_uses_the_textbook_gaussian():
    result = noisy_gd(objective(), 0.5, 1e-6, steps=99, clip=0.5, calibration="paper")
    expected = math.sqrt(100) * math.sqrt(2 * math.log(1.25e6)) / 0.5 * 0.5
    assert result.privacy.noise_scale == pytest.approx(expected, rel=1e-12)


def test_paper_mode_warns_outside_the_range_of_its_proof():
    with pytest.warns(PrivacyWarning, match="epsilon < 1"):
        noisy_gd(objective(), 2.0, 1e-6, calibration="paper")


@pytest.mark.parametrize(
    "make",
    [
        lambda unit: Huber(0.2 * unit, target_bound=unit),
        lambda unit: Absolute(target_bound=unit),
        lambda unit: Pinball(0.9, target_bound=unit),
        lambda unit: EpsilonInsensitive(0.1 * unit, target_bound=unit),
    ],
    ids=["huber", "absolute", "pinball", "epsilon_insensitive"],
)
def test_fits_are_equivariant_to_the_unit_of_the_targets(make):
    """Targets in a unit half as long give weights and noise twice as large."""
    X, _ = separable()
    y = X @ np.arange(X.shape[1]) / 8.0
    runs = [
        noisy_gd(Objective(make(unit), X, unit * y, row_norm=2.0, n_threads=1), 1.0, 1e-6, random_state=0)
        for unit in (1.0, 2.0)
    ]
    np.testing.assert_allclose(runs[1].coef, 2.0 * runs[0].coef, rtol=1e-6)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Huber(2.0), SquaredError(2.0)])
@pytest.mark.parametrize("mu", [1e-4, 0.3, math.inf])
@pytest.mark.parametrize(("n", "d"), [(200, 2), (40_000, 100), (10**7, 10_000)])
def test_schedule_is_stable_for_any_data(loss, mu, n, d):
    """Heavy ball converges on a quadratic of curvature L while step * L < 2 (1 + momentum)."""
    schedule = NoisyGDSchedule.of(PublicProblem(n, d, mu, loss, 2.0, l2=0.1), {})
    assert 0.0 < schedule.step_size * (loss.smoothness(2.0) + 0.1) < 2.0 * (1.0 + schedule.momentum)
    assert 0.9 <= schedule.momentum < 1.0
    assert 50 <= schedule.steps <= 500


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_sgd], ids=["noisy_gd", "dp_sgd"])
@pytest.mark.parametrize("n", [2000, 20_000])
@pytest.mark.parametrize("labels", ["clustered", "imbalanced"])
def test_defaults_do_not_oscillate_across_a_kink(algorithm, n, labels):
    """At the kink there is no curvature to derive a step size from."""
    rng = np.random.default_rng(0)
    if labels == "clustered":
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        X = 0.25 * y[:, None] + 0.1 * rng.normal(size=(n, 10)) / math.sqrt(10)
    else:
        X = rng.normal(size=(n, 10))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.6, 1.0, -1.0)
    obj = Objective(
        "hinge", X, y, l2=0.01, row_norm=1.5, fit_intercept=True, penalize_intercept=True, n_threads=1
    )
    exact = LinearSVC(loss="hinge", C=1.0 / (0.01 * n), tol=1e-6, max_iter=10**5, random_state=0).fit(X, y)
    optimum = obj.value(np.append(exact.coef_[0], exact.intercept_[0]))
    assert obj.value(algorithm(obj, 16.0, 1e-6, random_state=1).coef) - optimum < 0.03


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_sgd], ids=["noisy_gd", "dp_sgd"])
@pytest.mark.parametrize("n", [6000, 20_000])
def test_replace_one_schedules_are_those_of_half_as_many_records(algorithm, n):
    """The sensitivity doubles, like the noise of a mean over half as many records."""
    X, y = separable(n=n)
    settings = {"neighbors": "replace_one"}
    replaced = algorithm(Objective("logistic", X, y), 0.2, 1e-6, **settings).privacy
    half, all_of_them = (
        NoisyGDSchedule.of(PublicProblem(size, 5, gdp_mu(0.2, 1e-6), Logistic(), 1.0), {})
        for size in (n // 2, n)
    )
    assert (replaced.clip, replaced.steps) == pytest.approx((half.clip, half.steps))
    assert replaced.public["step_size"] == pytest.approx(half.step_size)
    assert half != all_of_them


def test_little_signal_beats_the_majority():
    """On a few hundred real records, 63 % of which have the most frequent label."""
    data = datasets.load("breast_cancer")
    obj = Objective("logistic", data.X, data.y, row_norm=data.row_norm, fit_intercept=True)
    coefs = [noisy_gd(obj, 0.5, 1e-5, random_state=seed).coef for seed in range(20)]
    rights = [np.mean(np.sign(data.X @ coef[:-1] + coef[-1]) == data.y) for coef in coefs]
    assert np.mean(rights) > 0.7
