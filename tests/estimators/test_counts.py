"""Estimators fitted to distinct records with multiplicities."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from dperm import HuberRegressor, LinearSVC, LogisticRegression, QuantileRegressor
from dperm.data import aggregate
from dperm.errors import DataError

N, D = 3000, 4
CLASSIFIERS = {
    "logistic": LogisticRegression(classes=[-1.0, 1.0]),
    "multinomial": LogisticRegression(classes=[-1.0, 0.0, 1.0]),
    "hinge": LinearSVC(loss="hinge", classes=[-1.0, 1.0], l2=0.01),
}
REGRESSORS = {
    "Huber": HuberRegressor(target_bound=2.0),
    "quantile": QuantileRegressor(target_bound=2.0),
}
ESTIMATORS = {**CLASSIFIERS, **REGRESSORS}


def records(name):
    """Few distinct records, each many times."""
    rng = np.random.default_rng(1)
    X = rng.integers(-2, 3, (N, D)) / 4.0
    score = X @ rng.normal(size=D)
    if name == "multinomial":
        return X, np.clip(np.round(2.0 * score), -1.0, 1.0)
    return X, np.round(score) if name in REGRESSORS else np.where(score > 0.0, 1.0, -1.0)


def model(name, **settings):
    return ESTIMATORS[name].__class__(
        **{**ESTIMATORS[name].get_params(), "row_norm": 2.0, "random_state": 0, **settings}
    )


@pytest.mark.parametrize("solver", ["auto", "noisy_gd"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_merged_records_give_the_same_model(name, solver):
    X, y = records(name)
    distinct, targets, counts = aggregate(X, y)
    assert len(distinct) < N / 2
    whole = model(name, solver=solver).fit(X, y)
    merged = model(name, solver=solver).fit(distinct, targets, counts=counts)
    assert merged.privacy_.public["n"] == whole.privacy_.public["n"]
    np.testing.assert_array_equal(merged.coef_, whole.coef_)
    np.testing.assert_array_equal(merged.intercept_, whole.intercept_)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_counts_in_the_order_of_records_give_the_same_samples(name):
    """Every algorithm sees the records that repeating the rows gives."""
    X, y = records(name)
    X, y = X[:500], y[:500]
    counts = np.random.default_rng(2).integers(0, 9, 500)
    whole = model(name, solver="dp_sgd").fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    counted = model(name, solver="dp_sgd").fit(X, y, counts=counts)
    np.testing.assert_array_equal(counted.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones(N - 1, dtype=int), "one number per row of X"),
        (np.full(N, 0.5), "whole numbers from 0"),
        (np.full(N, -1), "whole numbers from 0"),
        (np.zeros(N, dtype=int), "at least 1"),
        (["a"] * N, "whole numbers"),
    ],
)
def test_wrong_counts_cost_nothing(counts, message, uncharged):
    with pytest.raises(DataError, match=message):
        model("logistic", ledger=uncharged).fit(*records("logistic"), counts=counts)


def test_the_third_argument_is_the_weight_as_in_scikit_learn():
    """As counts, a weight of 300 made one record count like 300: from a probability of .57 to 1.00."""
    X, y = records("logistic")
    weights = np.ones(N)
    weights[0] = 300.0
    fitted = model("logistic").fit(X, y, weights)
    np.testing.assert_array_equal(fitted.coef_, model("logistic").fit(X, y, sample_weight=weights).coef_)
    np.testing.assert_array_equal(fitted.coef_, model("logistic").fit(X, y, np.ones(N)).coef_)  # clipped to 1
    with pytest.raises(TypeError, match="positional"):
        model("logistic").fit(X, y, None, np.ones(N, dtype=int))


def test_the_statement_names_the_counts():
    X, y, counts = aggregate(*records("logistic"))
    fitted = model("logistic").fit(X, y, counts=counts)
    unit = "one record, of which each row of the training data stands for as many as its count"
    assert fitted.privacy_.unit == unit
    assert unit in str(fitted.privacy_).replace("\n", " ")
    assert "as its count" not in model("logistic").fit(*records("logistic")).privacy_.unit


@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
def test_cross_validation_takes_the_counts_of_each_fold():
    X, y = records("logistic")
    distinct, targets, counts = aggregate(X, y)
    scores = cross_val_score(
        model("logistic", epsilon=8.0), distinct, targets, params={"counts": counts}, cv=3
    )
    assert scores.min() > 0.7
