"""Heuristics from public numbers for default settings; no privacy guarantee depends on them."""

from __future__ import annotations

import math

import numpy as np

from dperm.algorithms.problem import PublicProblem
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight, unweighted


def longest_gradient(loss: Loss, row_norm: float, *, noisy: bool, spread: float = math.inf) -> float:
    """The Lipschitz constant, or a bound for the clip to enforce if the loss has none.

    The bound is that of a slope of 1 under noise; without noise it is too large for records to reach. With a
    finite spread of the targets, see :class:`PublicProblem`, it is that of residuals of twice the spread.
    """
    if spread < math.inf:
        return row_norm * slope_in_range(loss, spread)
    slope = loss.lipschitz(row_norm)
    if slope < math.inf:
        return slope
    if noisy:
        return row_norm * largest_weight(loss)
    at_zero = loss.slope_at_zero(row_norm)
    return 1000.0 * (at_zero if at_zero < math.inf else row_norm)


def steepest_slope(loss: Loss, distance: float) -> float:
    """Largest slope of the loss, without record weights, of a target at most so far from its prediction.

    Where a loss is flat that near, such as the epsilon-insensitive one, its Lipschitz constant.
    """
    # Slopes of a convex loss are steepest at the ends.
    residuals = distance * (np.array([-1.0, 1.0]) if loss.convex else np.linspace(-1.0, 1.0, 129))
    steepest = float(np.max(np.abs(unweighted(loss).derivative(residuals, np.zeros_like(residuals)))))
    return steepest if steepest > 0.0 else unweighted(loss).lipschitz(1.0)


def highest_loss(loss: Loss, distance: float) -> float:
    """Largest loss of a target at most so far from its prediction; at the bound, where it is 0 that near."""
    highest = float(np.max(loss.value([distance, -distance], [0.0, 0.0])))
    return highest if highest > 0.0 else loss.value_at_zero


def target_range(loss: Loss, spread: float) -> float:
    """What targets are within, about where the descent starts, for constants made for a range of 1.

    Twice their spread, or five times that if the loss is not smooth: then its slopes, and the noise, hardly
    grow with the range. At most the bound on them, or their spread: targets at both bounds are further apart.
    """
    most = max(loss.target_bound, spread) if spread < math.inf else loss.target_bound
    return min(most, (5.0 if loss.smoothness(1.0) == math.inf else 2.0) * spread)


def slope_in_range(loss: Loss, spread: float) -> float:
    """Largest slope in the range of the targets.

    Without a Lipschitz constant it is relative to that at distance 1.
    """
    slope = steepest_slope(loss, target_range(loss, spread))
    unit = 1.0 if loss.lipschitz(1.0) < math.inf else steepest_slope(loss, 1.0)
    return largest_weight(loss) * slope / unit


def typical_curvature(loss: Loss, row_norm: float, spread: float = math.inf) -> float:
    """Curvature in the weights to choose step sizes by: the smoothness, if it is finite.

    A kink is treated as a bend of the width of the logistic loss or, with real targets in a range Y, of Y/10.
    For a Hölder continuous derivative the curvature is, if larger, the steepest that its constants allow over
    the range left by a clip at slope 1 (-1 to 0 for a loss of margins, -1 to 1 for a loss of residuals).
    """
    smoothness = loss.smoothness(row_norm)
    if smoothness < math.inf:
        return smoothness
    slope = loss.lipschitz(row_norm)
    bends_within = 4.0 if loss.target_bound == math.inf else 0.1 * target_range(loss, spread)
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


def typical_reach(problem: PublicProblem, radius: float = math.inf) -> float:
    """Assumed distance of the optimum from the start, for step sizes.

    The radius if it is finite; otherwise ``200/row_norm``, or ``4 Y/row_norm`` with real targets up to Y, or
    ``3 Y/row_norm`` if most are within Y of the start, and at most the distance at which the ridge term alone
    costs as much as the start.
    """
    if radius < math.inf:
        return radius
    targets = min(4.0 * problem.loss.target_bound, 3.0 * problem.spread)
    reach = (200.0 if targets == math.inf else targets) / problem.row_norm
    return min(reach, reach_under_ridge(problem))


