"""Stochastic gradient descent with noise on the sum of every fresh batch: what its algorithms share."""

from __future__ import annotations

import math

import numpy as np

from dperm._kernels.samplers import RandomBits
from dperm.accounting import GaussianRelease, Neighbours, ScheduledBudget
from dperm.accounting.fit_costs import sampled_gaussian_cost
from dperm.algorithms import settings as check
from dperm.algorithms.fit import Fit, PublishedTerms
from dperm.algorithms.settings import Schedule, Setting
from dperm.algorithms.step_sizes import StepSize, step_size, step_sizes
from dperm.mechanisms.descent_batches import PoissonBatches, UniformBatches
from dperm.mechanisms.noise import gaussian_scale
from dperm.objective.objective import Array
from dperm.objective.stochastic_descent import DescentPlan

_LARGEST_EPSILON, _SMALLEST_DELTA = 1e4, 1e-200


class NoisyDescentArguments(Schedule, PublishedTerms):
    """Arguments of an algorithm.

    Attributes
    ----------
    batch_size : int
        Records per step, a fresh set of them each time; 1 in the paper.
    step_size : float, str, mapping or callable
        eta. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in ``"0.5/sqrt(t)"``; a mapping
        from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a function of the step 1, 2, ...
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it.
    radius : float
        Project the iterates onto ``||w|| <= radius``; infinite for no projection.
    noise : {"exact", "float"}
        "float": floating-point noise, for long runs; the guarantee is idealised.
    report_every : int
        Steps between two calls of `callback`; by default one pass.
    neighbors : {"add_or_remove", "replace_one"}, optional
        A batch is a Poisson sample of rate ``batch_size / n`` (add_or_remove), or a fresh set of fixed size
        (replace_one). By default the ledger's relation, and add_or_remove without a ledger.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.
    """

    batch_size: Setting[int] = Setting(check.positive_integer)
    step_size: Setting[StepSize] = Setting(step_size)
    clip: Setting[float] = Setting(check.clip_norm_or_infinite)
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)
    noise: Setting[str] = Setting(check.one_of("exact", "float"), "exact", stated=False)
    report_every: Setting[int] = Setting(check.positive_integer, stated=False)


def check_batch_size(batch_size: int, n: int) -> None:
    """Raise ValueError for batches larger than the data set."""
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n}, got {batch_size}")


def check_calibration(fit: Fit, batch_size: int, steps: int) -> None:
    """Raise ValueError where a search for the noise of so many batches would not end.

    That is where delta allows for every record that is used, where hardly any noise is asked for, and where
    delta is next to nothing.
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
    """Fresh secret batches: of fixed size where a record is replaced, Poisson where it comes or goes."""
    if relation is Neighbours.REPLACE_ONE:
        return UniformBatches(bits, n, batch_size)
    return PoissonBatches(bits, n, batch_size / n)  # the rate that is accounted for, or less


def sampling_name(relation: Neighbours) -> str:
    """What the accounting and the statement call :func:`fresh_batches`."""
    return "without_replacement" if relation is Neighbours.REPLACE_ONE else "poisson"


def noisy_descent(
    fit: Fit,
    name: str,
    schedule: NoisyDescentArguments,
    multiplier: float,
    bits: RandomBits,
    *,
    steps: int,
    average: bool,
    accountant: str,
) -> Array:
    """Check, charge and run; the mean of the iterates, or the last.

    Parameters
    ----------
    fit : Fit
    name : str
        Of the algorithm.
    schedule : NoisyDescentArguments
        Its `clip` is the bound on gradients.
    multiplier : float
        Standard deviation of the noise on a batch's sum, over its sensitivity.
    bits : RandomBits
        For the batches.
    steps : int
        Of this run.
    average : bool
    accountant : str
        What showed that the noise is enough.

    Raises
    ------
    DataError
        For more records than places to draw batches of fixed size from.
    ValueError
        For noise that does not fit the grid of the sums.
    """
    objective, relation = fit.objective, fit.neighbors
    sizes = step_sizes(schedule.step_size, max(steps, 1))
    plan = DescentPlan(
        objective.loss,
        steps,
        schedule.batch_size,
        lambda first, count: np.ascontiguousarray(sizes[first : first + count]),
        schedule.clip,
        schedule.radius,
        average=average,
    )
    if relation is Neighbours.REPLACE_ONE:
        objective.check_places()
    if schedule.radius == math.inf:
        fit.check_growth(sizes, 0.0, schedule.clip)
    contribution, grid = objective.descent_sum_bounds(plan)
    if schedule.noise == "exact":
        gaussian_scale(multiplier * relation.sum_factor * contribution, grid)
    cost = sampled_gaussian_cost(
        multiplier * relation.sum_factor,
        batch_size=schedule.batch_size,
        n_samples=fit.n,
        steps=max(steps, 1),
        sampling=sampling_name(relation),
        neighbors=relation,
    )
    budget = ScheduledBudget(GaussianRelease(multiplier), max(steps, 1), accountant, cost)
    release = fit.open(name, budget, schedule, sampling=sampling_name(relation))
    descent = objective.stochastic_descent(plan, fresh_batches(bits, relation, fit.n, plan.batch_size))
    last, mean = release.noisy_descent(
        descent,
        multiplier,
        noise=schedule.noise,
        observe=None if fit.callback is None else fit.show,
        every=schedule.report_every or max(1, fit.n // plan.batch_size),
    )
    return last if mean is None else mean
