"""Support vector classification: optima, losses, and private fits of real data."""

import math

import numpy as np
import pytest
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from algorithms.problems import separable
from dperm import LinearSVC
from dperm.losses import Hinge, SoftMargin, huberized_hinge
from reference.real_data import load_or_skip

X, signs = separable(600, 5)
y = np.where(np.random.default_rng(1).random(600) < 0.1, -signs, signs)


def nonprivate(**settings):
    return LinearSVC(**{"epsilon": math.inf, "row_norm": 10.0, "n_threads": 1, **settings})


def test_hinge_optimum_is_that_of_a_kernel_machine():
    peer = SVC(kernel="linear", C=1 / (0.01 * len(X)), tol=1e-10).fit(X, y)
    ours = nonprivate(loss="hinge", l2=0.01).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)

    # the intercept is not unique where the hinge is flat in it: the objectives agree
    def objective(coef, intercept):
        return np.mean(np.maximum(0, 1 - y * (X @ coef[0] + intercept[0]))) + 0.005 * (coef**2).sum()

    assert objective(ours.coef_, ours.intercept_) <= objective(peer.coef_, peer.intercept_) + 1e-7


def test_the_optimum_is_sklearns():
    peer = SklearnLinearSVC(C=1 / (2 * 0.01 * len(X)), fit_intercept=False, tol=1e-10, max_iter=100_000)
    ours = nonprivate(l2=0.01, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.fit(X, y).coef_, atol=1e-6)


def test_soft_margin_lies_between_its_ends():
    """Exponents near 1 and 2 give the hinge's and the (doubled) squared hinge's weights."""
    near_one = nonprivate(loss=SoftMargin(1.001), l2=0.01).fit(X, y)
    two = nonprivate(loss=SoftMargin(2.0), l2=0.02).fit(X, y)
    hinge, squared = (nonprivate(loss=loss, l2=0.01).fit(X, y) for loss in ("hinge", "squared_hinge"))
    np.testing.assert_allclose(near_one.coef_, hinge.coef_, atol=0.05)
    np.testing.assert_allclose(two.coef_, squared.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "soft_margin", huberized_hinge(0.5)], ids=str)
def test_private_fit_of_adult_beats_the_majority(loss):
    data = load_or_skip("adult")
    X, y = data.X, data.y
    model = LinearSVC(
        epsilon=0.5, delta=1e-6, loss=loss, row_norm=3.33, classes=[-1, 1], random_state=0, n_threads=2,
        solver_options={"steps": 60},
    ).fit(X, y)  # fmt: skip
    assert model.score(X, y) > max(np.mean(y == 1), np.mean(y == -1)) + 0.05
    assert model.privacy_.private
    assert model.privacy_.epsilon == 0.5


def test_rows_are_scaled_in_prediction_as_in_training():
    model = nonprivate(row_norm=1.0).fit(X, y)
    far = model.decision_function(1e6 * X)
    assert np.all(np.abs(far) <= np.linalg.norm(np.append(model.coef_, model.intercept_)) * (1 + 1e-9))


def test_a_loss_object_is_taken_as_it_is():
    one, other = (nonprivate(loss=loss, l2=0.01).fit(X, y) for loss in ("hinge", Hinge()))
    np.testing.assert_array_equal(one.coef_, other.coef_)
