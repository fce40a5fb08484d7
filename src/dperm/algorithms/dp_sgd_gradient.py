"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

Wang, Lei, Ying and Zhang 2022, Algorithm 2, with small batches as in Bassily et al., NeurIPS 2019.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

from dperm.accounting import Neighbours, noise_multiplier, paper
from dperm.accounting.sgd_calibration import noise_multiplier_after
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import rules_of_thumb as rules
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.learned_coordinates import Frame
from dperm.algorithms.noisy_descent import (
    NoisyDescentArguments,
    check_calibration,
    noisy_descent,
    opened,
    sampling_name,
    start_to_learn,
)
from dperm.algorithms.private_scales import LearnedScales, ScaleNoise
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Setting
from dperm.mechanisms.random_source import random_bits
from dperm.objective.bounded_descent import gradient_bound

# Gradient evaluations of the default schedule: passes over the records, and the least number without noise.
_PASSES, _EXACT_GRADIENTS = 50, 2e7
# Distance that noisy steps on labels are to travel, times row_norm: beyond, noise costs more than it gains.
_NOISY_REACH = 30.0
# Largest number of steps that a default batch size leads to.
_MOST_STEPS = 100_000


class DPSGDGradientArguments(LearnedScales, NoisyDescentArguments):
    """Arguments of :func:`dp_sgd_gradient`.

    Attributes
    ----------
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on a bound on the row norms, and on the mean label or the best
        constant prediction of real targets and their distance from it, first. Clip and step size follow from
        these, and the descent starts there; columns keep their scales. "auto": as for :func:`noisy_gd`.
    steps : int
        T; by default 50 passes over the records, and without noise at least ``2e7`` gradients of records.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` or ``w_(T+1)``.
    """

    steps: Setting[int] = Setting(check.step_count)
    output: Setting[str] = Setting(check.one_of("average", "last"), "average")


class NoisyBatches(NamedTuple):
    """Batches and their noise."""

    size: int  # m
    steps: int  # T
    sigma_over_clip: float  # standard deviation of the noise on a batch's sum, relative to the clip


@algorithm(DPSGDGradientArguments, convex=True, linear_prediction=True, random_access=True)
def dp_sgd_gradient(fit: Fit, given: DPSGDGradientArguments) -> FitResult:
    """Minimise by stochastic gradient descent with Gaussian noise on every gradient.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction, smooth or not.
    batch_size : int, optional
        Records per step, a fresh set of them each time; 1 in the paper. By default the power of 2 that
        minimises a bound on the risk, from public numbers, among those with at most 100,000 steps.
    step_size : float, str, mapping or callable, optional
        eta, one number or changing: ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in ``"0.5/sqrt(t)"``; a
        mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a function of the step 1,
        2, .. By default ``R / sqrt(T (G^2 + d sigma^2))``, with R the radius or an estimate from `row_norm`
        and the target bound, and at most ``1 / (l2 + beta)``, with beta the smoothness or an estimate at a
        kink.
    clip : float, optional
        Bound on the norm of one record's gradient. By default from public numbers: see
        :func:`dperm.algorithms.rules_of_thumb.typical_clip`, or the longest gradient for a loss that is
        steeper on one side; with a `radius`, the loss's bound there.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 11 (``batch_size=1``, ``replace_one``, a radius) with the feasible beta
        of least noise, if there is one.

    Notes
    -----
    All iterates are (epsilon, delta)-DP. The guarantee relies on the clip alone, not on properties of the
    loss. Without noise the default settings end within 1e-3 of the optimum on problems of a few thousand
    records; an unbounded slope is clipped at 20 times the slope at the weights 0.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("hinge", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_sgd_gradient(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    fit.check_batch_size(given.batch_size or 1)
    scales, noise = start_to_learn(fit, given)
    problem = fit.problem.without(scales.together)
    if fit.as_published:
        batches = _published_batches(fit, given)
    else:
        batches = _calibrated_batches(fit, given, problem, noise)
    completed = functools.partial(_completed, fit, given, batches)
    bits = random_bits(fit.spawn_source())
    release = opened(
        fit,
        "dp_sgd_gradient",
        completed(problem),
        batches.sigma_over_clip,
        counts=[batches.steps],
        accountant="pld",
        scales=noise,
        **scales.facts(),
    )
    frame = Frame.unscaled(fit, release, noise, problem)
    schedule = completed(frame.problem)
    coef = noisy_descent(
        fit,
        release,
        schedule,
        batches.sigma_over_clip,
        bits,
        steps=batches.steps,
        average=schedule.output == "average",
        start=frame.start,
    )
    mechanism = frame.in_words("Gaussian noise on the sum of every batch")
    return fit.result(coef, mechanism, n_iter=batches.steps, clip=schedule.clip)


def _completed(
    fit: Fit, given: DPSGDGradientArguments, batches: NoisyBatches, problem: PublicProblem
) -> DPSGDGradientArguments:
    """All settings for this problem."""
    clip = _clip(fit, given, problem)
    schedule = replace(given, clip=clip, batch_size=batches.size, steps=batches.steps)
    return schedule.completed(step_size=_default_step_size(problem, clip, given.radius, batches)[0])


def _clip(fit: Fit, given: DPSGDGradientArguments, problem: PublicProblem) -> float:
    """The bound on the norm of a record's gradient, which is always finite."""
    bounded = fit.as_published or given.radius < math.inf
    clip = given.completed(clip=math.inf if bounded else _default_clip(problem)).clip
    return gradient_bound(problem.loss, problem.row_norm, given.radius, clip)


