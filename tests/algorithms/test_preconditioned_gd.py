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
from dperm.algorithms.preconditioned_gd import _flatness as flatness
from dperm.algorithms.private_whitening import Whitening
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.whitened_clips import _raised_clip as raised_clip
from dperm.errors import SlowFitWarning
from dperm.losses import Absolute, Hinge, Huber, Logistic, Pinball, SquaredError, SquaredHinge
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


@pytest.mark.parametrize("clip", [0.3, 2.0])
@pytest.mark.parametrize("l2", [0.0, 1e-3, 0.3, 30.0])
@pytest.mark.parametrize(
    ("loss", "curvature", "at_zero"),
    [(SquaredError(target_bound=1.0), 1.0, 1.0), (Logistic(), 0.25, 0.5), (Hinge(), 0.25, 1.0)],
)
def test_the_clip_is_that_of_rows_which_a_ridge_shortens(l2, clip, loss, curvature, at_zero):
    """And of slopes at the weights 0, near which a ridge term that is most of the moments keeps them."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (500, 4)) * [1.0, 0.5, 0.2, 0.1]
    obj = Objective(loss, X, np.sign(X[:, 0]), row_norm=2.0, l2=l2)
    result = preconditioned_gd(
        obj, math.inf, 1e-6, moments="gram", clip=clip, steps=2, column_share=0.0, norm_share=0.0
    )
    moments = X.T @ X / len(X)
    matrix = np.linalg.cholesky(np.linalg.inv(moments + l2 / curvature * np.eye(4)))
    typical = math.sqrt(((X @ matrix) ** 2).sum(axis=1).mean())
    slope = 1.0 - (1.0 - at_zero) * (1.0 - typical**2 / 4.0) ** 4
    # 2 = sqrt(4) would be the length if those of the ridge were rows
    expected = min(2.0 * clip, max(clip, slope) * max(typical, at_zero))
    if loss.classification:  # no gradient is longer than this
        expected = min(expected, 2.0 * np.linalg.norm(matrix, 2))
    assert result.privacy.clip == pytest.approx(expected, rel=1e-3)


@given(
    st.floats(Whitened.SHORTEST_ROW**2, 1e3), st.floats(1.0, 1e6), st.floats(1e-3, 1e3), st.floats(0.25, 1.0)
)
@example(Whitened.SHORTEST_ROW**2, 1.0, 1.0, 0.25)
def test_no_clip_is_shorter_than_that_whose_noise_is_checked(of_rows, ridge, relative, slope_at_zero):
    found = Whitening(Transform.rounding(np.eye(2)), of_rows, of_rows * ridge, 1.0)
    for given_clip in (False, True):
        clip = found.clip(relative, slope_at_zero, given=given_clip)
        assert clip >= relative * SHORTEST_ROW * (1.0 - 1e-12)


def test_slopes_that_a_strong_ridge_term_keeps_from_being_met_are_clipped_by_default():
    """Noise of the whole range of slopes cost a point of accuracy, and as much excess again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4500, 30)) / math.sqrt(30)
    margins = 3.0 * X @ rng.normal(size=30)
    y = np.where(margins + rng.logistic(size=4500) > 0.0, 1.0, -1.0)
    obj = Objective("logistic", X, y, row_norm=1.8, l2=0.1)
    moments = X.T @ X / len(X)
    values = np.linalg.eigvalsh(moments)
    typical = math.sqrt(np.sum(values / (values + 0.4)))
    share = np.sum(0.4 / (values + 0.4)) / 30
    fits = [preconditioned_gd(obj, 6.4, 1e-6, random_state=seed) for seed in range(3)]
    expected = (1.0 - 0.5 * share**4) * typical
    assert expected < 0.75 * typical
    assert np.mean([fit.privacy.clip for fit in fits]) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("loss", "l2", "least", "most"),
    [
        (Logistic(), 0.0, 0.0, 0.0),
        (Logistic(), 0.1, 0.05, 0.2),
        (Logistic(), 100.0, 0.2, 0.25),
        (Huber(target_bound=1.0), 100.0, 0.0, 0.0),
    ],
)
def test_shrinkage_keeps_the_signs_of_labels_under_a_ridge(loss, l2, least, most):
    """Targets that are noise: nothing is left of the weights, but for labels and a ridge."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1.0, 1.0, (20_000, 6)), rng.choice([-1.0, 1.0], 20_000)
    obj = Objective(loss, X, y, row_norm=2.5, l2=l2)
    settings = {"moments": "gram", "steps": 1, "threshold": 0.0, "random_state": 3}
    whole, shrunk = (
        preconditioned_gd(obj, 0.5, 1e-6, shrinkage=shrinkage, **settings).coef for shrinkage in (0.0, 1e6)
    )
    kept = float(shrunk @ whole / (whole @ whole))
    assert least <= kept <= most
    np.testing.assert_allclose(shrunk, kept * whole, rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "longest", "signal", "expected"),
    [
        (SquaredError(target_bound=1.0), 4.0, 1000.0, 1.0),  # as far as it can be afforded
        (SquaredError(target_bound=1.0), 4.0, 1e6, 4.0),  # no row is longer
        (Hinge(), 4.0, 1e6, 0.0),  # slopes of labels are bounded: no row has most of the loss
        (SquaredHinge(), 50.0, 1e6, 10.0),
    ],
)
def test_long_rows_are_clipped_less_where_noise_allows_it(loss, longest, signal, expected):
    public = PublicProblem(n=1, dimension=100, mu=10.0 * signal, loss=loss, row_norm=1.0)
    assert raised_clip(loss, public, longest) == expected


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


def test_under_a_strong_ridge_term_long_gradients_are_clipped_little():
    """Gradients of the absolute loss are as long as their rows; to weaken half of them moves the optimum."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5000, 12)) / math.sqrt(12.0)
    y = np.clip(0.5 + 0.2 * X @ rng.normal(size=12) + 0.02 * rng.normal(size=len(X)), 0.0, 1.0)
    obj = Objective(Absolute(target_bound=1.0), X, y, row_norm=2.0, fit_intercept=True, l2=1.0)
    best, constant = obj.value(nonprivate(obj).coef), obj.value(np.r_[np.zeros(12), 0.5])

    def excess(clip):
        runs = (preconditioned_gd(obj, 0.8, 1e-6, clip=clip, random_state=s) for s in range(2))
        return np.mean([obj.value(run.coef) for run in runs]) - best

    assert excess(None) < 0.5 * excess(1.0)
    assert excess(None) < 0.003 * (constant - best)


