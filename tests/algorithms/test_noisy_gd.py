"""Noisy gradient descent: calibration, numpy reference, audit, default schedule, several fits together."""

import math

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from algorithms.problems import excess, objective, separable, zero_rows
from dperm import Objective, datasets
from dperm.accounting import gdp_mu, units
from dperm.algorithms import dp_sgd, fit, noisy_gd, nonprivate, preconditioned_gd
from dperm.algorithms.defaults.noisy_gd import NoisyGDSchedule, noisy_gd_schedule
from dperm.algorithms.defaults.rules import typical_curvature
from dperm.algorithms.problem import PublicProblem
from dperm.errors import BudgetExceededError, PrivacyWarning
from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    Power,
    SoftMargin,
    SquaredHinge,
)
from reference import numpy_algorithms as twin
from reference.replaced_noise import scaled_noise


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


class TestAudit:
    """Neighbours: an empty record with and without a record whose gradient has the clipping norm."""

    STEPS, RUNS, EPSILON, DELTA = 10, 400, 2.0, 1e-3

    def statistic(self, present, seed):
        X = np.array([[0.0], [1.0]]) if present else np.array([[0.0]])
        obj = Objective("logistic", X, np.ones(len(X)), row_norm=1.0, n_public=2)
        gradients = []
        result = noisy_gd(
            obj, self.EPSILON, self.DELTA, steps=self.STEPS, clip=1e-3, step_size=1e-3, momentum=0.0,
            random_state=seed, callback=lambda released: gradients.append(released["gradient"][0]),
        )  # fmt: skip
        return 2 * np.sum(gradients) / result.privacy.noise_scale / math.sqrt(self.STEPS)

    def measured_mu(self):
        """Distance of the two means in pooled standard deviations, and its standard error."""
        absent = np.array([self.statistic(False, seed) for seed in range(self.RUNS)])
        present = np.array([self.statistic(True, 10**6 + seed) for seed in range(self.RUNS)])
        spread = math.sqrt((absent.var(ddof=1) + present.var(ddof=1)) / 2)
        return abs(absent.mean() - present.mean()) / spread, math.sqrt(2 / self.RUNS)

    def test_measured_leakage_equals_the_claim(self):
        mu, error = self.measured_mu()
        claim = gdp_mu(self.EPSILON, self.DELTA)
        # false alarm beyond 5 standard errors: 6e-7
        assert claim - 5.5 * error < mu < claim + 5.5 * error

    def test_halved_noise_is_detected(self):
        with scaled_noise(0.5):
            mu, error = self.measured_mu()
        assert mu - 5.5 * error > gdp_mu(self.EPSILON, self.DELTA)


def test_schedule_scales_with_the_rows():
    one = noisy_gd_schedule(PublicProblem(10_000, 20, 0.3, Logistic(), 1.0))
    three = noisy_gd_schedule(PublicProblem(10_000, 20, 0.3, Logistic(), 3.0))
    assert three.clip == pytest.approx(3 * one.clip)
    assert three.step_size == pytest.approx(one.step_size / 9)
    assert three.steps == one.steps
    assert three.momentum == pytest.approx(one.momentum)


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


def bend_of_the_clipped_slope(loss, row_norm):
    """Mean curvature in the weights over the range in which the slope, clipped to [-1, 1], changes."""
    p = np.linspace(-3.0, 3.0, 600_001)
    slope = np.clip(loss.derivative(p, 1.0 if loss.classification else 0.0), -1.0, 1.0)
    bending = p[(slope > slope.min()) & (slope < slope.max())]
    return row_norm**2 * np.ptp(slope) / np.ptp(bending)


@pytest.mark.parametrize("loss", [SoftMargin(1.2), SoftMargin(), SoftMargin(1.8), Power(1.2), Power(1.5)])
def test_typical_curvature_of_a_hoelder_loss_is_that_of_its_bend(loss):
    bend = bend_of_the_clipped_slope(loss, 2.0)
    assert typical_curvature(loss, 2.0) == pytest.approx(bend, rel=1e-4)


CLASSIFICATION = [Logistic(), Hinge(), SquaredHinge(), SoftMargin(), SoftMargin(1.8)]


@pytest.mark.parametrize("loss", [*CLASSIFICATION, Huber(2.0), Power(1.5), Power(1.3, 2.0)])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 5.0, math.inf])
@pytest.mark.parametrize(("n", "d"), [(200, 2), (40_000, 100), (10**7, 10_000)])
def test_schedule_is_stable_for_any_data(loss, mu, n, d):
    """Heavy ball converges on a quadratic of curvature L while step * L < 2 (1 + momentum)."""
    schedule = noisy_gd_schedule(PublicProblem(n, d, mu, loss, 2.0, l2=0.1))
    curvature = loss.clipped_smoothness(2.0, schedule.clip)
    if curvature == math.inf:
        curvature = 1.0 if isinstance(loss, Hinge) else bend_of_the_clipped_slope(loss, 2.0)
    curvature += 0.1
    assert 0.0 < schedule.step_size * curvature < 2.0 * (1.0 + schedule.momentum)
    assert 0.9 <= schedule.momentum < 1.0
    assert 50 <= schedule.steps <= 1000


