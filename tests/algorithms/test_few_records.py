"""With few records and default settings, a private fit is not much worse than the weights 0."""

import numpy as np
import pytest

from algorithms.problems import rows_in_unit_ball
from dperm import Objective
from dperm.algorithms import dp_sgd_gradient, dp_sgd_output
from dperm.losses import Logistic, SquaredError

N, D, SEEDS = 300, 10, 4
by_name = pytest.mark.parametrize(
    "algorithm", [dp_sgd_gradient, dp_sgd_output], ids=lambda algorithm: algorithm.__name__
)


def problem(loss):
    rng = np.random.default_rng(0)
    X = rows_in_unit_ball(rng, N, D)
    scores = X @ rng.normal(size=D)
    if loss.classification:
        y = np.where(scores + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)
    else:
        y = np.clip(scores / np.abs(scores).max() + 0.1 * rng.normal(size=N), -1.0, 1.0)
    return X, y


def relative_loss(loss, algorithm, *budget, **settings):
    """Mean loss of seeded fits, relative to the loss of the weights 0."""
    X, y = problem(loss)
    obj = Objective(loss, X, y, row_norm=1.5, fit_intercept=True, n_threads=1)

    def mean_loss(coef):
        predictions = X @ coef[:-1] + coef[-1]
        if loss.classification:
            return np.logaddexp(0.0, -y * predictions).mean()
        return ((predictions - y) ** 2).mean() / 2.0

    coefs = [algorithm(obj, *budget, random_state=seed, **settings).coef for seed in range(SEEDS)]
    return np.mean([mean_loss(coef) for coef in coefs]) / mean_loss(np.zeros(D + 1))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@by_name
@pytest.mark.parametrize("loss", [SquaredError(), SquaredError(target_bound=1.0), Logistic()], ids=str)
def test_defaults_are_not_much_worse_than_no_fit(loss, algorithm, neighbors, epsilon):
    assert relative_loss(loss, algorithm, epsilon, 1e-6, neighbors=neighbors) < 1.3


@by_name
def test_with_more_budget_they_are_much_better(algorithm):
    assert relative_loss(SquaredError(target_bound=1.0), algorithm, 16.0, 1e-6) < 0.25