def test_there_is_a_longer_way_to_go_if_labels_are_rare():
    """The momentum rises where the mean label is known, and no further than the ridge term leaves it flat."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20_000, 5))
    y = np.where(X @ [2.0, 1.0, 0.0, -1.0, 1.0] > 5.0, 1.0, -1.0)

    def loss(**settings):
        obj = Objective("logistic", X, y, row_norm=6.0, fit_intercept=True)
        return obj.value(preconditioned_gd(obj, 2.0, 1e-6, random_state=0, **settings).coef)

    default = preconditioned_gd_schedule(PublicProblem(20_000, 6, 1.0, Logistic(), 6.0, intercept=True))
    assert loss() < 0.8 * loss(momentum=default.momentum)
    obj = Objective("logistic", X, y, row_norm=6.0, fit_intercept=True)
    log_odds = math.log(0.03 / 0.97)
    assert flatness(obj, log_odds, 0.0) == pytest.approx(0.03 * 0.97 / 0.16)
    assert flatness(obj, log_odds, 1.0) == 1.0
    for loss, power in ((Hinge(), 2), (SquaredHinge(), 3)):
        assert flatness(obj.with_loss(loss), log_odds, 0.0) ** power == pytest.approx(0.03 * 0.97 / 0.16)
    for usual in (0.2001, 0.5, 0.7999):
        assert flatness(obj, math.log(usual / (1.0 - usual)), 0.0) == 1.0


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


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_short_run_settles_on_losses_with_a_margin(loss):
    """Where most labels agree, a run with much momentum swings past the margin and stops on its way back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 20)) / math.sqrt(20)
    log_odds = 3.0 * X @ rng.normal(size=20) + rng.logistic(size=10_000)
    y = np.where(log_odds > np.quantile(log_odds, 0.9), 1.0, -1.0)
    obj = Objective(loss, X, y, row_norm=1.8, fit_intercept=True, n_threads=1)
    best, constant = obj.value(nonprivate(obj).coef), obj.value(np.append(np.zeros(20), -1.0))
    for seed in range(2):
        value = obj.value(preconditioned_gd(obj, 1.6, 1e-6, random_state=seed).coef)
        assert value - best < 0.1 * (constant - best)


