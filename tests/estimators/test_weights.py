"""Sample weights and class weights of the estimators."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as ScikitLearn

from dperm import HuberRegressor, LinearSVC, LogisticRegression
from dperm.accounting import Ledger


def rare(n=20_000, share=0.03):
    """Records of two overlapping classes, few of them "rare"."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < share, "rare", "usual")
    return rng.normal(size=(n, 3)) / 3 + 0.4 * (y == "rare")[:, None], y


def recall(model, X, y):
    return np.mean(model.predict(X[y == "rare"]) == "rare")


@pytest.mark.parametrize("Estimator", [LogisticRegression, LinearSVC])
def test_weights_find_a_rare_class(Estimator):
    X, y = rare()
    common = {"classes": ["usual", "rare"], "row_norm": 2.5}
    found = {
        str(weights): recall(Estimator(1.0, 1e-6, class_weight=weights, **common).fit(X, y), X, y)
        for weights in (None, {"rare": 10.0}, "private")
    }
    assert found["None"] < 0.5 < min(found["{'rare': 10.0}"], found["private"])


def test_without_noise_weights_are_those_of_scikit_learn():
    X, y = rare(2000)
    weights = np.random.default_rng(1).random(2000)
    model = LogisticRegression(
        math.inf,
        classes=["usual", "rare"],
        row_norm=10.0,
        l2=0.01,
        class_weight={"rare": 5.0},
        weight_bound=1.0,
    ).fit(X, y, sample_weight=weights)
    other = ScikitLearn(C=1 / 20, class_weight={"rare": 5.0}, tol=1e-10)
    other.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    classes = {"class_weight": {"rare": 0.5, "b": 4.0}}
    y3 = np.where(X[:, 0] > 0.5, "b", y)
    three = LogisticRegression(math.inf, classes=["b", "usual", "rare"], row_norm=10.0, l2=0.01, **classes)
    three.fit(X, y3, sample_weight=weights)
    other = ScikitLearn(C=1 / 20, tol=1e-10, **classes).fit(X, y3, sample_weight=weights)
    expected = other.predict_proba(X)[:, [list(other.classes_).index(label) for label in three.classes_]]
    np.testing.assert_allclose(three.predict_proba(X), expected, atol=1e-2)


def test_the_statement_names_what_is_public():
    X, y = rare(500)
    ledger = Ledger(1.0, 1e-6)
    model = LogisticRegression(
        1.0, 1e-6, classes=["usual", "rare"], class_weight={"rare": 5.0}, weight_bound=2.0, ledger=ledger
    ).fit(X, y, sample_weight=np.ones(500))
    assert model.privacy_.public["weight_bound"] == 2.0
    assert model.privacy_.public["class_weight"] == {"usual": 1.0, "rare": 5.0}
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    ("given", "weights", "message"),
    [
        ({"class_weight": "balanced"}, None, "or 'private' for weights by their noisy frequencies"),
        ({"class_weight": {"other": 1.0}}, None, "not among the classes"),
        ({"class_weight": {"rare": -1.0}}, None, "must be positive"),
        ({"class_weight": [1.0]}, None, "class_weight must be a mapping"),
        ({"class_weight": "private", "solver": "objective_perturbation"}, None, "frequencies of the classes"),
        ({"weight_bound": "1"}, None, "weight_bound must be a number"),
        ({"weight_bound": 0.0}, None, "weight_bound must be positive"),
        ({"solver": "privgene"}, np.ones(50), "takes no weights"),
        ({"solver": "noisy_newton"}, np.ones(50), "takes no weights"),
        ({}, np.ones(49), "one number for each record"),
        ({}, np.array(["1"] * 50), "one real number for each record"),
    ],
)
def test_what_is_refused_costs_nothing(given, weights, message):
    X, y = rare(50)
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises((ValueError, TypeError), match=message):
        LogisticRegression(1.0, 1e-6, classes=["usual", "rare"], ledger=ledger, **given).fit(
            X, y, sample_weight=weights
        )
    assert ledger.history() == []


def test_a_regressor_forgets_what_weighs_nothing():
    rng = np.random.default_rng(0)
    X, outliers = rng.uniform(-1, 1, (4000, 2)), np.arange(4000) % 4 == 0
    y = np.where(outliers, 1.0, X @ [0.4, -0.3])
    model = HuberRegressor(4.0, 1e-6, row_norm=2.0, target_bound=1.0)
    model.fit(X, y, sample_weight=np.where(outliers, 0.0, 1.0))
    np.testing.assert_allclose(model.coef_, [0.4, -0.3], atol=0.1)
