"""The rules of default settings, and regression tests on small problems."""

import itertools
import math

import numpy as np
import pytest

from algorithms.problems import excess
from dperm import Objective, algorithms
from dperm.accounting import Neighbours, gdp_mu
from dperm.algorithms.defaults.dp_agd import dp_agd_schedule
from dperm.algorithms.defaults.noisy_gd import noisy_gd_schedule
from dperm.algorithms.defaults.output_perturbation import output_perturbation_schedule
from dperm.algorithms.defaults.rules import clip_fraction, longest_gradient
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Huber, Logistic, Pinball, SquaredError

DELTA = 1e-6


def problem(l2=0.0, mu=0.1, loss=None, **public):
    return PublicProblem(5_000, 20, mu, loss or Logistic(), 3.0, l2, **public)


@pytest.mark.parametrize("schedule", [noisy_gd_schedule, dp_agd_schedule])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3)], ids=lambda loss: loss.name)
def test_ridge_term_raises_the_clip_up_to_the_longest_gradient(schedule, loss):
    clips = [schedule(problem(l2, loss=loss)).clip for l2 in (0.0, 1e-3, 0.1, 1.0)]
    assert clips == sorted(clips)
    assert clips[0] < 0.5 * clips[-1]
    assert clips[-1] == longest_gradient(loss, 3.0, noisy=True)


@pytest.mark.parametrize("penalty", [0.0, 0.005])
def test_noise_from_a_constant_under_a_ridge_term_falls_with_the_budget(penalty):
    """With perfect averaging it costs d (clip / (n mu))^2 / (2 l2); and the pull at the start is balanced."""
    start = {"loss": SquaredError(target_bound=1.0), "target_scale": 0.3, "start_penalty": penalty}
    problems = [problem(0.05, mu, **start) for mu in (0.01, 0.04, 0.16, 0.64, 2.56)]
    clips = [noisy_gd_schedule(each).clip for each in problems]
    assert clips == sorted(clips)
    assert min(clips) > 4.0 * math.sqrt(2.0 * 0.05 * penalty)
    noise = [
        each.dimension * (clip / (each.n * each.mu)) ** 2 for each, clip in zip(problems, clips, strict=True)
    ]
    assert all(more < 0.5 * less for less, more in itertools.pairwise(noise))


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd", "dp_lssgd", "preconditioned_gd"])
def test_more_budget_is_no_worse_where_columns_tell_little(solver):
    """With a clip in proportion to the budget, noise would cost the same, or more in the longer run."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 190)) / math.sqrt(190.0)
    y = np.clip(0.5 + 0.2 * rng.normal(size=1700) + 0.05 * X @ rng.normal(size=190), 0.0, 1.0)
    data = Objective(
        SquaredError(target_bound=1.0),
        X,
        y,
        l2=0.1,
        row_norm=1.7,
        fit_intercept=True,
        penalize_intercept=True,
    )
    fit, seeds = getattr(algorithms, solver), range(3)
    little, more = (
        np.mean([data.value(fit(data, epsilon, DELTA, random_state=seed).coef) for seed in seeds])
        for epsilon in (0.4, 1.6)
    )
    best = data.value(algorithms.nonprivate(data).coef)
    assert more - best < 2.0 * (little - best)


@pytest.mark.parametrize("solver", ["dp_agd", "dp_sgd_gradient", "noisy_gd", "preconditioned_gd"])
def test_quantiles_are_not_drawn_to_the_median_by_clipping(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 5)) / math.sqrt(5.0), rng.uniform(size=3000)
    data = Objective(Pinball(0.9, target_bound=1.0), X, y, row_norm=4.0, fit_intercept=True)
    coef = getattr(algorithms, solver)(data, 1.0, DELTA, random_state=0).coef
    assert np.mean(y < X @ coef[:-1] + coef[-1]) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("l2", [0.0, 0.01, 0.3])
def test_clip_fraction_is_invariant_to_the_unit_of_the_rows(l2):
    scaled = PublicProblem(5_000, 20, 0.1, Logistic(), 300.0, l2 * 100.0**2)
    assert math.isclose(clip_fraction(problem(l2), 3.0, 0.02), clip_fraction(scaled, 300.0, 0.02))


@pytest.mark.parametrize("spread", [0.01, 0.3, 1.5])
def test_clip_fraction_from_a_constant_is_invariant_to_the_unit_of_the_targets(spread):
    shares = []
    for unit in (1.0, 1000.0):
        loss = SquaredError(target_bound=unit)
        own = problem(0.01, loss=loss, target_scale=spread * unit)
        longest = longest_gradient(loss, 3.0, noisy=True, target_scale=own.target_scale)
        shares.append(clip_fraction(own, longest, 0.0))
    assert math.isclose(*shares)


@pytest.mark.parametrize("solver", ["dp_agd", "dp_sgd", "noisy_gd", "preconditioned_gd", "rrpsgd"])
def test_two_values_at_the_bound_are_not_drawn_to_the_commoner_one(solver):
    """Under a ridge term residuals stay long, and clipped ones would have an optimum far from theirs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6000, 8))
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=6000) > 0.43, 1.0, -1.0)
    public = {"row_norm": 3.0, "l2": 0.1, "fit_intercept": True, "penalize_intercept": True}
    data = Objective(SquaredError(target_bound=1.0), X, y, **public)
    best = data.value(algorithms.nonprivate(data).coef)
    constant = min(data.value(np.append(np.zeros(8), c)) for c in np.linspace(-1.0, 1.0, 201))
    coef = getattr(algorithms, solver)(data, 0.4, DELTA, random_state=0).coef
    assert data.value(coef) - best < 0.15 * (constant - best)


