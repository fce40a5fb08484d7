"""The non-private optimum and the majority."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import HuberRegressor
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

from algorithms.problems import objective, separable
from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import majority, nonprivate
from dperm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Pinball, Power, Sigmoid


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_nonprivate_is_sklearns_optimum(fit_intercept, l2):
    X, y = separable()
    obj = Objective("logistic", X, y, l2=l2, row_norm=2.0, fit_intercept=fit_intercept)
    result = nonprivate(obj)
    peer = SklearnLogisticRegression(
        C=1 / (l2 * len(X)), fit_intercept=fit_intercept, tol=1e-12, max_iter=10_000
    ).fit(X, y)
    np.testing.assert_allclose(result.coef[: X.shape[1]], peer.coef_[0], atol=1e-6)
    if fit_intercept:
        np.testing.assert_allclose(result.coef[-1], peer.intercept_[0], atol=1e-6)
    assert not result.privacy.private
    assert result.privacy.epsilon == math.inf


def test_nonprivate_huber_has_zero_gradient_and_beats_sklearn():
    X, _ = separable()
    y = X @ np.arange(5.0) + np.random.default_rng(1).standard_t(2, size=len(X))
    obj = Objective(Huber(1.0), X, y, l2=1e-3, row_norm=2.0, fit_intercept=True)
    result = nonprivate(obj)
    assert np.abs(obj.gradient(result.coef)).max() < 1e-7
    peer = HuberRegressor(epsilon=1.35).fit(X, y)
    assert obj.value(result.coef) <= obj.value(np.append(peer.coef_, peer.intercept_))


def heavy_tailed(n=400):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4)) / 2
    return X, X @ [1.0, -2.0, 0.5, 0.0] + rng.standard_t(2, size=n)


@pytest.mark.parametrize(
    "loss", [Absolute(), Pinball(0.8), EpsilonInsensitive(0.3), Power(1.2), Huber(0.5), Hinge()], ids=str
)
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_optimality_certificate_survives_a_search_for_better_weights(loss, l2):
    X, y = heavy_tailed()
    y = np.where(y > 0, 1.0, -1.0) if loss.classification else y
    obj = Objective(loss, X, y, l2=l2, row_norm=9.0, fit_intercept=True, n_threads=1)
    result = nonprivate(obj)
    (certificate,) = result.history
    at_optimum = obj.value(result.coef)
    assert certificate["bias"] <= 1e-7
    assert certificate["gradient_norm"] < 1e-4
    rng = np.random.default_rng(0)
    for distance in np.geomspace(1e-9, 1, 200):
        direction = rng.normal(size=5)
        other = result.coef + distance * direction / np.linalg.norm(direction)
        slack = certificate["bias"] + certificate["gradient_norm"] * distance
        assert obj.value(other) >= at_optimum - slack - 1e-14
    polished = minimize(obj.value, result.coef, method="Nelder-Mead", options={"maxfev": 2000})
    distance = np.linalg.norm(polished.x - result.coef)
    assert polished.fun >= at_optimum - certificate["bias"] - certificate["gradient_norm"] * distance


def test_least_absolute_deviations_recover_exact_weights():
    """Four fifths of the targets have no noise."""
    X, _ = heavy_tailed()
    w = np.array([1.0, -2.0, 0.5, 3.0])
    y = X @ w
    y[::5] += 100.0
    result = nonprivate(Objective("absolute", X, y, row_norm=9.0, n_threads=1))
    np.testing.assert_allclose(result.coef, w, atol=1e-5)


def test_nonconvex_losses_end_in_a_reported_local_minimum():
    X, y = heavy_tailed()
    obj = Objective(Sigmoid(), X, np.sign(y), row_norm=9.0, l2=1e-3, n_threads=1)
    result = nonprivate(obj)
    assert "local minimum" in result.privacy.mechanism
    assert result.history == []
    assert np.abs(obj.gradient(result.coef)).max() < 1e-7
    rng = np.random.default_rng(0)
    nearby = [obj.value(result.coef + 1e-3 * rng.normal(size=4)) for _ in range(100)]
    assert min(nearby) > obj.value(result.coef)


def test_exact_majority_is_reported_as_not_private():
    result = majority(objective())
    assert not result.privacy.private
    _, y = separable()
    share = (1 + math.tanh(result.coef[-1] / 2)) / 2
    assert share == pytest.approx(np.mean(y == 1), abs=1e-9)
    np.testing.assert_array_equal(result.coef[:-1], 0.0)


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_private_majority_is_one_noisy_count(neighbors, sensitivity):
    obj = objective()
    ledger = Ledger(math.inf, 1e-6, neighbors=neighbors)
    _, y = separable()
    sums = [
        majority(obj, 0.5, 1e-6, neighbors=neighbors, ledger=ledger, random_state=seed).history[0][
            "label_sum"
        ]
        for seed in range(2000)
    ]
    privacy = majority(obj, 0.5, 1e-6, neighbors=neighbors).privacy
    assert privacy.sensitivity == sensitivity
    # 2000 draws: the variance has a standard error of 3.2 %; 5.5 of these
    assert abs(np.var(sums - y.sum()) / privacy.noise_scale**2 - 1) < 0.175
    assert len(ledger.history()) == 2000