def reach_under_ridge(problem: PublicProblem) -> float:
    """The distance at which the ridge term alone costs as much as the start; infinite without one."""
    return math.sqrt(2.0 * typical_loss_at_start(problem) / problem.l2) if problem.l2 > 0.0 else math.inf


def typical_step_limit(problem: PublicProblem) -> float:
    """Upper limit on default step sizes: longer steps may overshoot even without noise."""
    return 1.0 / (typical_curvature(problem.loss, problem.row_norm, problem.spread) + problem.l2)


def typical_loss_at_zero(loss: Loss) -> float:
    """Largest loss of a record at zero weights, or that of a target of 1 if targets are unbounded."""
    at_zero = loss.value_at_zero
    return at_zero if at_zero < math.inf else float(loss.value(0.0, 1.0))


def typical_loss_at_start(problem: PublicProblem) -> float:
    """Loss of a target as far from the start as one in fifty, if that is known, or that at zero weights."""
    if problem.spread < math.inf:
        return highest_loss(problem.loss, problem.spread)
    return typical_loss_at_zero(problem.loss)


def usual_loss_at_zero(loss: Loss) -> float:
    """Loss at zero weights of a label, or of a target at half its bound, but at most 1."""
    return float(loss.value(0.0, min(1.0, 0.5 * loss.target_bound)))


def output_reach(loss: Loss, row_norm: float, strong: float) -> float:
    """Assumed distance of the optimum from 0 for output perturbation, shorter than that for noisy steps.

    A prediction of 20 (log-odds) for the longest row, or 4 times the bound on the targets; at most the
    distance at which a ridge term of strength `strong` alone costs as much as zero weights.
    """
    reach = (20.0 if loss.target_bound == math.inf else 4.0 * loss.target_bound) / row_norm
    return min(reach, math.sqrt(2.0 * usual_loss_at_zero(loss) / strong)) if strong > 0.0 else reach


def exact_clip(loss: Loss, row_norm: float) -> float:
    """A clip for runs without noise: infinite, or 20 times the gradient at ``w = 0`` for an unbounded slope.

    The latter must be finite because the grids of sums and results depend on it; few records reach it at an
    optimum.
    """
    if loss.lipschitz(row_norm) < math.inf:
        return math.inf
    return 20.0 * usual_gradient(loss, row_norm)


def usual_gradient(loss: Loss, row_norm: float) -> float:
    """Norm of a record's gradient at ``w = 0``; for a slope of 1 if targets are unbounded."""
    at_zero = loss.slope_at_zero(row_norm)
    return at_zero if at_zero < math.inf else row_norm * largest_weight(loss)


def affordable_noise(problem: PublicProblem) -> float:
    """Excess risk that noise may cause, according to the risk bound by which a default step size is chosen.

    It is a share of the loss at the start, so that a fit is no worse than zero weights, or than the best
    constant prediction of real targets where that is the start. With much signal, classification tolerates
    more noise for the sake of larger margins.
    """
    signal = problem.per_record().signal
    if problem.loss.classification:
        share = 0.0625 * min(max(1.0, math.sqrt(signal / 125.0)), 4.0)
    else:
        share = 0.25 if problem.spread == math.inf else 0.025
    return share * typical_loss_at_start(problem)


# Excess risk from noise up to which a ridge term raises the clip, in units of a usual loss at the start.
_MAX_RISK_UNDER_RIDGE = 0.003
# The same for a descent from a constant prediction, up to this signal-to-noise number.
_FULL_RISK_SIGNAL = 5.0
# Clip for such a descent, in units of the gradient of the ridge term at its start.
_TO_BALANCE_PULL = 5.0
# Times over which a descent from a constant prediction should forget it under a strong ridge term.
_FORGETTING_TIMES_FROM_CONSTANT = 10.0


def clip_share(problem: PublicProblem, longest: float, least: float) -> float:
    """Ratio of a default clip to the longest gradient: well below 1 if there is little signal.

    Clipping trades bias for noise, and a ridge term shifts the balance. It keeps the optimum so close to 0
    that gradients are about as long there as at 0, and clipping them weakens them all relative to the ridge
    term. It also limits the effect of noise: with perfect averaging, the excess risk from noise with clip C
    is at most ``d (C / (n mu))^2 / (8 l2)``, for the worst-case curvature in each direction. C may grow until
    that is a small share of the loss at 0.
    """
    problem = problem.per_record()
    typical = 1200.0 if problem.attained and not problem.loss.classification else 4800.0
    return min(1.0, max(math.sqrt(problem.signal / typical), least, share_under_ridge(problem, longest)))


