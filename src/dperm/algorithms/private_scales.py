"""Private estimates released before a descent: column scales, a bound on the row norms, where it starts.

Noise is proportional to the public bound on the row norms, so a bound that is too loose, or columns much
smaller than it allows, waste most of the budget. A few noisy counts, released first, give a tighter bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dperm.accounting import Budget, GaussianRelease, gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit
from dperm.algorithms.private_constant import (
    COST,
    LEAST_SPREAD,
    check_noise_of_constant,
    noisy_constant,
    releases_for_constant,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import typical_curvature
from dperm.algorithms.settings import Schedule, Setting
from dperm.losses import Loss
from dperm.losses.weighted import unweighted
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Array, Objective
from dperm.objective.row_scaling import RowScaling
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import DiagonalMap

_NORM_BINS = 16  # each a factor of sqrt(2)
#: Least bound on the row norms that is found, in units of the public one.
LEAST_NORM = 2.0 ** (-1.0 - 0.5 * _NORM_BINS)
_MAGNITUDE_BINS = 6  # factors of 4 below row_norm / sqrt(n_columns), the size of equal entries


class ScaleShares(Schedule):
    """Shares of the budget, in mu^2, for the estimates released before a descent; 0 for none.

    Attributes
    ----------
    column_share : float
        For a histogram of the magnitudes in each column: columns far smaller than the others are scaled up.
    norm_share : float
        For a histogram of the row norms without the intercept: rows are clipped to a norm that few exceed,
        and the intercept is scaled down to about half of it if it is larger.
    label_share : float
        For the mean label, whose log-odds initialise the intercept, for the slopes from which a constant
        prediction of real targets is found, which initialises it, too, or for the class frequencies if
        classes are weighted by them.
    """

    column_share: Setting[float] = Setting(check.portion)
    norm_share: Setting[float] = Setting(check.portion)
    label_share: Setting[float] = Setting(check.portion)

    @property
    def together(self) -> float:
        """Share of the budget spent before the descent."""
        return self.column_share + self.norm_share + self.label_share

    def facts(self) -> dict[str, Any]:
        """Settings for the ledger and the privacy statement; None for those that depend on learned scales."""
        learned = self.column_share + self.norm_share > 0.0
        return self.chosen | (dict.fromkeys(_IN_UNITS_OF_THE_DATA) if learned else {})


_IN_UNITS_OF_THE_DATA = ("clip", "step_size", "step_max", "step_cap", "shift", "ridge")


def no_scales() -> ScaleShares:
    """Shares with which nothing is learned."""
    return ScaleShares(column_share=0.0, norm_share=0.0, label_share=0.0)


def learn_scales_choice(name: str, value: object) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


class LearnedScales(Schedule):
    """The argument of an algorithm that can learn scales.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on estimates of the column scales, the row norm and the mean
        label, or the best constant prediction of real targets, first (for softmax the row norm alone). Steps
        are then taken in coordinates in which columns have similar scales, and clip and step size follow from
        the row norm there. "auto": what :func:`dperm.algorithms.private_scales.scale_shares` considers
        worthwhile, unless a setting in the units of the data was given.
    """

    learn_scales: Setting[bool | str] = Setting(learn_scales_choice, "auto", stated=False)


@dataclass(frozen=True)
class ScaleNoise:
    """Noise multipliers of the releases before a descent; 0 for those that are not made."""

    columns: float = 0.0
    norms: float = 0.0
    labels: float = 0.0
    of_targets: bool = False  # whether labels are of real targets: the multiplier of sums of slopes

    @classmethod
    def of(cls, shares: ScaleShares, loss: Loss, whole: Budget, rest: Budget) -> Self:
        """The multipliers that these shares of the whole budget buy; their cost is spent from `rest`."""

        def bought(share: float) -> float:
            return share_of_budget(share, whole, rest) if share > 0.0 else 0.0

        columns, norms = bought(shares.column_share), bought(shares.norm_share)
        if loss.classification or not shares.label_share > 0.0:
            return cls(columns, norms, bought(shares.label_share))
        of_slopes = gaussian_noise_multiplier(whole.share(COST, shares.label_share), whole.accountant)
        for each in releases_for_constant(of_slopes):
            rest.spend(each)
        return cls(columns, norms, of_slopes, of_targets=True)

    @property
    def releases(self) -> list[GaussianRelease]:
        """The releases that are made."""
        scales = [GaussianRelease(each) for each in (self.columns, self.norms) if each]
        if self.of_targets:
            return scales + releases_for_constant(self.labels)
        return scales + ([GaussianRelease(self.labels)] if self.labels else [])

    @property
    def least_slope(self) -> float:
        """Factor by which slopes may fall if the spread of the targets is learned."""
        return LEAST_SPREAD if self.of_targets else 1.0

    @property
    def mu(self) -> float:
        """Gaussian differential privacy of the releases, rounded up."""
        return math.hypot(*(1.0 / each.noise_multiplier for each in self.releases)) * (1.0 + 2.0**-48)

    def in_words(self, loss: Loss) -> list[str]:
        """What is released before a descent."""
        counts = (
            "counts from which columns and rows are scaled" if self.columns else "counts of the row norms"
        )
        scaled = [counts] if self.columns or self.norms else []
        if not self.labels:
            return scaled
        of_targets = "slopes and distances of targets at constant predictions"
        return [*scaled, "the frequency of labels" if loss.classification else of_targets]

    def check_labels(self, fit: Fit) -> None:
        """Raise ValueError unless noise can be added to what is released of the labels."""
        if self.of_targets:
            check_noise_of_constant(fit, self.labels)

    def check(self, fit: Fit, clip: float, multiplier: float) -> None:
        """Raise ValueError unless gradients with this clip and noise can be summed in any learned frame."""
        self.check_labels(fit)
        if not (self.columns or self.norms):
            return
        for row_norm in (2.0**-10, 2.0):
            there = check.clip_norm("clip", self.least_slope * clip * (row_norm / fit.objective.row_norm))
            fit.check_gradient_noise(there, multiplier)


def share_of_budget(share: float, whole: Budget, rest: Budget) -> float:
    """Noise multiplier of a release that costs this share of the whole budget; spends it from `rest`."""
    multiplier = gaussian_noise_multiplier(whole.share(1, share), whole.accountant)
    rest.spend(GaussianRelease(multiplier))
    return multiplier


def scale_shares(problem: PublicProblem, learn: bool | str = "auto") -> ScaleShares:
    """Shares of the budget that are worth spending on scales, from public numbers alone.

    Parameters
    ----------
    problem : PublicProblem
        With mu per record.
    learn : True, False or "auto"
        Learn everything possible, nothing, or what is worthwhile.

    Notes
    -----
    Column scales are read off counts over a fraction of the records, which must exceed noise proportional to
    the square root of the number of columns that a record counts in; it is assumed to count in all of them.
    The row norm needs a single histogram, whose share falls as the signal grows. The mean label is worth its
    share if there is some signal and the intercept would otherwise take many steps to reach its log-odds. A
    constant prediction of real targets, whose share falls with the signal, too, is worth it almost always: a
    descent from there needs to go but a fraction of the way. For softmax only the row norm is learned.
    """
    label_share = _LABEL_SHARE if problem.weighs_privately else 0.0
    if learn is False or not problem.private:
        return ScaleShares(column_share=0.0, norm_share=0.0, label_share=label_share)
    signal, loss = problem.n * problem.mu, problem.loss
    smooth = loss.smoothness(1.0) < math.inf
    stands_out = signal * math.sqrt(_COLUMN_SHARE / problem.dimension) > 12.0
    columns = (stands_out and (smooth or loss.classification)) or learn is True
    if can_start_from_labels(problem) and (
        learn is True or signal >= (100.0 if loss.classification else 10.0)
    ):
        label_share = _LABEL_SHARE if loss.classification else min(max((60.0 / signal) ** 2, 0.01), 0.2)
    return ScaleShares(
        column_share=_COLUMN_SHARE if columns and loss.n_classes is None else 0.0,
        norm_share=min(max((20.0 / signal) ** 2, 0.02), 0.15),
        label_share=label_share,
    )


def can_start_from_labels(problem: PublicProblem) -> bool:
    """Whether the intercept can be initialised with the log-odds of the labels, or a constant for targets."""
    if problem.loss.classification:
        return problem.intercept and unweighted(problem.loss).name == "logistic"
    return problem.intercept and problem.loss.target_bound < math.inf


_COLUMN_SHARE, _LABEL_SHARE = 0.04, 0.01


@dataclass(frozen=True)
class Coordinates:
    """Coordinates in which rows have norm at most about 1.

    Attributes
    ----------
    scaling : RowScaling
        Scales rows to norm about 1, so that the descent does not depend on the units of the data.
    start : ndarray
        Initial weights, in the original coordinates.
    spread : float
        Of real targets about the start; infinite if it is not known.
    """

    scaling: RowScaling
    start: Array
    spread: float


#: Share of the rows that are longer than the learned bound on their norm.
FEW_LONG_ROWS = 0.02


def learned_coordinates(
    fit: Fit, release: Releaser, noise: ScaleNoise, few: float = FEW_LONG_ROWS
) -> Coordinates:
    """Release the estimates whose noise multiplier is not 0, and derive coordinates from them.

    A share `few` of the rows is longer than the learned bound on their norm.
    """
    objective = fit.objective
    unit = _unit(objective.row_norm)
    ridge = unit * ridge_as_norm(objective)
    scales, row_norm = np.full(objective.dimension, unit), objective.row_norm * unit
    if noise.columns:
        largest = max(1.0, 1.0 / ridge) if ridge else math.inf
        scales[: objective.n_columns] *= np.minimum(_column_scales(fit, release, noise.columns), largest)
        if (scales > unit).any():
            row_norm *= 2.0
    if noise.norms:
        row_norm = _row_norm(fit, release, noise.norms, scales, row_norm, ridge, few)
    start, spread = _from_labels(fit, release, noise.labels)
    return Coordinates(RowScaling(scales, row_norm), start, spread)


@dataclass(frozen=True)
class Frame:
    """Coordinates ``u`` in which a descent takes its steps, with weights ``w = start + factors u``.

    Attributes
    ----------
    start : ndarray
        Initial weights.
    problem : PublicProblem
        The problem in these coordinates, for default settings: its row norm and ridge term are rescaled.
    factors : ndarray or float
    linear_map : DiagonalMap or None
        The factors as a map; None if they are 1.
    released : list of str
        What was released to find all this.
    """

    start: Array
    problem: PublicProblem
    released: list[str]
    factors: Array | float = 1.0
    linear_map: DiagonalMap | None = None

    @classmethod
    def learned(cls, fit: Fit, release: Releaser, noise: ScaleNoise, problem: PublicProblem) -> Self:
        """Those of :func:`learned_coordinates` if columns or norms are released, else the original ones."""
        if not (noise.columns or noise.norms) or fit.objective.loss.n_classes is not None:
            return cls.unscaled(fit, release, noise, problem)
        objective, released = fit.objective, noise.in_words(fit.objective.loss)
        found = learned_coordinates(fit, release, noise)
        rounded = DiagonalMap.rounding(found.scaling.column_scales, objective.largest_condition)
        typical = float(np.median(rounded.factors[: objective.n_columns]))
        there = replace(
            problem,
            loss=objective.loss,
            row_norm=found.scaling.row_norm,
            l2=problem.l2 * typical**2,
            spread=found.spread,
            attained=True,
        )
        return cls(found.start, there, released, rounded.factors, rounded)

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
        start, spread = _from_labels(fit, release, noise.labels)
        return cls(start, replace(problem, loss=objective.loss, spread=spread), released)

    @property
    def scaling(self) -> RowScaling | None:
        """The coordinates of the rows, for second moments; None for the original ones."""
        return None if self.linear_map is None else RowScaling(self.linear_map.factors, self.problem.row_norm)

    def gradient_sum(self, objective: Objective, w: Array, clip: float) -> Bounded:
        """Sum of the records' gradients in these coordinates, each clipped to norm `clip`."""
        if self.linear_map is None:
            return objective.clipped_gradient_sum(w, clip)
        return objective.mapped_gradient_sum(w, clip, self.linear_map)

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


