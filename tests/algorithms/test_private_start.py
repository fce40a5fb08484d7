"""Constants to start from under a ridge term, against optima of the constants' own objectives."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from dperm import Objective
from dperm.algorithms import preconditioned_gd
from dperm.algorithms.private_start import labels_under_ridge, targets_under_ridge
from dperm.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    Sigmoid,
    SoftMargin,
    SquaredError,
    SquaredHinge,
    huberized_hinge,
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


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), SoftMargin(1.5), huberized_hinge(0.5)])
@pytest.mark.parametrize("l2", [0.0, 0.01, 0.1])
def test_losses_with_a_margin_start_near_the_best_constant_if_labels_are_rare(loss, l2):
    for rare in (0.01, 0.05, 0.1):
        own, weights = objective(loss, l2), {1: rare, -1: 1.0 - rare}

        def risk(b, own=own, weights=weights, loss=loss):
            return sum(share * float(loss.value(b, label)) for label, share in weights.items()) + (
                own.penalty(np.array([0.0, 0.0, b]))
            )

        best = minimize_scalar(risk, bounds=(-2.0, 2.0), method="bounded").fun
        log_odds = math.log(rare / (1.0 - rare))
        found = labels_under_ridge(own, log_odds, weights)
        assert risk(found) - best < 0.15 * (risk(0.0) - best)
        assert labels_under_ridge(own, -log_odds, {1: 1.0 - rare, -1: rare}) == -found
    assert labels_under_ridge(objective(loss, l2), math.log(3.0 / 7.0), {1: 0.3, -1: 0.7}) == 0.0


@pytest.mark.parametrize("loss", [Logistic(), Sigmoid()])
def test_losses_without_a_margin_start_at_the_log_odds(loss):
    assert labels_under_ridge(objective(loss, 0.0), -3.0, {1: 0.05, -1: 0.95}) == -3.0


def test_a_loss_that_is_flat_about_the_constant_starts_at_the_near_end():
    found = targets_under_ridge(objective(EpsilonInsensitive(4.0, target_bound=10.0), 1e-3), 5.0, 0.1)
    assert found == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("l2", [0.3, 1.0])
def test_a_ridge_on_the_intercept_does_not_pull_it_too_far(l2):
    """Targets far from 0 have long gradients at the optimum; clipped ones could not balance the ridge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 50)) / math.sqrt(50.0)
    y = 0.5 + 0.1 * rng.normal(size=3000)
    obj = Objective(
        SquaredError(target_bound=1.0), X, y, l2=l2, row_norm=2.5, fit_intercept=True, penalize_intercept=True
    )
    intercepts = [preconditioned_gd(obj, 0.1, 1e-6, random_state=seed).coef[-1] for seed in range(5)]
    assert np.mean(intercepts) == pytest.approx(0.5 / (1.0 + l2), rel=0.2)
