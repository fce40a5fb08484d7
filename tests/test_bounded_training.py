"""Bounded trainings: attacks on their rounding error bounds, certificates and sensitivities."""

import math

import numpy as np
import pytest

from dperm import Objective
from dperm.errors import DataError
from dperm.losses import Huber, Logistic, SquaredError, SquaredHinge
from dperm.mechanisms import release_without_privacy
from dperm.objective import certified_minimum
from dperm.objective.bounded_training import (
    GradientDescent,
    Minimisation,
    PublicConstants,
    released_sensitivity,
)
from reference import numpy_kernels
from reference.exact import RELATIONS
from reference.losses import EXAMPLES


def random_objective(seed=0, n=300, d=4, loss="logistic", dtype=np.float64, **keywords):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return Objective(loss, X, y, **{"row_norm": 1.5, **keywords})


def exact_gradient(objective, w, loss=None, clip=math.inf):
    """Gradient of the mean objective in long double, that of every record clipped."""
    rows = objective._rows
    total = numpy_kernels.clipped_gradient_sum(
        loss or objective.loss.name,
        rows.x,
        rows.y,
        w,
        clip,
        intercept=objective.fit_intercept,
        row_norm=objective.row_norm,
    )
    return total / objective.n_public + objective.penalty_gradient(w)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", ["logistic", "huber", "huberized_hinge", "squared_hinge", "smoothed_absolute", "smoothed_pinball"]
)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (40, 3), (5000, 40)])
@pytest.mark.parametrize("clip", [0.3, math.inf])
def test_rounding_error_of_a_gradient_is_within_its_bound(dtype, intercept, loss, n, d, clip):
    objective = random_objective(n=n, d=d, loss=EXAMPLES[loss], dtype=dtype, fit_intercept=intercept, l2=0.3)
    constants = PublicConstants.of(objective, radius=100.0, clip=clip)
    for size in (0.0, 1e-3, 1.0, 10.0):
        w = np.random.default_rng(1).normal(size=objective.dimension)
        w *= size / np.linalg.norm(w)
        exact = exact_gradient(objective, w, loss, clip)
        error = np.linalg.norm((objective.gradient(w, clip) - exact).astype(float))
        assert error <= constants.gradient_error(size)
    assert constants.gradient_error(30.0) < 1e-9


def linear_losses(signs, l2=0.0, **keywords):
    """Equal rows and targets out of reach: every loss is linear, with slope -1 or +1."""
    return Objective(Huber(1.0), np.ones((len(signs), 1)), 1e6 * np.asarray(signs), l2=l2, **keywords)


def linear_neighbours(relation, n, l2):
    if relation == "add_or_remove":
        return linear_losses(np.ones(n), l2), linear_losses(np.ones(n - 1), l2, n_public=n)
    return linear_losses(np.ones(n), l2), linear_losses([*np.ones(n - 1), -1.0], l2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("l2", [0.0, 0.7])
@pytest.mark.parametrize("clip", [0.25, math.inf])
def test_linear_losses_attain_the_sensitivity_of_gradient_descent(relation, l2, clip):
    one, other = linear_neighbours(relation, 50, l2)
    training = GradientDescent(steps=40, step_size=0.3, clip=clip)
    moved = np.linalg.norm(training.run(one) - training.run(other))
    bound = training.sensitivity(one, relation)
    assert 0.999999 * bound < moved <= bound


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("l2", [0.0, 0.2])
@pytest.mark.parametrize(("steps", "size"), [(1, 3.0), (5, 3.0), (40, 0.5)])
def test_no_logistic_neighbour_found_exceeds_the_sensitivity(relation, l2, steps, size):
    """Random starts and hill climbing over all records and the changed one."""
    rng = np.random.default_rng(steps)
    n, training, worst = 6, GradientDescent(steps, size), 0.0

    def moved(angles):
        rows = np.column_stack([np.cos(angles), np.sin(angles)])
        y = np.ones(n)
        one = Objective("logistic", rows[:n], y, l2=l2, n_threads=1)
        changed = np.vstack([rows[: n - 1], rows[n:]])
        if relation == "add_or_remove":
            changed, y = rows[: n - 1], y[1:]
        other = Objective("logistic", changed, y, l2=l2, n_public=n, n_threads=1)
        return np.linalg.norm(training.run(one) - training.run(other))

    bound = training.sensitivity(random_objective(n=n, d=2, l2=l2, row_norm=1.0), relation)
    for _ in range(8):
        angles = rng.uniform(0, 2 * math.pi, n + 1)
        best = moved(angles)
        for spread in np.geomspace(1.0, 0.01, 60):
            candidate = angles + spread * rng.normal(size=n + 1)
            value = moved(candidate)
            if value > best:
                angles, best = candidate, value
        assert best <= bound
        worst = max(worst, best)
    # A single step attains the bound; later steps contract the distance.
    assert worst > (0.9999 if steps == 1 else 0.5) * bound


def clipped_neighbours(rng, loss, relation, l2):
    """A random data set and a neighbour, whose rows have all lengths up to the bound."""
    n, d = 8, 2
    X = rng.normal(size=(n + 1, d))
    X *= (rng.random((n + 1, 1)) ** 2) * 1.5 / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.sign(rng.normal(size=n + 1)) * (1.0 if loss.classification else rng.choice([0.1, 3.0], n + 1))
    keywords = {"row_norm": 1.5, "l2": l2, "n_public": n, "n_threads": 1}
    kept = slice(n - 1) if relation == "add_or_remove" else [*range(n - 1), n]
    return Objective(loss, X[:n], y[:n], **keywords), Objective(loss, X[kept], y[kept], **keywords)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), SquaredError(), Huber(1.0)], ids=str)
