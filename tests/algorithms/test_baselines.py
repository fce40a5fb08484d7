"""The non-private optimum and the majority."""

import math

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

from algorithms.problems import objective, separable
from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import majority, nonprivate
from dperm.losses import Huber


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


def test_nonprivate_huber_has_zero_gradient_and_beats_a_peer():
    X, _ = separable()
    y = X @ np.arange(5.0) + np.random.default_rng(1).standard_t(2, size=len(X))
    obj = Objective(Huber(1.0), X, y, l2=1e-3, row_norm=2.0, fit_intercept=True)
    result = nonprivate(obj)
    assert np.abs(obj.gradient(result.coef)).max() < 1e-7
    peer = HuberRegressor(epsilon=1.35).fit(X, y)
    assert obj.value(result.coef) <= obj.value(np.append(peer.coef_, peer.intercept_))


def test_exact_majority_is_marked():
    result = majority(objective())
    assert not result.privacy.private
    _, y = separable()
    share = (1 + math.tanh(result.coef[-1] / 2)) / 2
    assert share == pytest.approx(np.mean(y == 1), abs=1e-9)
    np.testing.assert_array_equal(result.coef[:-1], 0.0)


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("add_or_remove", 1.0), ("replace_one", 2.0)])
def test_private_majority_is_one_noisy_count(neighbors, sensitivity):
    obj = objective()
    ledger = Ledger(math.inf, 1e-6)
    _, y = separable()
    sums = [
        majority(obj, 0.5, 1e-6, neighbors=neighbors, ledger=ledger, random_state=seed).history[0][
            "label_sum"
        ]
        for seed in range(2000)
    ]
    privacy = majority(obj, 0.5, 1e-6, neighbors=neighbors).privacy
    assert privacy.sensitivity == sensitivity
    # 2000 draws: the variance is known to 3.2 %; 5.5 of these
    assert abs(np.var(sums - y.sum()) / privacy.noise_scale**2 - 1) < 0.175
    assert len(ledger.history()) == 2000


def test_majority_needs_an_intercept():
    with pytest.raises(ValueError, match="fit_intercept"):
        majority(objective(fit_intercept=False))
