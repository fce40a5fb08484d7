"""Algorithms refuse objectives that their theorems do not cover."""

import warnings

import numpy as np
import pytest

from algorithms.every_algorithm import PRIVATE
from dperm import Objective, algorithms
from dperm.accounting import Ledger
from dperm.algorithms.requirements import Needs, needs
from dperm.errors import BudgetExceededError, SlowFitWarning
from dperm.losses import Huber, SquaredError

X, LABELS = np.eye(3), np.array([1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("properties", "objective", "reason"),
    [
        ({"smooth": True}, Objective("hinge", X, LABELS), "kink"),
        ({"smooth": True}, Objective("soft_margin", X, LABELS), "smooth loss, and soft_margin is not"),
        ({"convex": True}, Objective("sigmoid", X, LABELS), "convex loss, and sigmoid is not"),
        ({"labels": True}, Objective("absolute", X, LABELS), "classification loss, and absolute is not"),
        ({"intercept": True}, Objective("hinge", X, LABELS), "fit_intercept=True"),
        ({"lipschitz": True}, Objective("squared_hinge", X, LABELS), "without limit"),
        ({"strongly_convex": True}, Objective("logistic", X, LABELS), "l2 > 0"),
        (
            {"strongly_convex": True},
            Objective("logistic", X, LABELS, l2=0.1, fit_intercept=True),
            "penalize_intercept=True",
        ),
        ({"losses": ("huber",)}, Objective("logistic", X, LABELS), "huber loss only, got logistic"),
    ],
)
def test_errors_name_the_unmet_requirement(properties, objective, reason):
    assert reason in Needs(**properties).refusal(objective)

    @needs(**properties)
    def some_descent(objective, epsilon):
        raise AssertionError("must not run")

    with pytest.raises(ValueError, match=f"^some_descent .*{reason}"):
        some_descent(objective, 1.0)


@pytest.mark.parametrize(
    ("name", "loss", "reason"),
    [
        ("dp_sgd_gradient", "sigmoid", "convex"),
        ("dp_sgd_output", "sigmoid", "convex"),
        ("objective_perturbation", "hinge", "kink"),
        ("output_perturbation_gd", "hinge", "kink"),
        ("privgene", "squared_hinge", "without limit"),
        ("rrpsgd", "hinge", "smooth loss"),
        ("majority", "logistic", "fit_intercept"),
    ],
)
def test_unmet_requirements_are_refused_before_the_charge(name, loss, reason):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match=f"^{name} needs .*{reason}"):
        PRIVATE[name](Objective(loss, X, LABELS), 1.0, 1e-6, ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize(
    ("changes", "given", "reason"),
    [
        ({"loss": "squared_hinge"}, {}, "logistic or huber loss only"),
        ({"l2": 0.1}, {}, "l2 = 0"),
        ({"n_public": 40}, {}, "noise would leave few intervals"),
        ({"loss": "huber"}, {"effects": True}, "effects"),
        ({"fit_intercept": False}, {"omit": [0, 1]}, "omit must leave a column"),
    ],
)
def test_impossible_intervals_are_refused_before_the_charge(changes, given, reason):
    ledger = Ledger(1.0, 1e-6)
    settings = {"loss": "logistic", "row_norm": 2.0, "fit_intercept": True} | changes
    objective = Objective(X=np.ones((2000, 2)), y=np.ones(2000), **settings)
    with pytest.raises(ValueError, match=reason):
        PRIVATE["noisy_newton"](objective, 1.0, 1e-6, ledger=ledger, **given)
    assert not ledger.history()


def test_met_requirements_are_accepted():
    required = dict.fromkeys(("convex", "smooth", "lipschitz", "strongly_convex"), True)

    @needs(**required)
    def some_descent(objective, epsilon, *, steps):
        """Descend."""
        return epsilon, steps

    objective = Objective(Huber(), X, LABELS, l2=0.1, fit_intercept=True, penalize_intercept=True)
    assert some_descent(objective, 1.0, steps=3) == (1.0, 3)
    assert some_descent.needs == Needs(**required)
    assert some_descent.__doc__ == "Descend."


@pytest.mark.parametrize("name", ["noisy_newton", "sufficient_statistics"])
def test_large_square_matrices_are_warned_of_before_the_charge(name):
    loss = SquaredError(target_bound=1.0) if name == "sufficient_statistics" else "logistic"
    few, many = (Objective(loss, np.eye(3, d), LABELS, row_norm=2.0, n_public=10**7) for d in (3, 1002))
    empty = {"ledger": Ledger(0.01, 1e-6)}
    with pytest.warns(SlowFitWarning, match="1002 x 1002"), pytest.raises(BudgetExceededError):
        getattr(algorithms, name)(many, 1.0, 1e-6, **empty)
    with warnings.catch_warnings(action="error", category=SlowFitWarning), pytest.raises(BudgetExceededError):
        getattr(algorithms, name)(few, 1.0, 1e-6, **empty)
