"""Clips of descents in whitened coordinates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dperm.algorithms.defaults.constants import Norms, Whitened, WhitenedClip
from dperm.algorithms.defaults.preconditioned_gd import slope_of
from dperm.algorithms.defaults.rules import fraction_under_ridge
from dperm.algorithms.fit import Fit
from dperm.algorithms.preconditioner import LearnedScales
from dperm.algorithms.private_whitening import Whitening
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight


def whitened_clip(
    fit: Fit, relative: float, scales: LearnedScales, whitening: Whitening, *, given: bool
) -> float:
    """Bound on gradients in whitened coordinates, from the relative clip and what has been released.

    If the relative clip was not given, real targets and ridge terms change it.
    """
    loss, start = fit.objective.loss, scales.start
    slope, at_zero = slope_of(loss, start.target_scale), _relative_slope_at_zero(loss)
    if given:
        return slope * whitening.clip(relative, at_zero, given=True)
    raised = _raised_clip(loss, fit.problem.per_record(), whitening.longest)
    ridge_gradient = whitening.linear_map @ fit.objective.penalty_gradient(start.weights)
    balancing = WhitenedClip.RIDGE_GRADIENTS * float(np.linalg.norm(ridge_gradient)) / slope
    least, most = _clips_under_ridge(fit.problem, scales, whitening)
    for_long_rows = whitening.clip(raised, at_zero)
    most = max(most, for_long_rows, 2.0 * balancing, relative * Whitened.SHORTEST_ROW)
    return slope * max(min(max(whitening.clip(max(relative, raised), at_zero), least), most), balancing)


def _raised_clip(loss: Loss, problem: PublicProblem, longest: float) -> float:
    """A clip for long rows, as a multiple of a typical gradient; the longest row is `longest` typical ones.

    With real targets or an unbounded slope a few long rows may have most of the loss. They are clipped less,
    as far as noise then costs no more than some thousandths of a constant's excess risk.
    """
    if loss.classification and loss.lipschitz(1.0) < math.inf:
        return 0.0
    longest = min(longest, WhitenedClip.LARGEST)
    return min(WhitenedClip.LONG_ROWS * longest * problem.signal / math.sqrt(problem.dimension), longest)


def _relative_slope_at_zero(loss: Loss) -> float:
    """Slope for a label at zero weights over the largest one; 1 for other losses and unbounded slopes."""
    slope = loss.lipschitz(1.0)
    return loss.slope_at_zero(1.0) / slope if loss.classification and slope < math.inf else 1.0


def _clips_under_ridge(
    problem: PublicProblem, scales: LearnedScales, whitening: Whitening
) -> tuple[float, float]:
    """Least and largest clip of real targets under a ridge term that keeps noise harmless.

    For a slope of 1, like `Whitening.clip`; 0 and infinity where it pays to have no such limit. The schedule
    uses the public bound on the row norms, these use the learned one.

    The least one is half of a harmless one, at most a typical gradient, or a quarter of it, at most that of
    all but the longest rows. It pays where most gradients are about equally long, and clipping would weaken
    them all relative to the term: not for smooth losses of unbounded slope. The largest one is for a descent
    from a constant prediction: whitened rows are shorter under a ridge term than the relative clip was made
    for. Columns that are scaled up meet a stronger term than most do, which is no reason to clip the others.
    Nor is the term a reason to clip long rows that are worth their noise.
    """
    loss, scaling, target_scale = problem.loss, scales.scaling, scales.start.target_scale
    if loss.classification or not problem.private or problem.l2 == 0.0:
        return 0.0, math.inf
    there = replace(problem, l2=problem.l2 * float(np.median(scaling.values)) ** 2)
    least, most, slope = 0.0, math.inf, loss.lipschitz(1.0)
    if slope == math.inf and loss.smoothness(1.0) == math.inf:  # slopes grow slowly with the distance
        slope = largest_weight(loss)
    if slope < math.inf:
        longest = max(whitening.longest, 1.0)
        harmless = longest * fraction_under_ridge(there, slope * scaling.row_norm)
        of_most_rows = min(longest / Norms.SHORTENED, WhitenedClip.LARGEST)
        typical = min(WhitenedClip.HARMLESS * harmless, 1.0)
        least = whitening.row_length * max(
            typical, min(WhitenedClip.HARMLESS_OF_MOST * harmless, of_most_rows)
        )
    if target_scale < math.inf and whitening.typical_ridge_share > 0.0 and not loss.steeper_on_one_side:
        near = replace(there, target_scale=target_scale)
        harmless = fraction_under_ridge(near, slope_of(loss, target_scale) * scaling.row_norm)
        most = WhitenedClip.UNDER_RIDGE * whitening.row_length * harmless
        most /= math.sqrt(whitening.typical_ridge_share)
    return least, most
