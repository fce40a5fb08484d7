"""Constants to start from under a ridge term, against optima of the constants' own objectives."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from dperm import Objective
from dperm.algorithms.private_start import labels_under_ridge, targets_under_ridge
from dperm.losses import (
    Absolute,
    Huber,
    Logistic,
    Pinball,
    SquaredError,
)


def objective(loss, l2, penalize_intercept=True):
    y = [1.0, -1.0]
    return Objective(
        loss, np.eye(2), y, l2=l2, row_norm=2.0, fit_intercept=True, penalize_intercept=penalize_intercept
    )


@pytest.mark.parametrize("constant", [-3.0, 0.0, 5.0])
@pytest.mark.parametrize("l2", [1e-3, 0.1, 1.0, 10.0])
def test_the_ridge_divides_the_mean_of_squared_errors(constant, l2):
    found = targets_under_ridge(objective(SquaredError(target_bound=10.0), l2), constant, 2.0)
    assert found == pytest.approx(constant / (1.0 + l2), abs=abs(constant) / 1024)


@pytest.mark.parametrize("l2", [0.01, 0.1, 1.0])
@pytest.mark.parametrize(
    ("loss", "quantile"),
    [(Absolute(target_bound=10.0), 0.5), (Pinball(0.25, target_bound=10.0), 0.25),
     (Pinball(0.9, target_bound=10.0), 0.9)],
)  # fmt: skip
def test_slopes_balance_the_ridge_where_targets_are_normal(loss, quantile, l2):
    """The derivative of the pinball loss is that share of the targets above, less the rest of them below."""
    deviation, constant = 2.0, 5.0
    center = constant - deviation * norm.ppf(quantile)
    scale = 2.0 if isinstance(loss, Absolute) else 1.0

    def risk(b):
        z = (b - center) / deviation
        above = deviation * (norm.pdf(z) - z * norm.sf(z))  # of the mean excess
        below = deviation * (norm.pdf(z) + z * norm.cdf(z))
        return scale * (quantile * above + (1.0 - quantile) * below) + 0.5 * l2 * b**2

    expected = minimize_scalar(risk, bounds=(0.0, constant), method="bounded").x
    assert targets_under_ridge(objective(loss, l2), constant, deviation) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("l2", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("of_positives", [1.0, 4.0])
def test_log_odds_and_ridge_balance(share, l2, of_positives):
    weights = {1: of_positives * share, -1: 1.0 - share}
    log_odds = math.log(weights[1] / weights[-1])
    found = labels_under_ridge(objective(Logistic(), l2), log_odds, weights)
    slope = weights[-1] * expit(found) - weights[1] * expit(-found) + l2 * found
    curvature = (weights[1] + weights[-1]) * 0.25 + l2
    assert abs(slope) <= curvature * abs(log_odds) / 1024 + 1e-12


def test_an_intercept_that_is_not_penalized_starts_at_the_best_constant():
    assert targets_under_ridge(objective(Huber(target_bound=10.0), 1.0, False), 3.0, 1.0) == 3.0
    assert labels_under_ridge(objective(Logistic(), 1.0, False), -2.0, {1: 0.1, -1: 0.7}) == -2.0
