"""Algorithms refuse objectives that their theorems do not cover."""

import numpy as np
import pytest

from dperm import Objective
from dperm.algorithms.requirements import Needs, needs
from dperm.losses import Huber

X, LABELS = np.eye(3), np.array([1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("properties", "objective", "reason"),
    [
        ({"smooth": True}, Objective("hinge", X, LABELS), "kink"),
        ({"smooth": True}, Objective("soft_margin", X, LABELS), "smooth loss, and soft_margin is not"),
        ({"second_derivative": True}, Objective("huberized_hinge", X, LABELS), "not there for huberized"),
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
def test_what_is_missing_is_named(properties, objective, reason):
    assert reason in Needs(**properties).refusal(objective)

    @needs(**properties)
    def some_descent(objective, epsilon):
        raise AssertionError("must not run")

    with pytest.raises(ValueError, match=f"^some_descent .*{reason}"):
        some_descent(objective, 1.0)


def test_what_is_there_is_let_through():
    required = {
        "convex": True,
        "smooth": True,
        "second_derivative": True,
        "lipschitz": True,
        "strongly_convex": True,
    }

    @needs(**required)
    def some_descent(objective, epsilon, *, steps):
        """Descend."""
        return epsilon, steps

    objective = Objective(Huber(), X, LABELS, l2=0.1, fit_intercept=True, penalize_intercept=True)
    assert some_descent(objective, 1.0, steps=3) == (1.0, 3)
    assert some_descent.needs == Needs(**required)
    assert some_descent.__doc__ == "Descend."
