"""The softmax loss and its objective: constants, arguments, and attacks on clipping."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.errors import DataError
from dperm.losses import Softmax, get_loss
from dperm.objective.counts import class_counts, label_sum
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import awkward_arrays, softmax_kernels
from reference.exact import (
    RELATIONS,
    assert_attained,
    assert_change_within,
    assert_scores_within,
    climb,
    clips,
    dtypes,
    neighbouring_rows,
    one_row,
    opened,
    share,
)
from reference.softmax_kernels import class_problem

numbers_of_classes = pytest.mark.parametrize("n_classes", [2, 3, 10])


# -- the loss ----------------------------------------------------------------------------------------


@numbers_of_classes
def test_derivative_is_the_slope_of_the_value(n_classes):
    rng = np.random.default_rng(n_classes)
    loss, h = Softmax(n_classes), 1e-6
    p, y = rng.normal(scale=3, size=(500, n_classes)), rng.integers(0, n_classes, 500)
    for k in range(n_classes):
        step = h * np.eye(n_classes)[k]
        slope = (loss.value(p + step, y) - loss.value(p - step, y)) / (2 * h)
        assert np.allclose(slope, loss.derivative(p, y)[:, k], atol=1e-8)


def test_two_classes_are_the_logistic_loss():
    logistic, loss = get_loss("logistic"), Softmax(2)
    p = np.linspace(-40, 40, 81)
    scores = np.column_stack([np.zeros(81), p])
    assert np.allclose(loss.value(scores, np.ones(81)), logistic.value(p, 1.0), rtol=1e-14)
    assert np.allclose(loss.derivative(scores, np.ones(81))[:, 1], logistic.derivative(p, 1.0), rtol=1e-12)


def test_values_at_zero():
    loss, zero = Softmax(4), np.zeros((1, 4))
    assert loss.value(zero, [2]) == pytest.approx(loss.value_at_zero)
    assert np.linalg.norm(3.0 * loss.derivative(zero, [2])) == pytest.approx(loss.slope_at_zero(3.0))


def random_problem(rng, n_classes, row_norm, scale):
    """A row on the norm bound, and weights of the given scale."""
    z = rng.normal(size=3)
    return z * row_norm / np.linalg.norm(z), rng.normal(size=(3, n_classes)) * scale


@numbers_of_classes
@pytest.mark.parametrize("row_norm", [0.5, 2.0])
def test_lipschitz_is_never_exceeded_and_attained(n_classes, row_norm):
    rng, loss = np.random.default_rng(0), Softmax(n_classes)
    longest = 0.0
    for scale in np.repeat(np.geomspace(0.1, 300, 12), 100):
        z, w = random_problem(rng, n_classes, row_norm, scale)
        residual = loss.derivative((z @ w)[None], [rng.integers(n_classes)])[0]
        longest = max(longest, float(np.linalg.norm(np.outer(z, residual))))
    assert 0.999 < longest / loss.lipschitz(row_norm) <= 1 + 1e-12


@numbers_of_classes
@pytest.mark.parametrize("row_norm", [0.5, 2.0])
def test_smoothness_is_never_exceeded_and_attained(n_classes, row_norm):
    rng, loss = np.random.default_rng(1), Softmax(n_classes)
    steepest = 0.0
    for scale in np.repeat(np.geomspace(0.1, 30, 10), 100):
        z, w = random_problem(rng, n_classes, row_norm, scale)
        w[:, :2] -= z[:, None] * ((z @ w[:, :2]) - 3 * scale) / row_norm**2  # two classes are equally likely
        along = np.outer(z, np.eye(n_classes)[0] - np.eye(n_classes)[1])
        if rng.random() < 0.5:
            along = rng.normal(size=w.shape)
        v = w + along * 1e-4 / np.linalg.norm(along)
        one, other = (loss.derivative((z @ at)[None], [0])[0] for at in (w, v))
        steepest = max(steepest, float(np.linalg.norm(np.outer(z, one - other)) / np.linalg.norm(v - w)))
    assert 0.999 < steepest / loss.smoothness(row_norm) <= 1 + 1e-6


def test_distance_of_two_gradients_is_attained():
    """Nearly opposite rows, both certain of the same wrong class: the bound 2 L is tight."""
    loss = Softmax(3)
    angle = 1e-3
    rows = np.array([[math.cos(angle), math.sin(angle)], [-math.cos(angle), math.sin(angle)]])
    w = np.array([[0, 0, 0], [0, 1e6, 0]])
    one, other = (np.outer(z, loss.derivative((z @ w)[None], [0])[0]) for z in rows)
    assert np.linalg.norm(one - other) > 0.999 * loss.gradient_distance(1.0)


@pytest.mark.parametrize("n_classes", [0, 1, 1001, 2.5, True, None, "3"])
def test_number_of_classes_out_of_range(n_classes):
    with pytest.raises(ValueError, match="n_classes must be an integer from 2 to 1000"):
        Softmax(n_classes)


# -- the objective -----------------------------------------------------------------------------------


def objective_of(x, y, n_classes, **keywords):
    return Objective("softmax", x, y, n_classes=n_classes, n_threads=1, **keywords)


def test_the_number_of_classes_is_never_read_from_the_data():
    x, y = np.ones((3, 2)), np.arange(3.0)
    with pytest.raises(ValueError, match="needs n_classes"):
        Objective("softmax", x, y)
    with pytest.raises(ValueError, match="n_classes is for loss='softmax' alone"):
        Objective("logistic", x, np.ones(3), n_classes=2)
    by_object, by_name = Objective(Softmax(5), x, y), objective_of(x, y, 5)
    assert by_object.shape == by_name.shape == (2, 5)
    assert objective_of(x, y, 5, fit_intercept=True).dimension == 15


@pytest.mark.parametrize("wrong", [-1.0, 3.0, 0.5])
def test_codes_out_of_range(wrong):
    x, y = np.ones((3, 2)), np.array([0.0, wrong, 2.0])
    with pytest.raises(DataError, match=r"class codes 0 .. 2 .* at row 1"):
        objective_of(x, y, 3)
    with pytest.raises(DataError, match="at row 1"):
        objective_of(x, y, 3, non_finite="zero")


@dtypes
def test_value_and_gradient(dtype):
    x = awkward_arrays.ordinary(300, 7, dtype)[0]
    y, w, _ = class_problem(x, 4)
    objective = objective_of(x, y, 4, l2=0.3, fit_intercept=True, row_norm=1.5)
    gradient, total = softmax_kernels.gradient_sum(x, y, w, intercept=True, row_norm=1.5)
    ridge = 0.3 * w * np.append(np.ones(7), 0)[:, None]
    tolerance = 2e-6 if dtype == np.float32 else 1e-13
    assert objective.value(w) == pytest.approx(float(total / 300 + 0.5 * (ridge * w).sum()), rel=tolerance)
    assert np.allclose(objective.gradient(w), (gradient / 300 + ridge).astype(float), atol=tolerance)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 2), (8,)])
def test_weights_of_another_shape(shape):
    objective = objective_of(np.ones((3, 3)), np.zeros(3), 2, fit_intercept=True)
    with pytest.raises(ValueError, match=r"shape \(4, 2\)"):
        clipped_gradient_sum(objective, np.zeros(shape), 1.0)


def test_class_counts():
    x, y = np.ones((6, 2)), np.array([0, 2, 2, 1, 2, np.nan])
    x[3] = np.inf
    counts = class_counts(objective_of(x, y, 4, non_finite="zero"))
    assert opened(counts).tolist() == [1, 0, 3, 0]
    assert counts.sensitivity("add_or_remove") == 1.0
    assert counts.sensitivity("replace_one") >= math.sqrt(2)
    with pytest.raises(TypeError, match="not class codes"):
        class_counts(Objective("logistic", np.ones((2, 1)), np.ones(2)))
    with pytest.raises(TypeError, match="not labels"):
        label_sum(objective_of(x[:3], y[:3], 4))


# -- attacks on the clip: all comparisons between integers or fractions ------------------------------


publics = st.sampled_from([1, 1000, 2**20, 2**30, 2**34])
entries = st.sampled_from([-1e3, -30.0, -1.0, 0.0, 0.5, 1.0, 30.0, 1e3])
widths = st.sampled_from([1, 2, 15, 17, 40])


@dtypes
@settings(max_examples=200)
@given(data=st.data(), clip=clips(-40, 3), n_public=publics, n_classes=st.sampled_from([2, 3, 7, 30]))
def test_one_record_stays_within_the_clip(dtype, data, clip, n_public, n_classes):
    x = data.draw(one_row(dtype, widths))
    intercept = data.draw(st.booleans())
    y = np.array([data.draw(st.integers(0, n_classes - 1))], dtype)
    keywords = {"n_public": n_public, "row_norm": 2.0 ** data.draw(st.integers(-20, 60))}
    objective = objective_of(x, y, n_classes, fit_intercept=intercept, non_finite="zero", **keywords)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    w = rng.normal(size=objective.shape) * data.draw(entries)
    share(clipped_gradient_sum(objective, w, clip), clip)
    scores = clipped_loss_sums(objective, w, rng.normal(size=w.shape), [0.0, 1.0, -1e9, 1e300], clip)
    assert_scores_within(scores, clip)


@dtypes
@numbers_of_classes
@pytest.mark.parametrize("dimension", [1, 3, 17])
def test_hill_climbing_stays_within_the_clip(dtype, n_classes, dimension):
    """Search over the row, the weights and the clip together for the longest gradient."""
    rng = np.random.default_rng([dimension, n_classes])

    def score(parameters):
        clip, row = float(abs(parameters[0]) + 0.01), parameters[None, 1 : dimension + 1].astype(dtype)
        w = 10.0 * parameters[dimension + 1 :].reshape(dimension, n_classes)
        objective = objective_of(row, np.zeros(1, dtype), n_classes, n_public=1, row_norm=100.0)
        return share(clipped_gradient_sum(objective, w, clip), clip)

    start = rng.normal(size=1 + dimension * (n_classes + 1))
    assert climb(score, start, rng, 200) > 1 - 1e-4


@dtypes
@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=60)
@given(data=st.data(), clip=clips(-40, 3))
def test_neighbours_stay_within_the_sensitivity(dtype, relation, data, clip):
    x, other_x, changed = data.draw(neighbouring_rows(dtype, relation, [1, 7, 16]))
    n_classes = data.draw(st.sampled_from([2, 6]))
    y, w, direction = class_problem(x, n_classes)
    other_y = changed(y, lambda _: data.draw(st.integers(0, n_classes - 1)))
    pair = [
        objective_of(*each, n_classes, n_public=64, row_norm=3.0, non_finite="zero")
        for each in [(x, y), (other_x, other_y)]
    ]
    w, direction, steps = 3 * w[:-1], direction[:-1], [0.0, 1.0, -5.0]
    assert_change_within(*(clipped_gradient_sum(each, w, clip) for each in pair), relation)
    assert_change_within(*(clipped_loss_sums(each, w, direction, steps, clip) for each in pair), relation)
    assert_change_within(*(class_counts(each) for each in pair), relation)


@dtypes
def test_the_sensitivity_is_attained(dtype):
    """With two classes, gradients for the two labels are opposite."""
    x = np.zeros((9, 4), dtype)
    x[5] = 50
    up, down = (
        objective_of(x, np.where(np.arange(9) == 5, label, 0).astype(dtype), 2, row_norm=100.0)
        for label in (0, 1)
    )
    gone = objective_of(np.delete(x, 5, axis=0), np.zeros(8, dtype), 2, row_norm=100.0, n_public=9)
    a, b, c = (clipped_gradient_sum(each, np.zeros((4, 2)), 0.7) for each in (up, down, gone))
    assert_attained(a, b, "replace_one", 1e-5)
    assert_attained(a, c, "add_or_remove", 1e-5)