def test_no_neighbour_found_exceeds_the_sensitivity_of_clipped_training(relation, loss):
    """Clipped losses, most of which have no Lipschitz constant of their own."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(150):
        one, other = clipped_neighbours(rng, loss, relation, l2=0.1)
        clip = float(rng.choice([0.05, 0.3, 1.0]))
        training = GradientDescent(int(rng.integers(1, 30)), 1.9 / (0.1 + loss.smoothness(1.5)), clip=clip)
        moved = np.linalg.norm(training.run(one) - training.run(other))
        worst = max(worst, moved / training.sensitivity(one, relation))
    assert 0.3 < worst <= 1.0


def test_step_sizes_that_break_the_bound_are_refused():
    objective = linear_losses(np.ones(50), l2=1.0)
    with pytest.raises(ValueError, match="eta must be at most"):
        GradientDescent(steps=100, step_size=2.1).sensitivity(objective, "replace_one")


def test_unpenalised_intercepts_do_not_contract():
    keywords = {"l2": 0.5, "fit_intercept": True}
    with_ridge, without = (
        GradientDescent(200, 0.5).sensitivity(
            random_objective(penalize_intercept=penalize, **keywords), "replace_one"
        )
        for penalize in (True, False)
    )
    assert without > 10 * with_ridge


def test_losses_without_a_lipschitz_bound_need_a_clip_or_a_radius():
    objective = random_objective(loss="squared_hinge")
    with pytest.raises(ValueError, match="clip or radius"):
        GradientDescent(5, 0.1).sensitivity(objective, "replace_one")
    assert (
        GradientDescent(5, 0.1, clip=0.5).sensitivity(objective, "replace_one")
        < 0.5 * 5 * 0.1 * 2 / 300 * 1.01
    )
    training = GradientDescent(50, 0.5, radius=2.0)
    assert np.linalg.norm(training.run(objective)) <= 2.0 * (1 + 1e-12)
    assert training.sensitivity(objective, "replace_one") <= 4.0 * (1 + 1e-9)


def test_more_records_than_n_public_are_refused():
    with pytest.raises(DataError, match="n_public"):
        GradientDescent(3, 0.1).train(random_objective(n=20, n_public=19, l2=0.1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("l2", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("loss", ["logistic", Huber(EXAMPLES["huber"].threshold, 1.0)], ids=str)
@pytest.mark.parametrize("clip", [0.4, math.inf])
def test_the_certificate_holds_in_long_double(dtype, l2, loss, clip):
    objective = random_objective(loss=loss, l2=l2, dtype=dtype, fit_intercept=True, penalize_intercept=True)
    training = Minimisation.with_tolerance(objective, 0.0, clip=clip)
    w = training._minimise(objective, np.zeros(objective.dimension))
    assert np.linalg.norm(exact_gradient(objective, w, clip=clip).astype(float)) <= training.tolerance
    assert training.tolerance < 1e-8


@pytest.mark.parametrize("clip", [0.4, math.inf])
def test_gradient_descent_replaces_a_failing_quasi_newton_method(monkeypatch, clip):
    """It reaches the same certificate within its number of steps."""
    objective = random_objective(l2=0.01)
    training = Minimisation.with_tolerance(objective, 0.0, clip=clip)
    expected = training._minimise(objective, np.zeros(4))
    monkeypatch.setattr(certified_minimum, "quasi_newton", lambda *args: None)
    w = training._minimise(objective, np.zeros(4))
    assert np.linalg.norm(exact_gradient(objective, w, clip=clip).astype(float)) <= training.tolerance
    np.testing.assert_allclose(w, expected, atol=2 * training.tolerance / 0.01)


def test_minimisation_with_a_linear_term():
    objective, linear = random_objective(l2=0.1), np.array([0.3, 0.0, -1.0, 0.2])
    training = Minimisation.with_tolerance(objective, 0.0, extra_l2=0.4, linear_bound=2.0)
    w = training._minimise(objective, linear)
    residual = exact_gradient(objective, w) + 0.4 * w + linear
    assert np.linalg.norm(residual.astype(float)) <= training.tolerance


def test_a_ridge_term_lost_in_rounding_is_refused():
    with pytest.raises(ValueError, match="too small"):
        Minimisation.with_tolerance(random_objective(l2=1e-30), 1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_stated_sensitivity_includes_the_rounding_of_the_result(relation):
    objective = random_objective(l2=0.1)
    training = GradientDescent(9, 0.5)
    trained = training.train(objective)
    assert trained.sensitivity(relation) == released_sensitivity(training, objective, relation)
    exact = training.sensitivity(objective, relation)
    assert exact < trained.sensitivity(relation) < 1.002 * exact
    assert np.linalg.norm(release_without_privacy(trained)) > 0.0


def test_threads_do_not_change_the_result():
    results = [
        GradientDescent(5, 0.5).run(random_objective(n=40_000, d=10, n_threads=threads)) for threads in (1, 2)
    ]
    np.testing.assert_array_equal(*results)
