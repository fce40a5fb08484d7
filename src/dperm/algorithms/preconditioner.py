"""A preconditioner learned privately before a descent: column scales, and a bound on the row norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dperm.algorithms.defaults.constants import Columns, Norms
from dperm.algorithms.defaults.rules import typical_curvature
from dperm.algorithms.fit import Fit
from dperm.algorithms.private_scales import ScaleNoise, after_releases
from dperm.algorithms.private_start import Start, private_start
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.profile import column_scales
from dperm.mechanisms.release import Releaser
from dperm.objective.counts import norm_counts
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.transform import Transform


@dataclass(frozen=True)
class LearnedScales:
    """Scales with which rows have norm at most about 1, and the start of the descent.

    Attributes
    ----------
    scaling : Transform
        Scales rows to norm about 1, so that the descent does not depend on the units of the data.
    start : Start
        Initial weights, in the original coordinates, and what the labels say.
    """

    scaling: Transform
    start: Start

    def problem(self, objective: Objective, public: PublicProblem) -> PublicProblem:
        """The problem after scaling, for default settings: row norm and ridge term are rescaled."""
        typical = float(np.median(self.scaling.values[: objective.n_columns]))
        return replace(
            public,
            loss=objective.loss,
            row_norm=self.scaling.row_norm,
            l2=public.l2 * typical**2,
            target_scale=self.start.target_scale,
            start_penalty=objective.penalty(self.start.weights),
        )


def learned_scales(
    fit: Fit,
    release: Releaser,
    noise: ScaleNoise,
    long_rows: float = Norms.LONG_ROWS,
    shortened: float = 1.0,
) -> LearnedScales:
    """Release the estimates whose noise multiplier is not 0, and derive scales from them.

    The learned bound on the row norms is `shortened` times the norm that a fraction `long_rows` of the rows
    exceeds.
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
        row_norm = _row_norm(fit, release, noise.norms, scales, row_norm, ridge, long_rows, shortened)
    return LearnedScales(Transform.scaling(scales, row_norm), private_start(fit, release, noise.labels))


