"""Stochastic gradient descent with noise on the gradient sum of every fresh batch: the shared loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dperm._kernels.samplers import RandomBits
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_sizes import step_size, step_sizes
from dperm.mechanisms.descent_batches import PoissonBatches, UniformBatches
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.release import Releaser
from dperm.objective.descents import DescentPlan, check_places, descent_sum_bounds, stochastic_descent
from dperm.objective.objective import Array, Objective

_LARGEST_EPSILON, _SMALLEST_DELTA = 1e4, 1e-200


@dataclass(frozen=True, kw_only=True)
class NoisyDescentSchedule(Settings):
    """Settings of such an algorithm."""

    batch_size: int = setting(check.positive_integer)
    step_size: float = setting(step_size)  # or StepSizes
    clip: float = setting(check.clip_norm_or_infinite)
    radius: float = setting(check.positive_or_infinite, math.inf)
    noise: str = setting(check.one_of("exact", "float"), "exact", stated=False)
    report_every: int | None = setting(check.positive_integer, None, stated=False)


def check_calibration(fit: Fit, batch_size: int, steps: int) -> None:
    """Raise ValueError where no noise multiplier can be found.

    That is for a delta that covers every record that is used, a huge epsilon, and a tiny delta.
    """
    if _LARGEST_EPSILON < fit.epsilon < math.inf:
        raise ValueError(
            f"epsilon must be at most {_LARGEST_EPSILON:g}, or infinite for no noise, got {fit.epsilon:g}"
        )
    if 0.0 < fit.delta < _SMALLEST_DELTA:
        raise ValueError(f"delta must be at least {_SMALLEST_DELTA:g}, got {fit.delta:g}")
    if fit.epsilon < math.inf and steps * batch_size <= fit.delta * fit.n:
        raise ValueError(
            f"delta = {fit.delta:g} is no less than the probability that a record is used at all, "
            f"{steps * batch_size / fit.n:g}: choose a smaller delta, or more steps"
        )


def fresh_batches(
    bits: RandomBits, relation: Neighbours, n: int, batch_size: int
) -> UniformBatches | PoissonBatches:
    """Fresh secret batches: of fixed size under replace_one, Poisson under add_or_remove."""
    if relation is Neighbours.REPLACE_ONE:
        return UniformBatches(bits, n, batch_size)
    return PoissonBatches(bits, n, batch_size / n)  # at most the rate that is accounted for


def sampling_name(relation: Neighbours) -> str:
    """The sampling scheme of :func:`fresh_batches`."""
    return "without_replacement" if relation is Neighbours.REPLACE_ONE else "poisson"


def opened(
    fit: Fit,
    name: str,
    schedule: NoisyDescentSchedule,
    sigma_over_clip: float,
    *,
    counts: Sequence[int],
    accountant: str,
) -> Releaser:
    """Check and charge a descent.

    The schedule must have a finite `clip`. The noise on the sum of a batch has the standard deviation
    ``sigma_over_clip * clip``; `accountant` is for the statement. The number of steps is one of the
    equally likely `counts`. A random one must be drawn *after* this charge: given a large number, the
    guarantee of the fit does not hold, and given a small one, it costs less than is charged.
    """
    objective, relation, steps = fit.objective, fit.neighbors, max(counts)
    if relation is Neighbours.REPLACE_ONE:
        check_places(objective)
    if schedule.radius == math.inf:
        fit.check_growth(step_sizes(schedule.step_size, steps), 0.0, schedule.clip)
    contribution, grid = descent_sum_bounds(objective, _plan(objective, schedule, steps))
    if schedule.noise == "exact":
        gaussian_scale(sigma_over_clip * contribution, grid)
    cost = sampled_gaussian_cost(
        sigma_over_clip,
        batch_size=schedule.batch_size,
        n_samples=fit.n,
        steps=steps,
        sampling=sampling_name(relation),
        neighbors=relation,
        counts=counts,
    )
    each = GaussianRelease(sigma_over_clip / relation.sum_factor)
    budget = ScheduledBudget(each, steps, accountant, cost)
    return fit.open(name, budget, schedule, sampling=sampling_name(relation))


def noisy_descent(
    fit: Fit,
    release: Releaser,
    schedule: NoisyDescentSchedule,
    sigma_over_clip: float,
    bits: RandomBits,
    *,
    steps: int,
    average: bool,
) -> Array:
    """Run a descent that was charged; returns the mean of the iterates (`average`), or the last one."""
    objective, relation = fit.objective, fit.neighbors
    plan = _plan(objective, schedule, steps, average=average)
    descent = stochastic_descent(objective, plan, fresh_batches(bits, relation, fit.n, plan.batch_size))
    last, mean = release.noisy_descent(
        descent,
        sigma_over_clip / relation.sum_factor,
        noise=schedule.noise,
        observe=None if fit.callback is None else fit.show,
        every=schedule.report_every or max(1, fit.n // plan.batch_size),
    )
    return last if mean is None else mean


def _plan(
    objective: Objective, schedule: NoisyDescentSchedule, steps: int, average: bool = True
) -> DescentPlan:
    sizes = step_sizes(schedule.step_size, max(steps, 1))
    return DescentPlan(
        objective.loss,
        steps,
        schedule.batch_size,
        lambda first, count: np.ascontiguousarray(sizes[first : first + count]),
        schedule.clip,
        schedule.radius,
        average=average,
    )
