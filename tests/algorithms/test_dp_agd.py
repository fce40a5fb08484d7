"""DP-AGD: published numbers, budget filter, gradient averaging, numpy reference, audit of every release."""

import dataclasses
import math

import numpy as np
import pytest

from algorithms.problems import objective, separable
from dperm import Objective
from dperm.accounting import Ledger, zcdp_rho
from dperm.accounting.budget import Budget
from dperm.accounting.units import gaussian_noise_multiplier, selection_eta
from dperm.algorithms import dp_agd, nonprivate
from dperm.algorithms.dp_agd import DPAGDSchedule
from dperm.algorithms.problem import PublicProblem
from dperm.errors import BudgetExceededError
from dperm.mechanisms import release
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.selection import exponential_mechanism, report_noisy_min
from dperm.objective.hooks import watch_sums
from dperm.objective.losses import clipped_loss_sums
from reference import numpy_algorithms as twin
from reference.replaced_noise import scaled_noise

# epsilon, delta, sigma of the first gradients and scale of the Laplace noise, with both clips 3 and 60 splits
PUBLISHED = [
    (0.1, 1e-8, 21982.90076, 3600.0),
    (0.4, 1e-8, 5495.725189, 900.0),
    (1.6, 1e-12, 1679.355285, 225.0),
]


@pytest.mark.parametrize(("epsilon", "delta", "sigma", "laplace"), PUBLISHED)
def test_paper_mode_draws_the_published_noise(record, epsilon, delta, sigma, laplace):
    scales = []

    def noisy_min(bits, scores, scale):
        scales.append(scale)
        return report_noisy_min(bits, scores, scale)

    obj = objective(n=500)
    with replace_noise(report_noisy_min=noisy_min):
        dp_agd(obj, epsilon, delta, calibration="paper", splits=60, clip=3.0, loss_clip=3.0, max_iter=1)
    # no gradient exceeds the row norm of 1.5, and the stated sensitivity takes that into account
    assert record[0]["sigma"] * 3.0 / 1.5 == pytest.approx(sigma, rel=1e-4)
    grid = clipped_loss_sums(obj, np.zeros(6), np.ones(6), [0.0], 3.0).grid
    assert scales[0] * grid == pytest.approx(laplace, rel=1e-6)


@pytest.mark.parametrize("accountant", ["zcdp", "gdp"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_the_budget_filter_is_never_exceeded(record, accountant, epsilon):
    dp_agd(objective(), epsilon, 1e-8, accountant=accountant)
    budget = record[-1]["budget"]
    assert 0 < budget.spent_units <= budget.total_units


def test_no_data_are_accessed_when_the_budget_is_one_unit_short(record, monkeypatch):
    original = Budget.share
    monkeypatch.setattr(
        Budget,
        "share",
        lambda self, parts, fraction=1: original(self, parts, fraction) + (1 if fraction == 0.5 else 0),
    )
    obj = objective()
    result = dp_agd(obj, 1.0, 1e-6, splits=1, selection_share=0.5)
    assert record == []
    assert result.n_iter == 0
    np.testing.assert_array_equal(result.coef, 0.0)


def test_raw_measurements_are_averaged_by_inverse_variance(record, monkeypatch):
    """If a step of 0 is always selected, the search direction is the weighted mean of all measurements."""
    directions, obj = [], objective()

    def watched(function, objective, *args, **kwargs):
        if function.__name__ == "clipped_loss_sums":
            directions.append(args[1])
        return function(objective, *args, **kwargs)

    monkeypatch.setattr(release.Releaser, "select", lambda self, private, eta, public: 0)
    with watch_sums(watched):
        dp_agd(obj, 1.0, 1e-6, accountant="zcdp", splits=60, growth=0.1)
    assert len(record) == len(directions) > 3
    weights = np.array([1 / entry["sigma"] ** 2 for entry in record])
    noisy = np.array([entry["noisy"] for entry in record])
    for k, direction in enumerate(directions, start=1):
        mean = weights[:k] @ noisy[:k] / weights[:k].sum()
        np.testing.assert_allclose(direction, mean / np.linalg.norm(mean), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weights[1:3] / np.cumsum(weights)[:2], 0.1, rtol=1e-6)


def test_without_noise_it_reaches_the_optimum():
    obj = objective(l2=0.05)
    result = dp_agd(obj, math.inf, 1e-6, max_iter=3000)
    assert obj.value(result.coef) - obj.value(nonprivate(obj).coef) < 1e-8


def test_objective_values_match_the_numpy_reference():
    """Different noise, same distribution: means of the final objective agree."""
    X, y = separable(n=500)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    rows = twin.scaled_rows(X, 1.5, True)
    epsilon, delta = 1.0, 1e-6
    schedule = DPAGDSchedule.of(PublicProblem(500, 6, 0.25, obj.loss, 1.5), {})
    settings = dataclasses.asdict(schedule)
    rho = zcdp_rho(epsilon, delta)
    selection = schedule.selection_share * rho / schedule.splits
    gradient = (1 - schedule.selection_share) * rho / schedule.splits
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for seed in range(60):
        result = dp_agd(obj, epsilon, delta, accountant="zcdp", random_state=seed, **settings)
        ours.append(obj.value(result.coef))
        w, _ = twin.dp_agd(rows, y, rho, gradient, selection, schedule, rng)
        theirs.append(obj.value(w))
    error = math.sqrt((np.var(ours) + np.var(theirs)) / 60)
    assert abs(np.mean(ours) - np.mean(theirs)) < 5.5 * error


def test_the_ledger_determines_the_accountant():
    ledger = Ledger(1.0, 1e-6)
    result = dp_agd(objective(), 1.0, 1e-6, ledger=ledger)
    assert result.privacy.accountant == "gdp"
    assert ledger.spent == 1.0
    with pytest.raises(BudgetExceededError):
        dp_agd(objective(), 0.2, 1e-6, ledger=ledger)


# -- the noise of each release against what was charged for it ---------------------------------------


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_noise_is_what_was_charged_and_halved_noise_is_detected(record, factor):
    obj = objective(d=20)
    with scaled_noise(factor):
        for seed in range(4):
            dp_agd(obj, 1.0, 1e-6, random_state=seed, accountant="zcdp")
    noise = np.concatenate([(entry["noisy"] - entry["exact"]) / entry["sigma"] for entry in record])
    # the mean of k squared normals has variance 2/k; 5.5 standard deviations: false alarm below 1e-7
    within = abs(np.mean(noise**2) - 1.0) < 5.5 * math.sqrt(2 / noise.size)
    assert within == (factor == 1.0)


def test_selection_rate_is_what_was_charged():
    rates = []

    def choose(bits, scores, rate):
        rates.append(rate)
        return exponential_mechanism(bits, scores, rate)

    obj = objective()
    with replace_noise(exponential_mechanism=choose):
        settings = {"splits": 50, "selection_share": 0.25, "loss_clip": 2.0}
        dp_agd(obj, 1.0, 1e-6, accountant="zcdp", **settings)
    grid = clipped_loss_sums(obj, np.zeros(6), np.ones(6), [0.0], 2.0).grid
    eta = math.sqrt(8 * 0.25 * zcdp_rho(1.0, 1e-6) / 50)
    np.testing.assert_allclose(np.array(rates) * 2.0 / grid, eta, rtol=1e-9)
    assert selection_eta(10**15, "zcdp") == pytest.approx(math.sqrt(8 * 10**15 / 2**60))
    assert gaussian_noise_multiplier(10**15, "zcdp") == pytest.approx(math.sqrt(2**60 / 2e15))