def share_under_ridge(problem: PublicProblem, longest: float) -> float:
    """Ratio of a clip to the longest gradient up to which the ridge term keeps the noise harmless.

    From 1 on it does so without clipping. A descent from a constant prediction has less to gain than one from
    0, and what noise may cost falls with the signal there, or a larger budget could make the result worse.
    But gradients have to balance the pull of the ridge term at that start, several times over.
    """
    problem = problem.per_record()
    cost = _MAX_RISK_UNDER_RIDGE * _usual_loss_at_start(problem)
    clip = harmless_clip(problem.signal, problem.l2, cost)
    if problem.spread < math.inf:
        less = clip * math.sqrt(min(1.0, _FULL_RISK_SIGNAL / problem.signal))
        pull = math.sqrt(2.0 * problem.l2 * problem.start_penalty)
        clip = min(clip, max(less, _TO_BALANCE_PULL * pull))
    return clip / longest


def _usual_loss_at_start(problem: PublicProblem) -> float:
    """Loss at zero weights, or that of a target at half its bound from a constant prediction.

    A bound far beyond most targets says that they are skewed, or that it is loose. Clipped gradients of
    skewed targets have another optimum, so that a longer clip is worth its noise, within limits. Targets at
    both bounds are farther from a constant than half the bound.
    """
    if problem.spread == math.inf:
        return usual_loss_at_zero(problem.loss)
    far = typical_loss_at_start(problem)
    return min(max(float(problem.loss.value(0.0, 0.5 * problem.loss.target_bound)), far), 32.0 * far)


def harmless_clip(signal: float, l2: float, cost: float) -> float:
    """The clip whose noise raises the risk by at most `cost` under a ridge term; see :func:`clip_share`."""
    return signal * math.sqrt(8.0 * l2 * cost)


def quicker_under_ridge(problem: PublicProblem, longest: float, steps: int) -> float:
    """Factor on the distance of a descent from a constant prediction: above 1 under a strong ridge term.

    A term that matters at the start pulls the optimum far from there, and limits the effect of noise. Few
    steps take longer strides: as long as it takes to forget the start ten times over, and at most 1 / 0.3
    times as long.
    """
    if problem.start_penalty == 0.0:
        return 1.0
    matters = problem.start_penalty / typical_loss_at_start(problem)
    curvature = typical_curvature(problem.loss, problem.row_norm, problem.spread) + problem.l2
    enough = _FORGETTING_TIMES_FROM_CONSTANT / (0.5 * steps * math.sqrt(problem.l2 / curvature))
    return max(1.0, min(matters, share_under_ridge(problem, longest), enough, 1.0) / 0.3)


def steeper_on_one_side(loss: Loss) -> bool:
    """Whether the loss of a target, such as the pinball loss, grows faster on one side of it.

    Gradients clipped to lengths below that of the steeper side have another optimum: for the pinball loss a
    level nearer to the median.
    """
    if loss.classification:
        return False
    above, below = loss.derivative([1.0, -1.0], [0.0, 0.0])
    return bool(above != -below)


def has_margin(loss: Loss) -> bool:
    """Whether the loss of labels is 0 beyond a margin, as a hinge is."""
    # So far out the logistic and the sigmoid loss are above 0 in floating point, too.
    return loss.classification and float(loss.value(16.0, 1.0)) == 0.0


def gathers_at_a_kink(loss: Loss) -> bool:
    """Whether residuals come ever closer to a kink, where no step size is stable: default steps shrink."""
    return not loss.classification and loss.kink_jump > 0.0


def typical_clip(problem: PublicProblem) -> float:
    """A clip from public numbers; an unbounded slope is treated as a slope of 1.

    See :func:`clip_share`; without noise :func:`exact_clip`.
    """
    loss, row_norm = problem.loss, problem.row_norm
    if not problem.private:
        return exact_clip(loss, row_norm)
    longest = longest_gradient(loss, row_norm, noisy=True, spread=problem.spread)
    share = clip_share(problem, longest, 0.25)
    known = share == 1.0 and problem.spread == math.inf and loss.lipschitz(row_norm) < math.inf
    return math.inf if known else longest * share
