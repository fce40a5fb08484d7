"""DP-SGD: stochastic gradient descent on secret batches, with clipped gradients and Gaussian noise.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, "Deep learning with differential privacy", CCS
2016, Algorithm 1 (moments accountant); Bassily, Smith and Thakurta, "Private empirical risk
minimization: efficient algorithms and tight error bounds", FOCS 2014 (advanced composition). By default the
cost is added up with privacy loss distributions, which need the least noise.
"""

from __future__ import annotations

import math

from dperm.accounting import paper
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.algorithms._minibatch_descent import (
    MinibatchSchedule,
    SamplingPlan,
    check_schedule,
    in_short_steps,
    objective_schedule,
    private_minibatch_fit,
)
from dperm.algorithms.fit_result import Callback, FitResult
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import override
from dperm.algorithms.step_rules import Adam, HeavyBall, StepRule
from dperm.mechanisms.random_source import RandomState
from dperm.objective.objective import Objective

OPTIMIZERS = ("momentum", "adam")


@needs()
def dp_sgd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    batch_size: float | None = None,
    steps: int | None = None,
    clip: float | None = None,
    step_size: float | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    optimizer: str = "momentum",
    radius: float = math.inf,
    sampling: str = "poisson",
    accountant: str = "pld",
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by stochastic gradient descent on secret batches, with Gaussian noise on each gradient.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    batch_size, steps, clip, step_size, momentum, tail : optional
        See :class:`dperm.algorithms._minibatch_descent.MinibatchSchedule`; by default from public numbers
        only. ``momentum=0, tail=0`` is the published algorithm.
    optimizer : {"momentum", "adam"}
        What is made of the noisy gradients; it costs no privacy.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    sampling : {"poisson", "without_replacement", "permutation"}
        Every record in each batch with probability ``batch_size / n_public``; fresh batches of fixed size
        (``replace_one`` only); or shuffled epochs, whose sampling amplifies nothing.
    accountant : {"pld", "rdp", "moments", "advanced_composition"}
        How costs add up: privacy loss distributions; Renyi divergences; the moments accountant with moments
        up to 32 (Poisson, ``add_or_remove``); amplification and advanced composition, as tight as
        the method allows. Shuffled epochs are Gaussian, and exact with any of them.
    calibration : {"tight", "paper"}
        "paper": published noise, for ``accountant="moments"`` and for ``"advanced_composition"`` (Lee and
        Kifer 2018, Section 6); Poisson sampling and ``add_or_remove`` only.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise and samples, from separate streams.
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, a combination without valid accounting, or a paper calibration that
        does not give the claimed guarantee.
    DataError
        For more records than ``n_public`` and batches of fixed size.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP as long as the batches stay secret:
    see :func:`dperm.accounting.sgd_epsilon` for the theorems. Sums are divided by the public batch size,
    never by the number of records in the batch.
    """
    schedule = override(
        _default_schedule(objective, epsilon, delta, optimizer, neighbors, steps),
        batch_size=batch_size,
        steps=steps,
        clip=clip,
        step_size=step_size,
        momentum=momentum,
        tail=tail,
    )
    check_schedule(schedule, radius, objective.n_public)
    plan = SamplingPlan(sampling, accountant, neighbors)
    return private_minibatch_fit(
        objective,
        epsilon,
        delta,
        name="dp_sgd",
        plan=plan,
        schedule=schedule,
        noise=_noise(objective, epsilon, delta, plan, schedule, calibration),
        rule=step_rule(optimizer, schedule),
        radius=radius,
        ledger=ledger,
        random_state=random_state,
        callback=callback,
        optimizer=optimizer,
        calibration=calibration,
    )


def step_rule(optimizer: str, schedule: MinibatchSchedule) -> StepRule:
    """The rule named by ``optimizer``, with the settings of the schedule."""
    if optimizer == "momentum":
        return HeavyBall(schedule.step_size, schedule.momentum)
    return Adam(schedule.step_size, schedule.momentum)


def _default_schedule(
    objective: Objective, epsilon: float, delta: float, optimizer: str, neighbors: str, steps: int | None
) -> MinibatchSchedule:
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {OPTIMIZERS}, got {optimizer!r}")
    schedule = objective_schedule(objective, epsilon, delta, neighbors)
    if optimizer == "adam":
        return adam_schedule(schedule, objective)
    return in_short_steps(schedule, objective, steps)


def adam_schedule(schedule: MinibatchSchedule, objective: Objective) -> MinibatchSchedule:
    """The same with Adam's own decay and a step size for it."""
    return override(schedule, step_size=0.3 / objective.row_norm, momentum=0.9)


def _noise(
    objective: Objective,
    epsilon: float,
    delta: float,
    plan: SamplingPlan,
    schedule: MinibatchSchedule,
    calibration: str,
) -> float:
    if calibration == "tight":
        return plan.noise_multiplier(objective, epsilon, delta, schedule)
    if calibration != "paper":
        raise ValueError(f"calibration must be 'tight' or 'paper', got {calibration!r}")
    published = {
        "moments": paper.sgd_moments,
        "advanced_composition": paper.sgd_advanced_composition,
    }.get(plan.accountant)
    if published is None or (plan.sampling, plan.neighbors) != ("poisson", "add_or_remove"):
        raise ValueError(
            "calibration='paper' of dp_sgd needs accountant='moments' or 'advanced_composition', "
            "sampling='poisson' and neighbors='add_or_remove'"
        )
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    rate = schedule.batch_size / objective.n_public
    return published(epsilon, delta, rate=rate, steps=schedule.steps)
