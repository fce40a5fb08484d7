"""Rules that the defaults of several algorithms share; no privacy guarantee depends on them."""

from __future__ import annotations

import math

from dperm.algorithms.defaults.constants import Clip, Distance, Gradients
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight, unweighted

# -- gradients and curvatures ------------------------------------------------------------------------------


def longest_gradient(loss: Loss, row_norm: float, *, noisy: bool, target_scale: float = math.inf) -> float:
    """The Lipschitz constant, or a bound for the clip to enforce if the loss has none.

    The bound is that of a slope of 1 under noise; without noise it is too large for records to reach. With a
    known target scale, see :class:`PublicProblem`, it is that of residuals of twice the scale.
    """
    if target_scale < math.inf:
        return row_norm * slope_in_range(loss, target_scale)
    slope = loss.lipschitz(row_norm)
    if slope < math.inf:
        return slope
    if noisy:
        return row_norm * largest_weight(loss)
    at_zero = loss.slope_at_zero(row_norm)
    return Gradients.NOISELESS_CLIP * (at_zero if at_zero < math.inf else row_norm)


def target_range(loss: Loss, target_scale: float) -> float:
    """Distance of targets from the start, for constants made for a range of 1.

    Twice the target scale, or five times for a loss that is not smooth: its slopes, and so the noise, hardly
    grow with the range. At most the target bound, or the target scale if that is larger.
    """
    most = max(loss.prediction_bound, target_scale) if target_scale < math.inf else loss.prediction_bound
    rough = loss.smoothness(1.0) == math.inf
    return min(most, (Gradients.ROUGH_TARGET_RANGE if rough else Gradients.TARGET_RANGE) * target_scale)


def slope_in_range(loss: Loss, target_scale: float) -> float:
    """Largest slope in the range of the targets; relative to that at distance 1 if slopes are unbounded."""
    own = unweighted(loss)
    slope = own.steepest_slope(target_range(loss, target_scale))
    unit = 1.0 if loss.lipschitz(1.0) < math.inf else own.steepest_slope(1.0)
    return largest_weight(loss) * slope / unit


def typical_curvature(loss: Loss, row_norm: float, target_scale: float = math.inf) -> float:
    """Curvature in the weights to choose step sizes by: the smoothness, if it is finite.

    A kink is treated as a bend of the width of the logistic loss or, with real targets in a range Y, of Y/10.
    For a Hölder continuous derivative the curvature is, if larger, the steepest that its constants allow over
    the range left by a clip at slope 1 (-1 to 0 for labels, -1 to 1 for real targets).
    """
    smoothness = loss.smoothness(row_norm)
    if smoothness < math.inf:
        return smoothness
    slope = loss.lipschitz(row_norm)
    width = Gradients.KINK_WIDTH
    if loss.prediction_bound < math.inf:
        width = Gradients.KINK_WIDTH_OF_TARGETS * target_range(loss, target_scale)
    weight = largest_weight(loss)
    kink = (slope if slope < math.inf else weight * row_norm) * row_norm / width
    if loss.holder_exponent == 0.0:
        return kink
    rise = weight * (1.0 if loss.classification else 2.0)
    return max(kink, row_norm**2 * rise / math.pow(rise / loss.holder_slope, 1.0 / loss.holder_exponent))


def usual_gradient(loss: Loss, row_norm: float) -> float:
    """Norm of a record's gradient at the weights 0; for a slope of 1 if targets are unbounded."""
    at_zero = loss.slope_at_zero(row_norm)
    return at_zero if at_zero < math.inf else row_norm * largest_weight(loss)


def gathers_at_a_kink(loss: Loss) -> bool:
    """Whether residuals come ever closer to a kink, where no step size is stable: default steps shrink."""
    return not loss.classification and loss.kink_jump > 0.0


# -- losses at the start, and distances of the optimum from it -----------------------------------------------


def typical_loss_at_zero(loss: Loss) -> float:
    """Largest loss of a record at zero weights, or that of a target of 1 if targets are unbounded."""
    at_zero = loss.value_at_zero
    return at_zero if at_zero < math.inf else float(loss.value(0.0, 1.0))