def test_ridge_term_shortens_the_reach_of_noisy_descent():
    settings = {l2: noisy_gd_schedule(problem(l2)) for l2 in (0.0, 0.01, 0.1, 1.0)}
    reach = {l2: own.step_size / (1.0 - own.momentum) for l2, own in settings.items()}
    assert list(reach.values()) == sorted(reach.values(), reverse=True)
    assert all(reach[l2] <= 0.5001 / math.sqrt(l2 * (9.0 / 4.0 + l2)) for l2 in (0.01, 0.1, 1.0))


def test_the_reach_from_the_best_constant_under_a_ridge_term_grows_with_the_signal():
    """With little signal noise would carry the weights farther off than they have to go."""
    settings = [
        noisy_gd_schedule(
            problem(1.0, mu, SquaredError(target_bound=1.0), target_scale=0.3, tight_row_norm=True)
        )
        for mu in (0.009, 0.018, 0.036, 0.36)
    ]
    few, twice, enough, more = (own.step_size / (1.0 - own.momentum) for own in settings)
    assert twice == pytest.approx(2.0 * few)
    assert enough == pytest.approx(2.0 * twice, rel=0.05)
    assert more == pytest.approx(enough, rel=0.05)


@pytest.mark.parametrize("schedule", [noisy_gd_schedule, dp_agd_schedule])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_replace_one_schedules_are_those_of_half_the_budget(schedule, l2):
    replaced = schedule(problem(l2, 0.2, neighbors=Neighbours.REPLACE_ONE))
    assert replaced == schedule(problem(l2, 0.1))
    once = problem(l2, 0.2, neighbors=Neighbours.REPLACE_ONE).per_record()
    assert once.per_record() == once


def saturated(n=4_000, d=5, l2=0.1):
    """Targets out of reach under the ridge term: the loss of every record has its largest slope."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (n, d))
    y = 8.0 + X @ rng.uniform(0.0, 1.0, d)
    return Objective(
        Huber(0.3), X, y, l2=l2, row_norm=math.sqrt(d + 1.0), fit_intercept=True, penalize_intercept=True
    )


def labelled(n, d, strength, l2=0.0, seed=0):
    """Labels of a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1).mean()
    margin = strength * X @ rng.normal(size=d)
    y = np.where(margin + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return Objective(
        "logistic", X, y, l2=l2, row_norm=2.0, fit_intercept=True, penalize_intercept=l2 > 0.0, n_threads=1
    )


def relative_excess(objective, solver, epsilon):
    """Excess of a seeded fit as a fraction of that of the weights 0."""
    return excess(objective, getattr(algorithms, solver)(objective, epsilon, DELTA, random_state=0).coef)


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_agd", "dp_sgd", "output_perturbation_gd"])
def test_a_strong_ridge_term_does_not_prevent_convergence(solver):
    assert relative_excess(saturated(), solver, 0.2) < 0.02


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 6.4])
def test_ridge_term_limits_the_steps_of_output_perturbation(epsilon):
    def steps(l2):
        return output_perturbation_schedule(labelled(2_000, 5, 10.0, l2), epsilon, DELTA).steps

    assert steps(1.0) < steps(0.1) < 2.5 * steps(0.0) + 10


@pytest.mark.parametrize("solver", ["dp_sgd_gradient", "dp_agd"])
def test_more_budget_lowers_the_loss(solver):
    little, much = (relative_excess(labelled(4_000, 20, 30.0), solver, epsilon) for epsilon in (0.5, 8.0))
    assert much < 0.75 * little


def test_dp_agd_starts_with_longer_steps_when_there_is_more_signal():
    steps = [
        dp_agd_schedule(PublicProblem(n, 4, gdp_mu(0.4, DELTA), Logistic(), 2.0)).step_max
        for n in (1_000, 100_000, 10_000_000)
    ]
    assert steps[0] == 2.0 < steps[1] < steps[2] == 8.0
