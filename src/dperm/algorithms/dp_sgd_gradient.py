"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

P. Wang, Y. Lei, Y. Ying, H. Zhang, "Differentially private SGD with non-smooth losses", Applied and
Computational Harmonic Analysis 56, 2022, Algorithm 2, with small batches (R. Bassily et al., "Private
stochastic convex optimization with optimal rates", NeurIPS 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Unpack

from dperm.accounting import paper
from dperm.accounting.events import GaussianRelease
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms import settings
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules_of_thumb import (
    affordable_noise,
    typical_clip,
    typical_reach,
    typical_step_limit,
    usual_gradient,
)
from dperm.algorithms.settings import (
    Schedule,
    checked,
    clip_norm,
    clip_norm_or_infinite,
    if_given,
    one_of,
    positive,
    positive_integer,
    positive_or_infinite,
    step_count,
)
from dperm.algorithms.sgd_settings import (
    check_batch_size,
    check_calibration,
    check_descent,
    fresh_batches,
    gradient_bound,
    sampling_name,
)
from dperm.mechanisms.random_source import random_bits
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan

# Gradient evaluations of the default schedule, in passes over the records.
_PASSES = 20
# The same without noise, where it is more: for that they are batches of 16.
_EXACT_GRADIENTS = 2e7
# The fewest steps that a default batch size leaves, where there are records enough.
_LEAST_STEPS = 400


@dataclass(frozen=True)
class GradientSchedule(Schedule):
    """Public settings of a run, as the arguments of :func:`dp_sgd_gradient` of the same names."""

    batch_size: int = checked(positive_integer)
    steps: int = checked(step_count)
    step_size: float = checked(positive)
    clip: float = checked(clip_norm)
    radius: float = checked(positive_or_infinite)
    output: str = checked(one_of("average", "last"))


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


@needs(neighbors="replace_one", convex=True, linear_prediction=True, random_access=True)
def dp_sgd_gradient(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    step_size: float | None = None,
    clip: float | None = None,
    radius: float = math.inf,
    output: str = "average",
    noise: str = "exact",
    report_every: int | None = None,
    **terms: Unpack[Terms],
) -> FitResult:
    """Minimise by stochastic gradient descent with Gaussian noise on every gradient.

    Parameters
    ----------
    objective : Objective
        With a convex loss of a linear prediction, smooth or not.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size : int, optional
        Records per step, a fresh set of them each time; 1 in the paper. By default the one of a few powers of
        2 for which a bound on the risk is smallest, from public numbers, and not so many that fewer than 400
        steps are left.
    steps : int, optional
        T; by default 20 passes over the records, and without noise at least ``2e7`` gradients of records.
    step_size : float, optional
        eta. By default ``R / sqrt(T (G^2 + d sigma^2))``, R the radius or a guess from `row_norm` and the
        bound on the targets, and at most ``1 / (l2 + beta)``, beta the smoothness or a guess for a kink.
    clip : float, optional
        Bound on the norm of one record's gradient. By default from public numbers: see
        :func:`dperm.algorithms.rules_of_thumb.typical_clip`; with a `radius`, the loss's bound there.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    output : {"average", "last"}
        Mean of the iterates ``w_1 .. w_T`` or ``w_(T+1)``.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int, optional
        Steps between two calls of `callback`; by default one pass.
    calibration : {"tight", "paper"}
        "paper": the noise of Theorem 11 (``batch_size=1``, ``replace_one``, a radius) with the feasible beta
        of smallest noise, where there is one.
    neighbors : {"replace_one", "add_or_remove"}
        A batch is a fresh set of fixed size, or a Poisson sample of rate ``batch_size / n``.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise and samples, from separate streams.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError
        For a setting out of range, a gradient without bound, or a paper calibration that has no feasible
        beta.
    DataError
        For more records than ``n_public`` and batches of fixed size.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The noise comes from the privacy profile of one subsampled step, composed exactly as a privacy-loss
    distribution (Balle, Barthe and Gaboardi 2018; Doroshenko et al. 2022). It covers all iterates and
    rests on the clip alone, not on what the loss is claimed to be.

    Without noise the default settings end within 1e-3 of the optimum on problems of a few thousand records;
    a slope without limit is clipped at 20 times the one at the weights 0.
    """
    fit = Fit(objective, epsilon, delta, **terms)
    batch_size = if_given(positive_integer, "batch_size", batch_size)
    check_batch_size(batch_size or 1, fit.n)
    steps = if_given(step_count, "steps", steps)
    noise = one_of("exact", "float")("noise", noise)
    radius = positive_or_infinite("radius", radius)
    clip = _default_clip(fit, radius) if clip is None else clip_norm_or_infinite("clip", clip)
    longest = gradient_bound(objective.loss, objective.row_norm, radius, clip)
    fit.check_published("dp_sgd_gradient", neighbors=None)
    if fit.as_published:
        batches = _published_batches(fit, batch_size, steps, radius)
    else:
        batches = _calibrated_batches(fit, batch_size, steps)
    default_step = _default_step_size(fit, batches, longest, radius)
    schedule = GradientSchedule(batches.size, batches.steps, default_step, longest, radius, output)
    schedule = schedule.replaced(step_size=step_size)
    every = max(1, fit.n // schedule.batch_size) if report_every is None else report_every
    every = positive_integer("report_every", every)
    plan = DescentPlan(
        objective.loss,
        schedule.steps,
        schedule.batch_size,
        schedule.step_size,
        longest,
        radius,
        average=output == "average",
    )
    multiplier = batches.noise_multiplier
    check_descent(fit, plan, multiplier, noise)
    budget = ScheduledBudget(GaussianRelease(multiplier), schedule.steps, "pld")
    release = fit.open("dp_sgd_gradient", budget, schedule, sampling=sampling_name(fit.neighbors))
    bits = random_bits(fit.spawn_source())

    descent = objective.stochastic_descent(plan, fresh_batches(bits, fit.neighbors, fit.n, plan.batch_size))
    observe = None if fit.callback is None else fit.show
    last, average = release.noisy_descent(descent, multiplier, noise=noise, observe=observe, every=every)
    coef = last if average is None else average
    return fit.result(coef, "Gaussian noise on the sum of every batch", n_iter=schedule.steps)


def _default_clip(fit: Fit, radius: float) -> float:
    return math.inf if fit.as_published or radius < math.inf else typical_clip(fit.problem)


def _default_step_size(fit: Fit, batches: NoisyBatches, longest: float, radius: float) -> float:
    """The step that minimises a bound on the risk, where neither curvature nor noise asks for less."""
    problem = fit.problem
    loss, row_norm, l2, dimension = problem.loss, problem.row_norm, problem.l2, problem.dimension
    sigma = batches.sigma(fit.neighbors.sum_factor * longest)
    # Without noise the clip is far above the gradients that are met.
    met = min(longest, usual_gradient(loss, row_norm)) if fit.mu == math.inf else longest
    reach = typical_reach(loss, row_norm, radius, l2)
    step_size = min(
        gradient_step_size(reach, batches.steps, met, sigma, dimension),
        typical_step_limit(loss, row_norm, l2),
    )
    if sigma > 0.0:
        # Noise costs eta d sigma^2/2 at most, by the bound that the step minimises.
        step_size = min(step_size, 2.0 * affordable_noise(problem) / (dimension * sigma**2))
    return step_size


def _calibrated_batches(fit: Fit, batch_size: int | None, steps: int | None) -> NoisyBatches:
    """Batches, steps and noise; of the batch sizes tried, the one with the smallest predicted risk."""
    factor, dimension = fit.neighbors.sum_factor, fit.objective.dimension

    def of_size(size: int) -> NoisyBatches:
        gradients = _PASSES * fit.n
        if fit.epsilon == math.inf:
            gradients = max(gradients, int(_EXACT_GRADIENTS))
        count = min(max(1, gradients // size), settings.MAX_STEPS - 1) if steps is None else steps
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

    if batch_size is not None:
        return of_size(batch_size)
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


def _published_batches(fit: Fit, batch_size: int | None, steps: int | None, radius: float) -> NoisyBatches:
    """Theorem 11."""
    if batch_size not in (None, 1) or fit.neighbors is not Neighbours.REPLACE_ONE or radius == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    count = fit.n if steps is None else steps
    sigma = paper.sgd_gradient(fit.epsilon, fit.delta, n_samples=fit.n, steps=count)
    return NoisyBatches(1, count, sigma / 2.0)