def typical_loss_at_start(problem: PublicProblem) -> float:
    """Loss of a target at one target scale from the start, if that is known, or that at zero weights."""
    if problem.target_scale < math.inf:
        return problem.loss.highest_value(problem.target_scale)
    return typical_loss_at_zero(problem.loss)


def usual_loss_at_zero(loss: Loss) -> float:
    """Loss at zero weights of a label, or of a target at half its bound, but at most 1."""
    return float(loss.value(0.0, min(1.0, 0.5 * loss.target_bound)))


def typical_distance(problem: PublicProblem, radius: float = math.inf) -> float:
    """Assumed distance of the optimum from the start.

    The radius, if it is finite. Otherwise ``200/row_norm``; ``4 Y/row_norm`` with targets up to Y; ``3
    s/row_norm`` with a target scale s; at most the distance at which the ridge term costs as much as the
    start.
    """
    if radius < math.inf:
        return radius
    targets = min(
        Gradients.TARGET_DISTANCE * problem.loss.prediction_bound,
        Gradients.DISTANCE_FROM_CONSTANT * problem.target_scale,
    )
    distance = (Gradients.LABEL_DISTANCE if targets == math.inf else targets) / problem.row_norm
    return min(distance, distance_under_ridge(problem))


def distance_under_ridge(problem: PublicProblem) -> float:
    """The distance at which the ridge term costs as much as the start; infinite without one."""
    return math.sqrt(2.0 * typical_loss_at_start(problem) / problem.l2) if problem.l2 > 0.0 else math.inf


def secret_distance(loss: Loss, row_norm: float, strong: float) -> float:
    """Assumed distance of the optimum from 0 for training in secret: shorter than that for noisy steps.

    A prediction of 20 (log-odds) for the longest row, or 4 times the bound on the targets; at most the
    distance at which a ridge term of strength `strong` costs as much as zero weights.
    """
    target = Gradients.SECRET_TARGET_DISTANCE * loss.prediction_bound
    distance = (Gradients.SECRET_LABEL_DISTANCE if target == math.inf else target) / row_norm
    return min(distance, math.sqrt(2.0 * usual_loss_at_zero(loss) / strong)) if strong > 0.0 else distance


def typical_step_limit(problem: PublicProblem) -> float:
    """Upper limit on default step sizes: longer steps may overshoot even without noise."""
    return 1.0 / (typical_curvature(problem.loss, problem.row_norm, problem.target_scale) + problem.l2)


def affordable_noise(problem: PublicProblem) -> float:
    """Excess risk that noise may cause, according to the risk bound by which a default step size is chosen.

    It is a fraction of the loss at the start, so that a fit is no worse than its start. With much signal,
    labels afford more noise for the sake of larger margins.
    """
    signal = problem.per_record().signal
    if problem.loss.classification:
        more = min(max(1.0, math.sqrt(signal / Distance.NOISE_SIGNAL)), Distance.MOST_NOISE)
        fraction = Distance.NOISE_OF_LABELS * more
    elif problem.target_scale == math.inf:
        fraction = Distance.NOISE_OF_TARGETS
    else:
        fraction = Distance.NOISE_FROM_CONSTANT
    return fraction * typical_loss_at_start(problem)


# -- clips ---------------------------------------------------------------------------------------------------


def clip_fraction(problem: PublicProblem, longest: float, least: float) -> float:
    """Ratio of a default clip to the longest gradient: well below 1 if there is little signal.

    Clipping trades bias for noise. A ridge term shifts the balance: it keeps gradients about as long as at 0,
    and clipping weakens them all relative to the term. It also limits the effect of noise, see
    `fraction_under_ridge`.
    """
    problem = problem.per_record()
    tight = problem.tight_row_norm and not problem.loss.classification
    full = Clip.FULL_SIGNAL_OF_TIGHT if tight else Clip.FULL_SIGNAL
    return min(1.0, max(math.sqrt(problem.signal / full), least, fraction_under_ridge(problem, longest)))


