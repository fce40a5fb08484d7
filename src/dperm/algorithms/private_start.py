"""The start of a descent from what is released of the labels: a constant prediction, and class weights.

Where the ridge term includes the intercept, the best constant prediction without the term may be far from the
best one with it. From there the term would move all predictions alike, which takes long gradients to balance
and many steps to follow. So the start is the best constant with the term, computed from released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dperm.algorithms.defaults.constants import Labels
from dperm.algorithms.defaults.scales import can_start_from_labels
from dperm.algorithms.fit import Fit
from dperm.algorithms.private_constant import noisy_constant
from dperm.losses.weighted import unweighted
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import class_counts, label_sum
from dperm.objective.objective import Array, Objective

_CANDIDATES = 1025
_QUANTILES = (np.arange(64) + 0.5) / 64


class Start(NamedTuple):
    """Where a descent starts."""

    weights: Array
    target_scale: float = math.inf  # of real targets about their best constant prediction, if it is known
    log_odds: float = 0.0  # of two labels, weighted if classes are; 0 if they are not known


def private_start(fit: Fit, release: Releaser, multiplier: float) -> Start:
    """Privately initialise the intercept, and set class weights if requested.

    Weighted classes have equal total weight, with an average of 1 per record. Without a multiplier nothing is
    released, and the start is 0.
    """
    objective, start = fit.objective, np.zeros(fit.objective.shape)
    if not multiplier:
        return Start(start)
    if not objective.loss.classification:
        constant = noisy_constant(fit, release, multiplier)
        start[-1] = targets_under_ridge(objective, constant.prediction, constant.deviation)
        return Start(start, constant.target_scale)
    if objective.loss.n_classes is None:
        mean = _noisy_label_mean(fit, release, multiplier)
        mean = min(max(mean, -Labels.LARGEST_MEAN), Labels.LARGEST_MEAN)
        frequencies = {label: 0.5 * (1.0 + label * mean) for label in (-1, 1)}
    else:
        frequencies = dict(enumerate(release.gaussian_sum(class_counts(objective), multiplier) / fit.n))
    if objective.weighs_privately:
        k = len(frequencies)
        rarest, commonest = 1.0 / (k * Labels.LARGEST_WEIGHT), 1.0 / (k * Labels.LEAST_WEIGHT)
        objective._weigh_classes(
            {label: 1.0 / (k * min(max(each, rarest), commonest)) for label, each in frequencies.items()}
        )
    log_odds = 0.0
    if can_start_from_labels(fit.problem):
        of_classes = {} if objective.weights is None else objective.weights.of_classes
        weights = {label: each * of_classes.get(label, 1.0) for label, each in frequencies.items()}
        log_odds = math.log(weights[1] / weights[-1])
        start[-1] = labels_under_ridge(objective, log_odds, weights)
    return Start(start, log_odds=log_odds)


def _noisy_label_mean(fit: Fit, release: Releaser, multiplier: float) -> float:
    """The mean label; 0, unless classes are weighted by it, if it does not stand out from the noise.

    With little signal the weights are small, and an intercept of noise alone would decide most predictions.
    """
    labels = label_sum(fit.objective)
    mean = float(release.gaussian_sum(labels, multiplier)[0]) / fit.n
    noise = multiplier * labels.sensitivity(fit.neighbors) / fit.n
    stands_out = abs(mean) > 2.0 * noise or fit.objective.weighs_privately
    return mean if stands_out else 0.0


def targets_under_ridge(objective: Objective, constant: float, deviation: float) -> float:
    """The start for normal targets of that standard deviation, whose best constant is `constant`."""
    if not _ridge_of_intercept(objective):
        return constant
    targets = deviation * ndtri(_QUANTILES)
    if objective.loss.steeper_on_one_side:
        ends = np.linspace(targets[0], targets[-1], _CANDIDATES)
        targets -= ends[np.argmin(_mean_losses(objective, ends, targets, np.ones_like(targets)))]
    return _under_ridge(objective, constant, constant + targets, np.full_like(targets, 1.0 / len(targets)))


def labels_under_ridge(objective: Objective, log_odds: float, weights: Mapping[int, float]) -> float:
    """The start for labels -1 and 1 of these total weights: their log-odds without the ridge term.

    For a loss that is 0 beyond a margin, it is their log-odds less 1, and at most 1: the best constant if one
    label is rare, and 0 if neither is, as weights then grow with the margins on both sides.
    """
    constant = log_odds
    if objective.loss.zero_beyond_margin:
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