def test_where_moments_would_drown_it_is_noisy_gd():
    X, y = separable(n=300, d=20)
    obj = Objective("logistic", X, y)
    result = preconditioned_gd(obj, 0.05, 1e-6, random_state=1)
    assert result.privacy.public["moments"] == "none"
    plain = noisy_gd(obj, 0.05, 1e-6, random_state=1)
    assert result.n_iter == plain.n_iter
    assert result.privacy.clip == pytest.approx(plain.privacy.clip * math.sqrt(20), rel=1e-3)
    # The same run but for the grid of its noise: as far from the start, in a random direction.
    assert np.linalg.norm(result.coef) == pytest.approx(np.linalg.norm(plain.coef), rel=0.8)


@pytest.mark.parametrize("loss", [Logistic(), SquaredError(target_bound=1.0)])
def test_without_moments_settings_follow_from_the_learned_norm(loss):
    """As do those of noisy_gd: under a ridge term the clip for a loose bound would be a tenth."""
    X, y = separable(n=4000, d=20)
    obj = Objective(loss, X, y, row_norm=30.0, l2=0.1)
    settings = {"epsilon": 0.5, "delta": 1e-6, "learn_scales": True, "random_state": 0}
    found = preconditioned_gd(obj, moments="none", **settings)
    plain = noisy_gd(obj, **settings)
    assert found.privacy.clip > 3.0 * math.sqrt(20) * found.privacy.public["relative_clip"]
    np.testing.assert_allclose(found.coef, plain.coef, atol=0.5 * np.abs(plain.coef).max())


def test_few_real_targets_are_not_whitened_by_moments_that_barely_stand_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 13))
    y = np.clip(0.5 + 0.2 * (X @ rng.normal(size=13) / 3.6 + 0.5 * rng.normal(size=1500)), 0.0, 1.0)
    obj = Objective(SquaredError(target_bound=1.0), X, y, row_norm=30.0, fit_intercept=True)

    def mean_risk(**settings):
        fits = [preconditioned_gd(obj, 0.1, 1e-6, random_state=seed, **settings) for seed in range(8)]
        return np.mean([obj.value(fit.coef) for fit in fits])

    assert mean_risk() < 0.8 * mean_risk(moments="columns")


@pytest.mark.parametrize(
    ("loss", "d", "signal", "moments"),
    [
        (SquaredError(target_bound=1.0), 300, 29.0, "none"),
        (SquaredError(target_bound=1.0), 300, 31.0, "columns"),
        (Pinball(0.9, target_bound=1.0), 300, 31.0, "none"),  # its clip, and noise, is larger
        (Logistic(), 300, 31.0, "none"),
        (SquaredError(target_bound=1.0), 10, 15.0, "none"),
        (Logistic(), 10, 15.0, "columns"),
    ],
)
def test_column_moments_are_released_once_they_stand_out(loss, d, signal, moments):
    """Signal: the number of records in units of the noise of one entry."""
    problem = PublicProblem(2000, d, signal / (2000 * math.sqrt(0.14)), loss, 1.0)
    assert preconditioned_gd_schedule(problem, learn_scales=False).moments == moments


