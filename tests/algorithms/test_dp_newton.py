"""Newton's method with noise on gradient and direction: numpy reference, sensitivity, budget, paper mode."""

import math

import numpy as np
import pytest

from algorithms.problems import objective, separable
from dperm import Objective
from dperm.accounting.zcdp import zcdp_rho, zcdp_rho_bun_steinke, zcdp_rho_of_lemma
from dperm.algorithms import dp_newton, nonprivate
from dperm.algorithms.dp_newton import dp_newton_schedule
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Huber, Logistic, SquaredError, SquaredHinge
from dperm.objective.row_scaling import RowScaling
from dperm.objective.second_moments import symmetric_matrix
from reference import numpy_algorithms as twin
from reference.exact import RELATIONS, assert_attained, assert_change_within, opened

# -- the direction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [False, True])
def test_the_direction_solves_the_newton_system(upper):
    obj = objective(l2=0.05)
    rng = np.random.default_rng(0)
    w, gradient = rng.normal(size=(2, 6))
    rows = twin.scaled_rows(obj._rows.x, obj.row_norm, True)
    p = rows @ w
    curvature = np.tanh(p / 2) / (2 * p) if upper else 1 / (2 + np.exp(p) + np.exp(-p))
    hessian = (rows * curvature[:, None]).T @ rows / len(rows) + 0.1 * np.eye(6)
    hessian[:-1, :-1] += 0.05 * np.eye(5)  # the intercept is not penalised
    direction = obj.newton_direction(w, gradient, 0.1, upper=upper)
    expected = np.linalg.solve(hessian, gradient)
    # rounded to a 1024th of the sensitivity
    np.testing.assert_allclose(opened(direction), expected, atol=direction.add_or_remove / 1000)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), SquaredHinge(), SquaredError(3.0)])
def test_upper_bound_dominates_the_hessian_and_steps_never_overshoot(loss):
    rng = np.random.default_rng(0)
    X, y = separable(n=400)
    obj = Objective(loss, X, y)
    for scale in (0.0, 1e-4, 1.0, 30.0):
        w = scale * rng.normal(size=5)
        exact, above = (
            symmetric_matrix(opened(obj.hessian_sum(w, upper=upper))) / 400 for upper in (False, True)
        )
        assert np.linalg.eigvalsh(above - exact).min() > -1e-5
        assert np.trace(above) <= loss.smoothness(1.0)
        step = np.linalg.solve(above + 1e-4 * np.eye(5), obj.gradient(w))
        assert obj.value(w - step) <= obj.value(w) + 1e-9


def test_the_direction_in_other_coordinates_is_that_of_scaled_rows():
    """Rows of the scaled Hessian are cut to the norm; predictions and the ridge term are what they were."""
    obj = objective(l2=0.05)
    rng = np.random.default_rng(1)
    w, gradient = rng.normal(size=(2, 6))
    scales, norm = np.array([1.0, 8.0, 0.5, 1.0, 2.0, 0.25]), 2.0
    rows = twin.scaled_rows(obj._rows.x, obj.row_norm, True)
    p = rows @ w
    scaled = rows * scales
    cap = norm / np.linalg.norm(scaled, axis=1)
    factors = np.minimum(np.sqrt(1 / (2 + np.exp(p) + np.exp(-p))), 0.5 * cap)
    assert (factors == 0.5 * cap).any()
    scaled *= factors[:, None]
    matrix = scaled.T @ scaled / len(rows) + np.diag(0.1 + 0.05 * np.append(scales[:-1], 0.0) ** 2)
    direction = obj.newton_direction(w, gradient, 0.1, scaling=RowScaling(scales, norm))
    expected = np.linalg.solve(matrix, gradient)
    np.testing.assert_allclose(opened(direction), expected, atol=direction.add_or_remove / 500)