@dataclass(frozen=True)
class Preconditioner:
    """Coordinates ``u`` in which a descent takes its steps, with weights ``w = start + factors u``.

    Attributes
    ----------
    start : ndarray
        Initial weights.
    problem : PublicProblem
        The problem in these coordinates.
    released : list of str
        What was released to find all this.
    factors : ndarray or float
        Of the weights along a column, for all classes.
    linear_map : Transform or None
        The factors as a map; None if they are 1.
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
        shortened: float = 1.0,
    ) -> Self:
        """That of :func:`learned_scales` if columns or norms are released, else :meth:`unscaled`."""
        if not (noise.columns or noise.norms):
            return cls.unscaled(fit, release, noise, problem)
        objective, released = fit.objective, noise.description(fit.objective.loss)
        found = learned_scales(fit, release, noise, shortened=shortened)
        rounded = Transform.powers_of_two(found.scaling.values, objective.largest_condition)
        there = found.problem(objective, replace(problem, tight_row_norm=True))
        factors = rounded.values.reshape(-1, *[1] * (len(objective.shape) - 1))
        return cls(found.start.weights, there, released, factors, rounded)

    @classmethod
    def unscaled(cls, fit: Fit, release: Releaser, noise: ScaleNoise, problem: PublicProblem) -> Self:
        """The original coordinates; the problem has the bound on the row norms, if that is released."""
        objective, released = fit.objective, noise.description(fit.objective.loss)
        if noise.norms:
            unit = _unit(objective.row_norm)
            scales = np.full(objective.shape[0], unit)
            longest = objective.row_norm * unit
            bound = _row_norm(fit, release, noise.norms, scales, longest, 0.0, Norms.LONG_ROWS)
            if objective.fit_intercept:  # which keeps its scale
                intercept = min(1.0, objective.row_norm)
                of_columns = math.sqrt(bound**2 - (scales[-1] * intercept) ** 2)
                bound = math.hypot(of_columns, unit * intercept)
            problem = replace(problem, row_norm=min(bound, longest) / unit, tight_row_norm=True)
        start = private_start(fit, release, noise.labels)
        there = replace(
            problem,
            loss=objective.loss,
            target_scale=start.target_scale,
            start_penalty=objective.penalty(start.weights),
        )
        return cls(start.weights, there, released)

    @property
    def scaling(self) -> Transform | None:
        """The scales of the rows, for second moments; None for the original ones."""
        if self.linear_map is None:
            return None
        return Transform.scaling(self.linear_map.values, self.problem.row_norm)

    def gradient_sum(
        self,
        objective: Objective,
        w: Array,
        clip: float,
        *,
        radius: float = math.inf,
        keep_predictions: bool = False,
    ) -> Bounded:
        """Sum of the records' gradients in these coordinates, each clipped to norm `clip`.

        In the original ones, `radius` bounds the norm of `w`, which may tighten the sensitivity.
        """
        keep = keep_predictions
        if self.linear_map is None:
            return clipped_gradient_sum(objective, w, clip, radius=radius, keep_predictions=keep)
        return mapped_gradient_sum(objective, w, clip, self.linear_map, keep_predictions=keep)

    def step_sizes(self, sizes: Array, momentum: float, l2: float) -> Array:
        """Step sizes, capped so that heavy ball is stable for the ridge term along every axis."""
        steepest = l2 * float(np.max(self.factors)) ** 2
        if self.linear_map is None or not steepest:
            return sizes
        return np.minimum(sizes, Columns.RIDGE_STABLE * (1.0 + momentum) / steepest)

    def description(self, mechanism: str) -> str:
        """Description of the mechanism and of the releases before it."""
        return after_releases(self.released, mechanism)


def ridge_as_norm(objective: Objective) -> float:
    """Norm of rows along which the loss has the same curvature as the ridge term."""
    return math.sqrt(objective.l2 / typical_curvature(objective.loss, 1.0))


def _unit(row_norm: float) -> float:
    """A power of two that scales rows to a norm of at most 1, and more than half of it."""
    return 2.0 ** -math.ceil(math.log2(row_norm))


def _column_scales(fit: Fit, release: Releaser, multiplier: float) -> Array:
    """Factors of the columns: above 1 for columns that are more than two octaves below the median column."""
    objective = fit.objective
    sizes, seen = column_scales(fit, release, multiplier)
    median = float(np.median(sizes[seen])) if seen.any() else 0.0
    factors = np.clip(0.5 * median / sizes, 1.0, _largest_factor(objective, median))
    return np.asarray(np.where(seen, factors, 1.0))


def _largest_factor(objective: Objective, size: float) -> float:
    """Limit on the factor of a column, where entries of the median column have this root mean square.

    The ridge term has the same curvature along all columns, until some are scaled up. The limit is four times
    the factor that makes a column of zeros as steep as the median one, loss and ridge term together.
    """
    ridge = ridge_as_norm(objective)
    return Columns.LARGEST * math.hypot(1.0, size / ridge) if ridge else math.inf


def _row_norm(
    fit: Fit,
    release: Releaser,
    multiplier: float,
    scales: Array,
    row_norm: float,
    ridge: float,
    long_rows: float,
    shortened: float = 1.0,
) -> float:
    """`shortened` times the norm that a fraction `long_rows` of the rows exceeds after scaling.

    Between the edges of a bin the count is interpolated. A fraction that does not stand out from the noise is
    raised until it does. Scales the intercept down accordingly, in place: it should have a curvature like
    that of the other columns, ridge term included.
    """
    objective, bound, features = fit.objective, row_norm, scales.copy()
    intercept = min(1.0, objective.row_norm) * scales[-1] if objective.fit_intercept else 0.0  # at most
    if intercept:
        bound = math.sqrt(max(row_norm**2 - intercept**2, Norms.INTERCEPT_BOUND * row_norm**2))
        features[-1] = 0.0
    counts = norm_counts(objective, Norms.BINS, Transform.scaling(features, bound))
    noise = multiplier * counts.sensitivity(fit.neighbors)
    reaching = release.gaussian_sum(counts, multiplier).cumsum()
    # A bin that only noise fills would give a bound many times too large: that must be rare.
    least = np.maximum(long_rows * fit.n, Norms.DEVIATIONS * noise * np.sqrt(np.arange(1, Norms.BINS + 1)))
    if (reaching > least).any():
        k = int((reaching > least).argmax())
        longer = max(reaching[k - 1], 0.0) if k else 0.0
        bins = k + (least[k] - longer) / (reaching[k] - longer)
        bound *= shortened * 2.0 ** (-0.5 * bins)
    if intercept:
        shorter = min(intercept, 0.5 * math.hypot(bound, ridge))
        scales[-1] *= shorter / intercept
        bound = math.hypot(bound, shorter)
    return bound