def after_releases(released: list[str], mechanism: str) -> str:
    """Description of a mechanism after these Gaussian releases."""
    if not released:
        return mechanism
    *others, last = released
    before = f"{', on '.join(others)} and on {last}" if others else last
    return f"Gaussian noise on {before}; then {mechanism}"


# Public bounds on class weights: the noisy frequency of a rare class is unreliable.
_MIN_WEIGHT, _MAX_WEIGHT = 0.1, 10.0


def _from_labels(fit: Fit, release: Releaser, multiplier: float) -> tuple[Array, float]:
    """Release what the labels tell: a constant prediction and the spread of targets, or class frequencies.

    Class weights are set from the frequencies if requested. Returns the initial weights, and the spread.

    Weighted classes have equal total weight, with an average of 1 per record. For the logistic loss the
    intercept starts at the log-odds of the weighted classes.
    """
    objective, start = fit.objective, np.zeros(fit.objective.shape)
    if not multiplier:
        return start, math.inf
    if not objective.loss.classification:
        start[-1], spread = noisy_constant(fit, release, multiplier)
        return start, spread
    if objective.loss.n_classes is None:
        mean = release.gaussian_sum(objective.label_sum(), multiplier)[0] / fit.n
        shares = {label: 0.5 * (1.0 + label * min(max(mean, -0.99), 0.99)) for label in (-1, 1)}
    else:
        shares = dict(enumerate(release.gaussian_sum(objective.class_counts(), multiplier) / fit.n))
    if objective.weighs_privately:
        rarest, commonest = 1.0 / (len(shares) * _MAX_WEIGHT), 1.0 / (len(shares) * _MIN_WEIGHT)
        objective._weigh_classes(
            {
                label: 1.0 / (len(shares) * min(max(share, rarest), commonest))
                for label, share in shares.items()
            }
        )
    if can_start_from_labels(fit.problem):
        weights = {} if objective.weights is None else objective.weights.of_classes
        start[-1] = math.log(shares[1] * weights.get(1, 1.0) / (shares[-1] * weights.get(-1, 1.0)))
    return start, math.inf


