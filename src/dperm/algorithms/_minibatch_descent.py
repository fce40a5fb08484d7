"""The loop that all private stochastic gradient methods share, and what goes around it.

::

    w <- 0
    for t = 1 .. steps:
        B <- secret batch
        g <- (sum_{i in B} clip(grad l_i(w), C) + N(0, (z C)^2 I)) / b  +  gradient of the ridge term
        w <- project(w + rule(smooth(g)))

b is the public (expected) batch size, whatever the size of B; an empty batch gets its noise like any
other. `rule` and `smooth` see released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import GaussianRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import Sampling
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.noisy_gd import noisy_gd_schedule
from dperm.algorithms.settings import check_positive, check_positive_integer
from dperm.algorithms.step_rules import StepRule
from dperm.losses import Loss
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MinibatchSchedule:
    """Public settings of a run of stochastic gradient descent.

    Attributes
    ----------
    batch_size : float
        Expected size of a Poisson batch (it may be fractional), size of the others.
    steps : int
        Number of noisy gradients.
    clip : float
        Bound on the norm of one record's gradient.
    step_size : float
        Step on the mean gradient; for Adam the length of a typical step in one coordinate.
    momentum : float
        Heavy-ball coefficient in [0, 1); Adam's first decay.
    tail : float
        The last ``ceil(tail * (steps + 1))`` iterates are averaged, in [0, 1]; 0 returns the last.
    """

    batch_size: float
    steps: int
    clip: float
    step_size: float
    momentum: float
    tail: float


@dataclass(frozen=True)
class SamplingPlan:
    """How batches are drawn and what adds up their cost.

    Attributes
    ----------
    sampling : str
    accountant : str
    neighbors : str
    """

    sampling: str
    accountant: str
    neighbors: str

    def noise_multiplier(
        self, objective: Objective, epsilon: float, delta: float, schedule: MinibatchSchedule
    ) -> float:
        """``sigma / clip`` of each noisy sum."""
        return noise_multiplier(
            epsilon,
            delta,
            batch_size=schedule.batch_size,
            n_samples=objective.n_public,
            steps=schedule.steps,
            sampling=self.sampling,
            neighbors=self.neighbors,
            accountant=self.accountant,
        )


def minibatch_schedule(
    n: int, dimension: int, mu: float, loss: Loss, row_norm: float, l2: float = 0.0
) -> MinibatchSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    n, dimension, mu, loss, row_norm, l2
        As for :func:`dperm.algorithms.noisy_gd.noisy_gd_schedule`, whose settings these are.

    Notes
    -----
    With as many steps as noisy gradient descent and the same clip, the privacy noise on a mean gradient is
    the same for every batch size (while the noise multiplier is above 1), so the batch may be so
    small that its sampling error is still hidden in that noise. With ``k = n mu / sqrt(dimension)`` the ratio
    of the squared norms is ``k^2 / (batch steps)`` at most; the batch makes it 1/10.
    """
    full = noisy_gd_schedule(n, dimension, mu, loss, row_norm, l2)
    signal = n * min(mu, 1e3) / math.sqrt(dimension)
    hidden = 10.0 * signal**2 / full.steps
    batch_size = min(n, max(round(min(hidden, n)), min(512, n)))
    return MinibatchSchedule(
        batch_size=batch_size,
        steps=full.steps,
        clip=full.clip,
        step_size=full.step_size,
        momentum=full.momentum,
        tail=full.tail,
    )


# Passes over the records that a softmax run is spread over: 3 points more on MNIST at epsilon = 0.1 with
# Laplacian smoothing, and 1 without. Losses with one prediction gain nothing.
_SOFTMAX_PASSES = 15


def in_short_steps(schedule: MinibatchSchedule, objective: Objective, steps: int | None) -> MinibatchSchedule:
    """The same run in more and shorter steps, for several predictions a record; it goes as far.

    A few small batches out of many records need a noise multiplier so small that sampling hardly hides
    who is in them. With more steps each is hidden better, and the noise of all together is less.
    `steps` is what was asked for, or None.
    """
    if steps is not None:
        check_positive_integer("steps", steps)
    else:
        steps = math.ceil(_SOFTMAX_PASSES * objective.n_public / schedule.batch_size)
    if objective.loss.n_classes is None or steps <= schedule.steps:
        return schedule
    return replace(schedule, steps=steps, step_size=schedule.step_size * schedule.steps / steps)


def objective_schedule(
    objective: Objective, epsilon: float, delta: float, neighbors: str
) -> MinibatchSchedule:
    """`minibatch_schedule` of an objective, a target and a relation, which halves mu where it exchanges."""
    return minibatch_schedule(
        objective.n_public,
        math.prod(objective.shape),
        gdp_mu(epsilon, delta) / Neighbours.parse(neighbors).sum_factor,
        objective.loss,
        objective.row_norm,
        objective.l2,
    )


