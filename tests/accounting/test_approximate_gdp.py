"""mu-GDP up to a slack: bounds the certified profile at every epsilon, is tight, and composes."""

import functools
import math

import numpy as np
import pytest

from accounting.dp_accounting_losses import composed_losses
from dperm.accounting import gaussian_delta, gdp_epsilon, sgd_epsilon
from dperm.accounting.approximate_gdp import approximate_gdp
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.accounting.pld import refinement
from dperm.accounting.subsampling import make_plan, sgd_delta, step_profiles

SLACK = 1e-9
WOR = {"sampling": "without_replacement", "neighbors": "replace_one"}
CASES = [
    (1.0, {"batch_size": 10, "n_samples": 1000, "steps": 300}),
    (3.0, {"batch_size": 100, "n_samples": 1000, "steps": 50, "neighbors": "replace_one"}),
    (2.0, {"batch_size": 1, "n_samples": 1000, "steps": 10**6, **WOR}),
]


@functools.cache
def mu_of(case):
    multiplier, settings = CASES[case]
    return approximate_gdp(multiplier, SLACK, **settings)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_above_the_profile_everywhere_and_tight(case):
    (multiplier, settings), mu = CASES[case], mu_of(case)
    end = sgd_epsilon(multiplier, SLACK, **settings)
    rng = np.random.default_rng(0)
    epsilons = np.concatenate([[0.0, 1e-6 * end], rng.uniform(0, 1.2 * end, 10)])
    true = np.array([sgd_delta(multiplier, float(epsilon), **settings) for epsilon in epsilons])
    gaussian = np.array([gaussian_delta(float(epsilon), 1 / mu) for epsilon in epsilons])
    # the reference profile is an upper bound itself, on the same grid of losses
    assert np.all(true <= gaussian + SLACK * (1 + 1e-3))
    smaller = np.array([gaussian_delta(float(epsilon), 1 / (0.98 * mu)) for epsilon in epsilons])
    assert np.any(true > smaller + SLACK)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_composition_for_many_epsilons_says_what_one_for_each_says(case):
    (multiplier, settings), delta = CASES[case], 0.1 * SLACK
    plan = make_plan(**({"sampling": "poisson", "neighbors": "add_or_remove"} | settings))
    profiles, counts = step_profiles(plan, multiplier), np.array([plan.steps])
    grid = refinement.first_grid(profiles, plan.steps, delta)
    epsilons = np.linspace(0.0, 1.3 * sgd_epsilon(multiplier, SLACK, **settings), 13)
    together = refinement.mean_deltas(profiles, counts, epsilons, delta, grid)
    alone = [refinement.mean_delta(profiles, counts, float(e), delta, grid) for e in epsilons]
    assert together == pytest.approx(alone, rel=1e-6, abs=1e-4 * delta)
    assert np.all(np.diff(together) < 0.0)


@pytest.mark.parametrize(("multiplier", "rate", "steps"), [(1.0, 0.01, 300), (0.7, 1e-3, 1000)])
def test_above_the_losses_rounded_down_of_another_accountant(multiplier, rate, steps):
    settings = {"batch_size": rate * 10**6, "n_samples": 10**6, "steps": steps}
    mu = approximate_gdp(multiplier, 1e-8, **settings)
    epsilons = np.linspace(0.0, 6.0 * mu, 25)
    losses = composed_losses(multiplier, rate, steps, 3e-4, lower=True)
    lower = np.array(losses.get_delta_for_epsilon(epsilons))
    upper, too_low = (
        np.array([gaussian_delta(float(e), 1.0 / each) for e in epsilons]) + 1e-8 for each in (mu, 0.9 * mu)
    )
    assert np.all(lower <= upper)
    assert np.any(lower > too_low)


def test_fits_of_one_plan_share_its_profile(monkeypatch):
    """A ledger grants each an eighth of the slack that is left; only the first of ten composes anything."""
    run = {"n_samples": 777, "steps": 50, "sampling": "poisson", "neighbors": "add_or_remove"}
    cost = sampled_gaussian_cost(2.0, batch_size=10, **run)
    granted = [1e-7 * 0.875**fit / 8.0 for fit in range(10)]
    first = cost(granted[0])
    monkeypatch.setattr(refinement, "mean_deltas", None)
    mus = [cost(slack).mu for slack in granted]
    assert mus[0] == first.mu
    assert np.all(np.diff(mus) > 0.0)


def test_rare_large_losses_cost_more_than_others_but_not_a_run_without_sampling():
    """Few steps at a rate of 1e-5: losses are nearly 0 or large."""
    settings = {"batch_size": 1, "n_samples": 10**5, "steps": 20}
    mu = approximate_gdp(0.7, 1e-20, **settings)
    assert 0.1 < mu < 0.2
    assert sgd_delta(0.7, 3.0, **settings) <= gaussian_delta(3.0, 1.0 / mu) + 1e-20


def test_two_runs_and_a_gaussian_release_add_up():
    """The exact composition of two equal runs is a run of twice the steps."""
    (multiplier, settings), mu = CASES[0], mu_of(0)
    both = settings | {"steps": 2 * settings["steps"]}
    for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
        bound = gaussian_delta(epsilon, 1 / (math.sqrt(2) * mu)) + 2 * SLACK
        assert sgd_delta(multiplier, epsilon, **both) <= bound


def test_close_to_the_central_limit_when_the_steps_are_many_and_small():
    mu = approximate_gdp(20.0, 1e-8, batch_size=10, n_samples=1000, steps=10**5)
    limit = 0.01 * math.sqrt(10**5 * math.expm1(1 / 400))  # Dong, Roth and Su 2022, Corollary 5.4
    assert limit < mu < 1.01 * limit


def test_little_is_lost_at_a_usual_delta():
    (multiplier, settings), mu = CASES[2], mu_of(2)
    assert gdp_epsilon(mu, 1e-5 - SLACK) < 1.15 * sgd_epsilon(multiplier, 1e-5, **settings)


def test_full_batches_are_exact():
    settings = {"batch_size": 50, "n_samples": 50, "steps": 16}
    assert approximate_gdp(2.0, SLACK, **settings) == pytest.approx(2.0, rel=1e-11)


@pytest.mark.parametrize(
    ("multiplier", "slack", "words"), [(0.0, 1e-9, "noise_multiplier"), (1.0, 0.0, "slack")]
)
def test_refusals(multiplier, slack, words):
    with pytest.raises(ValueError, match=words):
        approximate_gdp(multiplier, slack, batch_size=1, n_samples=10, steps=3)
