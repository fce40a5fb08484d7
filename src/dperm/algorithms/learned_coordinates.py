"""Coordinates learned privately before a descent: column scales, a bound on the row norms, the start."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dperm.algorithms.fit import Fit
from dperm.algorithms.private_constant import noisy_constant
from dperm.algorithms.private_scales import ScaleNoise, after_releases, can_start_from_labels
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import typical_curvature
from dperm.algorithms.start_under_ridge import labels_under_ridge, targets_under_ridge
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import class_counts, label_sum, magnitude_counts, norm_counts
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform

_NORM_BINS = 16  # each a factor of sqrt(2)
#: Least bound on the row norms that is found, in units of the public one.
LEAST_NORM = 2.0 ** (-1.5 - 0.5 * _NORM_BINS)
_MAGNITUDE_BINS = 6  # factors of 4 below row_norm / sqrt(n_columns), the size of equal entries
#: Share of the rows that are longer than the learned bound on their norm.
FEW_LONG_ROWS = 0.02
#: Factor of that bound where a matrix of second moments is released. Less noise on it is worth scaling down
#: more rows; their steps do not depend on the bound, whereas those of first-order methods would be longer.
SHORTENING = 0.84


@dataclass(frozen=True)
class Coordinates:
    """Coordinates in which rows have norm at most about 1.

    Attributes
    ----------
    scaling : Transform
        Scales rows to norm about 1, so that the descent does not depend on the units of the data.
    start : ndarray
        Initial weights, in the original coordinates.
    spread : float
        Of real targets about their best constant prediction; infinite if it is not known.
    log_odds : float
        Of two labels, weighted if classes are; 0 if they are not known.
    """

    scaling: Transform
    start: Array
    spread: float
    log_odds: float

    def problem(self, objective: Objective, public: PublicProblem) -> PublicProblem:
        """The problem in these coordinates, for default settings: row norm and ridge term are rescaled."""
        typical = float(np.median(self.scaling.values[: objective.n_columns]))
        return replace(
            public,
            loss=objective.loss,
            row_norm=self.scaling.row_norm,
            l2=public.l2 * typical**2,
            spread=self.spread,
            start_penalty=objective.penalty(self.start),
        )


def learned_coordinates(
    fit: Fit,
    release: Releaser,
    noise: ScaleNoise,
    few: float = FEW_LONG_ROWS,
    shortening: float = 1.0,
) -> Coordinates:
    """Release the estimates whose noise multiplier is not 0, and derive coordinates from them.

    The learned bound on the row norms is `shortening` times the norm that a share `few` of the rows exceeds.
    """
    objective = fit.objective
    unit = _unit(objective.row_norm)
    ridge = unit * ridge_as_norm(objective)
    scales, row_norm = np.full(objective.shape[0], unit), objective.row_norm * unit
    if noise.columns:
        scales[: objective.n_columns] *= _column_scales(fit, release, noise.columns)
        if (scales > unit).any():
            row_norm *= 2.0
    if noise.norms:
        row_norm = _row_norm(fit, release, noise.norms, scales, row_norm, ridge, few, shortening)
    return Coordinates(Transform.scaling(scales, row_norm), *_from_labels(fit, release, noise.labels))


@dataclass(frozen=True)
class Frame:
    """Coordinates ``u`` in which a descent takes its steps, with weights ``w = start + factors u``.

    Attributes
    ----------
    start : ndarray
        Initial weights.
    problem : PublicProblem
        The problem in these coordinates.
    factors : ndarray or float
        Of the weights along a column, for all classes.
    linear_map : Transform or None
        The factors as a map; None if they are 1.
    released : list of str
        What was released to find all this.
    """

    start: Array
    problem: PublicProblem
    released: list[str]
    factors: Array | float = 1.0
    linear_map: Transform | None = None

    @classmethod
    def learned(
        cls,
        fit: Fit,
        release: Releaser,
        noise: ScaleNoise,
        problem: PublicProblem,
        shortening: float = 1.0,
    ) -> Self:
        """Those of :func:`learned_coordinates` if columns or norms are released, else the original ones."""
        if not (noise.columns or noise.norms):
            return cls.unscaled(fit, release, noise, problem)
        objective, released = fit.objective, noise.in_words(fit.objective.loss)
        found = learned_coordinates(fit, release, noise, shortening=shortening)
        rounded = Transform.powers_of_two(found.scaling.values, objective.largest_condition)
        there = found.problem(objective, replace(problem, attained=True))
        factors = rounded.values.reshape(-1, *[1] * (len(objective.shape) - 1))
        return cls(found.start, there, released, factors, rounded)

    @classmethod
    def unscaled(cls, fit: Fit, release: Releaser, noise: ScaleNoise, problem: PublicProblem) -> Self:
        """The original coordinates; the problem has the bound on the row norms, if that is released."""
        objective, released = fit.objective, noise.in_words(fit.objective.loss)
        if noise.norms:
            unit = _unit(objective.row_norm)
            scales = np.full(objective.shape[0], unit)
            longest = objective.row_norm * unit
            bound = _row_norm(fit, release, noise.norms, scales, longest, 0.0, FEW_LONG_ROWS)
            if objective.fit_intercept:  # which keeps its scale
                intercept = min(1.0, objective.row_norm)
                of_columns = math.sqrt(bound**2 - (scales[-1] * intercept) ** 2)
                bound = math.hypot(of_columns, unit * intercept)
            problem = replace(problem, row_norm=min(bound, longest) / unit, attained=True)
        start, spread, _ = _from_labels(fit, release, noise.labels)
        there = replace(problem, loss=objective.loss, spread=spread, start_penalty=objective.penalty(start))
        return cls(start, there, released)

    @property
    def scaling(self) -> Transform | None:
        """The coordinates of the rows, for second moments; None for the original ones."""
        return (
            None
            if self.linear_map is None
            else Transform.scaling(self.linear_map.values, self.problem.row_norm)
        )

    def gradient_sum(self, objective: Objective, w: Array, clip: float, radius: float = math.inf) -> Bounded:
        """Sum of the records' gradients in these coordinates, each clipped to norm `clip`.

        In the original ones, `radius` bounds the norm of `w`, which may tighten the sensitivity.
        """
        if self.linear_map is None:
            return clipped_gradient_sum(objective, w, clip, radius=radius)
        return mapped_gradient_sum(objective, w, clip, self.linear_map)

    def step_sizes(self, sizes: Array, momentum: float, l2: float) -> Array:
        """Step sizes, capped so that heavy ball is stable for the ridge term along every axis."""
        steepest = self.steepest_ridge(l2)
        if self.linear_map is None or not steepest:
            return sizes
        return np.minimum(sizes, 1.5 * (1.0 + momentum) / steepest)

    def steepest_ridge(self, l2: float) -> float:
        """Largest curvature of the ridge term along an axis."""
        return l2 * float(np.max(self.factors)) ** 2

    def in_words(self, mechanism: str) -> str:
        """Description of the mechanism and of the releases before it."""
        return after_releases(self.released, mechanism)


# Public bounds on class weights: the noisy frequency of a rare class is unreliable.
_MIN_WEIGHT, _MAX_WEIGHT = 0.1, 10.0


def _from_labels(fit: Fit, release: Releaser, multiplier: float) -> tuple[Array, float, float]:
    """Release what the labels tell: a constant prediction and the spread of targets, or class frequencies.

    Class weights are set from the frequencies if requested. Returns the initial weights, the spread and the
    log-odds.

    Weighted classes have equal total weight, with an average of 1 per record. With two of them the intercept
    starts where :func:`labels_under_ridge` says.
    """
    objective, start = fit.objective, np.zeros(fit.objective.shape)
    if not multiplier:
        return start, math.inf, 0.0
    if not objective.loss.classification:
        constant = noisy_constant(fit, release, multiplier)
        start[-1] = targets_under_ridge(objective, constant.prediction, constant.deviation)
        return start, constant.spread, 0.0
    if objective.loss.n_classes is None:
        mean = _noisy_label_mean(fit, release, multiplier)
        shares = {label: 0.5 * (1.0 + label * min(max(mean, -0.99), 0.99)) for label in (-1, 1)}
    else:
        shares = dict(enumerate(release.gaussian_sum(class_counts(objective), multiplier) / fit.n))
    if objective.weighs_privately:
        rarest, commonest = 1.0 / (len(shares) * _MAX_WEIGHT), 1.0 / (len(shares) * _MIN_WEIGHT)
        objective._weigh_classes(
            {
                label: 1.0 / (len(shares) * min(max(share, rarest), commonest))
                for label, share in shares.items()
            }
        )
    log_odds = 0.0
    if can_start_from_labels(fit.problem):
        of_classes = {} if objective.weights is None else objective.weights.of_classes
        weights = {label: share * of_classes.get(label, 1.0) for label, share in shares.items()}
        log_odds = math.log(weights[1] / weights[-1])
        start[-1] = labels_under_ridge(objective, log_odds, weights)
    return start, math.inf, log_odds


def _noisy_label_mean(fit: Fit, release: Releaser, multiplier: float) -> float:
    """The mean label; 0, unless classes are weighted by it, if it does not stand out from the noise.

    With little signal the weights are small, and an intercept of noise alone would decide most predictions.
    """
    labels = label_sum(fit.objective)
    mean = float(release.gaussian_sum(labels, multiplier)[0]) / fit.n
    noise = multiplier * labels.sensitivity(fit.neighbors) / fit.n
    stands_out = abs(mean) > 2.0 * noise or fit.objective.weighs_privately
    return mean if stands_out else 0.0


def _column_scales(fit: Fit, release: Releaser, multiplier: float) -> Array:
    """Factors of the columns: above 1 for columns that are much smaller than the median column.

    A column is detected at the largest magnitude that enough of its entries reach: 1 % of the count of the
    fullest column, and more than 4 standard deviations of the noise, which grows with the number of bins
    summed. As noise can delay that to any later bin, larger magnitudes that three quarters as many entries
    reach count as well. The size of a column is the magnitude above which four fifths of its second moment
    are found. Columns that are not detected keep the factor 1. So do those with at least half as many entries
    of the median size: rare categories. Sizes k bins apart differ by a factor of 4^(k - 1) to 4^(k + 1).
    """
    objective = fit.objective
    n_bins = _MAGNITUDE_BINS + math.ceil(0.25 * math.log2(objective.n_columns))
    counts = magnitude_counts(objective, n_bins)
    noise = multiplier * counts.sensitivity(fit.neighbors) * np.sqrt(np.arange(1, n_bins + 1))
    reach = release.gaussian_sum(counts, multiplier).cumsum(axis=1)
    detected = reach > np.maximum(0.01 * reach.max(), 4.0 * noise)
    found = detected.any(axis=1)
    if not found.any():
        return np.ones(objective.n_columns)
    first = np.take_along_axis(reach, detected.argmax(axis=1)[:, np.newaxis], axis=1)
    entries = np.maximum.accumulate(np.where(detected | (reach >= 0.75 * first), reach, 0.0), axis=1)
    moment = np.cumsum(np.diff(entries, axis=1, prepend=0.0) * 16.0 ** -np.arange(n_bins), axis=1)
    place = (moment >= 0.8 * moment[:, -1:]).argmax(axis=1)
    median = int(np.quantile(place[found], 0.5, method="lower"))
    there = np.take_along_axis(entries, place[:, np.newaxis], axis=1)[:, 0]
    small = found & (place > median) & (there > 2.0 * reach[:, median])
    size = objective.row_norm * math.sqrt(float(np.median(moment[found, -1])) / fit.n)
    return np.where(small, np.minimum(0.5 * 4.0 ** (place - median), _largest_factor(objective, size)), 1.0)


def _largest_factor(objective: Objective, size: float) -> float:
    """Limit on the factor of a column, where entries of the median column have this root mean square.

    The ridge term has the same curvature along all columns, until some are scaled up. The limit is four times
    the factor that makes a column of zeros as steep as the median one, loss and ridge term together.
    """
    ridge = ridge_as_norm(objective)
    return 4.0 * math.hypot(1.0, size / ridge) if ridge else math.inf


def _unit(row_norm: float) -> float:
    """A power of two that scales rows to a norm of at most 1, and more than half of it."""
    return 2.0 ** -math.ceil(math.log2(row_norm))


def ridge_as_norm(objective: Objective) -> float:
    """Norm of rows along which the loss has the same curvature as the ridge term."""
    return math.sqrt(objective.l2 / typical_curvature(objective.loss, 1.0))


def _row_norm(
    fit: Fit,
    release: Releaser,
    multiplier: float,
    scales: Array,
    row_norm: float,
    ridge: float,
    few: float,
    shortening: float = 1.0,
) -> float:
    """`shortening` times the norm that a share `few` of the rows exceeds after scaling.

    Between the edges of a bin the count is interpolated. A share that does not stand out from the noise is
    raised until it does. Scales the intercept down accordingly, in place: it should have a curvature like
    that of the other columns, ridge term included.
    """
    objective, bound, features = fit.objective, row_norm, scales.copy()
    intercept = min(1.0, objective.row_norm) * scales[-1] if objective.fit_intercept else 0.0  # at most
    if intercept:
        bound, features[-1] = math.sqrt(max(row_norm**2 - intercept**2, 0.25 * row_norm**2)), 0.0
    counts = norm_counts(objective, _NORM_BINS, Transform.scaling(features, bound))
    noise = multiplier * counts.sensitivity(fit.neighbors)
    reach = release.gaussian_sum(counts, multiplier).cumsum()
    # A bin that only noise fills would give a bound many times too large: that must be rare.
    least = np.maximum(few * fit.n, 4.0 * noise * np.sqrt(np.arange(1, _NORM_BINS + 1)))
    if (reach > least).any():
        k = int((reach > least).argmax())
        longer = max(reach[k - 1], 0.0) if k else 0.0
        place = k + (least[k] - longer) / (reach[k] - longer)
        bound *= shortening * 2.0 ** (-0.5 * place)
    if intercept:
        shorter = min(intercept, 0.5 * math.hypot(bound, ridge))
        scales[-1] *= shorter / intercept
        bound = math.hypot(bound, shorter)
    return bound