@pytest.mark.parametrize("loss", [SoftMargin(), Power(1.2, 2.0)])
@pytest.mark.parametrize("epsilon", [4.0, 16.0, math.inf])
def test_defaults_do_not_oscillate_around_a_bend(loss, epsilon):
    """With too long steps under a ridge term, the excess would be half of that of w = 0."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (5000, 5))
    predictions = X @ rng.normal(size=5) + 0.3 * rng.normal(size=5000)
    y = np.where(predictions > 0.0, 1.0, -1.0) if loss.classification else predictions
    obj = Objective(loss, X, y, l2=0.01, row_norm=1.3, fit_intercept=True, penalize_intercept=True)
    assert excess(obj, noisy_gd(obj, epsilon, 1e-6, random_state=1).coef) < 0.02


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
    assert obj.value(algorithm(obj, 16.0, 1e-6, random_state=1).coef) - optimum < 0.01


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_sgd], ids=["noisy_gd", "dp_sgd"])
@pytest.mark.parametrize("n", [500, 6000])
def test_replace_one_schedules_are_those_of_half_as_many_records(algorithm, n):
    """The sensitivity doubles, like the noise of a mean over half as many records."""
    X, y = separable(n=n)
    settings = {"neighbors": "replace_one", "learn_scales": False}
    replaced = algorithm(Objective("logistic", X, y), 0.2, 1e-6, **settings).privacy
    half, all_of_them = (
        noisy_gd_schedule(PublicProblem(size, 5, gdp_mu(0.2, 1e-6), Logistic(), 1.0)) for size in (n // 2, n)
    )
    assert (replaced.clip, replaced.steps) == pytest.approx((half.clip, half.steps))
    assert replaced.public["step_size"] == pytest.approx(half.step_size)
    assert half != all_of_them


@pytest.mark.parametrize("n", [100, 1000, 30_000])
@pytest.mark.parametrize("mu", [1e-6, 1e-5, 1e-4])
def test_with_little_signal_the_random_walk_of_noise_stays_short(n, mu):
    """Weights that consist of noise alone change no prediction by more than a few units."""
    dimension, row_norm = 6, 1.5
    s = noisy_gd_schedule(PublicProblem(n, dimension, mu, Logistic(), row_norm))
    noise = s.clip * math.sqrt(s.steps * dimension) / (n * mu)  # norm of the noise of one mean gradient
    walk = noise * math.sqrt(s.steps) * s.step_size / (1.0 - s.momentum)
    assert row_norm * walk < 12.0


def test_little_signal_beats_the_majority():
    """On a few hundred real records, 63 % of which have the most frequent label."""
    data = datasets.load("breast_cancer")
    obj = Objective("logistic", data.X, data.y, row_norm=data.row_norm, fit_intercept=True)
    coefs = [noisy_gd(obj, 0.25, 1e-5, random_state=seed).coef for seed in range(20)]
    rights = [np.mean(np.sign(data.X @ coef[:-1] + coef[-1]) == data.y) for coef in coefs]
    assert np.mean(rights) > 0.7


def test_curvature_bound_of_the_clipped_logistic_loss_is_attained():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(20_000):
        row, clip = 2.0 * rng.random() ** 0.3, rng.random()
        margin, h = 6 * rng.normal(), 1e-5
        gradient = np.clip(row * Logistic().derivative(margin + np.array([0, h]) * row, 1.0), -clip, clip)
        curvature = (gradient[1] - gradient[0]) / h
        bound = Logistic().clipped_smoothness(2.0, clip)
        assert curvature <= bound * (1 + 1e-4)
        worst = max(worst, curvature / bound)
    assert worst > 0.95


# Without whitening, thresholds and shrinkage it takes the same steps.
PLAIN = {"moments": "none", "threshold": 0.0, "shrinkage": 0.0}


@pytest.mark.parametrize(("algorithm", "plain"), [(noisy_gd, {}), (preconditioned_gd, PLAIN)])
@pytest.mark.parametrize(
    ("loss", "chosen", "shrink"),
    [(Absolute(), {}, True), (Absolute(), {"step_size": 0.1}, False), (Huber(), {}, False)],
)
def test_default_steps_shrink_where_a_regression_loss_has_a_kink(algorithm, plain, loss, chosen, shrink):
    X = np.random.default_rng(0).normal(size=(500, 3)) / 2.0
    objective, seen = Objective(loss, X, X[:, 0], row_norm=2.0), []
    settings = {"steps": 60, "momentum": 0.0, "learn_scales": False, "random_state": 0, **plain, **chosen}
    result = algorithm(objective, 1.0, 1e-6, callback=seen.append, **settings)
    weights = np.array([np.zeros(3)] + [each["coef"] for each in seen])
    lengths = np.linalg.norm(np.diff(weights, axis=0), axis=1)
    sizes = lengths / [np.linalg.norm(each["gradient"]) for each in seen]
    expected = np.minimum(1.0, 2.0 * (1.0 - np.arange(60) / 60)) if shrink else np.ones(60)
    assert sizes / sizes[0] == pytest.approx(expected)
    assert ("falling linearly" in str(result.privacy.public["step_size"])) == shrink
