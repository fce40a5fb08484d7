"""Objective perturbation: calibration, exact distribution in one dimension, minimiser, guarantee."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import kstest, norm

from algorithms.problems import objective, separable, zero_rows
from dperm import Objective
from dperm.accounting import Ledger, gaussian_delta, gaussian_sigma, gdp_mu
from dperm.algorithms import nonprivate, objective_perturbation
from dperm.errors import BudgetExceededError
from dperm.losses import Huber, SquaredError
from dperm.mechanisms.hooks import replace_noise, watch_releases
from dperm.mechanisms.noise import gaussian_integers
from dperm.objective.bounded_training import Minimisation
from reference.group_privacy import group_privacy

SHARE = 1 - 1e-3  # share of epsilon and delta that the linear term gets
UNCLIPPED = {"clip": math.inf}


def ridged(**keywords):
    return objective(**{"penalize_intercept": True, **keywords})


@pytest.mark.parametrize(
    ("epsilon", "delta", "row_norm", "l2", "tight", "paper"),
    [
        (1, 1e-5, 1, 1, 3.730631635, 10.08209210),
        (0.1, 1e-8, 1, 10, 45.93736018, 123.8186672),
        (0.5, 1e-6, 2, 8, 16.11523696, 43.46387225),
    ],
)
def test_noise_of_the_published_examples(epsilon, delta, row_norm, l2, tight, paper):
    obj = zero_rows(1000, row_norm=row_norm, l2=l2 / 1000)
    target = epsilon / SHARE, delta / SHARE
    result = objective_perturbation(obj, *target, **UNCLIPPED)
    assert result.privacy.noise_scale == pytest.approx(tight, rel=1e-8)
    assert result.privacy.public["extra_l2"] <= 1e-12
    result = objective_perturbation(obj, *target, calibration="paper")
    assert result.privacy.noise_scale == pytest.approx(paper, rel=1e-8)


@pytest.mark.parametrize(
    ("n", "epsilon", "l2", "epsilon_p", "extra"),
    [(1000, 0.5, 0.01, 0.4506147748, 0), (1000, 0.1, 0.001, 0.05, 0.008875520828)],
)
@pytest.mark.parametrize("row_norm", [1.0, 3.0])
def test_pure_noise_of_the_published_examples(n, epsilon, l2, epsilon_p, extra, row_norm):
    obj = zero_rows(n, row_norm=row_norm, l2=l2 * row_norm**2)
    result = objective_perturbation(obj, epsilon / SHARE, 0.0, calibration="paper", neighbors="replace_one")
    assert result.privacy.noise_scale == pytest.approx(2 * row_norm / epsilon_p, rel=1e-8)
    assert result.privacy.public["extra_l2"] == pytest.approx(extra * row_norm**2, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("neighbors", "s"), [("add_or_remove", 1), ("replace_one", 2)])
def test_pure_noise_and_its_regularisation(neighbors, s):
    result = objective_perturbation(zero_rows(1000, row_norm=2.0), 0.5 / SHARE, 0.0, neighbors=neighbors)
    assert result.privacy.noise_scale == pytest.approx(s * 2.0 / 0.5, rel=1e-8)
    assert 1000 * result.privacy.public["extra_l2"] == pytest.approx(s * 4.0 / 0.5, rel=1e-8)
    assert result.privacy.delta == 0.0
    assert result.privacy.accountant == "pure"


def test_replace_one_uses_group_privacy_of_two_records():
    epsilon, delta = 1.0, 1e-6
    obj = zero_rows(1000, l2=0.05)
    result = objective_perturbation(obj, epsilon, delta, neighbors="replace_one", **UNCLIPPED)
    hop = epsilon * SHARE / 2
    reached = group_privacy(hop, gaussian_delta(hop, result.privacy.noise_scale))[1]
    assert 0.999 * delta * SHARE < reached <= delta * SHARE * (1 + 1e-9)


def test_regularisation_is_added_where_the_proof_needs_it():
    obj = ridged(l2=1e-4)
    result = objective_perturbation(obj, 1.0, 1e-6, **UNCLIPPED)
    total = 2000 * (1e-4 + result.privacy.public["extra_l2"])
    assert total == pytest.approx(1.5**2 / SHARE, rel=1e-6)
    assert "asks for more regularisation" in " ".join(str(result.privacy).split())
    assert result.privacy.noise_scale == pytest.approx(gaussian_sigma(SHARE, 1e-6 * SHARE, 1.5), rel=1e-6)


def test_an_unpenalised_intercept_gets_all_of_the_regularisation():
    result = objective_perturbation(objective(l2=1.0), 1.0, 1e-6, **UNCLIPPED)
    assert 2000 * result.privacy.public["extra_l2"] == pytest.approx(1.5**2 / SHARE, rel=1e-6)
    assert result.privacy.noise_scale == pytest.approx(gaussian_sigma(SHARE, 1e-6 * SHARE, 1.5), rel=1e-6)


@pytest.mark.parametrize("clip", [0.4, math.inf])
class TestOneDimension:
    """One record z = 1.3, y = 1: the published weight determines the linear term, and vice versa."""

    L2, EPSILON, DELTA = 3.0, 1.0, 1e-3

    def test_the_linear_term_is_normal(self, clip):
        obj = Objective("logistic", [[1.3]], [1.0], row_norm=1.5, l2=self.L2 / 4, n_public=4)
        runs = [
            objective_perturbation(obj, self.EPSILON, self.DELTA, random_state=seed, clip=clip)
            for seed in range(1500)
        ]
        w, sigma = np.array([run.coef[0] for run in runs]), runs[0].privacy.noise_scale
        # b = -sum of gradients - lambda w
        linear = np.minimum(1.3 * expit(-1.3 * w), clip) - (self.L2 + self.extra(runs[0])) * w
        # false-alarm probability 1e-6; the output noise is at most a hundredth of sigma / lambda
        assert kstest(linear / sigma, norm.cdf).pvalue > 1e-6
        assert kstest(-self.L2 * w / sigma, norm.cdf).pvalue < 1e-6  # without the record's gradient it is not

    @staticmethod
    def extra(result):
        return 4 * result.privacy.public["extra_l2"]

    def test_exact_densities_on_a_grid_meet_the_claim(self, clip):
        result = objective_perturbation(
            zero_rows(4, row_norm=1.5, l2=self.L2 / 4), self.EPSILON, self.DELTA, clip=clip
        )
        sigma, ridge, worst = result.privacy.noise_scale, self.L2 + self.extra(result), 0.0
        w = np.linspace(-14 * sigma / ridge, 14 * sigma / ridge, 200_001)
        absent = norm.pdf(ridge * w, scale=sigma) * ridge
        for row in (0.3, 1.0, 1.5):
            slope, curvature = row * expit(-row * w), row**2 * expit(row * w) * expit(-row * w)
            curvature = np.where(slope < clip, curvature, 0.0)
            present = norm.pdf(ridge * w - np.minimum(slope, clip), scale=sigma) * (ridge + curvature)
            assert np.sum(present) * (w[1] - w[0]) == pytest.approx(1.0, abs=1e-3)
            for p, q in ((absent, present), (present, absent)):
                delta = np.maximum(p - math.exp(self.EPSILON) * q, 0).sum() * (w[1] - w[0])
                worst = max(worst, delta)
        assert 1e-3 * self.DELTA < worst <= self.DELTA * (1 + 1e-6)


def test_without_noise_it_reaches_the_optimum():
    obj = ridged(l2=0.05)
    result = objective_perturbation(obj, math.inf, 1e-6)
    np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=1e-5)
    assert not result.privacy.private
    with pytest.raises(ValueError, match="l2 > 0"):
        objective_perturbation(ridged(), math.inf, 1e-6)


@pytest.mark.parametrize("clip", [0.3, math.inf])
def test_it_minimises_the_perturbed_objective(monkeypatch, clip):
    """Against scipy's minimiser on the numpy objective with the linear term that was drawn."""
    drawn, original = [], Minimisation.train_perturbed

    def watched(self, obj, linear, error):
        drawn.append(linear)
        return original(self, obj, linear, error)

    monkeypatch.setattr(Minimisation, "train_perturbed", watched)
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.0)
    result = objective_perturbation(obj, 1.0, 1e-6, random_state=1, clip=clip)
    ridge = result.privacy.public["extra_l2"]

    largest = np.minimum(clip / np.linalg.norm(X, axis=1), 1.0 - 1e-12)  # slope

    def perturbed(w):
        m, kink = y * (X @ w), logit(1.0 - largest)
        slopes = np.minimum(expit(-m), largest)
        losses = np.where(m < kink, np.logaddexp(0, -kink) + largest * (kink - m), np.logaddexp(0, -m))
        value = losses.mean() + ridge / 2 * w @ w + drawn[0] @ w
        return value, (-y * slopes) @ X / len(X) + ridge * w + drawn[0]

    best = minimize(perturbed, np.zeros(5), jac=True, options={"gtol": 1e-10}).x
    np.testing.assert_allclose(result.coef, best, atol=0.02 * np.linalg.norm(best))


