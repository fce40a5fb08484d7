"""Intervals and tables of the estimators: the solver's, in the order and with the names of the weights."""

import numpy as np
import pytest
from scipy.special import expit

from dperm import Categorical, HuberRegressor, LogisticRegression, Numeric, Objective, Schema
from dperm.algorithms import noisy_newton
from dperm.estimators.standard_errors import reference_levels

pd = pytest.importorskip("pandas")

SCHEMA = Schema(
    [
        Numeric("age", 0, 100),
        Categorical("job", ("clerk", "baker", "smith")),
        Categorical("town", ("A", "B"), unknown="zero"),
        Numeric("pay", 0, 9, bins=3),
    ]
)
N = 20_000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, N),
            "job": rng.choice(["clerk", "baker", "smith"], N, p=[0.5, 0.3, 0.2]),
            "town": rng.choice(["A", "B", "C"], N),
            "pay": rng.uniform(0, 9, N),
        }
    )
    score = 0.02 * table["age"] - 1.0 + 0.8 * (table["job"] == "baker") - 0.5 * (table["pay"] > 6)
    return table, np.where(rng.random(N) < expit(score), "yes", "no")


def logistic(**settings):
    own = {"schema": SCHEMA, "classes": ["no", "yes"], "random_state": 0}
    return LogisticRegression(2.0, solver="noisy_newton", **own, **settings)


def test_levels_are_differences_to_the_first_of_their_factor(frame):
    X, y = frame
    model = logistic().fit(X, y)
    intervals, names = model.conf_int(), [*SCHEMA.feature_names, "(intercept)"]
    assert intervals.shape == (len(names), 2)
    refused = {name for name, (low, _) in zip(names, intervals, strict=True) if np.isnan(low)}
    assert refused == {"job=clerk", "pay<3"}  # a town may be none of the two
    assert model.coef_.shape == (1, len(names) - 1)
    np.testing.assert_allclose(intervals.mean(axis=1)[0], model.coef_[0, 0])
    np.testing.assert_allclose(intervals.mean(axis=1)[-1], model.intercept_[0])
    meant = {"age": 2.0, "job=baker": 0.8, "job=smith": 0.0, "pay>=6": -0.5, "(intercept)": -1.0}
    wide = model.conf_int(1.0 - 1e-6)
    for name, weight in meant.items():
        low, high = wide[names.index(name)]
        assert low < weight < high, name
    lines = model.summary().splitlines()
    rows = [line.split()[0] for line in lines if line.split()[0] in names]
    assert rows == names
    assert sum("left out" in line for line in lines) == 3  # and the note
    assert "scaled to [0, 1]" in lines[-1]


def test_a_regressor_is_the_solver(frame):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (N, 2))
    y = X @ [1.0, -1.0] + 0.3 + 0.3 * rng.normal(size=N)
    options = {"covariance": "model", "leverage": 2.0}
    settings = {"solver": "noisy_newton", "row_norm": 1.8, "random_state": 5, "target_bound": 4.0}
    model = HuberRegressor(threshold=0.6, solver_options=options, **settings).fit(X, y)
    result = noisy_newton(
        Objective(model._loss(4.0), X, y, row_norm=1.8, fit_intercept=True),
        1.0,
        1e-6,
        random_state=5,
        **options,
    )
    np.testing.assert_array_equal(np.append(model.coef_, model.intercept_), result.coef)
    np.testing.assert_array_equal(model.conf_int(0.9), result.conf_int(0.9))
    assert model.summary() == result.summary()
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert "\na  " in HuberRegressor(threshold=0.6, **settings).fit(frame, y).summary()


def test_without_an_intercept_there_is_none(frame):
    X, y = frame
    model = logistic(fit_intercept=False).fit(X, y)
    assert model.conf_int().shape == (len(SCHEMA.feature_names), 2)
    assert np.isnan(model.conf_int()[:, 0]).sum() == 1  # the levels of the first factor are all there
    assert "(intercept)" not in model.summary()


def test_other_solvers_have_no_intervals(frame):
    X, y = frame
    model = logistic().fit(X, y)
    model.set_params(solver="noisy_gd").fit(X, y)
    for ask in (model.conf_int, model.summary):
        with pytest.raises(AttributeError, match="solver='noisy_newton'"):
            ask()
    assert model.inference_ is None


def test_given_levels_are_left_out_in_their_place(frame):
    X, y = frame
    model = logistic(solver_options={"omit": [2, 8], "effects": True}).fit(X, y)
    assert model.privacy_.public["omit"] == [2, 8]
    np.testing.assert_array_equal(np.flatnonzero(model.coef_[0] == 0.0), [2, 8])
    assert "average marginal effect" in model.summary()


def test_more_than_two_classes_are_refused():
    X, y = np.random.default_rng(0).uniform(size=(100, 2)), np.arange(100) % 3
    with pytest.raises(ValueError, match="logistic or huber loss only"):
        LogisticRegression(solver="noisy_newton", classes=[0, 1, 2]).fit(X, y)


@pytest.mark.parametrize(
    ("column", "reference"),
    [
        (Categorical("a", ("x", "y")), True),
        (Categorical("a", ("x", "y"), unknown="y", missing="x"), True),
        (Categorical("a", ("x", "y"), missing="zero"), False),
        (Numeric("a", 0, 1), False),
        (Numeric("a", 0, 1, missing="column"), False),
        (Numeric("a", 0, 1, bins=2, missing="column"), True),
        (Numeric("a", 0, 1, bins=2, missing="zero"), False),
    ],
)
def test_reference_levels_are_those_of_factors_that_always_have_one(column, reference):
    """Which the encoded records confirm: the rank falls short where there is one."""
    schema = Schema([Numeric("b", 0, 1), column])
    assert reference_levels(schema, True) == ([1] if reference else [])
    assert reference_levels(schema, False) == []