def _default_clip(problem: PublicProblem) -> float:
    """A shorter clip would move the optimum of a loss that is steeper on one side; see `typical_clip`."""
    if problem.private and rules.steeper_on_one_side(problem.loss):
        return rules.longest_gradient(problem.loss, problem.row_norm, noisy=True, spread=problem.spread)
    return rules.typical_clip(problem)


def _default_step_size(
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
        longest = rules.longest_gradient(loss, row_norm, noisy=True, spread=problem.spread)
        met = min(met, 0.25 * longest)
    met /= math.sqrt(batches.size)
    reach = rules.typical_reach(problem, radius)
    if loss.classification and problem.private:
        reach = min(reach, radius, _NOISY_REACH / row_norm)
    step_size = min(
        gradient_step_size(reach, steps, met, sigma, dimension),
        rules.typical_step_limit(problem),
    )
    variance = met**2 + dimension * sigma**2
    if sigma > 0.0:
        step_size = min(step_size, 2.0 * rules.affordable_noise(problem) / variance)
    return step_size, reach**2 / (2.0 * step_size * steps) + step_size * variance / 2.0


def _calibrated_batches(
    fit: Fit, given: DPSGDGradientArguments, problem: PublicProblem, noise: ScaleNoise
) -> NoisyBatches:
    """Batches, steps and noise, for the batch size with the smallest bound on the risk."""
    size = given.batch_size or _default_batch_size(fit, given, problem)
    steps = _steps(fit, given, size)
    check_calibration(fit, size, steps)
    plan: dict[str, Any] = {
        "batch_size": size,
        "n_samples": fit.n,
        "steps": steps,
        "sampling": sampling_name(fit.neighbors),
        "neighbors": fit.neighbors,
    }
    if noise.releases:
        sigma_over_clip = noise_multiplier_after(noise.mu, fit.epsilon, fit.delta, **plan)
    else:
        sigma_over_clip = noise_multiplier(fit.epsilon, fit.delta, **plan)
    return NoisyBatches(size, steps, sigma_over_clip)


def _steps(fit: Fit, given: DPSGDGradientArguments, size: int) -> int:
    if given.steps is not None:
        return given.steps
    gradients = _PASSES * fit.n if fit.epsilon < math.inf else max(_PASSES * fit.n, int(_EXACT_GRADIENTS))
    return min(max(1, gradients // size), check.MAX_STEPS - 1)


def _default_batch_size(fit: Fit, given: DPSGDGradientArguments, problem: PublicProblem) -> int:
    """A power of 2, with the noise multiplier z that the central limit theorem predicts.

    ``mu = m/n sqrt(T (exp(1/z^2) - 1))`` (Dong, Roth and Su 2022, Corollary 5.4).
    """
    if fit.epsilon == math.inf:
        return min(16, fit.n)
    clip = _clip(fit, given, problem)

    def risk(size: int) -> float:
        steps = _steps(fit, given, size)
        multiplier = math.log1p((problem.mu * fit.n / size) ** 2 / steps) ** -0.5
        batches = NoisyBatches(size, steps, multiplier * fit.neighbors.sum_factor)
        return _default_step_size(problem, clip, given.radius, batches)[1]

    least = 1 if given.steps is not None else -(-_PASSES * fit.n // _MOST_STEPS)
    powers = [1 << k for k in range(fit.n.bit_length())]  # none above n
    return min((size for size in powers if size >= min(least, powers[-1])), key=risk)


def _published_batches(fit: Fit, given: DPSGDGradientArguments) -> NoisyBatches:
    """Theorem 11."""
    fit.check_published("dp_sgd_gradient", neighbors=None)
    replaces = fit.neighbors is Neighbours.REPLACE_ONE
    if given.batch_size not in (None, 1) or not replaces or given.radius == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    count = given.chosen.get("steps", fit.n)
    return NoisyBatches(1, count, paper.sgd_gradient(fit.epsilon, fit.delta, n_samples=fit.n, steps=count))
