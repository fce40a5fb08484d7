"""Constant predictions to start from where the ridge term includes the intercept; from released numbers.

The best constant prediction without the ridge term may be far from the best one with it, and from there the
term would pull all records alike, which takes long gradients to balance and many steps to follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtri

from dperm.algorithms.rules_of_thumb import has_margin, steeper_on_one_side
from dperm.losses.weighted import unweighted
from dperm.objective.objective import Array, Objective

_CANDIDATES = 1025
_QUANTILES = (np.arange(64) + 0.5) / 64


def targets_under_ridge(objective: Objective, constant: float, deviation: float) -> float:
    """The start for normal targets of that standard deviation, whose best constant is `constant`."""
    if not _ridge_of_intercept(objective):
        return constant
    targets = deviation * ndtri(_QUANTILES)
    if steeper_on_one_side(objective.loss):
        ends = np.linspace(targets[0], targets[-1], _CANDIDATES)
        targets -= ends[np.argmin(_mean_losses(objective, ends, targets, np.ones_like(targets)))]
    return _under_ridge(objective, constant, constant + targets, np.full_like(targets, 1.0 / len(targets)))


def labels_under_ridge(objective: Objective, log_odds: float, weights: Mapping[int, float]) -> float:
    """The start for labels -1 and 1 of these total weights: their log-odds without the ridge term.

    For a loss that is 0 beyond a margin, it is their log-odds less 1, and at most 1: the best constant if one
    label is rare, and 0 if neither is, as weights then grow with the margins on both sides.
    """
    constant = log_odds
    if has_margin(objective.loss):
        constant = math.copysign(min(max(abs(constant) - 1.0, 0.0), 1.0), constant)
    if not _ridge_of_intercept(objective):
        return constant
    labels = sorted(weights)
    return _under_ridge(objective, constant, np.array(labels, float), np.array([weights[k] for k in labels]))


def _under_ridge(objective: Objective, constant: float, targets: Array, weights: Array) -> float:
    """The best prediction between 0 and `constant`, which is the best one without the ridge term."""
    candidates = constant * np.linspace(0.0, 1.0, _CANDIDATES)
    losses = _mean_losses(objective, candidates, targets, weights)
    return float(candidates[np.argmin(losses + _ridge_of_intercept(objective) * candidates**2)])


def _ridge_of_intercept(objective: Objective) -> float:
    """The ridge term of an intercept of 1."""
    intercept = np.zeros(objective.dimension)
    intercept[-1] = 1.0
    return objective.penalty(intercept)


def _mean_losses(objective: Objective, predictions: Array, targets: Array, weights: Array) -> Array:
    """The weighted mean loss of each prediction for all targets."""
    return unweighted(objective.loss).value(predictions[:, np.newaxis], targets) @ weights
