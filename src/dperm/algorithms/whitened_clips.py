"""Clips of descents in whitened coordinates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dperm.algorithms.fit import Fit
from dperm.algorithms.learned_coordinates import SHORTENING, Coordinates
from dperm.algorithms.private_whitening import SHORTEST_ROW, Whitening
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import (
    share_under_ridge,
    slope_in_range,
    steeper_on_one_side,
    target_range,
)
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight


def relative_clip(loss: Loss, signal: float) -> float:
    """Clip as a multiple of the longest gradient of a typical row, from the signal-to-noise number.

    Clipping trades bias for noise, and costs most if many gradients stay long until the end, such as those of
    records beyond a kink. Gradients of the logistic loss start at half its maximum slope, so a clip beyond 1
    affects only a few long rows; residuals of the squared error are far below the bound on the targets. Where
    slopes for labels have no limit, they are counted as 1, but are twice that on the wrong side.
    """
    few_are_long, many_are_long = math.sqrt(signal / 1200.0), math.sqrt(signal / 500.0)
    slope = loss.lipschitz(1.0)
    if steeper_on_one_side(loss):
        clip = max(1.0, many_are_long)
    elif slope == math.inf and not loss.classification:
        clip = few_are_long
    elif loss.slope_at_zero(1.0) < slope < math.inf:
        clip = min(many_are_long, max(1.0, few_are_long))
    else:
        clip = many_are_long
    return max(0.3, clip) * (2.0 if loss.classification and slope == math.inf else 1.0)


# Least clip, in units of the ridge term's gradient at the start, which the mean of clipped ones must balance.
_TO_BALANCE_RIDGE = 2.0

# Largest clip of a descent from a constant prediction, in units of the one that a ridge term keeps harmless.
_LARGEST_UNDER_RIDGE = 1.3

#: Largest clip, in units of a typical gradient, that is raised for the sake of long rows.
LARGEST_CLIP = 10.0


def whitened_clip(
    fit: Fit, relative: float, coordinates: Coordinates, found: Whitening, *, given: bool
) -> float:
    """Bound on gradients in whitened coordinates, from the relative clip and what has been released.

    If the relative clip was not given, real targets and ridge terms change it.
    """
    loss, spread = fit.objective.loss, coordinates.spread
    slope, at_zero = slope_of(loss, spread), _relative_slope_at_zero(loss)
    if given:
        return slope * found.clip(relative, at_zero, given=True)
    raised = _raised_clip(loss, fit.problem.per_record(), found.longest)
    pull = float(np.linalg.norm(found.linear_map @ fit.objective.penalty_gradient(coordinates.start)))
    balancing = _TO_BALANCE_RIDGE * pull / slope
    least, most = _clips_under_ridge(fit.problem, coordinates, found)
    for_long_rows = found.clip(raised, at_zero)
    most = max(most, for_long_rows, 2.0 * balancing, relative * SHORTEST_ROW)
    return slope * max(min(max(found.clip(max(relative, raised), at_zero), least), most), balancing)


def _raised_clip(loss: Loss, problem: PublicProblem, longest: float) -> float:
    """A clip for long rows, as a multiple of a typical gradient; the longest row is `longest` typical ones.

    With real targets or an unbounded slope a few long rows may have most of the loss. They are clipped less,
    as far as noise then costs no more than some thousandths of a constant's excess risk.
    """
    if loss.classification and loss.lipschitz(1.0) < math.inf:
        return 0.0
    longest = min(longest, LARGEST_CLIP)
    return min(0.0025 * longest * problem.signal / math.sqrt(problem.dimension), longest)


def _relative_slope_at_zero(loss: Loss) -> float:
    """Slope for a label at zero weights over the largest one; 1 for other losses and unbounded slopes."""
    slope = loss.lipschitz(1.0)
    return loss.slope_at_zero(1.0) / slope if loss.classification and slope < math.inf else 1.0


def _clips_under_ridge(
    problem: PublicProblem, coordinates: Coordinates, found: Whitening
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
    loss, scaling = problem.loss, coordinates.scaling
    if loss.classification or not problem.private or problem.l2 == 0.0:
        return 0.0, math.inf
    there = replace(problem, l2=problem.l2 * float(np.median(scaling.values)) ** 2)
    least, most, slope = 0.0, math.inf, loss.lipschitz(1.0)
    if slope == math.inf and loss.smoothness(1.0) == math.inf:  # slopes grow slowly with the distance
        slope = largest_weight(loss)
    if slope < math.inf:
        longest = max(found.longest, 1.0)
        share = longest * share_under_ridge(there, slope * scaling.row_norm)
        of_most_rows = min(longest / SHORTENING, LARGEST_CLIP)
        least = found.row_length * max(min(0.5 * share, 1.0), min(0.25 * share, of_most_rows))
    if coordinates.spread < math.inf and found.typical_ridge_share > 0.0 and not steeper_on_one_side(loss):
        near = replace(there, spread=coordinates.spread)
        share = share_under_ridge(near, slope_of(loss, near.spread) * scaling.row_norm)
        most = _LARGEST_UNDER_RIDGE * found.row_length * share / math.sqrt(found.typical_ridge_share)
    return least, most


def slope_of(loss: Loss, spread: float = math.inf) -> float:
    """Maximum slope of the loss, in the range of bounded targets; 1 if it is unbounded."""
    if loss.target_bound < math.inf:
        return slope_in_range(loss, spread)
    slope = loss.lipschitz(1.0)
    return slope if slope < math.inf else largest_weight(loss)


def smoothness_of(loss: Loss, spread: float = math.inf) -> float:
    """Largest second derivative; a kink is treated as a bend of width 2 or, with bounded real targets, of a
    third of their range.
    """
    smoothness = loss.smoothness(1.0)
    if smoothness < math.inf:
        return smoothness
    if loss.target_bound == math.inf:
        return 0.5 * largest_weight(loss)
    return 3.0 * slope_of(loss, spread) / target_range(loss, spread)
