"""A private estimate of the best constant prediction of real targets, from which a descent starts.

Targets are often farther from 0 than from each other, and their public bound is farther still. Noisy sums of
the slopes of the loss at one prediction for all records lead to the best one. A noisy histogram of the
distances from there gives the target scale. Their noise does not grow with the number of columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from dperm.accounting.events import GaussianRelease
from dperm.algorithms.defaults import constants
from dperm.algorithms.fit import Fit
from dperm.losses.weighted import unweighted
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import distance_counts, slope_bounds, slope_sum
from dperm.objective.objective import Array

_STEPS, _PRECISION, _BINS = constants.Constant.STEPS, constants.Constant.PRECISION, constants.Constant.BINS
_SCALE_OF_NORMAL = float(-ndtri(0.5 * constants.Constant.FAR))  # in standard deviations

#: Cost of everything, in units of that of one sum of slopes.
COST = _STEPS + 2 * round(_PRECISION**2)

#: Least and largest target scale that is found, in units of the bound on the targets.
LEAST_SCALE, MOST_SCALE = 2.0 ** (1.0 - 0.5 * _BINS), 2.0


def releases_for_constant(multiplier: float) -> list[GaussianRelease]:
    """The releases of :func:`noisy_constant`."""
    histogram = GaussianRelease(multiplier / _PRECISION)
    return [histogram, *[GaussianRelease(multiplier)] * _STEPS, histogram]


class Constant(NamedTuple):
    """A prediction for all records."""

    prediction: float
    target_scale: float  # about one target in fifty is farther from it

    @property
    def deviation(self) -> float:
        """Standard deviation of normal targets with that scale."""
        return self.target_scale / _SCALE_OF_NORMAL


def noisy_constant(fit: Fit, release: Releaser, multiplier: float) -> Constant:
    """The best constant prediction, and the target scale about it.

    A first histogram says how far from 0 to look for it: hardly any target is farther. The ridge term is not
    considered.
    """
    scale, n = _target_scale(fit, release, multiplier, 0.0)
    farthest = min(scale, fit.objective.loss.target_bound)
    prediction = _prediction(fit, release, multiplier, farthest, n)
    scale, _ = _target_scale(fit, release, multiplier, prediction)
    return Constant(prediction, min(scale, farthest + abs(prediction)))


def check_noise_of_constant(fit: Fit, multiplier: float) -> None:
    """Raise ValueError unless slopes can be summed, and noise with this multiplier added to the sums."""
    loss = fit.objective.loss
    for distance in (loss.target_bound, LEAST_SCALE * 0.5**_STEPS * loss.target_bound):
        slopes = slope_bounds(fit.objective, unweighted(loss).steepest_slope(distance))
        gaussian_scale(multiplier * slopes.clip * fit.neighbors.sum_factor, slopes.grid)


def _prediction(fit: Fit, release: Releaser, multiplier: float, farthest: float, n: float) -> float:
    """Descend along the slopes, which are clipped to those within a distance that halves with every step.

    Steps are those of Newton's method where clipped slopes allow a step of half that distance. Otherwise,
    such as at a kink, they go half the distance against the sign of the slope, however dense the targets are.
    They are shorter where the slope is no larger than its noise: a quantile is hardly steep on its far side,
    and one step to the wrong side may exceed all later ones. The noise shrinks with the clip, until most
    slopes are clipped.
    """
    objective, distance, prediction = fit.objective, farthest, 0.0
    loss = unweighted(objective.loss)
    curvature = loss.smoothness(1.0)
    for _ in range(_STEPS):
        clip = loss.steepest_slope(distance)
        slopes = slope_sum(objective, prediction, clip)
        noise = multiplier * slopes.sensitivity(fit.neighbors) / n
        slope = release.gaussian_sum(slopes, multiplier)[0] / n
        newton = clip >= 0.5 * distance * curvature
        step = slope / curvature if newton else 0.5 * distance * math.tanh(slope / noise)
        prediction -= min(max(step, -distance), distance)
        prediction = min(max(prediction, -farthest), farthest)
        distance *= 0.5
    return float(prediction)


def _target_scale(fit: Fit, release: Releaser, multiplier: float, prediction: float) -> tuple[float, float]:
    """A distance from the prediction that about one target in fifty exceeds, and the number of records.

    The number is public, or of weighted records the noisy sum of weights, in units of the largest.

    Noise may hide the farthest targets, and a scale that is too small does more harm than one that is too
    large. So it is the larger of two distances: one that is certainly exceeded by some targets, and that of
    the widest normal distribution that the counts allow.
    """
    counts = distance_counts(fit.objective, prediction, _BINS)
    farthest = MOST_SCALE * fit.objective.loss.target_bound
    ends = farthest * np.exp2(-0.5 * np.arange(_BINS + 1))
    noise = multiplier / _PRECISION * counts.sensitivity(fit.neighbors)
    in_bins, n = release.gaussian_sum(counts, multiplier / _PRECISION), float(fit.n)
    if fit.objective.weights is not None:
        n = min(max(float(in_bins.sum()), noise * math.sqrt(_BINS)), n)
    noise, in_bins = noise / n, in_bins / n
    exceeding, error = in_bins.cumsum(), noise * np.sqrt(np.arange(1, _BINS + 1))
    # A bin that only noise fills would give a scale many times too large: that must be rare.
    some = exceeding > np.maximum(constants.Constant.FAR, constants.Constant.DEVIATIONS * error)
    first = int(some.argmax()) if some.any() else _BINS
    exceeded = float(ends[min(first + 1, _BINS)])
    return min(max(exceeded, _widest_normal_scale(in_bins, ends, noise)), farthest), n


def _widest_normal_scale(in_bins: Array, ends: Array, noise: float) -> float:
    """That distance for the widest normal distribution that fits the fractions in the bins.

    The sum of its squared errors, in units of the noise, is within 4 of the least: two standard errors.
    """
    candidates = ends[0] * 2.0 ** (-constants.Constant.CANDIDATES * np.arange(2 * _BINS))
    deviations = candidates / _SCALE_OF_NORMAL
    beyond = 2.0 * ndtr(-ends[1:] / deviations[:, np.newaxis])
    beyond[:, -1] = 1.0  # the last bin counts all smaller distances
    expected = np.diff(beyond, axis=1, prepend=0.0)
    errors = np.sum((expected - in_bins) ** 2, axis=1)
    within = errors.min() + constants.Constant.FIT_ERRORS * noise**2
    return float(candidates[np.argmax(errors <= within)])
