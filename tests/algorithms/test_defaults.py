"""The rules of default settings, and regression tests on small problems."""

import math

import numpy as np
import pytest

from algorithms.problems import excess
from dperm import Objective, algorithms
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.dp_agd import DPAGDSchedule
from dperm.algorithms.noisy_gd import NoisyGDSchedule
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Huber, Logistic, Pinball, SquaredError

DELTA = 1e-6


def problem(l2=0.0, mu=0.1, loss=None, **public):
    return PublicProblem(5_000, 20, mu, loss or Logistic(), 3.0, l2, **public)


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd", "dp_lssgd", "whitened_gd"])
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


@pytest.mark.parametrize("solver", ["dp_agd", "dp_sgd_gradient", "noisy_gd", "whitened_gd"])
def test_quantiles_are_not_drawn_to_the_median_by_clipping(solver):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 5)) / math.sqrt(5.0), rng.uniform(size=3000)
    data = Objective(Pinball(0.9, target_bound=1.0), X, y, row_norm=4.0, fit_intercept=True)
    coef = getattr(algorithms, solver)(data, 1.0, DELTA, random_state=0).coef
    assert np.mean(y < X @ coef[:-1] + coef[-1]) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("solver", ["dp_agd", "dp_sgd", "noisy_gd", "whitened_gd", "rrpsgd"])
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
    assert data.value(coef) - best < 0.3 * (constant - best)


@pytest.mark.parametrize("schedule", [NoisyGDSchedule, DPAGDSchedule])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_replace_one_schedules_are_those_of_half_the_budget(schedule, l2):
    replaced = schedule.of(problem(l2, 0.2, neighbors=Neighbours.REPLACE_ONE), {})
    assert replaced == schedule.of(problem(l2, 0.1), {})
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


@pytest.mark.parametrize("solver", ["dp_sgd_gradient", "dp_agd"])
def test_more_budget_lowers_the_loss(solver):
    little, much = (relative_excess(labelled(4_000, 20, 30.0), solver, epsilon) for epsilon in (0.5, 8.0))
    assert much < 0.95 * little
