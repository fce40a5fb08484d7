"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

P. Wang, Y. Lei, Y. Ying, H. Zhang, "Differentially private SGD with non-smooth losses", Applied and
Computational Harmonic Analysis 56, 2022, Algorithm 2, with small batches (R. Bassily et al., "Private
stochastic convex optimization with optimal rates", NeurIPS 2019).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from dperm.accounting import Neighbours, noise_multiplier, paper
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import rules_of_thumb as rules
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.noisy_descent import (
    NoisyDescentArguments,
    check_batch_size,
    check_calibration,
    noisy_descent,
    sampling_name,
)
from dperm.algorithms.settings import Setting
from dperm.mechanisms.random_source import random_bits
from dperm.objective.bounded_descent import gradient_bound

# Gradient evaluations of the default schedule, in passes over the records.
_PASSES = 20
# The same without noise, where it is more: for that they are batches of 16.
_EXACT_GRADIENTS = 2e7
# The fewest steps that a default batch size leaves, where there are records enough.
_LEAST_STEPS = 400


class DPSGDGradientArguments(NoisyDescentArguments):
    """Arguments of :func:`dp_sgd_gradient`.

    Attributes
    ----------
    steps : int
        T; by default 20 passes over the records, and without noise at least ``2e7`` gradients of records.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` or ``w_(T+1)``.
    """

    steps: Setting[int] = Setting(check.step_count)
    output: Setting[str] = Setting(check.one_of("average", "last"), "average")


class NoisyBatches(NamedTuple):
    """Batches and their noise.

    Attributes
    ----------
    size, steps : int
        m and T.
    noise_multiplier : float
        Standard deviation of the noise on a batch's sum, over its sensitivity.
    """

    size: int
    steps: int
    noise_multiplier: float

    def sigma(self, sensitivity: float) -> float:
        """Standard deviation of the noise on the mean gradient of a batch."""
        return self.noise_multiplier * sensitivity / self.size


@algorithm(DPSGDGradientArguments, convex=True, linear_prediction=True, random_access=True)
def dp_sgd_gradient(fit: Fit, given: DPSGDGradientArguments) -> FitResult:
    """Minimise by stochastic gradient descent with Gaussian noise on every gradient.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction, smooth or not.
    batch_size : int, optional
        Records per step, a fresh set of them each time; 1 in the paper. By default the one of a few powers of
        2 for which a bound on the risk is smallest, from public numbers, and not so many that fewer than 400
        steps are left.
    step_size : float, optional
        eta. By default ``R / sqrt(T (G^2 + d sigma^2))``, R the radius or a guess from `row_norm` and the
        bound on the targets, and at most ``1 / (l2 + beta)``, beta the smoothness or a guess for a kink.
    clip : float, optional
        Bound on the norm of one record's gradient. By default from public numbers: see
        :func:`dperm.algorithms.rules_of_thumb.typical_clip`; with a `radius`, the loss's bound there.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 11 (``batch_size=1``, ``replace_one``, a radius) with the feasible beta
        of smallest noise, where there is one.

    Notes
    -----
    The noise comes from the privacy profile of one subsampled step, composed exactly as a privacy-loss
    distribution (Balle, Barthe and Gaboardi 2018; Doroshenko et al. 2022). It covers all iterates and
    rests on the clip alone, not on what the loss is claimed to be.

    Without noise the default settings end within 1e-3 of the optimum on problems of a few thousand records;
    a slope without limit is clipped at 20 times the one at the weights 0.
    """
    loss, row_norm, radius = fit.objective.loss, fit.objective.row_norm, given.radius
    check_batch_size(given.batch_size or 1, fit.n)
    clip = given.completed(clip=_default_clip(fit, radius)).clip
    longest = gradient_bound(loss, row_norm, radius, clip)
    fit.check_published("dp_sgd_gradient", neighbors=None)
    batches = (_published_batches if fit.as_published else _calibrated_batches)(fit, given)
    schedule = replace(given, clip=longest, batch_size=batches.size, steps=batches.steps)
    schedule = schedule.completed(step_size=_default_step_size(fit, batches, longest, radius))
    coef = noisy_descent(
        fit,
        "dp_sgd_gradient",
        schedule,
        batches.noise_multiplier,
        random_bits(fit.spawn_source()),
        steps=schedule.steps,
        average=schedule.output == "average",
        accountant="pld",
    )
    return fit.result(coef, "Gaussian noise on the sum of every batch", n_iter=schedule.steps)


def _default_clip(fit: Fit, radius: float) -> float:
    return math.inf if fit.as_published or radius < math.inf else rules.typical_clip(fit.problem)


def _default_step_size(fit: Fit, batches: NoisyBatches, longest: float, radius: float) -> float:
    """The step that minimises a bound on the risk, where neither curvature nor noise asks for less."""
    problem = fit.problem
    loss, row_norm, l2, dimension = problem.loss, problem.row_norm, problem.l2, problem.dimension
    sigma = batches.sigma(fit.neighbors.sum_factor * longest)
    # Without noise the clip is far above the gradients that are met.
    met = min(longest, rules.usual_gradient(loss, row_norm)) if fit.mu == math.inf else longest
    reach = rules.typical_reach(loss, row_norm, radius, l2)
    step_size = min(
        gradient_step_size(reach, batches.steps, met, sigma, dimension),
        rules.typical_step_limit(loss, row_norm, l2),
    )
    if sigma > 0.0:
        # Noise costs eta d sigma^2/2 at most, by the bound that the step minimises.
        step_size = min(step_size, 2.0 * rules.affordable_noise(problem) / (dimension * sigma**2))
    return step_size


def _calibrated_batches(fit: Fit, given: DPSGDGradientArguments) -> NoisyBatches:
    """Batches, steps and noise; of the batch sizes tried, the one with the smallest predicted risk."""
    factor, dimension, steps = fit.neighbors.sum_factor, fit.objective.dimension, given.chosen.get("steps")

    def of_size(size: int) -> NoisyBatches:
        gradients = _PASSES * fit.n
        if fit.epsilon == math.inf:
            gradients = max(gradients, int(_EXACT_GRADIENTS))
        count = min(max(1, gradients // size), check.MAX_STEPS - 1) if steps is None else steps
        check_calibration(fit, size, count)
        over_clip = noise_multiplier(
            fit.epsilon,
            fit.delta,
            batch_size=size,
            n_samples=fit.n,
            steps=count,
            sampling=sampling_name(fit.neighbors),
            neighbors=fit.neighbors,
        )
        return NoisyBatches(size, count, over_clip / factor)

    if given.batch_size is not None:
        return of_size(given.batch_size)
    # R sqrt((G^2 + d sigma^2)/T) in units of R G
    return min(
        (of_size(size) for size in _batch_sizes(fit.epsilon, fit.n, steps)),
        key=lambda batches: (1.0 + dimension * batches.sigma(factor) ** 2) / batches.steps,
    )


def _batch_sizes(epsilon: float, n: int, steps: int | None) -> list[int]:
    """Powers of 2 around ``n sqrt(epsilon/(4 T))``, where amplification ends (Bassily et al. 2019).

    Unless T is given, none is so large that it leaves few steps: less noise does not make up for them.
    """
    if epsilon == math.inf:
        return [min(16, n)]
    # With T = 20 n/m this is m = n epsilon/80.
    centre = n * epsilon / (4.0 * _PASSES) if steps is None else n * math.sqrt(epsilon / (4.0 * steps))
    most = max(1, n * _PASSES // _LEAST_STEPS) if steps is None else n
    exponent = round(math.log2(min(max(centre, 1.0), most)))
    return sorted({min(2 ** max(0, exponent + by), most) for by in (-2, 0, 2)})


def _published_batches(fit: Fit, given: DPSGDGradientArguments) -> NoisyBatches:
    """Theorem 11."""
    replaces = fit.neighbors is Neighbours.REPLACE_ONE
    if given.batch_size not in (None, 1) or not replaces or given.radius == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    count = given.chosen.get("steps", fit.n)
    sigma = paper.sgd_gradient(fit.epsilon, fit.delta, n_samples=fit.n, steps=count)
    return NoisyBatches(1, count, sigma / 2.0)
