"""DP-AGD: gradient descent that spends as much of its budget per step as the step needs.

Lee and Kifer, "Concentrated differentially private gradient descent with adaptive per-iteration
privacy budget", KDD 2018, Algorithm 2, with three corrections: gradient measurements are averaged
unnormalised, every access is checked against the budget before it is made, and the selection is
charged as the bounded-range mechanism that it is. What is done with released values costs nothing:
by default directions have momentum, steps shrink when 0 wins, and late iterates are averaged.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.budget import Budget
from dperm.accounting.events import PureRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import (
    Units,
    floor_units,
    gaussian_noise_multiplier,
    pure_epsilon,
    selection_eta,
)
from dperm.accounting.zcdp import zcdp_rho, zcdp_rho_bun_steinke
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.noisy_gd import longest_gradient, softmax_clip
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_fraction, check_positive, check_positive_integer, override
from dperm.algorithms.suffix_average import LateMean
from dperm.losses import Loss
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DPAGDSchedule:
    """Public settings of a DP-AGD run.

    Attributes
    ----------
    splits : int
        Number of first-try iterations that the budget is planned for.
    selection_share : float
        Portion of the budget for the line searches, in (0, 1).
    clip, loss_clip : float
        Bounds on one record's gradient norm and loss.
    step_max : float
        Largest step of the first line searches, in the unit of the weights.
    growth : float
        Budget of a further measurement, relative to what the gradient has cost so far.
    momentum : float
        Weight of the last direction in the next, in [0, 1); forgotten when 0 wins.
    shrink : float
        ``step_max`` is multiplied by this each time 0 wins, in (0, 1].
    average : bool
        Return the mean of the later iterates (at least the last half) instead of the last.
    """

    splits: int
    selection_share: float
    clip: float
    loss_clip: float
    step_max: float
    growth: float
    momentum: float
    shrink: float
    average: bool


# Lee and Kifer's own settings; the share of the selections follows from theirs.
PAPER_SCHEDULE = DPAGDSchedule(
    splits=60,
    selection_share=0.5,
    clip=3.0,
    loss_clip=3.0,
    step_max=2.0,
    growth=0.1,
    momentum=0.0,
    shrink=1.0,
    average=False,
)


def dp_agd_schedule(n: int, dimension: int, mu: float, loss: Loss, row_norm: float) -> DPAGDSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    n : int
        Public number of records.
    dimension : int
        Number of weights.
    mu : float
        Privacy parameter of Gaussian differential privacy; infinite without noise.
    loss : Loss
        For its constants.
    row_norm : float
        Bound on the norm of a row.

    Notes
    -----
    As in :func:`dperm.algorithms.noisy_gd.noisy_gd_schedule` everything depends on the signal-to-noise number
    ``k = n mu / sqrt(dimension)``. Many cheap iterations beat few dear ones; a tenth of the budget is enough
    for the line searches. Real targets bounded by Y set the scale of losses and steps; losses of class
    codes are clipped at about twice the loss of a guess. Without noise the clips are out of reach.
    """
    bound = loss.target_bound
    signal = n * mu / math.sqrt(dimension)
    longest = longest_gradient(loss, row_norm, noisy=mu < math.inf)
    clip = longest * min(1.0, max(math.sqrt(signal / 4800.0), 0.05))
    loss_clip = 1.5 if bound == math.inf else loss.value_at_zero
    if loss.n_classes is not None:
        clip, loss_clip = softmax_clip(signal, row_norm), 1.5 * math.log2(loss.n_classes)
    if mu == math.inf:
        loss_clip *= 16.0  # without noise it only moves the optimum; more would make the sums coarse
    return DPAGDSchedule(
        splits=round(min(max(signal, 40), 1000)),
        selection_share=0.1,
        clip=clip,
        loss_clip=loss_clip,
        step_max=(4.0 if bound == math.inf else bound) / row_norm,
        growth=0.02,
        momentum=0.9,
        shrink=0.9,
        average=True,
    )