def neighbours_of_direction(rng, relation, dimension, n_public, l2=0.0):
    """Few records, so that one matters much; the last differs."""
    X = rng.normal(size=(4, dimension)) * rng.choice([0.01, 1.0, 3.0], size=(4, 1))
    other = np.append(X[:3], rng.normal(size=(1, dimension)) * 3, axis=0)
    first = X if relation == "replace_one" else X[:3]
    return [
        Objective("logistic", rows, np.ones(len(rows)), row_norm=2.0, n_public=n_public, l2=l2)
        for rows in (first, other)
    ]


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_stay_within_the_sensitivity(relation):
    rng = np.random.default_rng(1)
    for _ in range(300):
        d, n = int(rng.integers(1, 6)), int(rng.choice([1, 4, 100]))
        one, other = neighbours_of_direction(rng, relation, d, n, l2=float(rng.choice([0.0, 0.01, 3.0])))
        w, gradient = rng.normal(size=(2, d)) * np.exp(3 * rng.normal(size=(2, 1)))
        shift = float(np.exp(rng.uniform(-8, 2)))
        upper = bool(rng.integers(2))
        scaling = RowScaling(np.exp(rng.normal(size=d)), float(np.exp(rng.normal())))
        about = {"upper": upper, "scaling": scaling if rng.integers(2) else None}
        a, b = (each.newton_direction(w, gradient, shift, **about) for each in (one, other))
        assert_change_within(a, b, relation)


@pytest.mark.parametrize("shift", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("n_public", [4, 1000])
def test_the_sensitivity_of_a_direction_is_attained(shift, n_public, l2):
    """Up to rounding to the grid, by a single record along the gradient at the largest curvature."""
    gradient = np.array([0.6, 0.8])
    nothing, record = (
        Objective("logistic", [row], [1.0], row_norm=2.0, n_public=n_public, l2=l2)
        for row in ([0.0, 0.0], list(9.0 * gradient))
    )
    a, b = (each.newton_direction([0.0, 0.0], gradient, shift) for each in (nothing, record))
    assert_attained(a, b, "add_or_remove", 3e-3)
    assert_change_within(a, b, "add_or_remove")


def test_more_records_than_the_error_bound_allows_for_are_refused():
    obj = Objective("logistic", np.ones((17, 1)), np.ones(17), n_public=1)
    with pytest.raises(ValueError, match="far below"):
        obj.newton_direction([0.0], [1.0], 0.1)
    with pytest.raises(ValueError, match="shift"):
        obj.newton_direction([0.0], [1.0], 0.0)


# -- the algorithm -----------------------------------------------------------------------------------


def test_without_noise_it_equals_the_numpy_reference():
    X, y = separable()
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    result = dp_newton(obj, math.inf, 1e-6, steps=5, shift=0.02, clip=10.0, hessian="exact")
    expected = twin.newton(twin.scaled_rows(X, 1.5, True), y, 5, 0.02)
    np.testing.assert_allclose(result.coef, expected, rtol=1e-3, atol=1e-3)
    assert not result.privacy.private


@pytest.mark.parametrize("hessian", ["upper_bound", "exact"])
def test_without_noise_it_reaches_the_optimum(hessian):
    obj = objective(l2=0.01)
    result = dp_newton(obj, math.inf, 1e-6, steps=200, hessian=hessian)
    np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=1e-6)


def test_with_little_noise_it_comes_close_to_the_optimum():
    obj = objective(n=20_000)
    best = obj.value(nonprivate(obj).coef)
    assert obj.value(dp_newton(obj, 4.0, 1e-6, random_state=0).coef) < best + 0.005 < obj.value(np.zeros(6))


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 5.0, math.inf])
@pytest.mark.parametrize(("n", "d"), [(200, 2), (40_000, 100), (10**7, 10_000)])
def test_the_schedule_scales_with_the_rows(mu, n, d):
    one, three = (dp_newton_schedule(PublicProblem(n, d, mu, Logistic(), norm)) for norm in (1.0, 3.0))
    assert three.shift == pytest.approx(9 * one.shift)
    assert three.clip == pytest.approx(3 * one.clip)
    signal = n * mu / math.sqrt(d)
    assert 0.02 * 0.25 <= one.shift <= 0.25 * max(1.0, 150.0 / signal**2)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-5, 1e-9), (0.03, 1e-6), (0.1, 1e-6), (0.3, 1e-6)])
