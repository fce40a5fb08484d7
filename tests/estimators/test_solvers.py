"""The registry of solvers, the default, and refusals that charge nothing."""

import math

import numpy as np
import pytest
from sklearn.svm import LinearSVC as SklearnLinearSVC

from algorithms.problems import separable
from dperm import HuberRegressor, LinearSVC, LogisticRegression, Objective, QuantileRegressor, algorithms
from dperm.algorithms import nonprivate
from dperm.algorithms.requirements import needs
from dperm.estimators import solvers
from dperm.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Sigmoid,
    SoftMargin,
    Softmax,
    SquaredError,
    SquaredHinge,
    huberized_hinge,
)

X, y = separable(200, 3)


def test_every_algorithm_that_declares_its_needs_is_a_solver():
    assert {"noisy_gd", "dp_agd", "nonprivate", "majority"} <= set(solvers.SOLVERS)
    functions = {name for name in algorithms.__all__ if name[0].islower()}
    for name in functions:
        assert name in solvers.SOLVERS, f"{name} lacks @needs(...)"


@pytest.mark.parametrize(
    ("loss", "public", "name"),
    [
        (Logistic(), {}, "whitened_gd"),
        (Logistic(), {"epsilon": math.inf}, "nonprivate"),
        (Logistic(), {"dimension": 50_000}, "whitened_gd"),
        (Softmax(3), {}, "whitened_gd"),
        (Absolute(), {}, "whitened_gd"),
        (Logistic(), {"delta": 0.0, "epsilon": 1.0, "n": 10_000}, "objective_perturbation"),
        (Logistic(), {"delta": 0.0}, "output_perturbation_gd"),
        (Huber(), {"delta": 0.0}, "output_perturbation_gd"),
        (Hinge(), {"delta": 0.0}, "privgene"),
        (Absolute(), {"delta": 0.0}, "privgene"),
        (SquaredHinge(), {"delta": 0.0}, "output_perturbation_gd"),
        (SoftMargin(), {"delta": 0.0}, "dp_sgd_output"),
        (Sigmoid(), {"delta": 0.0}, "privgene"),
    ],
)
def test_the_default_solver(loss, public, name):
    numbers = {"n": 1000, "dimension": 10, "epsilon": 0.1, "delta": 1e-6, "neighbors": "replace_one"}
    assert solvers.choose_solver(loss=loss, **(numbers | public)) == name


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(classes=[-1, 1]),
        LinearSVC(classes=[-1, 1]),
        LinearSVC(loss="hinge", classes=[-1, 1]),
        LinearSVC(loss="soft_margin", classes=[-1, 1]),
        LinearSVC(loss=huberized_hinge(), classes=[-1, 1]),
        HuberRegressor(target_bound=1.0),
        QuantileRegressor(target_bound=1.0),
    ],
)
def test_pure_guarantees(model):
    fit = model.set_params(epsilon=1.0, delta=0.0, random_state=0).fit(X, y)
    assert (fit.privacy_.epsilon, fit.privacy_.delta) == (1.0, 0.0)


def test_softmax_has_no_pure_guarantee(uncharged):
    model = LogisticRegression(classes=[-1, 0, 1], delta=0.0, ledger=uncharged)
    with pytest.raises(ValueError, match=r"no solver has a pure guarantee .* softmax .* pass delta > 0"):
        model.fit(X, y)


def test_a_pure_solver_must_have_what_it_needs(monkeypatch):
    """privgene makes rows dense; where that cannot be, gradients are clipped."""
    monkeypatch.setattr(Objective, "reads_whole_rows", property(lambda self: False))
    objective = Objective("hinge", X, y)
    public = {"n": 200, "dimension": 3, "epsilon": 1.0, "delta": 0.0, "neighbors": "replace_one"}
    chosen = solvers.choose_solver(loss=objective.loss, objective=objective, **public)
    assert chosen == "dp_sgd_output"
    nonconvex = Objective("sigmoid", X, y)
    with pytest.raises(
        ValueError, match=r"no solver with a pure guarantee .*privgene needs rows made dense.* pass delta > 0"
    ):
        solvers.choose_solver(loss=nonconvex.loss, objective=nonconvex, **public)


