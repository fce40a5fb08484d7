"""Logistic regression: labels, optima, the ledger, and options."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from algorithms.problems import separable
from dperm import LogisticRegression
from dperm.accounting import Ledger
from dperm.errors import BudgetExceededError, DataError, PrivacyWarning
from estimators.conftest import no_warnings

X, signs = separable(2000, 5)
y = np.where(signs > 0, "yes", "no")


def private(**kwargs):
    return LogisticRegression(**{"epsilon": 1.0, "classes": ["no", "yes"], "row_norm": 1.5, **kwargs})


@pytest.mark.parametrize(
    "labels", [y, np.array(["a", "b", "c"])[np.arange(len(X)) % 3]], ids=["two", "three"]
)
def test_labels_read_from_the_data_are_announced(labels):
    with pytest.warns(PrivacyWarning, match="labels were read from the data"):
        LogisticRegression().fit(X, labels)
    with no_warnings():
        private(classes=np.unique(labels)).fit(X, labels)
        LogisticRegression(solver="nonprivate").fit(X, labels)


def test_the_order_of_classes_does_not_decide_the_sign():
    forward = private(random_state=0).fit(X, y)
    backward = private(random_state=0, classes=["yes", "no"]).fit(X, y)
    assert list(forward.classes_) == list(backward.classes_) == ["no", "yes"]
    assert forward.score(X, y) > 0.9
    np.testing.assert_array_equal(forward.coef_, backward.coef_)


def test_a_public_class_may_be_absent():
    assert list(private().fit(X[y == "yes"], y[y == "yes"]).classes_) == ["no", "yes"]


def test_rows_are_scaled_in_prediction_as_in_training():
    model = private(random_state=0).fit(X, y)
    far = 1000.0 * X[:10]
    assert np.all(
        np.abs(model.decision_function(far)) <= 1.5 * np.linalg.norm(np.append(model.coef_, model.intercept_))
    )
    raw = X @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), raw)  # no row is longer than 1.5
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_nonprivate_agrees_with_sklearn():
    ours = LogisticRegression(solver="nonprivate", l2=1e-3, row_norm=2.0).fit(X, y)
    peer = SklearnLogisticRegression(C=1 / (1e-3 * len(X)), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-6)
    assert not ours.privacy_.private


def test_infinite_epsilon_is_not_private_and_says_so():
    model = LogisticRegression(epsilon=math.inf).fit(X, y)
    assert not model.privacy_.private
    assert model.privacy_.to_dict()["epsilon"] == "inf"


class TestLedger:
    @pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
    def test_every_fit_of_a_grid_search_is_charged(self):
        ledger = Ledger(10.0, 1e-5)
        search = GridSearchCV(private(epsilon=0.1, ledger=ledger), {"l2": [0.0, 0.01, 0.1]}, cv=3, refit=True)
        search.fit(X, y)
        assert len(ledger.history()) == 3 * 3 + 1
        one = Ledger(10.0, 1e-5)
        one.charge(epsilon=0.1, delta=1e-6)
        assert ledger.charged.units == 10 * one.charged.units
        assert search.best_estimator_.ledger is ledger

    def test_clone_and_pipeline_share_the_ledger(self):
        ledger = Ledger(1.0, 1e-6)
        model = private(ledger=ledger)
        assert clone(model).ledger is ledger
        make_pipeline(FunctionTransformer(), clone(model)).fit(X, y)
        assert ledger.remaining == 0.0
        with pytest.raises(BudgetExceededError, match="left 0"):
            model.fit(X, y)

    @pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
    def test_cross_validation_stops_when_the_budget_is_gone(self):
        ledger = Ledger(1.0, 1e-6)
        with pytest.raises(BudgetExceededError):
            cross_val_score(private(epsilon=0.6, ledger=ledger), X, y, error_score="raise")
        assert ledger.spent <= 1.0

    @pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
    def test_threads_share_it_and_processes_are_refused(self):
        ledger = Ledger(10.0, 1e-5)
        cross_val_score(private(epsilon=0.1, ledger=ledger), X, y, cv=4, n_jobs=1)
        assert len(ledger.history()) == 4
        with pytest.raises(TypeError, match="which other processes cannot charge"):
            cross_val_score(private(epsilon=0.1, ledger=ledger), X, y, cv=4, n_jobs=2)
        assert len(ledger.history()) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_records_are_named_before_anything_is_spent(value, uncharged):
    broken = X.copy()
    broken[7, 3] = value
    with pytest.raises(DataError, match="row 7, column 3"):
        private(ledger=uncharged).fit(broken, y)


def test_non_finite_records_may_count_for_nothing():
    broken, labels = np.vstack([X, np.full((1, 5), math.nan)]), np.append(y, "yes")
    with no_warnings():
        model = private(non_finite="zero", random_state=0, solver_options={"steps": 50}).fit(broken, labels)
    assert np.all(np.isfinite(model.coef_))
    assert model.privacy_.to_dict()["non_finite"] == "zero"


def test_options_reach_the_solver():
    seen = []
    model = private(solver_options={"steps": 17, "callback": seen.append}).fit(X, y)
    assert model.n_iter_ == len(seen) == 17


def test_verbose_prints_progress(capsys):
    private(verbose=1, solver_options={"steps": 3}).fit(X, y)
    assert "step 3 of 3" in capsys.readouterr().err


def test_float32_is_read_in_place():
    with no_warnings():
        model = private(random_state=0).fit(X.astype(np.float32), y)
    assert model.score(X, y) > 0.9
