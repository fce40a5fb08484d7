"""What a fit learns of its data before it descends: scales of the columns, norm of the rows, mean label.

A public bound on the rows that is too large, or columns far below what the bound allows, cost most of a
budget: noise is in proportion to the bound. A few counts, released first, tell how long rows really are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dperm.accounting import Budget, GaussianRelease, gaussian_noise_multiplier
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import typical_curvature
from dperm.algorithms.settings import Schedule, Setting
from dperm.losses.weighted import unweighted
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Array, Objective
from dperm.objective.row_scaling import RowScaling
from dperm.private_values.linear_map import DiagonalMap

_NORM_BINS = 16  # half octaves
_MAGNITUDE_BINS = 6  # pairs of octaves below the entries of a row all of whose entries are equal


class ScaleShares(Schedule):
    """Shares of the budget, in mu^2, for what is learned before a descent; 0 for what is not.

    Attributes
    ----------
    column_share : float
        For a histogram of every column's magnitudes: columns far below the others are scaled up.
    norm_share : float
        For a histogram of the norms of the rows, intercept left out: longer rows are scaled onto the norm
        that most keep to, and the intercept becomes half as long.
    label_share : float
        For the mean of the labels, from whose log-odds the descent starts, or for the frequencies of the
        classes where these are to be weighed by them.
    """

    column_share: Setting[float] = Setting(check.portion)
    norm_share: Setting[float] = Setting(check.portion)
    label_share: Setting[float] = Setting(check.portion)

    @property
    def together(self) -> float:
        """What is spent before a descent."""
        return self.column_share + self.norm_share + self.label_share

    def facts(self) -> dict[str, Any]:
        """What ledger and statement name; None for what of a schedule follows from what is learned."""
        learned = self.column_share + self.norm_share > 0.0
        return self.chosen | (dict.fromkeys(_IN_UNITS_OF_THE_DATA) if learned else {})


_IN_UNITS_OF_THE_DATA = ("clip", "step_size", "step_max", "step_cap")


def no_scales() -> ScaleShares:
    """Nothing is learned."""
    return ScaleShares(column_share=0.0, norm_share=0.0, label_share=0.0)


def learn_scales_choice(name: str, value: object) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


class LearnedScales(Schedule):
    """What an algorithm says of scales that it learns.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        Whether a part of the budget releases scales of the columns, the norm of the rows and the mean label
        first. Steps are then taken in coordinates in which columns are of one size, and clip and step size
        follow from how long rows are there. "auto": what pays by
        :func:`dperm.algorithms.private_scales.scale_shares`, for a loss of one prediction, where no setting
        in the units of the data was given.
    """

    learn_scales: Setting[bool | str] = Setting(learn_scales_choice, "auto", stated=False)


@dataclass(frozen=True)
class ScaleNoise:
    """Noise multipliers of what is learned before a descent; 0 for what is not."""

    columns: float = 0.0
    norms: float = 0.0
    labels: float = 0.0

    @classmethod
    def of(cls, shares: ScaleShares, whole: Budget, rest: Budget) -> Self:
        """Those that the shares of the whole pay for; the rest is what they leave."""
        multipliers = []
        for share in (shares.column_share, shares.norm_share, shares.label_share):
            learned = share > 0.0
            multipliers.append(share_of_budget(share, whole, rest) if learned else 0.0)
        return cls(*multipliers)

    @property
    def releases(self) -> list[GaussianRelease]:
        """What they are noise of."""
        return [GaussianRelease(each) for each in (self.columns, self.norms, self.labels) if each]

    @property
    def mu(self) -> float:
        """Gaussian differential privacy of the releases, rounded up."""
        return math.hypot(*(1.0 / each.noise_multiplier for each in self.releases)) * (1.0 + 2.0**-48)

    def check(self, fit: Fit, clip: float, multiplier: float) -> None:
        """Raise ValueError unless gradients with that clip and noise can be summed in any learned frame."""
        if self == ScaleNoise():
            return
        for row_norm in (2.0**-10, 2.0):
            there = check.clip_norm("clip", clip * (row_norm / fit.objective.row_norm))
            fit.check_gradient_noise(there, multiplier)


def share_of_budget(share: float, whole: Budget, rest: Budget) -> float:
    """Noise multiplier of a release that costs this share of the whole, which is taken off the rest."""
    multiplier = gaussian_noise_multiplier(whole.share(1, share), whole.accountant)
    rest.spend(GaussianRelease(multiplier))
    return multiplier


def scale_shares(problem: PublicProblem, learn: bool | str = "auto") -> ScaleShares:
    """What pays, from public numbers alone.

    Parameters
    ----------
    problem : PublicProblem
        With mu per record.
    learn : True, False or "auto"
        All that is possible, nothing, or what pays.

    Notes
    -----
    A column's scale shows in counts of a part of the records, which have to stand out from noise in
    proportion to the root of how many columns a record counts in: all of them, by guess. The norm of the rows
    takes one histogram, the share of which falls with the signal. The mean label is worth its share where
    there is some signal, and weights have a long way to go for a constant.
    """
    label_share = _LABEL_SHARE if problem.weighs_privately else 0.0
    if learn is False or not problem.private:
        return ScaleShares(column_share=0.0, norm_share=0.0, label_share=label_share)
    signal, loss = problem.n * problem.mu, problem.loss
    smooth = loss.smoothness(1.0) < math.inf
    stands_out = signal * math.sqrt(_COLUMN_SHARE / problem.dimension) > 12.0
    columns = stands_out and (smooth or loss.classification)
    labels = signal >= 100.0 and smooth
    return ScaleShares(
        column_share=_COLUMN_SHARE if columns or learn is True else 0.0,
        norm_share=min(max((20.0 / signal) ** 2, 0.02), 0.15),
        label_share=_LABEL_SHARE
        if (labels or learn is True) and can_start_from_labels(problem)
        else label_share,
    )


def can_start_from_labels(problem: PublicProblem) -> bool:
    """Whether the log-odds of the labels are weights to start from."""
    return problem.intercept and unweighted(problem.loss).name == "logistic"


_COLUMN_SHARE, _LABEL_SHARE = 0.04, 0.01


@dataclass(frozen=True)
class Coordinates:
    """In which the rows are no longer than they need to be.

    Attributes
    ----------
    scaling : RowScaling
        Of the rows, whose norm is about 1 there: what follows does not depend on the unit of the data.
    start : ndarray
        Weights to start from, in the coordinates of the data.
    """

    scaling: RowScaling
    start: Array


def learned_coordinates(fit: Fit, release: Releaser, noise: ScaleNoise) -> Coordinates:
    """Release what there is noise for."""
    objective = fit.objective
    unit = 2.0 ** -math.ceil(math.log2(objective.row_norm))
    ridge = unit * ridge_as_norm(objective)
    scales, row_norm = np.full(objective.dimension, unit), objective.row_norm * unit
    start = np.zeros(objective.dimension)
    if noise.columns:
        largest = max(1.0, 1.0 / ridge) if ridge else math.inf
        scales[: objective.n_columns] *= np.minimum(_column_scales(fit, release, noise.columns), largest)
        if (scales > unit).any():
            row_norm *= 2.0
    if noise.norms:
        row_norm = _row_norm(fit, release, noise.norms, scales, row_norm, ridge)
    if noise.labels:
        start[:] = _from_labels(fit, release, noise.labels)
    return Coordinates(RowScaling(scales, row_norm), start)


@dataclass(frozen=True)
class Frame:
    """Coordinates ``u`` of the weights ``w = start + factors u``, in which a descent takes its steps.

    Attributes
    ----------
    start : ndarray
        Of the weights' shape.
    problem : PublicProblem
        What settings may depend on there: the norm of the rows and the ridge term are those of the frame.
    factors : ndarray or float
    linear_map : DiagonalMap or None
        The factors, where they are not 1.
    """

    start: Array
    problem: PublicProblem
    factors: Array | float = 1.0
    linear_map: DiagonalMap | None = None

    @classmethod
    def learned(cls, fit: Fit, release: Releaser, noise: ScaleNoise, problem: PublicProblem) -> Self:
        """The coordinates of the data, or what is better by :func:`learned_coordinates`."""
        objective = fit.objective
        if not (noise.columns or noise.norms):
            start = np.zeros(objective.shape)
            start = _from_labels(fit, release, noise.labels) if noise.labels else start
            return cls(start, replace(problem, loss=objective.loss))
        found = learned_coordinates(fit, release, noise)
        rounded = DiagonalMap.rounding(found.scaling.column_scales, objective.largest_condition)
        typical = float(np.median(rounded.factors[: objective.n_columns]))
        there = replace(
            problem,
            loss=objective.loss,
            row_norm=found.scaling.row_norm,
            l2=problem.l2 * typical**2,
            attained=True,
        )
        return cls(found.start, there, rounded.factors, rounded)

    def step_sizes(self, sizes: Array, momentum: float, l2: float) -> Array:
        """Steps short enough for the ridge term along every axis."""
        steepest = l2 * float(np.max(self.factors)) ** 2
        if self.linear_map is None or not steepest:
            return sizes
        return np.minimum(sizes, 1.5 * (1.0 + momentum) / steepest)

    def in_words(self, mechanism: str) -> str:
        """The mechanism, and what came before it."""
        if self.linear_map is None:
            return mechanism
        return f"Gaussian noise on counts that tell the scales of columns and rows; then {mechanism}"


# Public bounds of weights by noisy frequencies, which tell little of a class of few records.
_LEAST_WEIGHT, _LARGEST_WEIGHT = 0.1, 10.0


def _from_labels(fit: Fit, release: Releaser, multiplier: float) -> Array:
    """Release the frequencies of the classes; weigh these by them, if so asked, and say where to start.

    The classes then weigh the same, on average 1 a record. The intercept starts from their log-odds,
    weights included, where the loss makes something of them.
    """
    objective, start = fit.objective, np.zeros(fit.objective.shape)
    if objective.loss.n_classes is None:
        mean = release.gaussian_sum(objective.label_sum(), multiplier)[0] / fit.n
        shares = {label: 0.5 * (1.0 + label * min(max(mean, -0.99), 0.99)) for label in (-1, 1)}
    else:
        shares = dict(enumerate(release.gaussian_sum(objective.class_counts(), multiplier) / fit.n))
    if objective.weighs_privately:
        largest, least = 1.0 / (len(shares) * _LARGEST_WEIGHT), 1.0 / (len(shares) * _LEAST_WEIGHT)
        objective._weigh_classes(
            {label: 1.0 / (len(shares) * min(max(share, largest), least)) for label, share in shares.items()}
        )
    if can_start_from_labels(fit.problem):
        weights = {} if objective.weights is None else objective.weights.of_classes
        start[-1] = math.log(shares[1] * weights.get(1, 1.0) / (shares[-1] * weights.get(-1, 1.0)))
    return start


def scales_to_learn(fit: Fit, given: LearnedScales) -> ScaleShares:
    """For descents without whitening: what is asked for, or pays; see `LearnedScales`.

    Raises
    ------
    ValueError
        Where ``learn_scales=True`` asks for what cannot be had.
    """
    learn, objective = given.learn_scales, fit.objective
    settings = given.chosen
    in_units = [
        name for name in (*_IN_UNITS_OF_THE_DATA, "radius") if settings.get(name, math.inf) != math.inf
    ]
    possible = len(objective.shape) == 1 and objective.reads_whole_rows and not fit.as_published
    if learn is True and not possible:
        raise ValueError(
            "learn_scales=True needs a loss of one linear prediction, rows that can be made dense and "
            "calibration='tight': leave learn_scales out"
        )
    if learn is True and in_units:
        raise ValueError(
            f"{in_units[0]} is in units of the data, which learn_scales=True changes: give one of the two"
        )
    if learn == "auto" and (in_units or not possible):
        learn = False
    return scale_shares(fit.problem.per_record(), learn)


def _column_scales(fit: Fit, release: Releaser, multiplier: float) -> Array:
    """Factors of the columns: above 1 where entries are far below those of the median column.

    A column is detected from the magnitude on that a hundredth of the records reach, as far as the fullest
    column tells, or as many as stand out from the noise, and is as large as three quarters of these; relative
    to the other columns, as those that are not detected stay as they are. So do those that seem to have
    larger entries, too: a sum over more bins is noisier, and few entries may not stand out before. Two bins
    apart are magnitudes of 4 to 64 times each other.
    """
    objective = fit.objective
    n_bins = _MAGNITUDE_BINS + math.ceil(0.25 * math.log2(objective.n_columns))
    counts = objective.magnitude_counts(n_bins)
    noise = multiplier * counts.sensitivity(fit.neighbors) * np.sqrt(np.arange(1, n_bins + 1))
    reach = release.gaussian_sum(counts, multiplier).cumsum(axis=1)
    enough = 0.01 * reach.max()
    detected = reach > np.maximum(enough, 4.0 * noise)
    found = detected.any(axis=1)
    if not found.any():
        return np.ones(objective.n_columns)
    # Not where it was detected: a category of nearly enough records may be so in any bin, by noise.
    there = np.take_along_axis(reach, detected.argmax(axis=1)[:, np.newaxis], axis=1)
    place = (reach >= 0.75 * there).argmax(axis=1)
    median = int(np.quantile(place[found], 0.5, method="lower"))
    nearly = min(median + 1, n_bins - 1)
    small = found & (place > nearly) & (reach[:, nearly] < max(enough, 2.0 * noise[nearly]))
    return np.where(small, 0.5 * 4.0 ** (place - median), 1.0)


def ridge_as_norm(objective: Objective) -> float:
    """Norm of rows along which the loss bends as much as the ridge term."""
    return math.sqrt(objective.l2 / typical_curvature(objective.loss, 1.0))


def _row_norm(
    fit: Fit, release: Releaser, multiplier: float, scales: Array, row_norm: float, ridge: float
) -> float:
    """A norm that few rows exceed in these coordinates; shrinks the factor of the intercept with it.

    The more signal there is, the fewer rows are worth being clipped for less noise. The intercept is as steep
    as the other columns, to which the ridge term adds.
    """
    objective, bound, features = fit.objective, row_norm, scales.copy()
    intercept = min(1.0, objective.row_norm) * scales[-1] if objective.fit_intercept else 0.0  # at most
    if intercept:
        bound, features[-1] = math.sqrt(max(row_norm**2 - intercept**2, 0.25 * row_norm**2)), 0.0
    counts = objective.norm_counts(_NORM_BINS, RowScaling(features, bound))
    noise = multiplier * counts.sensitivity(fit.neighbors)
    reach = release.gaussian_sum(counts, multiplier).cumsum()
    few = min(0.02, 2.0 / fit.problem.per_record().signal)
    detected = reach > np.maximum(few * fit.n, 3.0 * noise * np.sqrt(np.arange(1, _NORM_BINS + 1)))
    if detected.any():
        bound *= 2.0 ** (-0.5 * float(detected.argmax()))
    if intercept:
        shorter = min(intercept, 0.5 * math.hypot(bound, ridge))
        scales[-1] *= shorter / intercept
        bound = math.hypot(bound, shorter)
    return bound
