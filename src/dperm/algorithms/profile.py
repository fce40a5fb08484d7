"""What the default descent learns before it starts: scales, a centre and a length of the rows, a start.

Every release is a noisy sum or histogram. A rule that acts on noisy counts compares them with a threshold
that noise alone exceeds anywhere with a probability of at most `Profile.FALSE_ALARM` (defaults/constants.py),
over all comparisons of the release together. Where nothing stands out, the public bound stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm.algorithms.defaults.constants import Profile
from dperm.algorithms.fit import Fit
from dperm.losses import Loss
from dperm.losses.weighted import unweighted
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import magnitude_counts, norm_counts, target_counts
from dperm.objective.moments import column_sums
from dperm.objective.objective import Array, Objective
from dperm.private_values.transform import Transform


def _threshold(comparisons: int) -> float:
    """Standard deviations that noise exceeds in any of so many comparisons with `FALSE_ALARM` at most."""
    return float(-ndtri(Profile.FALSE_ALARM / comparisons))


def column_scales(fit: Fit, release: Releaser, multiplier: float) -> tuple[Array, NDArray[np.bool_]]:
    """A bound on nearly all magnitudes in each column, and whether the column stood out.

    From a histogram in octaves below the public bound. Counts are added from the top down, from where those
    of all columns together stand out: the first sum that does has reached the column, and the bound is an
    octave above it for what was missed. Units of columns do not matter: each has its own octave. A column
    that never stands out keeps the bound of all.
    """
    objective, octaves = fit.objective, Profile.OCTAVES
    counts = magnitude_counts(objective, octaves)
    noise = multiplier * counts.sensitivity(fit.neighbors)
    noisy = release.gaussian_sum(counts, multiplier)
    of_all = noise * math.sqrt(objective.n_columns)
    # Half of the false alarms for each of the two rules.
    top, _ = _first_seen(noisy.sum(axis=0, keepdims=True), of_all, 2 * octaves, Profile.UNSEEN)
    below, seen = _first_seen(noisy[:, int(top[0]) :], noise, 2 * noisy.size, Profile.UNSEEN_COLUMN)
    return np.asarray(objective.row_norm * np.exp2(-(top + below))), seen


def _first_seen(
    counts: Array, noise: float, comparisons: int, unseen: float
) -> tuple[Array, NDArray[np.bool_]]:
    """For each row the first place from which on counts are not noise, less `Profile.OCTAVES_ABOVE`.

    That is where their sum from the left stands out, if no part of the row above `unseen` can be left of it;
    else 0, and False.
    """
    summed = counts.cumsum(axis=1)
    least = noise * _threshold(comparisons) * np.sqrt(np.arange(1, counts.shape[1] + 1))
    reached = (summed > least) & (least < unseen * summed[:, -1:])
    found = np.asarray(reached.any(axis=1))
    first = np.where(found, reached.argmax(axis=1), 0)
    return np.maximum(first - Profile.OCTAVES_ABOVE, 0), found


@dataclass(frozen=True)
class Rows:
    """Rows in units of their magnitude, about their mean, and a bound on their length that few exceed.

    Attributes
    ----------
    factors : ndarray
        Of the columns.
    centre : ndarray
        Subtracted after scaling; 0 where the mean is not known well enough, and without an intercept.
    length : float
    """

    factors: Array
    centre: Array
    length: float

    def transform(self, objective: Objective) -> Transform:
        """For sums over such rows, without the intercept."""
        return _transform(objective, self.factors, self.length, self.centre)


def _transform(objective: Objective, factors: Array, length: float, centre: Array) -> Transform:
    none = np.zeros(int(objective.fit_intercept))
    return Transform.scaling(np.append(factors, none), length, np.append(centre, none))


def rows_about_centre(fit: Fit, release: Releaser, scales: Array, of_means: float, of_lengths: float) -> Rows:
    """Release means (multiplier `of_means`; 0 for none) and a histogram of lengths (`of_lengths`).

    A mean is subtracted if it is `Profile.CENTRED` standard deviations of its noise away from 0. Scaled rows
    are nearly in a cube, and no longer than the public bound.
    """
    objective, factors = fit.objective, 1.0 / scales
    none, n = np.zeros(objective.n_columns), fit.n
    longest = min(math.sqrt(objective.n_columns), objective.row_norm * float(factors.max()))
    centre = none
    if of_means:
        sums = column_sums(objective, _transform(objective, factors, longest, none))
        noise = of_means * sums.sensitivity(fit.neighbors) / n
        means = release.gaussian_sum(sums, of_means)[: objective.n_columns] / n
        centre = np.where(np.abs(means) > Profile.CENTRED * noise, np.clip(means, -1.0, 1.0), 0.0)
    longest += float(np.linalg.norm(centre))
    if of_lengths:
        counts = norm_counts(objective, Profile.LENGTHS, _transform(objective, factors, longest, centre))
        noise = of_lengths * counts.sensitivity(fit.neighbors)
        longer = release.gaussian_sum(counts, of_lengths).cumsum()
        least = noise * _threshold(Profile.LENGTHS) * np.sqrt(np.arange(1, Profile.LENGTHS + 1))
        reached = longer > np.maximum(least, Profile.LONG_ROWS * n)
        if least[-1] < 0.5 * n and reached.any():
            longest *= 2.0 ** (-0.5 * int(reached.argmax()))
    return Rows(factors, centre, longest)


@dataclass(frozen=True)
class Start:
    """The best constant prediction, and the loss about it: all from released counts.

    Attributes
    ----------
    prediction : ndarray
        One number, or one for each class.
    slope : float
        Typical slope of the loss there, weights of records included.
    curvature : float
        Of the mean loss there.
    spread : float
        Size of the predictions to be learned, about the constant: 1 for log-odds, else a standard deviation.
    """

    prediction: Array
    slope: float
    curvature: float
    spread: float


def typical_slope(loss: Loss) -> float:
    """Of the loss itself, without weights of records, if targets are not learned; 1 if it has no limit."""
    own = unweighted(loss)
    if own.classification:  # half of the steepest
        return 0.5 * min(own.lipschitz(1.0), 2.0 * own.slope_at_zero(1.0))
    slope = own.lipschitz(1.0)
    return slope if slope < math.inf else 1.0


def slopes_of_targets(loss: Loss) -> tuple[float, float]:
    """The least and the largest typical slope that :func:`start_of` may find for real targets."""
    bins, bound = Profile.TARGET_BINS, loss.target_bound
    narrowest = 2.0 * bound / bins * (3.0 / bins) ** (Profile.ZOOMS - 1)  # a bin of the last histogram
    return 0.1 * loss.steepest_slope(narrowest / math.sqrt(12.0)), loss.steepest_slope(2.0 * bound)


def start_of(fit: Fit, release: Releaser, multiplier: float) -> Start:
    """Release counts of labels, or of real targets as :func:`_range_of_targets` does; weigh classes by them.

    Without a multiplier nothing is released, and the start is 0.
    """
    objective, loss = fit.objective, unweighted(fit.objective.loss)
    if not loss.classification:
        if not multiplier or loss.prediction_bound == math.inf:
            return _unknown_start(objective)
        return _start_of_targets(fit, *_range_of_targets(fit, release, multiplier))
    classes = loss.n_classes or 2
    shares, weight = np.full(classes, 1.0 / classes), 1.0
    if multiplier:
        edges = np.arange(classes - 1) + 0.5 if loss.n_classes else [0.0]
        counts = target_counts(objective, edges)
        noise = max(multiplier * counts.sensitivity(fit.neighbors), 0.5)
        shares = np.maximum(release.gaussian_sum(counts, multiplier), noise)  # fewer cannot be told apart
        shares /= shares.sum()
    labels = list(range(classes)) if loss.n_classes else [-1, 1]
    if objective.weighs_privately:
        weights = np.clip(1.0 / (classes * shares), Profile.LEAST_WEIGHT, 1.0 / Profile.LEAST_WEIGHT)
        objective._weigh_classes(dict(zip(labels, weights.tolist(), strict=True)))
        shares = shares * weights / float(shares @ weights)
        weight = math.sqrt(float(shares @ weights))
    elif objective.weights is not None:
        # Shares are of the total weight: the mean of squares over the mean, in records of the usual weight.
        own = np.array([objective.weights.of_classes.get(label, 1.0) for label in labels])
        weight = objective.weights.bound * math.sqrt(float(shares @ own) / float(shares @ (1.0 / own)))
    slope = typical_slope(loss)
    if objective.weights is not None:  # clipping the classes of large weights would undo these
        slope *= objective.weights.largest
    steepest = min(loss.smoothness(1.0), Profile.KINK * loss.slope_at_zero(1.0))
    if loss.n_classes:
        prediction = np.log(shares) - np.log(shares).mean()
        prediction, curvature = prediction * objective.fit_intercept, 2.0 / classes * steepest
    else:
        candidates = _LOG_ODDS if objective.fit_intercept else _LOG_ODDS[:1]
        prediction, curvature = _constant_of(loss, np.array(labels), shares, candidates, 1.0)
    curvature = max(curvature, Profile.FLATTEST * steepest)
    # Each class has weights of its own: two classes halve a difference between them.
    spread = 0.5 * math.sqrt(classes) if loss.n_classes else 1.0
    return Start(np.asarray(prediction), slope, weight * curvature, spread)


def _unknown_start(objective: Objective) -> Start:
    """0, in units in which a loss of bounded slope bends."""
    loss, weight = unweighted(objective.loss), 1.0 if objective.weights is None else objective.weights.largest
    slope, curvature = typical_slope(loss), loss.smoothness(1.0)
    if curvature == math.inf:
        curvature = Profile.KINK * slope
    return Start(np.array(0.0), weight * slope, weight * curvature, slope / curvature)


def _range_of_targets(fit: Fit, release: Releaser, multiplier: float) -> tuple[Array, Array]:
    """Middles of bins, and noisy counts of targets in them: histograms that zoom into significant bins.

    As long as the significant bins miss no more than noise explains, the next histogram covers them alone.
    """
    bound, bins = fit.objective.loss.target_bound, Profile.TARGET_BINS
    low, high, least = -bound, bound, _threshold(Profile.ZOOMS * Profile.TARGET_BINS)
    for _ in range(Profile.ZOOMS):
        edges = np.linspace(low, high, bins + 1)
        counts = target_counts(fit.objective, edges[1:-1])
        noise = multiplier * counts.sensitivity(fit.neighbors)
        noisy = release.gaussian_sum(counts, multiplier)
        on = np.flatnonzero(noisy > least * noise)
        if not on.size:
            # As if targets had a standard deviation of a quarter of the bound.
            noisy = np.exp(-0.5 * (4.0 * 0.5 * (edges[1:] + edges[:-1]) / bound) ** 2)
            break
        first, last = int(on[0]), int(on[-1]) + 1
        outside = float(np.delete(noisy, np.s_[first:last]).sum())
        missed = max(Profile.MISSED * fit.n, 3.0 * noise * math.sqrt(bins - (last - first)))
        noisy = np.maximum(noisy, 0.0)
        noisy[: max(first - 1, 0)] = noisy[last + 1 :] = 0.0
        first, last = max(first - 1, 0), min(last + 1, bins)
        if last - first == bins or outside > missed:
            break
        low, high = float(edges[first]), float(edges[last])
    return 0.5 * (edges[1:] + edges[:-1]), noisy


_LOG_ODDS = np.array(sorted(np.linspace(-8.0, 8.0, 257), key=abs))  # the nearest to 0 of equals is chosen


def _constant_of(
    loss: Loss, targets: Array, shares: Array, candidates: Array, spread: float
) -> tuple[float, float]:
    """The best constant prediction for shares of targets, and the curvature of the mean loss about it."""
    best = float(candidates[(loss.value(candidates[:, np.newaxis], targets) @ shares).argmin()])
    around = loss.derivative(np.array([[best - spread], [best + spread]]), targets)
    return best, float((around[1] - around[0]) @ shares) / (2.0 * spread)


def _start_of_targets(fit: Fit, middles: Array, counts: Array) -> Start:
    """The best constant among the middles of bins, and slopes about it."""
    loss, objective = unweighted(fit.objective.loss), fit.objective
    shares, width = counts / counts.sum(), float(middles[1] - middles[0])
    mean = float(shares @ middles)
    unit = loss.target_bound  # whose square may be out of range
    spread = unit * math.sqrt(float(shares @ ((middles - mean) / unit) ** 2) + (width / unit) ** 2 / 12.0)
    candidates = (
        np.linspace(middles[0], middles[-1], 8 * len(middles)) if objective.fit_intercept else np.zeros(1)
    )
    best, curvature = _constant_of(loss, middles, shares, candidates, spread)
    typical = math.sqrt(float(loss.derivative(best, middles) ** 2 @ shares))
    if loss.steeper_on_one_side:  # clipping the steep side would move the optimum
        typical = loss.lipschitz(1.0)
    typical = max(typical, curvature * width / math.sqrt(12.0), 0.1 * loss.steepest_slope(spread))
    weight = 1.0 if objective.weights is None else objective.weights.largest
    return Start(np.array(best), weight * typical, weight * max(curvature, typical / (4 * spread)), spread)