def scales_to_learn(fit: Fit, given: LearnedScales) -> ScaleShares:
    """Shares for descents without whitening, as `LearnedScales` describes.

    Raises
    ------
    ValueError
        If ``learn_scales=True`` and scales cannot be learned.
    """
    learn, objective = given.learn_scales, fit.objective
    settings = given.chosen
    in_units = [
        name for name in (*_IN_UNITS_OF_THE_DATA, "radius") if settings.get(name, math.inf) != math.inf
    ]
    possible = objective.reads_whole_rows and not fit.as_published
    if learn is True and not possible:
        raise ValueError(
            "learn_scales=True needs rows that can be made dense and calibration='tight': leave it out"
        )
    if learn is True and in_units:
        raise ValueError(
            f"{in_units[0]} is in units of the data, which learn_scales=True changes: give one of the two"
        )
    if learn == "auto" and (in_units or not possible):
        learn = False
    return scale_shares(fit.problem.per_record(), learn)


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
    counts = objective.magnitude_counts(n_bins)
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
    return np.where(small, 0.5 * 4.0 ** (place - median), 1.0)


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
) -> float:
    """A bound that few rows exceed after scaling; scales the intercept down accordingly, in place.

    The intercept should have a curvature like that of the other columns, ridge term included.
    """
    objective, bound, features = fit.objective, row_norm, scales.copy()
    intercept = min(1.0, objective.row_norm) * scales[-1] if objective.fit_intercept else 0.0  # at most
    if intercept:
        bound, features[-1] = math.sqrt(max(row_norm**2 - intercept**2, 0.25 * row_norm**2)), 0.0
    counts = objective.norm_counts(_NORM_BINS, RowScaling(features, bound))
    noise = multiplier * counts.sensitivity(fit.neighbors)
    reach = release.gaussian_sum(counts, multiplier).cumsum()
    # A bin that only noise fills would give a bound many times too large: that must be rare.
    detected = reach > np.maximum(few * fit.n, 4.0 * noise * np.sqrt(np.arange(1, _NORM_BINS + 1)))
    if detected.any():
        bound *= 2.0 ** (-0.5 * float(detected.argmax()))
    if intercept:
        shorter = min(intercept, 0.5 * math.hypot(bound, ridge))
        scales[-1] *= shorter / intercept
        bound = math.hypot(bound, shorter)
    return bound