def private_minibatch_fit(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    name: str,
    plan: SamplingPlan,
    schedule: MinibatchSchedule,
    noise: float,
    rule: StepRule,
    smooth: Callable[[Array], Array] = lambda gradient: gradient,
    radius: float = math.inf,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    **facts: Any,
) -> FitResult:
    """Charge, run the loop, state what was done. ``noise`` is sigma over the clip, whatever the relation."""
    relation, sampling = Neighbours.parse(plan.neighbors), Sampling(plan.sampling)
    gaussian = sampling is Sampling.PERMUTATION
    if sampling is not Sampling.POISSON:
        objective.check_places()
    event = GaussianRelease(noise / relation.sum_factor)
    accountant = "gdp" if gaussian else plan.accountant
    budget = ScheduledBudget(event, schedule.steps, accountant)
    public = public_facts(
        objective,
        batch_size=schedule.batch_size,
        step_size=schedule.step_size,
        momentum=schedule.momentum,
        tail=schedule.tail,
        radius=radius,
        **facts,
    )
    releaser = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description=name,
        statement={"clip": schedule.clip, "steps": schedule.steps, "sampling": str(sampling), **public},
    )
    coef, history = _descend(
        objective, releaser, event.noise_multiplier, sampling, schedule, rule, smooth, radius, callback
    )
    sensitivity = objective.batch_sum_bounds(schedule.clip, radius)[0] * relation.sum_factor
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="stochastic gradient descent, Gaussian noise on the clipped gradient sum of each batch",
        accountant=accountant,
        sampling=str(sampling),
        sensitivity=sensitivity,
        noise_scale=event.noise_multiplier * sensitivity,
        clip=schedule.clip,
        row_norm=objective.row_norm,
        steps=schedule.steps,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=gdp_mu(epsilon, delta) if gaussian else None,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
        notes=() if gaussian else ("Which records were in which batch stays secret.",),
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=schedule.steps, history=history)


def _descend(
    objective: Objective,
    releaser: Releaser,
    multiplier: float,
    sampling: Sampling,
    schedule: MinibatchSchedule,
    rule: StepRule,
    smooth: Callable[[Array], Array],
    radius: float,
    callback: Callback | None,
) -> tuple[Array, list[dict[str, Any]]]:
    w = np.zeros(objective.shape)
    averaged = max(1, math.ceil(schedule.tail * (schedule.steps + 1)))
    total = np.zeros_like(w)  # of the iterates averaged; w_0 = 0 adds nothing
    history: list[dict[str, Any]] = []
    batches = SecretBatches(sampling, releaser.sampling_bits(), schedule.batch_size, objective.n_public)
    noisy_sum = releaser.noisy_batch_sums(
        objective,
        batches,
        multiplier,
        clip=schedule.clip,
        steps=schedule.steps,
        radius=radius,
    )
    for t in range(1, schedule.steps + 1):
        gradient = noisy_sum(w) / schedule.batch_size
        if objective.l2 > 0.0:
            gradient += objective.penalty_gradient(w)
        gradient = smooth(gradient)
        w = _project(w + rule.move(gradient), radius)
        if t > schedule.steps - averaged:
            total += w
        history.append({"gradient_norm": math.sqrt(np.vdot(gradient, gradient))})
        if callback is not None:
            callback({"iteration": t, "coef": w.copy(), "gradient": gradient})
    return total / averaged, history


def _project(w: Array, radius: float) -> Array:
    length = math.sqrt(np.vdot(w, w)) if radius < math.inf else 0.0
    return w if length <= radius else w * (radius / length)


def check_schedule(schedule: MinibatchSchedule, radius: float, n_public: int) -> None:
    """Raise ValueError for a setting out of range."""
    check_positive("batch_size", schedule.batch_size)
    if schedule.batch_size > n_public:
        raise ValueError(f"batch_size must be at most n_public = {n_public}, got {schedule.batch_size!r}")
    check_positive_integer("steps", schedule.steps)
    check_positive("clip", schedule.clip)
    check_positive("step_size", schedule.step_size)
    if not 0.0 <= schedule.momentum < 1.0:
        raise ValueError(f"momentum must be in [0, 1), got {schedule.momentum!r}")
    if not 0.0 <= schedule.tail <= 1.0:
        raise ValueError(f"tail must be in [0, 1], got {schedule.tail!r}")
    if not radius > 0.0:
        raise ValueError(f"radius must be positive (inf for no projection), got {radius!r}")
