"""What a fit learns of its data before it descends: scales of the columns, norm of the rows, mean label.

A public bound on the rows that is too large, or columns far below what the bound allows, cost most of a
budget: noise is in proportion to the bound. A few counts, released first, tell how long rows really are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Schedule, Setting
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Array
from dperm.objective.row_scaling import RowScaling

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
        For the mean of the labels, from whose log-odds the descent starts.
    """

    column_share: Setting[float] = Setting(check.portion)
    norm_share: Setting[float] = Setting(check.portion)
    label_share: Setting[float] = Setting(check.portion)


def learn_scales_choice(name: str, value: object) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return bool(value)


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
    if learn is False or not problem.private:
        return ScaleShares(column_share=0.0, norm_share=0.0, label_share=0.0)
    signal, loss = problem.n * problem.mu, problem.loss
    smooth = loss.smoothness(1.0) < math.inf
    stands_out = signal * math.sqrt(_COLUMN_SHARE / problem.dimension) > 12.0
    columns = stands_out and (smooth or loss.classification)
    labels = signal >= 100.0 and smooth
    return ScaleShares(
        column_share=_COLUMN_SHARE if columns or learn is True else 0.0,
        norm_share=min(max((20.0 / signal) ** 2, 0.02), 0.15),
        label_share=0.01 if (labels or learn is True) and can_start_from_labels(problem) else 0.0,
    )


def can_start_from_labels(problem: PublicProblem) -> bool:
    """Whether the log-odds of the labels are weights to start from."""
    return problem.intercept and problem.loss.name == "logistic"


_COLUMN_SHARE = 0.04


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


def learned_coordinates(
    fit: Fit, release: Releaser, *, columns: float, norms: float, labels: float
) -> Coordinates:
    """Release what there is a noise multiplier for; 0 for what is not learned."""
    objective = fit.objective
    unit = 2.0 ** -math.ceil(math.log2(objective.row_norm))
    scales, row_norm = np.full(objective.dimension, unit), objective.row_norm * unit
    start = np.zeros(objective.dimension)
    if columns:
        scales[: objective.n_columns] *= _column_scales(fit, release, columns)
        if (scales > unit).any():
            row_norm *= 2.0
    if norms:
        row_norm = _row_norm(fit, release, norms, scales, row_norm)
    if labels:
        mean = release.gaussian_sum(objective.label_sum(), labels)[0] / fit.n
        mean = min(max(mean, -0.99), 0.99)
        start[-1] = math.log((1.0 + mean) / (1.0 - mean))
    return Coordinates(RowScaling(scales, row_norm), start)


def _column_scales(fit: Fit, release: Releaser, multiplier: float) -> Array:
    """Factors of the columns: above 1 where entries are far below those of the median column.

    A column is as large as the largest magnitude that a hundredth of the records reach, as far as the fullest
    column tells, or as many as stand out from the noise; relative to the other columns, as those that are not
    detected stay as they are. So do those that seem to have larger entries, too: a sum over more bins is
    noisier, and few entries may not stand out before. Two bins apart are magnitudes of 4 to 64 times each
    other.
    """
    objective = fit.objective
    n_bins = _MAGNITUDE_BINS + math.ceil(0.25 * math.log2(objective.n_columns))
    counts = objective.magnitude_counts(n_bins)
    noise = multiplier * counts.sensitivity(fit.neighbors) * np.sqrt(np.arange(1, n_bins + 1))
    reach = release.gaussian_sum(counts, multiplier).cumsum(axis=1)
    enough = 0.01 * reach.max()
    detected = reach > np.maximum(enough, 4.0 * noise)
    found, place = detected.any(axis=1), detected.argmax(axis=1)
    if not found.any():
        return np.ones(objective.n_columns)
    median = int(np.quantile(place[found], 0.5, method="lower"))
    nearly = min(median + 1, n_bins - 1)
    small = found & (place > nearly) & (reach[:, nearly] < max(enough, 2.0 * noise[nearly]))
    return np.where(small, 0.5 * 4.0 ** (place - median), 1.0)


def _row_norm(fit: Fit, release: Releaser, multiplier: float, scales: Array, row_norm: float) -> float:
    """A norm that few rows exceed in these coordinates; shrinks the factor of the intercept with it."""
    objective, bound, features = fit.objective, row_norm, scales.copy()
    intercept = min(1.0, objective.row_norm) * scales[-1] if objective.fit_intercept else 0.0  # at most
    if intercept:
        bound, features[-1] = math.sqrt(max(row_norm**2 - intercept**2, 0.25 * row_norm**2)), 0.0
    counts = objective.norm_counts(_NORM_BINS, RowScaling(features, bound))
    noise = multiplier * counts.sensitivity(fit.neighbors)
    reach = release.gaussian_sum(counts, multiplier).cumsum()
    detected = reach > np.maximum(0.02 * fit.n, 3.0 * noise * np.sqrt(np.arange(1, _NORM_BINS + 1)))
    if detected.any():
        bound *= 2.0 ** (-0.5 * float(detected.argmax()))
    if intercept:
        shorter = min(intercept, 0.5 * bound)
        scales[-1] *= shorter / intercept
        bound = math.hypot(bound, shorter)
    return bound