def fraction_under_ridge(problem: PublicProblem, longest: float) -> float:
    """Ratio of a clip to the longest gradient up to which a ridge term keeps the noise harmless.

    From 1 on it does so without clipping. A descent from a constant prediction has less to gain than one from
    0: there the affordable noise falls with the signal, or a larger budget could make the result worse. But
    gradients have to balance that of the ridge term at this start, several times over.
    """
    problem = problem.per_record()
    clip = harmless_clip(problem.signal, problem.l2, Clip.RIDGE_COST * _usual_loss_at_start(problem))
    if problem.target_scale < math.inf:
        less = clip * math.sqrt(min(1.0, Clip.RIDGE_COST_SIGNAL / problem.signal))
        ridge_gradient = math.sqrt(2.0 * problem.l2 * problem.start_penalty)
        clip = min(clip, max(less, Clip.RIDGE_GRADIENTS * ridge_gradient))
    return clip / longest


def _usual_loss_at_start(problem: PublicProblem) -> float:
    """Loss at zero weights, or that of a target at half its bound from a constant prediction.

    A bound far beyond most targets says that they are skewed, or that it is loose. Clipped gradients of
    skewed targets have another optimum: a longer clip is worth its noise, within limits.
    """
    if problem.target_scale == math.inf:
        return usual_loss_at_zero(problem.loss)
    far = typical_loss_at_start(problem)
    skewed = float(problem.loss.value(0.0, 0.5 * problem.loss.target_bound))
    return min(max(skewed, far), Clip.SKEWED * far)


def harmless_clip(signal: float, l2: float, cost: float) -> float:
    """The clip whose noise raises the risk by at most `cost` under a ridge term.

    With perfect averaging noise with clip C costs at most ``d (C / (n mu))^2 / (8 l2)``, for the worst
    curvature in each direction.
    """
    return signal * math.sqrt(Clip.WORST_CURVATURE * l2 * cost)


def typical_clip(problem: PublicProblem) -> float:
    """A clip from public numbers: :func:`clip_fraction`, or :func:`exact_clip` without noise.

    An unbounded slope is treated as a slope of 1.
    """
    loss, row_norm = problem.loss, problem.row_norm
    if not problem.private:
        return exact_clip(loss, row_norm)
    longest = longest_gradient(loss, row_norm, noisy=True, target_scale=problem.target_scale)
    fraction = clip_fraction(problem, longest, Clip.LEAST)
    known = fraction == 1.0 and problem.target_scale == math.inf and loss.lipschitz(row_norm) < math.inf
    return math.inf if known else longest * fraction


def exact_clip(loss: Loss, row_norm: float) -> float:
    """A clip for runs without noise: infinite, or 20 times the gradient at ``w = 0`` for an unbounded slope.

    The latter is finite because the grids of sums and results depend on it; few records reach it at an
    optimum.
    """
    if loss.lipschitz(row_norm) < math.inf:
        return math.inf
    return Gradients.EXACT_CLIP * usual_gradient(loss, row_norm)


def softmax_clip(signal: float, loss: Loss, row_norm: float) -> float:
    """Default clip of softmax gradients at this signal."""
    by_signal = max(math.sqrt(signal / Clip.SOFTMAX_SIGNAL), Clip.SOFTMAX_LEAST)
    return largest_weight(loss) * row_norm * min(math.sqrt(2.0), by_signal)


def faster_under_ridge(problem: PublicProblem, longest: float, steps: int) -> float:
    """Factor on the distance of a descent from a constant prediction: above 1 under a strong ridge term.

    A term that matters at the start moves the optimum far from there, and limits the effect of noise. A run
    of few steps takes longer ones: enough to forget the start ten times over, and at most 1 / 0.3 times as
    long.
    """
    if problem.start_penalty == 0.0:
        return 1.0
    matters = problem.start_penalty / typical_loss_at_start(problem)
    curvature = typical_curvature(problem.loss, problem.row_norm, problem.target_scale) + problem.l2
    enough = Distance.FORGETTING_TIMES / (0.5 * steps * math.sqrt(problem.l2 / curvature))
    return max(1.0, min(matters, fraction_under_ridge(problem, longest), enough, 1.0) / Distance.SLOWER)