@needs()
def dp_agd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    splits: int | None = None,
    selection_share: float | None = None,
    clip: float | None = None,
    loss_clip: float | None = None,
    step_max: float | None = None,
    growth: float | None = None,
    momentum: float | None = None,
    shrink: float | None = None,
    average: bool | None = None,
    n_candidates: int = 20,
    step_window: int = 10,
    max_iter: int = 10_000,
    accountant: str | None = None,
    calibration: str = "tight",
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise with an adaptive privacy budget per iteration and a private line search.

    Each iteration measures the gradient, then chooses a step size among ``n_candidates`` and 0 by a
    private comparison of losses. When 0 wins, the direction was too noisy: the gradient is measured
    again with a little more budget and averaged with what is known, and later iterations start with
    that larger budget.

    Parameters
    ----------
    objective : Objective
        Any non-negative loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    splits, selection_share, clip, loss_clip, step_max, growth, momentum, shrink, average : optional
        See :class:`DPAGDSchedule`; by default from :func:`dp_agd_schedule`, which looks at public
        numbers only. ``momentum=0, shrink=1, average=False`` is the published algorithm, corrected.
    n_candidates : int
        Positive steps ``j step_max / n_candidates`` on offer in a line search.
    step_window : int
        After this many updates ``step_max`` becomes 1.1 times the largest step chosen among them.
    max_iter : int
        Most updates.
    accountant : {"zcdp", "gdp"}, optional
        What adds up; by default that of the ledger, or else "zcdp" when the selections take more than a
        fifth of the budget.
    calibration : {"tight", "paper"}
        "paper": the published settings, budget split, conversion and Laplace noisy-min
        (``add_or_remove`` only).
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called after each update with ``{"iteration", "coef", "step", "gradient_budget"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range, or a paper calibration that does not give the claimed guarantee.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    (epsilon, delta)-DP of the whole transcript (measurements, chosen steps, number of iterations) by the
    zCDP filter of Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1, or the GDP filter of Smith and
    Thakurta 2022; selections have bounded range (Dong, Durfee and Rogers 2020).
    """
    relation = Neighbours.parse(neighbors)
    mu = gdp_mu(epsilon, delta)
    schedule = override(
        PAPER_SCHEDULE
        if calibration == "paper"
        else dp_agd_schedule(objective.n_public, objective.dimension, mu, objective.loss, objective.row_norm),
        splits=splits,
        selection_share=selection_share,
        clip=clip,
        loss_clip=loss_clip,
        step_max=step_max,
        growth=growth,
        momentum=momentum,
        shrink=shrink,
        average=average,
    )
    _check(schedule, n_candidates, step_window, max_iter)
    plan = _plan(epsilon, delta, schedule, accountant, calibration, relation, ledger)
    public = public_facts(
        objective,
        **{name: value for name, value in asdict(schedule).items() if name != "clip"},
        n_candidates=n_candidates,
        calibration=calibration,
    )
    releaser = Releaser(
        epsilon,
        delta,
        plan.budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description="dp_agd",
        statement={"clip": schedule.clip, **public},
    )
    run = _Run(objective, releaser, plan, schedule, n_candidates, step_window, callback)
    run.descend(max_iter)
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism=f"adaptive gradient descent: Gaussian noise on gradients, {plan.selection_name}",
        accountant=plan.budget.accountant,
        sensitivity=relation.sum_factor * schedule.clip,
        noise_scale=run.last_noise,
        clip=schedule.clip,
        row_norm=objective.row_norm,
        steps=run.accesses,
        random=releaser.random,
        non_finite=objective.non_finite,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
        mu=plan.guarantee if plan.budget.accountant == "gdp" else None,
        rho=plan.guarantee if plan.budget.accountant == "zcdp" else None,
    )
    return FitResult(coef=run.released(), privacy=privacy, n_iter=len(run.history), history=run.history)


@dataclass(frozen=True)
class _Plan:
    """How the budget is cut up."""

    budget: Budget
    gradient_units: Units  # cost of the first measurement of a gradient
    selection_units: Units  # cost of a line search
    laplace: bool
    guarantee: float  # mu or rho of the whole run

    @property
    def selection_name(self) -> str:
        return "Laplace report-noisy-min" if self.laplace else "exponential mechanism on step sizes"


def _plan(
    epsilon: float,
    delta: float,
    schedule: DPAGDSchedule,
    accountant: str | None,
    calibration: str,
    relation: Neighbours,
    ledger: PrivacyLedger | None,
) -> _Plan:
    if calibration == "paper":
        return _paper_plan(epsilon, delta, schedule.splits, relation)
    if calibration != "tight":
        raise ValueError(f"calibration must be 'tight' or 'paper', got {calibration!r}")
    if accountant is None:
        by_share = "zcdp" if schedule.selection_share > 0.2 else "gdp"
        accountant = by_share if ledger is None else str(ledger.accountant)
    budget = Budget.from_epsilon(epsilon, delta, accountant)
    share = Fraction(schedule.selection_share)
    return _Plan(
        budget=budget,
        gradient_units=budget.share(schedule.splits, 1 - share),
        selection_units=budget.share(schedule.splits, share),
        laplace=False,
        guarantee=gdp_mu(epsilon, delta) if accountant == "gdp" else zcdp_rho(epsilon, delta),
    )


def _paper_plan(epsilon: float, delta: float, splits: int, relation: Neighbours) -> _Plan:
    """Lee and Kifer, section 5: eq. (5) for the budget, equal splits, textbook Gaussian."""
    if relation is not Neighbours.ADD_OR_REMOVE:
        raise ValueError(
            "calibration='paper' of dp_agd holds for neighbors='add_or_remove' only: with 'replace_one' "
            "its selection noise is too small by a factor of 2"
        )
    if epsilon == math.inf:
        raise ValueError("calibration='paper' needs a finite epsilon")
    rho = zcdp_rho_bun_steinke(epsilon, delta)
    share = epsilon / (2.0 * splits)
    rho_gradient = share**2 / (4.0 * math.log(1.25 / delta))
    return _Plan(
        budget=Budget(floor_units(rho), "zcdp"),
        gradient_units=floor_units(rho_gradient),
        selection_units=PureRelease(share).cost_units("zcdp"),
        laplace=True,
        guarantee=rho,
    )


class _Run:
    """State of one run; every attribute is released or public."""

    def __init__(
        self,
        objective: Objective,
        releaser: Releaser,
        plan: _Plan,
        schedule: DPAGDSchedule,
        n_candidates: int,
        step_window: int,
        callback: Callback | None,
    ) -> None:
        self.objective, self.releaser, self.plan, self.schedule = objective, releaser, plan, schedule
        self.n_candidates, self.step_window = n_candidates, step_window
        self.callback = callback
        self.w = np.zeros(objective.shape)
        self.velocity = np.zeros(objective.shape)
        self.late_iterates = LateMean()
        self.step_max = schedule.step_max
        self.gradient_units = plan.gradient_units
        self.history: list[dict[str, Any]] = []
        self.accesses = 0
        self.last_noise = 0.0

    def descend(self, max_iter: int) -> None:
        """Update until the budget cannot pay for another measurement and line search."""
        budget = self.releaser.budget
        while len(self.history) < max_iter and budget.fits(self.gradient_units + self.plan.selection_units):
            gradient_sum = self.objective.clipped_gradient_sum(
                self.w, self.schedule.clip, keep_predictions=True
            )
            chosen = self._search(gradient_sum)
            if chosen is None:
                return
            direction, step = chosen
            self.w = self.w - step * direction
            self.late_iterates.add(self.w)
            self._record(step)
            if len(self.history) % self.step_window == 0:
                recent = [entry["step"] for entry in self.history[-self.step_window :]]
                self.step_max = 1.1 * max(recent)

    def released(self) -> Array:
        """What the run returns."""
        return self.late_iterates.mean() if self.schedule.average and self.history else self.w

    def _search(self, gradient_sum: Bounded) -> tuple[Array, float] | None:
        """Direction and positive step, measuring again while 0 wins; None when the budget is used up."""
        budget, selection_units = self.releaser.budget, self.plan.selection_units
        spent = self.gradient_units
        measured = self._measure(gradient_sum, spent)
        while True:
            gradient = measured / self.objective.n_public + self.objective.penalty_gradient(self.w)
            towards = self.schedule.momentum * self.velocity + gradient
            length = float(np.linalg.norm(towards))
            if length == 0.0 or not budget.fits(selection_units):
                return None
            direction = towards / length
            steps = self.step_max * np.arange(self.n_candidates + 1) / self.n_candidates
            chosen = self._select(direction, steps)
            if chosen > 0:
                self.gradient_units, self.velocity = spent, towards
                return direction, float(steps[chosen])
            self.velocity = np.zeros_like(self.velocity)
            self.step_max *= self.schedule.shrink
            if spent == math.inf:  # without noise another measurement tells nothing: look closer
                self.step_max /= self.n_candidates
                if self.step_max < 1e-12 * self.schedule.step_max:
                    return None
                continue
            extra = max(1, math.floor(self.schedule.growth * spent))
            if not budget.fits(extra + selection_units):
                return None
            # Raw with raw, weighted by inverse variance, which is proportional to the budget.
            again = self._measure(gradient_sum, extra)
            measured = (spent * measured + extra * again) / (spent + extra)
            spent += extra

    def _measure(self, gradient_sum: Bounded, units: Units) -> Array:
        self.accesses += 1
        multiplier = gaussian_noise_multiplier(units, self.releaser.budget.accountant)
        self.last_noise = multiplier * gradient_sum.sensitivity(self.releaser.neighbors)
        return self.releaser.gaussian_sum(gradient_sum, multiplier)

    def _select(self, direction: Array, steps: Array) -> int:
        self.accesses += 1
        scores = self.objective.clipped_loss_sums(self.w, direction, steps, self.schedule.loss_clip)
        public = self.objective.n_public * self._penalties(direction, steps)
        units, accountant = self.plan.selection_units, self.releaser.budget.accountant
        if self.plan.laplace:
            # Clipped losses move together when a record is added, so C / scale is the epsilon spent.
            return self.releaser.select_laplace(scores, pure_epsilon(units, accountant), public)
        return self.releaser.select(scores, selection_eta(units, accountant), public)

    def _penalties(self, direction: Array, steps: Array) -> Array:
        if self.objective.l2 == 0.0:
            return np.zeros(len(steps))
        return np.array([self.objective.penalty(self.w - step * direction) for step in steps])

    def _record(self, step: float) -> None:
        entry = {"step": step, "gradient_budget": float(self.gradient_units) / 2.0**60}
        self.history.append(entry)
        if self.callback is not None:
            self.callback({"iteration": len(self.history), "coef": self.w.copy(), **entry})


def _check(schedule: DPAGDSchedule, n_candidates: int, step_window: int, max_iter: int) -> None:
    check_positive_integer("splits", schedule.splits)
    check_positive_integer("n_candidates", n_candidates)
    check_positive_integer("step_window", step_window)
    check_positive_integer("max_iter", max_iter)
    check_positive("clip", schedule.clip)
    check_positive("loss_clip", schedule.loss_clip)
    check_positive("step_max", schedule.step_max)
    check_positive("growth", schedule.growth)
    check_fraction("shrink", schedule.shrink)
    if not 0.0 <= schedule.momentum < 1.0:
        raise ValueError(f"momentum must be in [0, 1), got {schedule.momentum!r}")
    if not 0.0 < schedule.selection_share < 1.0:
        raise ValueError(f"selection_share must be in (0, 1), got {schedule.selection_share!r}")
