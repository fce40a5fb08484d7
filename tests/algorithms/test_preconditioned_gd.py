"""Whitened noisy gradient descent: twin, budget, guarantee, defaults."""

import dataclasses
import importlib
import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from algorithms.problems import objective, separable
from dperm import Objective
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import noisy_gd, nonprivate, preconditioned_gd
from dperm.algorithms.defaults.constants import Whitened
from dperm.algorithms.defaults.preconditioned_gd import preconditioned_gd_schedule
from dperm.algorithms.private_whitening import Whitening
from dperm.algorithms.problem import PublicProblem
from dperm.errors import SlowFitWarning
from dperm.losses import Hinge, Huber, Logistic, SquaredError, SquaredHinge
from dperm.objective.moments import symmetric_matrix
from dperm.private_values.transform import Transform
from reference import numpy_algorithms as twin

module = importlib.import_module("dperm.algorithms.preconditioned_gd")
SHORTEST_ROW = Whitened.SHORTEST_ROW
MOMENTS = ["gram", "columns", "diagonal", "none"]


def stretched(n=20_000, d=12, seed=0):
    """Labels that depend most on what varies least."""
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1.0, 0.02, d)
    X = rng.normal(size=(n, d)) * scales / math.sqrt(d)
    y = np.where(X / scales @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("clip", [0.3, 50.0])
def test_without_noise_it_is_the_numpy_twin(clip):
    X, y = stretched(n=3000)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    settings = {"steps": 30, "clip": clip, "step_size": 0.5, "momentum": 0.5, "tail": 0.3, "share": 0.2}
    result = preconditioned_gd(obj, math.inf, 1e-6, moments="gram", threshold=0.0, **settings)
    rows = twin.scaled_rows(X, 1.5, True)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    values += 1e-6 * values[-1]
    schedule = dataclasses.replace(
        preconditioned_gd_schedule(PublicProblem(10, 2, 1.0, Logistic(), 1.0)), **settings
    )
    length = math.sqrt(np.sum(1 / (1 + 1e-6 * values[-1] / values)))
    expected = twin.preconditioned_gd(
        rows, y, (vectors / np.sqrt(values)) @ vectors.T, clip * length, schedule
    )
    np.testing.assert_allclose(result.coef, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
    assert not result.privacy.private


@given(
    st.floats(Whitened.SHORTEST_ROW**2, 1e3), st.floats(1.0, 1e6), st.floats(1e-3, 1e3), st.floats(0.25, 1.0)
)
@example(Whitened.SHORTEST_ROW**2, 1.0, 1.0, 0.25)
def test_no_clip_is_shorter_than_that_whose_noise_is_checked(of_rows, ridge, relative, slope_at_zero):
    found = Whitening(Transform.rounding(np.eye(2)), of_rows, of_rows * ridge, 1.0)
    for given_clip in (False, True):
        clip = found.clip(relative, slope_at_zero, given=given_clip)
        assert clip >= relative * SHORTEST_ROW * (1.0 - 1e-12)


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_a_few_long_rows_are_learned_from(l2):
    """One row in fifty is ten times as long, and has nearly all of the loss; a weak ridge term or none."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40_000, 8)) / math.sqrt(8.0)
    X[rng.random(len(X)) < 0.02] *= 10.0
    y = np.clip(0.2 * X @ rng.normal(size=8) + 0.05 * rng.normal(size=len(X)), -1.0, 1.0)
    obj = Objective(SquaredError(target_bound=1.0), X, y, row_norm=25.0, fit_intercept=True, l2=l2)
    best, constant = obj.value(nonprivate(obj).coef), obj.value(np.r_[np.zeros(8), y.mean()])
    found = obj.value(preconditioned_gd(obj, 4.0, 1e-6, random_state=0).coef)
    assert found - best < 0.05 * (constant - best)


@pytest.mark.parametrize("moments", MOMENTS)
def test_without_noise_it_reaches_the_optimum(moments):
    obj = objective(l2=0.01)
    clip = 1e3 if moments != "none" else 10.0
    result = preconditioned_gd(obj, math.inf, 1e-6, moments=moments, steps=1500, clip=clip, tail=0.01)
    np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=1e-6)


def test_it_learns_what_varies_little():
    """Noisy gradient descent hardly gets there: risk above the optimum, mean of two runs.

    The axes along which rows vary little are not those of columns, which either would scale.
    """
    X, y = stretched()
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0]
    obj = Objective("logistic", X @ rotation, y, row_norm=1.5, fit_intercept=True, n_threads=1)
    best = obj.value(nonprivate(obj).coef)

    def excess(algorithm):
        return np.mean([obj.value(algorithm(obj, 2.0, 1e-6, random_state=s).coef) for s in range(2)]) - best

    assert excess(preconditioned_gd) < 0.75 * excess(noisy_gd)


def test_the_released_moments_are_about_those_of_the_rows(record):
    X, y = separable(n=5000)
    obj = Objective("logistic", X, y)
    preconditioned_gd(obj, 4.0, 1e-6, moments="gram", share=0.5, learn_scales=False, random_state=0)
    rows = twin.scaled_rows(X, 1.0, False)
    mu = math.sqrt(0.5) * 0.9
    error = symmetric_matrix(record[0]["noisy"]) - rows.T @ rows
    # standard deviation 1 / mu on the diagonal; 6 of them, 15 entries: false alarm below 1e-7
    assert np.abs(error).max() < 6 / mu


def test_many_columns_are_whitened_without_square_matrices(monkeypatch):
    """By powers of two near the inverse roots of their mean squares."""
    rng = np.random.default_rng(6)
    scales = np.geomspace(1.0, 0.05, 1200)
    X = ((rng.normal(size=(3000, 1200)) + 0.5) * scales / 30.0).astype(np.float32)
    obj = Objective("logistic", X, np.sign(rng.normal(size=3000)), row_norm=1.0)
    found = []
    whiten = module.private_whitening
    monkeypatch.setattr(module, "private_whitening", lambda *a: found.append(whiten(*a)) or found[-1])
    monkeypatch.setattr(np.linalg, "eigh", None)
    monkeypatch.setattr(np.linalg, "svd", None)
    with warnings.catch_warnings(action="error", category=SlowFitWarning):
        preconditioned_gd(obj, math.inf, 1e-6, steps=3, column_share=0.0, norm_share=0.0)
    factors = found[0].linear_map.values
    expected = 1.0 / np.sqrt((X.astype(float) ** 2).mean(axis=0))
    assert np.all(np.log2(factors) == np.rint(np.log2(factors)))
    ratio = np.log2(factors / expected)
    assert abs(np.median(ratio)) < 0.2
    assert np.mean(np.abs(ratio) < 0.6) > 0.95
    # A fifth of the mean squares are squared means.
    assert found[0].along_mean == pytest.approx(0.2 * 1200, rel=0.15)
    np.testing.assert_array_equal(found[0].linear_map.transposed(expected), factors * expected)


def test_a_given_momentum_is_kept():
    """Whatever labels and the mean of the rows say; with equal noise, second steps differ by the first."""
    rng = np.random.default_rng(8)
    X = ((rng.normal(size=(2000, 1200)) + 0.5) / 40.0).astype(np.float32)
    y = np.where(rng.random(2000) < 0.05, 1.0, -1.0)
    obj = Objective("logistic", X, y, row_norm=1.2, fit_intercept=True)
    settings = {"moments": "diagonal", "steps": 2, "threshold": 0.0, "shrinkage": 0.0, "random_state": 0}

    def iterates(momentum):
        seen = []
        preconditioned_gd(
            obj,
            20.0,
            1e-6,
            momentum=momentum,
            callback=lambda step: seen.append(step["coef"][:-1]),
            **settings,
        )
        return seen

    (first, second), (same, further) = iterates(0.0), iterates(0.5)
    np.testing.assert_array_equal(first, same)
    np.testing.assert_allclose(further - second, 0.5 * first, atol=1e-12 * np.abs(second).max())


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), SquaredHinge(), Huber(2.0, target_bound=1.0)])
def test_every_loss_of_a_linear_prediction_is_served(loss):
    X, y = separable(n=5000)
    obj = Objective(loss, X, y, l2=0.1)
    for moments in MOMENTS:
        coef = preconditioned_gd(obj, 8.0, 1e-6, moments=moments, random_state=0).coef
        assert obj.value(coef) < obj.value(np.zeros(5))


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), SquaredHinge(), Huber(2.0)])
@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 5.0, math.inf])
@pytest.mark.parametrize(("n", "d"), [(200, 2), (40_000, 100), (10**7, 10_000)])
def test_the_schedule_looks_at_public_numbers_and_scales_with_the_rows(loss, mu, n, d):
    one, three = (preconditioned_gd_schedule(PublicProblem(n, d, mu, loss, norm)) for norm in (1.0, 3.0))
    assert one.moments == three.moments
    assert one.steps == three.steps
    assert one.clip == pytest.approx(three.clip)
    assert 50 <= one.steps <= 1000
    if one.moments != "none":
        assert one == three
        assert one.momentum <= 0.9
        assert one.momentum ** (one.steps / 4) < 0.25  # an overshoot, by the middle of the run
        missed = {"gram": 1.0 + math.sqrt(2 * d), "columns": 1.0 + d / 8, "diagonal": 120.0}[one.moments]
        if loss.kink_jump == 0.0:
            assert one.step_size * loss.smoothness(1.0) * missed < 2.0 * (1.0 + one.momentum)
    exchanged = preconditioned_gd_schedule(
        PublicProblem(n, d, 2 * mu, loss, 1.0, neighbors=Neighbours.REPLACE_ONE)
    )
    assert exchanged.moments == "none" or exchanged == one
