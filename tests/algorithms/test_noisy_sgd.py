"""SGD with noise in every step (rrpsgd, dp_sgd_gradient): numpy reference, calibration, defaults, signals."""

import math
import signal
from functools import cache

import numpy as np
import pytest
from scipy.stats import kstest

from algorithms.problems import excess, objective, separable, zero_rows
from dperm import Objective, losses
from dperm._kernels import samplers
from dperm.accounting import noise_multiplier, sgd_epsilon
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.random_rounds import random_round_noise_multiplier
from dperm.algorithms import (
    dp_agd,
    dp_lsadam,
    dp_lssgd,
    dp_sgd,
    dp_sgd_gradient,
    dp_sgd_output,
    noisy_gd,
    nonprivate,
    rrpsgd,
)
from dperm.algorithms.noisy_descent import fresh_batches
from dperm.mechanisms import release
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.noise import gaussian_integers
from dperm.mechanisms.random_source import random_bits, random_source
from dperm.mechanisms.sampling import uniform_integers
from dperm.objective.descents import DescentPlan, sgd_weights, stochastic_descent
from reference.sgd_twin import sgd

AS_PUBLISHED = {"calibration": "paper", "neighbors": "replace_one"}
SHORT = {
    dp_sgd_gradient: {"batch_size": 4, "steps": 60, "step_size": 0.2, "clip": 0.3},
    rrpsgd: {"batch_size": 4, "rounds": 60, "step_size": 0.2, "clip": 0.3},
}
RELATIONS = ["replace_one", "add_or_remove"]
ALGORITHMS = pytest.mark.parametrize("algorithm", SHORT, ids=lambda algorithm: algorithm.__name__)


def multiplier_of(algorithm, relation, n):
    """The noise multiplier, computed by the accountant."""
    if algorithm is rrpsgd:
        return random_round_noise_multiplier(1.0, 1e-3, n, 4, 60, neighbors=relation, first_round=31)
    sampling = "without_replacement" if relation == "replace_one" else "poisson"
    return noise_multiplier(
        1.0, 1e-3, batch_size=4, n_samples=n, steps=60, sampling=sampling, neighbors=relation
    )


