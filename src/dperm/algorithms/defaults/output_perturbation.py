"""Default settings of `output_perturbation_gd`, and the clip of all trainings in secret."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import OutputGD, SecretClip
from dperm.algorithms.defaults.rules import (
    exact_clip,
    harmless_clip,
    secret_distance,
    usual_gradient,
    usual_loss_at_zero,
)
from dperm.algorithms.settings import Settings, setting
from dperm.objective.bounded_training import GradientDescent, PublicConstants
from dperm.objective.objective import Objective


@dataclass(frozen=True, kw_only=True)
class OutputPerturbationSchedule(Settings):
    """Settings of :func:`dperm.algorithms.output_perturbation_gd`."""

    steps: int = setting(check.step_count)
    step_size: float = setting(check.positive)
    radius: float = setting(check.positive_or_infinite, math.inf)
    clip: float = setting(check.clip_norm_or_infinite)


def output_perturbation_schedule(
    objective: Objective, epsilon: float, delta: float, *, radius: float = math.inf, clip: float = math.inf
) -> OutputPerturbationSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    objective : Objective
        Only its public constants are used: n, dimension, loss, row norm, ridge strength.
    epsilon, delta : float
        Target.
    radius, clip : float
        Radius of the projection, and bound on the norm of one record's gradient.

    Notes
    -----
    The horizon ``t = steps * step_size`` minimises ``D^2/(2 t) + beta E||z||^2/(2 d)``: the suboptimality of
    gradient descent towards a point at distance D, plus the cost of the noise z for horizon t under a Hessian
    of trace at most beta. With a ridge term on every weight no direction has a curvature h below l2, which
    leaves ``e D^2 h (1 - step_size h)^(2 steps)`` for the worst h; without one that amounts to the same. D is
    taken to be ``20/row_norm`` for labels and ``4 Y/row_norm`` for targets up to Y, at most the radius and
    what the ridge term allows. The step size is 0.9 of the largest that contracts, or smaller if a single
    step would go too far.
    """
    c = PublicConstants.of(objective, radius=radius, clip=clip)
    step = OutputGD.STABLE / (c.l2 + c.beta)
    distance = min(secret_distance(objective.loss, c.row_norm, c.strong), radius)

    def risk(steps: int, step_size: float) -> float:
        descent = GradientDescent(steps, step_size, radius=radius, clip=clip)
        moved = descent.sensitivity(objective, Neighbours.REPLACE_ONE, refined=False)
        noise = gaussian_or_norm_laplace(epsilon, delta, c.dimension, moved).mean_square(c.dimension)
        curvature = max(c.strong, 1.0 / (step_size * (2 * steps + 1)))  # the worst one
        left = math.e * distance**2 * curvature * (1.0 - step_size * curvature) ** (2 * steps)
        return left + 0.5 * (c.beta / c.dimension + c.strong) * noise

    shorter = [(1, step * 2.0**-k) for k in range(OutputGD.SHORTER_STEPS)]
    counts = sorted({round(OutputGD.STEP_RATIO**k) for k in range(OutputGD.LONGER_RUNS)})
    longer = [(steps, step) for steps in counts if steps <= OutputGD.MOST_STEPS]
    if epsilon == math.inf:
        by_gradients = min(OutputGD.MOST_EXACT_STEPS, int(OutputGD.EXACT_GRADIENTS) // c.n)
        longer = [(max(OutputGD.MOST_STEPS, by_gradients), step)]
    steps, step_size = min([*longer, *shorter], key=lambda pair: risk(*pair))
    return OutputPerturbationSchedule(steps=steps, step_size=step_size, radius=radius, clip=clip)


def default_clip(objective: Objective, epsilon: float, delta: float, relation: Neighbours) -> float:
    """A clip from public numbers: less noise for a bias that costs less; infinite with much signal.

    Few rows are as long as their bound allows, and few slopes of the loss the largest, so that a third of
    the largest gradient or less is worth it on most data. A strong ridge term makes the bias matter more: it
    keeps gradients as long as at 0, and clipping weakens them relative to the term. Where it also makes the
    noise harmless, the clip is longer.
    """
    loss, row_norm, dimension = objective.loss, objective.row_norm, objective.dimension
    if epsilon == math.inf:
        return exact_clip(loss, row_norm)
    noise = gaussian_or_norm_laplace(epsilon, delta, dimension, relation.sum_factor)
    signal = objective.n_public / math.sqrt(float(noise.mean_square(dimension)))
    longest = loss.lipschitz(row_norm)
    if not loss.classification or longest == math.inf:
        longest = usual_gradient(loss, row_norm)
    cost = SecretClip.HARMLESS * usual_loss_at_zero(loss)
    harmless = harmless_clip(signal, objective.l2, cost) / longest
    under_ridge = min(harmless, SecretClip.UNDER_RIDGE * max(harmless, 1.0))
    by_signal = math.pow(signal / SecretClip.SIGNAL, SecretClip.POWER)
    fraction = max(by_signal, SecretClip.LEAST, under_ridge)
    if fraction >= 1.0 and loss.lipschitz(row_norm) < math.inf:
        return math.inf
    return min(fraction, 1.0) * longest
