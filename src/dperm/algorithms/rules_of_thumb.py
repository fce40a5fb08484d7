"""Guesses from public numbers that default settings are made of; no guarantee rests on them."""

from __future__ import annotations

import math

from dperm.algorithms.problem import PublicProblem
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight


def longest_gradient(loss: Loss, row_norm: float, *, noisy: bool) -> float:
    """The Lipschitz constant, or where there is none a bound that a clip can put in its place.

    That of a slope of 1 under noise; without noise one so large that records do not reach it.
    """
    slope = loss.lipschitz(row_norm)
    if slope < math.inf:
        return slope
    if noisy:
        return row_norm * largest_weight(loss)
    at_zero = loss.slope_at_zero(row_norm)
    return 1000.0 * (at_zero if at_zero < math.inf else row_norm)


def typical_curvature(loss: Loss, row_norm: float) -> float:
    """Curvature in the weights that a step size should reckon with: the smoothness, where it is finite.

    A kink is taken for a bend as wide as that of the logistic loss or, with real targets up to Y, for one of
    Y/10. A Hölder continuous derivative bends as sharply as its constants allow over what a clip at slope 1
    leaves of it (-1 to 0 for a loss of margins, -1 to 1 for one of residuals), if that is sharper.
    """
    smoothness = loss.smoothness(row_norm)
    if smoothness < math.inf:
        return smoothness
    slope = loss.lipschitz(row_norm)
    bends_within = 4.0 if loss.target_bound == math.inf else 0.1 * loss.target_bound
    weight = largest_weight(loss)
    kink = (slope if slope < math.inf else weight * row_norm) * row_norm / bends_within
    if loss.holder_exponent == 0.0:
        return kink
    rise = weight * (1.0 if loss.classification else 2.0)
    width = math.pow(rise / loss.holder_slope, 1.0 / loss.holder_exponent)
    return max(kink, row_norm**2 * rise / width)


def softmax_clip(signal: float, loss: Loss, row_norm: float) -> float:
    """Default clip of softmax gradients at the signal-to-noise number ``n mu / sqrt(dimension)``."""
    return largest_weight(loss) * row_norm * min(math.sqrt(2.0), max(math.sqrt(signal / 960.0), 0.25))


def typical_reach(loss: Loss, row_norm: float, radius: float = math.inf, l2: float = 0.0) -> float:
    """How far the optimum may be from 0, for step sizes.

    The radius, or else ``200/row_norm``, with real targets up to Y ``4 Y/row_norm``; no further than a ridge
    term allows that costs less than the weights 0.
    """
    if radius < math.inf:
        return radius
    reach = (200.0 if loss.target_bound == math.inf else 4.0 * loss.target_bound) / row_norm
    return min(reach, math.sqrt(2.0 * typical_loss_at_zero(loss) / l2)) if l2 > 0.0 else reach


def typical_step_limit(loss: Loss, row_norm: float, l2: float) -> float:
    """The largest step that a default takes: longer ones may overshoot however little noise there is."""
    return 1.0 / (typical_curvature(loss, row_norm) + l2)


def typical_loss_at_zero(loss: Loss) -> float:
    """What the weights 0 may cost a record: the most, or without a bound on targets that of a target 1."""
    at_zero = loss.value_at_zero
    return at_zero if at_zero < math.inf else float(loss.value(0.0, 1.0))


def usual_loss_at_zero(loss: Loss) -> float:
    """What the weights 0 cost a record: of a label, or of a target half as far out as may be, at most 1."""
    return float(loss.value(0.0, min(1.0, 0.5 * loss.target_bound)))


def output_reach(loss: Loss, row_norm: float, strong: float) -> float:
    """How far the optimum is taken to be from 0 where noise is added to it: less far than for noisy steps.

    Log-odds of 20 for the longest row, or 4 times the bound on the targets; no further than a ridge term of
    strength `strong` allows that costs less than the weights 0.
    """
    reach = (20.0 if loss.target_bound == math.inf else 4.0 * loss.target_bound) / row_norm
    return min(reach, math.sqrt(2.0 * usual_loss_at_zero(loss) / strong)) if strong > 0.0 else reach


def exact_clip(loss: Loss, row_norm: float) -> float:
    """A clip for runs without noise: none, or for a slope without limit 20 times the one at ``w = 0``.

    It has to be finite, as the grids of sums and results follow from it; few records reach it at an optimum.
    """
    if loss.lipschitz(row_norm) < math.inf:
        return math.inf
    return 20.0 * usual_gradient(loss, row_norm)


def usual_gradient(loss: Loss, row_norm: float) -> float:
    """Norm of a record's gradient at ``w = 0``; with real targets without bound that of a slope of 1."""
    at_zero = loss.slope_at_zero(row_norm)
    return at_zero if at_zero < math.inf else row_norm * largest_weight(loss)


def affordable_noise(problem: PublicProblem) -> float:
    """What noise may cost, by a bound on the risk that a default step size keeps to.

    A share of what the weights 0 cost, so that a fit is not worse than no fit. Margins may grow long, which
    is worth more noise where there is much signal.
    """
    signal = problem.per_record().signal
    share = 0.0625 * min(max(1.0, math.sqrt(signal / 125.0)), 4.0) if problem.loss.classification else 0.25
    return share * typical_loss_at_zero(problem.loss)


# What noise may cost under a ridge term for which gradients are clipped less, in units of the loss at 0.
_NOISE_UNDER_RIDGE = 0.003


def clip_share(problem: PublicProblem, longest: float, least: float) -> float:
    """A default clip over the longest gradient: well below 1 where there is little signal.

    Clipping trades bias for noise. A ridge term shifts the balance. It keeps the optimum so close to 0 that
    gradients there are about as long as at 0, and to clip them is to weaken all of them against it; and it
    forgets noise: perfectly averaged, that of a run with clip C costs ``d (C / (n mu))^2 / (8 l2)`` at most,
    the curvature of each direction being what makes it worst. C may be what makes that a small share of the
    loss at 0.
    """
    problem = problem.per_record()
    cost = _NOISE_UNDER_RIDGE * usual_loss_at_zero(problem.loss)
    ridge = problem.signal * math.sqrt(8.0 * problem.l2 * cost) / longest
    typical = 1200.0 if problem.attained and not problem.loss.classification else 4800.0
    return min(1.0, max(math.sqrt(problem.signal / typical), least, ridge))


def typical_clip(problem: PublicProblem) -> float:
    """A clip from public numbers; a slope without limit is clipped like one of 1.

    See :func:`clip_share`; without noise :func:`exact_clip`.
    """
    loss, row_norm = problem.loss, problem.row_norm
    if not problem.private:
        return exact_clip(loss, row_norm)
    longest = longest_gradient(loss, row_norm, noisy=True)
    share = clip_share(problem, longest, 0.25)
    return longest * share if share < 1.0 or loss.lipschitz(row_norm) == math.inf else math.inf
