"""Default settings of `preconditioned_gd`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Whitened, WhitenedClip
from dperm.algorithms.defaults.noisy_gd import noisy_gd_schedule
from dperm.algorithms.defaults.rules import (
    clip_fraction,
    longest_gradient,
    slope_in_range,
    target_range,
)
from dperm.algorithms.defaults.scales import ScaleShares, scale_shares
from dperm.algorithms.problem import MANY_WEIGHTS, PublicProblem
from dperm.algorithms.settings import setting
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight


@dataclass(frozen=True, kw_only=True)
class PreconditionedGDSchedule(ScaleShares):
    """Settings of :func:`dperm.algorithms.preconditioned_gd`."""

    moments: str = setting(check.one_of("gram", "columns", "diagonal", "none"))
    share: float = setting(check.share)
    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(check.positive)
    momentum: float = setting(check.below_one)
    threshold: float = setting(check.non_negative)
    shrinkage: float = setting(check.non_negative)
    tail: float = setting(check.fraction)


def preconditioned_gd_schedule(
    problem: PublicProblem, learn_scales: bool | str = "auto", moments: str | None = None
) -> PreconditionedGDSchedule:
    """Default settings from public numbers alone.

    They are for these `moments`, or for those that are worth their noise; for `learn_scales` see
    :func:`dperm.algorithms.defaults.scales.scale_shares`. A loss without a Lipschitz constant is clipped as
    if its slope were the bound on the targets, or 1; a kink is assigned a finite curvature.

    Notes
    -----
    Second moments have eigenvalues ``R^2 / dimension`` on average, and the noise of a release must be smaller
    than that: for the Gram matrix in spectral norm, ``R^2 sqrt(2 dimension) / (n mu sqrt(share))``, for the
    mean squares of the columns entry by entry. With more than 1,001 weights these whiten by a diagonal
    matrix, as square ones would be slow. If neither is, the run is one of :func:`noisy_gd`, whose clip
    follows once the row norm is learned. Whitened problems resemble each other, so the other settings depend
    mainly on the signal-to-noise number ``n mu / sqrt(dimension)``.

    Heavy ball is stable while ``step_size`` times the smoothness times the largest remaining eigenvalue after
    whitening is below ``2 (1 + momentum)``. Whitened curvatures are nearly equal, so momentum gains little
    and delays convergence: an overshoot decays like ``momentum^(t/2)``, and a run of 60 steps must have
    converged by its second half, which is averaged. So steps are as long as is stable, with only as much
    momentum as brings the effective step to the inverse of the smoothness, or less with little signal.
    Momentum is at most 0.9: with many columns steps are short, and a longer memory would only accumulate
    noise.
    """
    scales = scale_shares(problem.per_record(), learn_scales)
    plain = problem.without(scales.together)
    problem = plain.per_record()
    signal, loss, dimension = problem.signal, problem.loss, problem.dimension
    moments = moments or _worth_their_noise(problem)
    if moments == "none":
        near = scales.label_share > 0.0 and not loss.classification
        scale = loss.target_bound if near else math.inf  # in units of which the clip is stated
        own = without_moments(replace(plain, tight_row_norm=scales.norm_share > 0.0, target_scale=scale))
        return replace(own, **scales.shares())
    missed = {
        "gram": math.sqrt(2.0 * dimension),
        "columns": dimension / Whitened.MISSED_BY_COLUMNS,
        "diagonal": Whitened.MISSED_BY_DIAGONAL,
    }
    largest = 1.0 + missed[moments]
    longest = longest_gradient(loss, problem.row_norm, noisy=problem.private)
    # In units of the inverse smoothness.
    effective_step = min(max(signal / Whitened.STEP_SIGNAL, Whitened.LEAST_STEP), 1.0)
    step = min(Whitened.STEP * effective_step, Whitened.STABLE / largest)
    if loss.classification and loss.kink_jump > 0.0:
        effective_step *= Whitened.LABEL_KINK
    enough = max(
        Whitened.LEAST_STEPS,
        Whitened.STEPS_PER_EIGENVALUE * largest,
        min(signal / Whitened.SIGNAL_PER_STEP, Whitened.MOST_SIMPLE_STEPS),
        signal / Whitened.SIGNAL_PER_STEP_BEYOND,
    )
    clip = max(relative_clip(loss, signal), clip_fraction(problem, longest, 0.0))
    return PreconditionedGDSchedule(
        **scales.shares(),
        moments=moments,
        share=Whitened.MOMENTS,
        steps=round(min(enough, Whitened.MOST_STEPS)),
        clip=min(clip, Whitened.LARGEST_CLIP_SETTING),
        step_size=step / smoothness_of(loss),
        momentum=min(1.0 - step / effective_step, Whitened.MOST_MOMENTUM),
        threshold=0.5,
        shrinkage=1.0,
        tail=0.5,
    )


def _worth_their_noise(problem: PublicProblem) -> str:
    """The most accurate moments that stand out from noise."""
    dimension = problem.dimension
    # Inverse of the noise of one entry, in units of R^2 / dimension.
    accuracy = problem.n * problem.mu * math.sqrt(Whitened.MOMENTS) / dimension
    if accuracy > math.sqrt(2.0 * dimension) and dimension <= MANY_WEIGHTS:
        return "gram"
    least = math.sqrt(2.0) * dimension**Whitened.COLUMN_POWER
    if not problem.loss.classification:
        # Real targets lose more by noisy moments of few columns, and gain more by those of many.
        of_many = least if problem.loss.steeper_on_one_side else 0.0
        least = min(2.0 * least, max(Whitened.ACCURACY_OF_TARGETS / dimension, of_many))
    if accuracy > least:
        return "columns" if dimension <= MANY_WEIGHTS else "diagonal"
    return "none"


def without_moments(problem: PublicProblem) -> PreconditionedGDSchedule:
    """A run of noisy gradient descent, in coordinates ``u = w row_norm / sqrt(dimension)``."""
    plain = noisy_gd_schedule(replace(problem, row_norm=1.0, l2=problem.l2 / problem.row_norm**2))
    return PreconditionedGDSchedule(
        moments="none",
        share=0.5,
        steps=plain.steps,
        clip=plain.clip / slope_of(problem.loss),
        step_size=plain.step_size / problem.dimension,
        momentum=plain.momentum,
        threshold=0.0,
        shrinkage=0.0,
        tail=plain.tail,
    )


def relative_clip(loss: Loss, signal: float) -> float:
    """Clip as a multiple of the longest gradient of a typical row.

    Clipping trades bias for noise, and costs most if many gradients stay long until the end, such as those of
    records beyond a kink. Gradients of the logistic loss start at half its maximum slope, so a clip beyond 1
    affects only a few long rows; residuals of the squared error are far below the bound on the targets. Where
    slopes for labels have no limit, they are counted as 1, but are twice that on the wrong side.
    """
    few_are_long = math.sqrt(signal / WhitenedClip.FEW_LONG)
    many_are_long = math.sqrt(signal / WhitenedClip.MANY_LONG)
    slope = loss.lipschitz(1.0)
    if loss.steeper_on_one_side:
        clip = max(1.0, many_are_long)
    elif slope == math.inf and not loss.classification:
        clip = few_are_long
    elif loss.slope_at_zero(1.0) < slope < math.inf:
        clip = min(many_are_long, max(1.0, few_are_long))
    else:
        clip = many_are_long
    return max(WhitenedClip.LEAST, clip) * (2.0 if loss.classification and slope == math.inf else 1.0)


def slope_of(loss: Loss, target_scale: float = math.inf) -> float:
    """Maximum slope of the loss, in the range of bounded targets; 1 if it is unbounded."""
    if loss.prediction_bound < math.inf:
        return slope_in_range(loss, target_scale)
    slope = loss.lipschitz(1.0)
    return slope if slope < math.inf else largest_weight(loss)


def smoothness_of(loss: Loss, target_scale: float = math.inf) -> float:
    """Largest second derivative.

    A kink is treated as a bend of width 2 or, with bounded real targets, of a third of their range.
    """
    smoothness = loss.smoothness(1.0)
    if smoothness < math.inf:
        return smoothness
    if loss.prediction_bound == math.inf:
        return 0.5 * largest_weight(loss)
    return WhitenedClip.KINK_WIDTH * slope_of(loss, target_scale) / target_range(loss, target_scale)
