"""Stochastic gradient descent with noise on every gradient, for losses with kinks.

P. Wang, Y. Lei, Y. Ying, H. Zhang, "Differentially private SGD with non-smooth losses", Applied and
Computational Harmonic Analysis 56, 2022, Algorithm 2, with small batches (R. Bassily et al., "Private
stochastic convex optimization with optimal rates", NeurIPS 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dperm.accounting import paper
from dperm.accounting.events import GaussianRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.step_size import gradient_step_size
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_choice, check_positive, check_positive_integer
from dperm.algorithms.sgd_settings import (
    affordable_noise,
    batch_and_noise_streams,
    draw_batches,
    gradient_bound,
    observer,
    sampling_name,
    typical_clip,
    typical_reach,
    typical_step_limit,
    usual_gradient,
)
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.objective.stochastic_descent import DescentPlan
from dperm.statement.privacy_statement import PrivacyStatement

# Gradient evaluations of the default schedule, in passes over the records.
_PASSES = 20
# The same without noise, where it is more: for that they are batches of 16.
_EXACT_GRADIENTS = 2e7
# The fewest steps that a default batch size leaves, where there are records enough.
_LEAST_STEPS = 400


@dataclass(frozen=True)
class GradientSchedule:
    """Public settings of a run.

    Attributes
    ----------
    batch_size, steps : int
        m and T.
    noise_multiplier : float
        Standard deviation of the noise on a batch's sum, over its sensitivity.
    """

    batch_size: int
    steps: int
    noise_multiplier: float

    def sigma(self, sensitivity: float) -> float:
        """Standard deviation of the noise on the mean gradient of a batch."""
        return self.noise_multiplier * sensitivity / self.batch_size


@needs(convex=True, linear_prediction=True, random_access=True)
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
    calibration: str = "tight",
    neighbors: str = "replace_one",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
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
        :func:`dperm.algorithms.sgd_settings.typical_clip`; with a `radius`, the loss's bound there.
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
    ledger, random_state
        As for :func:`dperm.algorithms.noisy_gd`.
    callback : callable, optional
        Called with ``{"iteration", "coef"}``, released values.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, a gradient without bound, or a paper calibration that has no feasible
        beta.
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
    relation = Neighbours.parse(neighbors)
    n, dimension = objective.n_public, objective.dimension
    check_choice("calibration", calibration, ("tight", "paper"))
    check_choice("output", output, ("average", "last"))
    check_choice("noise", noise, ("exact", "float"))
    for name, value in (("batch_size", batch_size), ("steps", steps)):
        if value is not None:
            check_positive_integer(name, value)
    if batch_size is not None and batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n}, got {batch_size}")
    mu = gdp_mu(epsilon, delta)
    if clip is None:
        unbounded = radius == math.inf and calibration == "tight"
        clip = typical_clip(objective.loss, objective.row_norm, n, mu, dimension) if unbounded else math.inf
    longest = gradient_bound(objective.loss, objective.row_norm, radius, clip)
    if calibration == "paper":
        schedule = _paper_schedule(epsilon, delta, n, batch_size, steps, radius, relation)
    else:
        schedule = _schedule(epsilon, delta, n, batch_size, steps, dimension, relation)
    if step_size is None:
        sigma = schedule.sigma(relation.sum_factor * longest)
        reach = typical_reach(objective.loss, objective.row_norm, radius, objective.l2)
        # Without noise the clip is far above the gradients that are met.
        met = min(longest, usual_gradient(objective.loss, objective.row_norm)) if mu == math.inf else longest
        step_size = min(
            gradient_step_size(reach, schedule.steps, met, sigma, dimension),
            typical_step_limit(objective.loss, objective.row_norm, objective.l2),
        )
        if sigma > 0.0:
            # Noise costs eta d sigma^2/2 at most, by the bound that the step minimises.
            affordable = affordable_noise(objective.loss, n, mu / relation.sum_factor, dimension)
            step_size = min(step_size, 2.0 * affordable / (dimension * sigma**2))
    check_positive("step_size", step_size)
    if relation is Neighbours.REPLACE_ONE:
        objective.check_places()
    observe, every = observer(callback, n, schedule.batch_size, report_every)
    bits, source = batch_and_noise_streams(random_state)
    public = public_facts(
        objective,
        batch_size=schedule.batch_size,
        step_size=step_size,
        radius=radius,
        output=output,
        calibration=calibration,
    )
    releaser = Releaser(
        epsilon,
        delta,
        ScheduledBudget(GaussianRelease(schedule.noise_multiplier), schedule.steps, "pld"),
        neighbors=relation,
        ledger=ledger,
        random_state=source,
        description="dp_sgd_gradient",
        statement=public,
    )
    plan = DescentPlan(
        objective.loss, schedule.steps, schedule.batch_size, step_size, longest, radius, output == "average"
    )
    descent = objective.stochastic_descent(plan, draw_batches(bits, relation, n, schedule.batch_size))
    last, average = releaser.noisy_descent(
        descent, schedule.noise_multiplier, noise=noise, observe=observe, every=every
    )
    sensitivity = descent.sensitivity(relation)
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta if epsilon < math.inf else 0.0,
        neighbors=relation,
        mechanism="Gaussian noise on the sum of every batch",
        accountant="pld",
        sampling=sampling_name(relation),
        sensitivity=sensitivity,
        noise_scale=schedule.noise_multiplier * sensitivity,
        clip=descent.add_or_remove,
        row_norm=objective.row_norm,
        steps=schedule.steps,
        noise=noise,
        random=releaser.random,
        non_finite=objective.non_finite,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
    )
    return FitResult(coef=last if average is None else average, privacy=privacy, n_iter=schedule.steps)


@lru_cache(maxsize=256)
def _schedule(
    epsilon: float,
    delta: float,
    n: int,
    batch_size: int | None,
    steps: int | None,
    dimension: int,
    relation: Neighbours,
) -> GradientSchedule:
    """Batches, steps and noise; of the batch sizes tried, the one with the smallest predicted risk."""

    def of_size(size: int) -> GradientSchedule:
        gradients = max(_PASSES * n, int(_EXACT_GRADIENTS)) if epsilon == math.inf else _PASSES * n
        count = max(1, gradients // size) if steps is None else steps
        over_clip = noise_multiplier(
            epsilon,
            delta,
            batch_size=size,
            n_samples=n,
            steps=count,
            sampling=sampling_name(relation),
            neighbors=relation,
        )
        return GradientSchedule(size, count, over_clip / relation.sum_factor)

    if batch_size is not None:
        return of_size(batch_size)
    # R sqrt((G^2 + d sigma^2)/T) in units of R G
    return min(
        (of_size(size) for size in _batch_sizes(epsilon, n, steps)),
        key=lambda plan: (1.0 + dimension * plan.sigma(relation.sum_factor) ** 2) / plan.steps,
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


def _paper_schedule(
    epsilon: float,
    delta: float,
    n: int,
    batch_size: int | None,
    steps: int | None,
    radius: float,
    relation: Neighbours,
) -> GradientSchedule:
    """Theorem 11."""
    if batch_size not in (None, 1) or relation is not Neighbours.REPLACE_ONE or radius == math.inf:
        raise ValueError(
            "calibration='paper' is for batch_size=1, neighbors='replace_one' and a finite radius"
        )
    count = n if steps is None else steps
    sigma = paper.sgd_gradient(epsilon, delta, n_samples=n, steps=count)
    return GradientSchedule(1, count, sigma / 2.0)