def test_the_output_noise_covers_the_tolerance():
    sigmas = []

    def watched(bits, sigma, exponent, shape):
        sigmas.append(sigma)
        return gaussian_integers(bits, sigma, exponent, shape)

    with replace_noise(gaussian=watched):
        result = objective_perturbation(ridged(l2=0.05), 1.0, 1e-6)
    linear, output = sigmas
    assert linear == result.privacy.noise_scale
    l2 = 0.05 + result.privacy.public["extra_l2"]
    displacement = 2 * result.privacy.public["tolerance"] / l2
    assert output >= displacement / gdp_mu(1e-3, 1e-9)
    assert output < 0.05 * linear / 2000 / l2


def test_it_charges_first_and_releases_once(monkeypatch):
    releases = []

    def watch(releaser, method, *arguments):
        releases.append((releaser, method, arguments))
        return method(releaser, *arguments)

    ledger, obj = Ledger(1.0, 1e-6), ridged()
    with watch_releases(watch):
        objective_perturbation(obj, 1.0, 1e-6, ledger=ledger)
    assert ledger.spent == 1.0
    ((releaser, method, arguments),) = releases
    assert releaser.budget.spent_units == releaser.budget.total_units == 1
    monkeypatch.setattr(obj, "gradient", pytest.fail)
    with replace_noise(gaussian=pytest.fail):
        with pytest.raises(BudgetExceededError):
            objective_perturbation(obj, 1.0, 1e-6, ledger=ledger)
        with pytest.raises(BudgetExceededError):
            method(releaser, *arguments)