def test_with_little_budget_defaults_are_not_much_worse_than_zero(epsilon, delta, neighbors):
    obj = objective(n=500)
    loss = np.mean([
        obj.value(dp_newton(obj, epsilon, delta, neighbors=neighbors, random_state=seed).coef)
        for seed in range(5)
    ])  # fmt: skip
    assert loss < 1.5 * obj.value(np.zeros(obj.dimension))


# -- as published ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (3.0, 1e-10), (8.0, 1e-5)])
def test_the_published_budget_is_that_of_the_lemma(epsilon, delta):
    rho = zcdp_rho_of_lemma(epsilon, delta)
    assert rho < zcdp_rho(epsilon, delta)
    if rho > zcdp_rho_bun_steinke(epsilon, delta):
        assert rho + math.sqrt(4 * rho * math.log(math.sqrt(math.pi * rho) / delta)) == pytest.approx(epsilon)


def test_paper_mode_makes_the_releases_of_the_paper(record):
    """In each step: gradient, trace and direction, with 0.7, 0.03 and 0.27 of its rho."""
    obj = objective(n=5000)
    result = dp_newton(obj, 3.0, 1e-7, calibration="paper", random_state=0)
    rho = zcdp_rho_of_lemma(3.0, 1e-7)
    assert result.privacy.rho == rho
    assert len(record) == result.privacy.steps == 3 * 15
    for each, share in zip(record[:3], (0.7, 0.03, 0.27), strict=True):
        assert each["multiplier"] == pytest.approx(math.sqrt(0.5 / (rho * share / 15)), rel=1e-9)
        assert each["exact"].shape == ((1,) if share == 0.03 else (6,))
    budget = record[-1]["budget"]
    assert budget.total_units - 100 <= budget.spent_units <= budget.total_units
    best = obj.value(nonprivate(obj).coef)
    assert obj.value(result.coef) < 0.5 * (best + obj.value(np.zeros(6)))


def test_the_published_shift_follows_the_trace():
    """With almost no noise: the published formula applied to the exact trace."""
    X, y = separable(n=3000)
    obj = Objective("logistic", X, y, row_norm=1.0)
    result = dp_newton(obj, 3.0, 1e-7, calibration="paper", random_state=0, steps=1, hessian="exact")
    rows = twin.scaled_rows(X, 1.0, False)
    trace = 0.25 * np.einsum("ij,ij->", rows, rows) / 3000  # at w = 0
    rho = zcdp_rho_of_lemma(3.0, 1e-7) * 0.27
    expected = (0.5 * trace / (3000**2 * rho)) ** (1 / 3)
    assert result.history[0]["shift"] == pytest.approx(expected, rel=0.01)


def test_the_trace_is_that_of_the_hessian_and_its_sensitivity_is_attained():
    X, y = separable(n=200)
    w = np.linspace(-1, 1, 6)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True)
    less = Objective("logistic", X[1:], y[1:], row_norm=1.5, fit_intercept=True, n_public=200)
    whole, part = (each.hessian_trace(w) for each in (obj, less))
    matrix = symmetric_matrix(opened(obj.hessian_sum(w)))
    assert opened(whole)[0] == pytest.approx(np.trace(matrix), rel=1e-9)
    assert 0.0 <= opened(whole)[0] - opened(part)[0] <= whole.sensitivity("add_or_remove")
    # attained, up to rounding, by a row on the norm bound at a prediction of 0
    one = Objective("logistic", np.array([[1.5]]), [1.0], row_norm=1.5, n_public=200)
    trace = one.hessian_trace(np.zeros(1))
    assert 0.99 * trace.add_or_remove < opened(trace)[0] <= trace.add_or_remove