@pytest.mark.parametrize(
    "options",
    [
        {"ledger": None},
        {"neighbors": "replace_one"},
        {"random_state": 0},
        {"epsilon": 9.0},
        {"delta": 0.5},
        {"calibration": "paper"},
    ],
)
@pytest.mark.parametrize("solver", ["auto", "noisy_gd", "dp_sgd"])
def test_options_do_not_override_the_arguments_of_the_estimator(options, solver, uncharged):
    (name,) = options
    model = LogisticRegression(classes=[-1, 1], solver=solver, ledger=uncharged, solver_options=options)
    with pytest.raises(TypeError, match=f"the estimator's own arguments: pass {name}="):
        model.fit(X, y)


def test_what_the_default_solver_has_not_published():
    model = LogisticRegression(classes=[-1, 1], calibration="paper")
    with pytest.raises(ValueError, match=r"'auto' chose 'whitened_gd'.* 'noisy_gd'"):
        model.fit(X, y)
    for name in solvers.PUBLISHED:
        loss = SquaredError(1.0) if name == "sufficient_statistics" else "logistic"
        objective = Objective(loss, X, y, l2=0.1)
        with pytest.raises(ValueError, match="'tight' or 'paper'"):
            solvers.SOLVERS[name](objective, 1.0, 1e-6, calibration="published")


@pytest.fixture
def picky(monkeypatch):
    """A solver for smooth losses only, which must not be run."""

    @needs(smooth=True)
    def picky(objective, epsilon, delta, *, neighbors, ledger, random_state):
        raise AssertionError("was run")

    monkeypatch.setitem(solvers.SOLVERS, "picky", picky)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            LinearSVC(solver="picky", loss="hinge"),
            "solver='picky' needs a smooth loss, and hinge has a kink: pass",
        ),
        (LinearSVC(solver="picky", loss="soft_margin"), "needs a smooth loss, and soft_margin is not$"),
        (LogisticRegression(solver="majority", fit_intercept=False), "solver='majority' needs an intercept"),
        (
            HuberRegressor(solver="majority", target_bound=1.0),
            "needs a classification loss, and huber is not",
        ),
        (LogisticRegression(solver="majority", calibration="paper"), "has one calibration only"),
    ],
)
def test_refusals_cost_nothing(picky, model, message, uncharged):
    model.set_params(ledger=uncharged)
    if hasattr(model, "classes"):
        model.set_params(classes=[-1, 1])
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_majority_as_a_solver_predicts_the_more_frequent_label():
    mostly = np.where(np.arange(len(X)) % 10 == 0, -1.0, 1.0)
    model = LogisticRegression(solver="majority", classes=[-1, 1], random_state=0).fit(X, mostly)
    assert np.all(model.predict(X) == 1)


def test_the_ridge_term_may_cover_the_intercept(monkeypatch):
    """As algorithms with a strongly convex objective want it; scikit-learn's liblinear does the same."""
    flipped = np.where(np.arange(len(y)) % 7 == 0, -y, y)
    settings = {"epsilon": math.inf, "row_norm": 3.0, "l2": 0.1, "loss": "squared_hinge", "n_threads": 1}
    ours = LinearSVC(penalize_intercept=True, **settings).fit(X, flipped)
    peer = SklearnLinearSVC(C=1 / (2 * 0.1 * len(X)), tol=1e-10, max_iter=100_000).fit(X, flipped)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-6)

    @needs(strongly_convex=True)
    def strong(objective, epsilon, delta):
        return nonprivate(objective)

    monkeypatch.setitem(solvers.SOLVERS, "strong", strong)
    with pytest.raises(ValueError, match="pass penalize_intercept=True"):
        LinearSVC(solver="strong", classes=[-1, 1], l2=0.1).fit(X, y)
    LinearSVC(solver="strong", classes=[-1, 1], l2=0.1, penalize_intercept=True).fit(X, y)