def test_objectives_outside_the_proof_are_refused():
    with pytest.raises(ValueError, match="on every weight"):
        objective_perturbation(objective(l2=0.1), math.inf, 1e-6)
    for loss, settings in ((Huber(), {}), ("logistic", {"clip": 0.5})):
        with pytest.raises(ValueError, match="logistic loss without a clip only"):
            objective_perturbation(zero_rows(10, loss, l2=0.1), 1.0, 0.0, **settings)


@pytest.mark.slow
def test_a_default_clip_is_used_only_where_it_lowers_the_noise():
    """A clip of the logistic loss costs a share of epsilon, and with much signal it is long."""
    few, many = zero_rows(200), zero_rows(10**7)
    clips = {"few": (few, 1.0), "many": (many, 1.0), "pure": (few, 0.0)}
    for name, (obj, gaussian) in clips.items():
        result = objective_perturbation(obj, 1.0, 1e-6 * gaussian, random_state=0)
        assert (result.privacy.clip is not None) == (name == "few")
        unclipped = objective_perturbation(obj, 1.0, 1e-6 * gaussian, random_state=0, **UNCLIPPED)
        assert result.privacy.noise_scale <= unclipped.privacy.noise_scale


def test_a_clip_admits_losses_without_a_lipschitz_constant():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3)) / math.sqrt(3)
    y = np.clip(X @ np.array([0.5, -1.0, 0.25]) + 0.1 * rng.normal(size=20_000), -1.0, 1.0)
    obj = Objective(SquaredError(target_bound=1.0), X, y, row_norm=1.0)
    result = objective_perturbation(obj, 2.0, 1e-6, random_state=0)
    np.testing.assert_allclose(result.coef, [0.5, -1.0, 0.25], atol=0.1)
    assert 0.2 <= result.privacy.clip <= 1.0


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("loss", [Huber(0.5, target_bound=1.0), "logistic"], ids=["huber", "logistic"])
def test_a_large_epsilon_gives_nearly_the_minimiser(loss, neighbors):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (2000, 2))
    y = np.sign(X @ [1.0, -1.0]) if loss == "logistic" else X @ [1.0, -0.5]
    problem = Objective(loss, X, y, l2=1e-3)
    best = nonprivate(problem).coef
    errors = []
    for epsilon in (10.0, 1e3, 1e6):
        found = objective_perturbation(problem, epsilon, 1e-6, neighbors=neighbors, random_state=0)
        errors.append(np.linalg.norm(found.coef - best) / np.linalg.norm(best))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_huber_regression_gets_more_noise_for_the_change_of_variables():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3)) / math.sqrt(3)
    y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=20_000)
    obj = Objective(Huber(0.5), X, y, row_norm=1.0)
    result = objective_perturbation(obj, 1.0, 1e-6, random_state=0)
    assert result.privacy.noise_scale > gaussian_sigma(1.0, 1e-6, 0.5)
    np.testing.assert_allclose(result.coef, [1.0, -2.0, 0.5], atol=0.1)
