"""The one rule for settings that are not given: clips, numbers of steps and step sizes from public numbers.

It is for the published algorithms, where their theorems leave a setting open. No guarantee depends on it. All
follows from the signal-to-noise number ``k = n mu / sqrt(dimension)``: the norm of a sum over records that
agree, relative to that of the noise on it.

* A clip is ``sqrt(k / 2000)`` of the longest gradient, at least a tenth and at most all of it, and no shorter
  than a ridge term keeps harmless.
* A descent takes ``2 k`` steps, from 50 to 500, and averages the second half of its iterates.
* Steps are as long as the curvature allows or, where a theorem has one, as long as that.
"""

from __future__ import annotations

import math

from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms.defaults.constants import Usual
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Loss
from dperm.losses.weighted import largest_weight

__all__ = [
    "clip_share",
    "curvature",
    "distance",
    "heavy_ball_step",
    "longest_gradient",
    "loss_at_zero",
    "reach",
    "sgd_step_size",
    "small_batches",
    "step_share",
    "usual_clip",
    "usual_steps",
]


def longest_gradient(loss: Loss, row_norm: float) -> float:
    """The Lipschitz constant, or if it is shorter the longest gradient of real targets at the weights 0.

    That for a slope of 1 if neither is finite.
    """
    longest, at_zero = loss.lipschitz(row_norm), loss.slope_at_zero(row_norm)
    if not loss.classification or longest == math.inf:
        longest = min(longest, at_zero)
    return longest if longest < math.inf else row_norm * largest_weight(loss)


def loss_at_zero(loss: Loss) -> float:
    """Largest loss of a record at zero weights, or that of a target of 1 if targets are unbounded."""
    at_zero = loss.value_at_zero
    return at_zero if at_zero < math.inf else float(loss.value(0.0, 1.0))


def reach(loss: Loss) -> float:
    """The largest prediction that records call for: the bound on real targets (1 without one), or 4."""
    if not loss.of_residual:
        return Usual.LOG_ODDS
    return loss.target_bound if loss.target_bound < math.inf else 1.0


def distance(problem: PublicProblem, radius: float = math.inf) -> float:
    """Assumed distance of the optimum from 0 in a theorem's step size: at most the radius."""
    loss = problem.loss
    far = Usual.DISTANCE_OF_TARGETS * reach(loss) if loss.of_residual else Usual.DISTANCE
    return min(radius, far / problem.row_norm)


def clip_share(problem: PublicProblem) -> float:
    """Ratio of a clip to the longest gradient.

    Under a ridge term noise with clip C costs at most ``d (C / (n mu))^2 / (8 l2)``, for the worst curvature
    in each direction: a clip with which that is harmless is not shortened, as the term would weigh more.
    """
    loss, signal = problem.loss, problem.per_record().signal
    harmless = signal * math.sqrt(8.0 * problem.l2 * Usual.RIDGE_COST * loss_at_zero(loss))
    harmless /= longest_gradient(loss, problem.row_norm)
    return min(max(math.sqrt(signal / Usual.FULL_SIGNAL), harmless, Usual.LEAST_CLIP), 1.0)


def usual_clip(problem: PublicProblem) -> float:
    """Bound on the norm of one record's gradient; without noise too large to matter.

    A loss that is steeper on one side is not clipped: that would move its optimum.
    """
    loss, longest = problem.loss, longest_gradient(problem.loss, problem.row_norm)
    if not problem.private:
        return min(loss.lipschitz(problem.row_norm), Usual.NOISELESS_CLIP * longest)
    return longest * (1.0 if loss.steeper_on_one_side else clip_share(problem))


def step_share(problem: PublicProblem) -> float:
    """Factor on steps: as much shorter as the clip is not."""
    return clip_share(problem) if problem.loss.steeper_on_one_side else 1.0


def heavy_ball_step(problem: PublicProblem) -> float:
    """Step size of a descent with momentum: what the curvature and, as in `sgd_step_size`, noise allow."""
    step = Usual.STEP * step_share(problem) / curvature(problem)
    if not problem.private:
        return step
    variance = usual_steps(problem) * (usual_clip(problem) / problem.per_record().signal) ** 2
    affordable = 2.0 * Usual.NOISE_OF_AVERAGE * loss_at_zero(problem.loss) / variance
    return min(step, (1.0 - Usual.MOMENTUM) * affordable)


def usual_steps(problem: PublicProblem, least: int = Usual.STEPS[0]) -> int:
    """Number of noisy gradients of a descent."""
    most = Usual.STEPS[1]
    return round(min(max(Usual.STEPS_PER_SIGNAL * problem.per_record().signal, least), most))


def curvature(problem: PublicProblem) -> float:
    """Smoothness in the weights, ridge term included; to choose steps by, not to prove anything.

    A slope that cannot rise further counts as bent over a quarter of the reach of predictions at least, as
    sums of many kinks are.
    """
    loss, row_norm = problem.loss, problem.row_norm
    bent = longest_gradient(loss, row_norm) * row_norm / (Usual.BEND * reach(loss))
    bounded = loss.lipschitz(1.0) < math.inf or loss.smoothness(1.0) == math.inf
    return (min(loss.smoothness(row_norm), bent) if bounded else loss.smoothness(row_norm)) + problem.l2


def sgd_step_size(
    problem: PublicProblem, *, steps: int, batch_size: int, clip: float, sigma_over_clip: float, radius: float
) -> float:
    """``R / sqrt(T (G^2 + d sigma^2))``, or what the curvature allows.

    Noise costs half a step times its variance at most, which is to be a part of the loss at the weights 0.
    """
    met = min(clip, longest_gradient(problem.loss, problem.row_norm))  # a clip may be far above it
    sigma, sampling = sigma_over_clip * clip / batch_size, met / math.sqrt(batch_size)
    best = gradient_step_size(distance(problem, radius), steps, sampling, sigma, problem.dimension)
    variance = sampling**2 + problem.dimension * sigma**2
    return min(best, 1.0 / curvature(problem), 2.0 * Usual.NOISE * loss_at_zero(problem.loss) / variance)


def small_batches(n: int, batch_size: int | None = None) -> tuple[int, int]:
    """Size of the batches of stochastic gradient descent, and their number."""
    size = batch_size or max(1, int(Usual.BATCH * math.sqrt(n)))
    return size, max(2, Usual.PASSES * n // size)