@ALGORITHMS
@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_runs_equal_the_numpy_reference_with_the_same_batches_and_noise(algorithm, relation, noise):
    n, seed = 200, 4
    X, y = separable(n=n)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True, l2=0.1)
    seen = []
    result = algorithm(
        obj, 1.0, 1e-3, neighbors=relation, noise=noise, radius=2.0, random_state=seed, report_every=7,
        callback=lambda released: seen.append((released["iteration"], released["coef"])), **SHORT[algorithm],
    )  # fmt: skip
    source = random_source(seed)
    bits = random_bits(source.spawn(1)[0])
    steps = 30 + int(uniform_integers(bits, 30, 1)[0]) if algorithm is rrpsgd else 60
    assert result.n_iter == steps
    order, ends = fresh_batches(bits, Neighbours.parse(relation), n, 4).take(steps)
    sigma = multiplier_of(algorithm, relation, n) * 0.3
    assert result.privacy.noise_scale == pytest.approx(sigma, rel=1e-9)
    if noise == "exact":
        drawn = gaussian_integers(random_bits(source), result.privacy.noise_scale, -33, (steps, 6)) * 2.0**-33
    else:
        drawn = np.empty((steps, 6))
        samplers.normals_float(random_bits(source), result.privacy.noise_scale, drawn.ravel())
    iterates = sgd(
        X, y, losses.Logistic(), np.split(order, ends[:-1]), np.full(steps, 0.2), row_norm=1.5,
        fit_intercept=True, clip=0.3, divisor=4, l2=0.1, n_penalized=5, radius=2.0, noise=drawn,
    )  # fmt: skip
    expected = iterates[-1] if algorithm is rrpsgd else iterates[:-1].mean(axis=0)
    np.testing.assert_allclose(result.coef, expected, atol=1e-6)
    assert [t for t, _ in seen] == [*range(7, steps, 7), steps]
    for t, w in seen:
        np.testing.assert_allclose(w, iterates[t], atol=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_noise_of_dp_sgd_gradient_is_the_smallest_that_meets_the_target(relation):
    plan = {"batch_size": 10, "steps": 200, "neighbors": relation}
    privacy = dp_sgd_gradient(zero_rows(500, "hinge", d=2), 0.8, 1e-4, clip=0.5, **plan).privacy
    assert privacy.noise == "exact"
    plan |= {"n_samples": 500, "sampling": privacy.sampling}
    z = privacy.noise_scale / 0.5
    assert sgd_epsilon(z, 1e-4, **plan) <= 0.8 < sgd_epsilon(0.998 * z, 1e-4, **plan)


@pytest.mark.parametrize(("burn_in", "least"), [(0.0, 0), (0.5, 25), (0.99, 49), (1.0 - 2.0**-53, 49)])
def test_the_number_of_rounds_is_uniform(burn_in, least):
    """1000 runs of at most 50 rounds; the false-alarm probability is 1e-4."""
    settings = {"rounds": 50, "burn_in": burn_in}
    runs = [
        rrpsgd(zero_rows(30), math.inf, 1e-6, random_state=seed, **settings).n_iter for seed in range(1000)
    ]
    assert set(runs) <= set(range(least, 50))
    if least < 49:
        assert kstest((np.array(runs) + 0.5 - least) / (50 - least), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("loss", ["logistic", "hinge", "pinball", "soft_margin"])
def test_without_noise_dp_sgd_gradient_comes_close_to_the_optimum(loss):
    X, y = separable(n=500)
    obj = Objective(loss, X, y, row_norm=1.0, fit_intercept=True, l2=0.02)
    result = dp_sgd_gradient(obj, math.inf, 1e-6, batch_size=10, steps=50_000, step_size=0.03, random_state=0)
    assert obj.value(result.coef) <= obj.value(nonprivate(obj).coef) + 0.005
    assert not result.privacy.private


@pytest.mark.parametrize("loss", ["logistic", "sigmoid", "squared_hinge"])
def test_without_noise_rrpsgd_finds_a_stationary_point(loss):
    X, y = separable(n=500)
    obj = Objective(loss, X, y, row_norm=1.0, l2=0.01)
    result = rrpsgd(
        obj, math.inf, 1e-6, rounds=10**6, batch_size=10, step_size=0.1, clip=10.0, random_state=3
    )
    assert result.n_iter > 10_000
    assert np.linalg.norm(obj.gradient(result.coef)) < 0.02


@ALGORITHMS
def test_a_callback_does_not_change_the_result(algorithm):
    runs = [
        algorithm(objective(n=300), 1.0, 1e-3, random_state=1, callback=callback, **SHORT[algorithm]).coef
        for callback in (None, lambda released: None)
    ]
    np.testing.assert_array_equal(*runs)


@ALGORITHMS
def test_all_steps_are_charged_before_the_first_draw(algorithm, monkeypatch):
    events, spend = [], ScheduledBudget.spend

    def watched_spend(self, cost, count=1):
        events.append((count, self))
        spend(self, cost, count)

    def draw(*args):
        events.append(("draw", None))
        return gaussian_integers(*args)

    monkeypatch.setattr(ScheduledBudget, "spend", watched_spend)
    with replace_noise(gaussian=draw):
        result = algorithm(objective(n=300), 1.0, 1e-3, random_state=1, **SHORT[algorithm])
    kinds = [kind for kind, _ in events]
    assert kinds[0] == result.n_iter
    assert set(kinds[1:]) == {"draw"}
    budget = events[0][1]
    assert (
        budget.spent_units == result.n_iter <= budget.total_units
    )  # of rrpsgd: the largest number of rounds


def test_float_noise_is_stated():
    result = dp_sgd_gradient(objective(n=300), 1.0, 1e-3, noise="float", **SHORT[dp_sgd_gradient])
    assert result.privacy.noise == "float"
    assert "idealised" in str(result.privacy)


def test_unbounded_gradients_are_refused():
    with pytest.raises(ValueError, match="pass clip, or a radius"):
        rrpsgd(Objective("squared_hinge", *separable(n=100)), 1.0, 1e-3, **AS_PUBLISHED)


class TestPaperMode:
    def test_noise_of_theorem_11(self):
        result = dp_sgd_gradient(zero_rows(1000, "hinge"), 1.0, 1e-6, radius=1.0, **AS_PUBLISHED)
        assert result.privacy.noise_scale == pytest.approx(7.388690801, rel=1e-6)
        assert result.n_iter == 1000

    def test_without_a_feasible_beta_it_raises(self):
        with pytest.raises(ValueError, match="No beta is feasible"):
            dp_sgd_gradient(zero_rows(1000, "hinge"), 1.0, 1e-6, steps=10**6, radius=1.0, **AS_PUBLISHED)

    def test_noise_of_theorem_4(self):
        result = rrpsgd(zero_rows(1000), 1.0, 1e-5, rounds=50, **AS_PUBLISHED)  # certifying it takes seconds
        assert result.privacy.noise_scale == pytest.approx(30.87095131, rel=1e-8)

    def test_runs_of_no_rounds_state_their_noise(self):
        obj = Objective("logistic", np.ones((10, 1)), np.ones(10), row_norm=1.0)
        runs = [rrpsgd(obj, 1.0, 0.01, rounds=2, random_state=seed, **AS_PUBLISHED) for seed in range(20)]
        assert {run.n_iter for run in runs} == {run.privacy.steps for run in runs} == {0, 1}
        assert all(run.coef[0] == 0.0 for run in runs if run.n_iter == 0)
        assert len({run.privacy.noise_scale for run in runs}) == 1


def test_defaults_beat_the_trivial_predictor():
    X, y = separable(n=3000)
    obj = Objective("logistic", X, y, row_norm=1.0, fit_intercept=True)
    for algorithm in (dp_sgd_gradient, rrpsgd):
        coef = algorithm(obj, 2.0, 1e-5, random_state=0).coef
        assert np.mean(np.sign(X @ coef[:-1] + coef[-1]) == y) > 0.75


DEFAULT_PROBLEMS = {
    "huber": losses.Huber(1.0, target_bound=2.0),
    "squared_error": losses.SquaredError(2.0),
    "pinball": losses.Pinball(0.5, 2.0),
    "logistic": losses.Logistic(),
    "hinge": losses.Hinge(),
}


@cache
def default_problem(loss, n=2000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 5))
    rule = X @ rng.normal(size=5)
    if loss.classification:
        y = np.where(rule + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    else:
        y = rule + 0.1 * rng.normal(size=n)
    return Objective(loss, X, y, row_norm=1.5, fit_intercept=True)


def default_excess(algorithm, loss, epsilon, n=2000, **settings):
    """Excess loss of a seeded fit with default settings, relative to that of w = 0."""
    obj = default_problem(loss, n)
    return excess(obj, algorithm(obj, epsilon, 1e-6, random_state=0, **settings).coef)


@pytest.mark.parametrize("name", ["huber", "squared_error", "pinball"])
def test_regression_defaults_beat_the_trivial_predictor(name):
    loss, n = DEFAULT_PROBLEMS[name], 10_000
    assert default_excess(dp_sgd_gradient, loss, 1.0, n) < 0.05
    assert default_excess(dp_sgd_output, loss, 1.0, n) < 0.2
    if name != "pinball":
        assert default_excess(rrpsgd, loss, 1.0, n) < 0.1


WITHOUT_NOISE = {
    **DEFAULT_PROBLEMS,
    "squared_hinge": losses.SquaredHinge(),
    "soft_margin": losses.SoftMargin(),
    "power": losses.Power(1.5, 2.0),
}


@pytest.mark.parametrize("loss", WITHOUT_NOISE.values(), ids=WITHOUT_NOISE)
def test_defaults_without_noise_reach_the_optimum(loss):
    for algorithm in (noisy_gd, dp_sgd, dp_lssgd, dp_lsadam, dp_agd):
        if not algorithm.needs.refusal(default_problem(loss)):
            assert default_excess(algorithm, loss, math.inf) < 0.01, algorithm.__name__


def endless_run(noise, threads):
    """A function that would take SGD steps for days."""
    X, y = separable(n=2000)
    obj = Objective("logistic", X, y, row_norm=1.0, n_threads=threads)
    plan = DescentPlan(obj.loss, 10**12, 1, 1e-6, clip=0.5)
    if noise == "none":
        return lambda: sgd_weights(obj, plan, np.arange(2000), add_or_remove=1.0, replace_one=1.0)
    source = random_source(0)
    bits = random_bits(source.spawn(1)[0])
    releaser = release.Releaser(
        1.0, 1e-3, ScheduledBudget(GaussianRelease(1.0), 10**12, "pld"), neighbors="replace_one", ledger=None,
        random_state=source, description="test",
    )  # fmt: skip
    descent = stochastic_descent(obj, plan, fresh_batches(bits, Neighbours.REPLACE_ONE, 2000, 1))
    return lambda: releaser.noisy_descent(descent, 1.0, noise=noise)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("noise", ["float", "exact", "none"])
def test_a_signal_stops_a_long_run(noise, threads):
    run = endless_run(noise, threads)

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
