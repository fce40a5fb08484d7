"""Default settings of `dp_sgd_gradient`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import settings as check
from dperm.algorithms.defaults import rules
from dperm.algorithms.defaults.constants import GradientSGD
from dperm.algorithms.problem import PublicProblem
from dperm.objective.bounded_descent import gradient_bound


class NoisyBatches(NamedTuple):
    """Batches and their noise."""

    size: int  # m
    steps: int  # T
    sigma_over_clip: float  # standard deviation of the noise on a batch's sum, relative to the clip


def bounded_clip(problem: PublicProblem, given: Mapping[str, Any], *, as_published: bool = False) -> float:
    """The bound on the norm of a record's gradient, which is always finite."""
    clip = math.inf
    if "clip" in given:
        clip = given["clip"]
    elif not as_published and given["radius"] == math.inf:
        clip = _default_clip(problem)
    return gradient_bound(problem.loss, problem.row_norm, given["radius"], clip)


def _default_clip(problem: PublicProblem) -> float:
    """A shorter clip would move the optimum of a loss that is steeper on one side."""
    if problem.private and problem.loss.steeper_on_one_side:
        scale = problem.target_scale
        return rules.longest_gradient(problem.loss, problem.row_norm, noisy=True, target_scale=scale)
    return rules.typical_clip(problem)


def default_step_size(
    problem: PublicProblem, clip: float, radius: float, batches: NoisyBatches
) -> tuple[float, float]:
    """The step size that minimises a bound on the risk, or a smaller one, and the bound there.

    The bound is ``R^2/(2 eta T) + eta V/2`` with the variance V of a noisy mean gradient: its mean costs
    nothing while steps are below ``1/beta`` (Dekel et al. 2012). Many records with kinks at different places
    together have a bend, and beta is an estimate. Curvature and noise limit the step size further.
    """
    steps, dimension = batches.steps, problem.dimension
    loss, row_norm = problem.loss, problem.row_norm
    sigma = batches.sigma_over_clip * clip / batches.size
    # Without noise the clip is far above the gradients that occur.
    met = clip if problem.private else min(clip, rules.usual_gradient(loss, row_norm))
    if loss.kink_jump == 0.0:
        # Gradients vary less between records than their bound allows, whatever the clip.
        longest = rules.longest_gradient(loss, row_norm, noisy=True, target_scale=problem.target_scale)
        met = min(met, GradientSGD.SPREAD_OF_GRADIENTS * longest)
    met /= math.sqrt(batches.size)
    distance = rules.typical_distance(problem, radius)
    if loss.classification and problem.private:
        distance = min(distance, radius, GradientSGD.NOISY_DISTANCE / row_norm)
    step_size = min(
        gradient_step_size(distance, steps, met, sigma, dimension),
        rules.typical_step_limit(problem),
    )
    variance = met**2 + dimension * sigma**2
    if sigma > 0.0:
        step_size = min(step_size, 2.0 * rules.affordable_noise(problem) / variance)
    return step_size, distance**2 / (2.0 * step_size * steps) + step_size * variance / 2.0


def default_steps(problem: PublicProblem, size: int) -> int:
    """Number of batches of this size."""
    gradients = GradientSGD.PASSES * problem.n
    if not problem.private:
        gradients = max(gradients, int(GradientSGD.EXACT_GRADIENTS))
    return min(max(1, gradients // size), check.MAX_STEPS - 1)


def default_batch_size(problem: PublicProblem, given: Mapping[str, Any]) -> int:
    """A power of 2, with the noise multiplier z that the central limit theorem predicts.

    ``mu = m/n sqrt(T (exp(1/z^2) - 1))`` (Dong, Roth and Su 2022, Corollary 5.4).
    """
    n = problem.n
    if not problem.private:
        return min(GradientSGD.EXACT_BATCH, n)
    clip = bounded_clip(problem, given)

    def risk(size: int) -> float:
        steps = given.get("steps") or default_steps(problem, size)
        multiplier = math.log1p((problem.mu * n / size) ** 2 / steps) ** -0.5
        batches = NoisyBatches(size, steps, multiplier * problem.neighbors.sum_factor)
        return default_step_size(problem, clip, given["radius"], batches)[1]

    least = 1 if "steps" in given else -(-GradientSGD.PASSES * n // GradientSGD.MOST_STEPS)
    powers = [1 << k for k in range(n.bit_length())]  # none above n
    return min((size for size in powers if size >= min(least, powers[-1])), key=risk)