def test_the_released_moments_are_about_those_of_the_rows(record):
    X, y = separable(n=5000)
    obj = Objective("logistic", X, y)
    preconditioned_gd(obj, 4.0, 1e-6, moments="gram", share=0.5, learn_scales=False, random_state=0)
    rows = twin.scaled_rows(X, 1.0, False)
    mu = math.sqrt(0.5) * 0.9
    error = symmetric_matrix(record[0]["noisy"]) - rows.T @ rows
    # standard deviation 1 / mu on the diagonal; 6 of them, 15 entries: false alarm below 1e-7
    assert np.abs(error).max() < 6 / mu


@pytest.mark.parametrize("moments", ["gram", "columns"])
def test_a_ridge_term_along_few_columns_is_not_the_typical_one(monkeypatch, moments):
    """The largest clip of real targets under a ridge term is for most columns."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.0, 1.0, (5000, 9)) / 3.0
    X[:, ::3] /= 50.0
    obj = Objective(SquaredError(target_bound=1.0), X, rng.uniform(-1.0, 1.0, 5000), row_norm=1.0, l2=1e-3)
    found = []
    whiten = module.private_whitening
    monkeypatch.setattr(module, "private_whitening", lambda *a: found.append(whiten(*a)) or found[-1])
    preconditioned_gd(obj, math.inf, 1e-6, moments=moments, steps=1, learn_scales=False)
    of_columns = 1e-3 / ((X**2).mean(axis=0) + 1e-3)
    assert found[0].ridge_share == pytest.approx(of_columns.mean(), rel=0.05)
    assert found[0].typical_ridge_share == pytest.approx(np.median(of_columns), rel=0.05)
    assert found[0].ridge_share > 10.0 * found[0].typical_ridge_share


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


@pytest.mark.parametrize("row_norm", [1.0, 1.2, 1.45, 1.9])
def test_steps_without_whitening_do_not_depend_on_how_units_are_rounded(row_norm):
    """Scales of many columns are powers of two, which the unit of the weights in general is not."""
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(300, 1200)) / 40.0).astype(np.float32)
    y = np.sign(rng.normal(size=300))
    obj = Objective("logistic", X, y, row_norm=row_norm)
    settings = {"moments": "none", "steps": 3, "clip": 100.0, "momentum": 0.0, "threshold": 0.0, "tail": 1e-9}
    found = preconditioned_gd(
        obj, math.inf, 1e-6, step_size=0.02, shrinkage=0.0, learn_scales=False, **settings
    )
    w = np.zeros(1200)
    for _ in range(3):
        w -= 0.02 * 1200 / row_norm**2 * (-y / (1.0 + np.exp(y * (X @ w))) @ X / 300)
    np.testing.assert_allclose(found.coef, w, rtol=1e-3, atol=1e-3 * np.abs(w).max())


def test_noise_is_not_taken_for_a_mean(monkeypatch):
    """Centred columns, and a budget with which the noise of their means is much longer than the means."""
    rng = np.random.default_rng(7)
    X = (rng.normal(size=(5000, 1200)) / 35.0).astype(np.float32)
    obj = Objective("logistic", X, np.sign(rng.normal(size=5000)), row_norm=1.2)
    found = []
    whiten = module.private_whitening
    monkeypatch.setattr(module, "private_whitening", lambda *a: found.append(whiten(*a)) or found[-1])
    preconditioned_gd(obj, 0.1, 1e-6, moments="diagonal", steps=1, learn_scales=False, random_state=0)
    # The noise has a squared norm of about 140, with a standard deviation of sqrt(2 / 1200) of that.
    assert found[0].along_mean < 30.0


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
