"""DP-AGD: gradient descent with an adaptive privacy budget per iteration and a private line search.

Lee and Kifer, "Concentrated differentially private gradient descent with adaptive per-iteration privacy
budget", KDD 2018, Algorithm 2, with three corrections: gradient measurements are averaged unnormalised, every
access is checked against the budget before it is made, and a selection is charged as a bounded-range
mechanism. By default, as free post-processing, directions have momentum, steps shrink when 0 wins, and late
iterates are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.accounting.budget import Budget
from dperm.accounting.events import PureRelease
from dperm.accounting.units import (
    Units,
    floor_units,
    gaussian_noise_multiplier,
    pure_epsilon,
    selection_eta,
)
from dperm.accounting.zcdp import zcdp_rho_bun_steinke
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import DPAGD
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import loss_at_zero, reach, step_share, usual_clip, usual_steps
from dperm.algorithms.scaled_columns import ScaledColumns, ScaleNoise
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.tail_average import DoublingTailAverage
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.gradients import check_sums
from dperm.objective.losses import clipped_loss_sums
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded


@dataclass(frozen=True, kw_only=True)
class DPAGDSchedule(Settings):
    """Settings of :func:`dp_agd`; by default those that its authors published."""

    splits: int = setting(check.step_count, 60)
    selection_share: float = setting(check.share, 0.5)
    clip: float = setting(check.clip_norm, DPAGD.PUBLISHED_CLIP)
    loss_clip: float = setting(check.clip_norm, DPAGD.PUBLISHED_CLIP)
    step_max: float = setting(check.positive, 2.0)
    growth: float = setting(check.positive, DPAGD.PUBLISHED_GROWTH)
    momentum: float = setting(check.below_one, 0.0)
    shrink: float = setting(check.fraction, 1.0)
    average: bool = setting(check.boolean, False)
    n_candidates: int = setting(check.candidate_count, 20)
    step_window: int = setting(check.positive_integer, 10)
    max_iter: int = setting(check.step_count, 10_000)

    @classmethod
    def of(cls, problem: PublicProblem, given: Mapping[str, Any]) -> DPAGDSchedule:
        """The given settings, completed by the one rule.

        Many cheap iterations beat few expensive ones; a tenth of the budget is enough for the line searches.
        """
        # Without noise clips are too large to matter, and the line search is exact.
        longer, step = (
            (1.0, reach(problem.loss)) if problem.private else (DPAGD.NOISELESS, DPAGD.NOISELESS_STEP)
        )
        default = {
            "splits": usual_steps(problem, DPAGD.LEAST_SPLITS),
            "selection_share": DPAGD.SELECTION,
            "clip": usual_clip(problem),
            "loss_clip": longer * DPAGD.LOSS_CLIP * loss_at_zero(problem.loss),
            "step_max": step_share(problem) * min(step, reach(problem.loss)) / problem.row_norm,
            "growth": DPAGD.GROWTH,
            "momentum": DPAGD.MOMENTUM,
            "shrink": DPAGD.SHRINK,
            "average": True,
        }
        return cls(**{**default, **given})


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
    n_candidates: int | None = None,
    step_window: int | None = None,
    max_iter: int | None = None,
    accountant: str | None = None,
    learn_scales: bool = False,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise with an adaptive privacy budget per iteration and a private line search.

    Settings that are not given follow from public numbers: :mod:`dperm.algorithms.rules`. ``momentum=0,
    shrink=1, average=False`` is the published algorithm, corrected. Pseudo-code, guarantee and proof:
    :doc:`/theory/dp_agd`.

    Parameters
    ----------
    objective : Objective
        Any non-negative loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    splits : int, optional
        Number of iterations that the budget would last for if each line search succeeded at once.
    selection_share : float, optional
        Share of the budget for the line searches, in (0, 1).
    clip, loss_clip : float, optional
        Bounds on one record's gradient norm and loss.
    step_max : float, optional
        Largest step of the first line searches, in the unit of the weights.
    growth : float, optional
        Budget of a repeated measurement, relative to what the gradient has cost so far.
    momentum : float, optional
        Weight of the last direction in the next, in [0, 1); reset when 0 wins.
    shrink : float, optional
        Factor for ``step_max`` each time 0 wins, in (0, 1].
    average : bool, optional
        Return the mean of the later iterates (at least the last half) instead of the last one.
    n_candidates : int, optional
        Number of positive steps ``j step_max / n_candidates`` in a line search.
    step_window : int, optional
        Number of updates after which ``step_max`` becomes 1.1 times the largest step among them.
    max_iter : int, optional
        Largest number of updates.
    accountant : {"zcdp", "gdp"}, optional
        How costs are added up; by default as in the ledger, or else "zcdp" if the selections take more than a
        fifth of the budget.
    learn_scales : bool
        As for :func:`dperm.algorithms.noisy_gd`.
    calibration : {"tight", "paper"}
        "paper": the published settings, conversion and Laplace noisy-min (``add_or_remove`` only), which
        determine `selection_share` and `accountant`.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each update with ``{"iteration", "coef", "step", "gradient_budget"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    The whole transcript (measurements, chosen steps, number of iterations) is (epsilon, delta)-DP, by a
    privacy filter.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = dp_agd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = DPAGDSchedule.checked(
        splits=splits, selection_share=selection_share, clip=clip, loss_clip=loss_clip, step_max=step_max,
        growth=growth, momentum=momentum, shrink=shrink, average=average, n_candidates=n_candidates,
        step_window=step_window, max_iter=max_iter,
    )  # fmt: skip
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _dp_agd(fit, given, accountant, learn_scales)


def _dp_agd(fit: Fit, given: Mapping[str, Any], accountant: str | None, learn_scales: bool) -> FitResult:
    share = given.get("selection_share", DPAGD.SELECTION)
    if accountant is None and not fit.as_published:
        by_share = "zcdp" if share > DPAGD.ZCDP else "gdp"
        accountant = by_share if fit.ledger is None else str(fit.ledger.accountant)
    rest = fit.budget(accountant or "zcdp")
    scales = ScaleNoise.of(fit, learn_scales, given, rest)
    if fit.as_published:
        schedules = [DPAGDSchedule(**given)]
        determined = {"selection_share": given.get("selection_share"), "accountant": accountant}
        plan = _published_plan(fit, determined, schedules[0].splits)
    else:
        schedules = [DPAGDSchedule.of(problem, given) for problem in scales.problems(fit)]
        splits, part = schedules[0].splits, Fraction(share)
        units = rest.share(splits, 1 - part), rest.share(splits, part)
        plan = _Plan(fit.budget(rest.accountant), *units, share)
    for schedule in schedules:
        plan.check(fit, schedule)
    fit.objective._expect_passes(2 * min(schedule.splits, schedule.max_iter))
    facts = {"selection_share": plan.selection_share, **scales.facts}
    release = fit.open("dp_agd", plan.budget, schedule, **facts)
    there = ScaledColumns.learned(fit, release, scales)
    if scales.multiplier:
        schedule = DPAGDSchedule.of(there.problem, given)
    run = _Run(fit, release, plan, schedule, there)
    run.descend()
    selection = "Laplace report-noisy-min" if fit.as_published else "exponential mechanism on step sizes"
    mechanism = f"adaptive gradient descent: Gaussian noise on gradients, {selection}"
    return fit.result(
        run.released(), there.description(mechanism), n_iter=len(fit.history), clip=schedule.clip
    )


@dataclass(frozen=True)
class _Plan:
    """How the budget is divided."""

    budget: Budget
    gradient_units: Units  # cost of the first measurement of a gradient
    selection_units: Units  # cost of a line search
    selection_share: float  # of a gradient and a line search together

    def multiplier(self, units: Units) -> float:
        """Noise multiplier of a measurement of this cost."""
        return gaussian_noise_multiplier(units, self.budget.accountant)

    def eta(self) -> float:
        """Bounded range of a line search."""
        return selection_eta(self.selection_units, self.budget.accountant)

    def fits(self, measurement: Units = 0) -> bool:
        """Whether the remaining budget covers a measurement of this cost and a line search."""
        return self.budget.fits(measurement + self.selection_units)

    def check(self, fit: Fit, schedule: DPAGDSchedule) -> None:
        """Raise ValueError unless the noise of every measurement, the cheapest included, can be drawn."""
        check_sums(fit.objective, loss_clip=schedule.loss_clip)
        for cost in (self.gradient_units, _further_units(schedule, self.gradient_units)):
            fit.check_gradient_noise(schedule.clip, self.multiplier(cost))


def _published_plan(fit: Fit, determined: Mapping[str, Any], splits: int) -> _Plan:
    """Lee and Kifer, section 5: equation (5) for the budget, equal splits, textbook Gaussian.

    Under ``replace_one`` the selection noise would be too small by a factor of 2.
    """
    for name, value in determined.items():
        if value is not None:
            raise ValueError(f"calibration='paper' of dp_agd determines {name}: leave it out, got {value!r}")
    fit.check_published("dp_agd")
    rho = zcdp_rho_bun_steinke(fit.epsilon, fit.delta)
    share_of_epsilon = fit.epsilon / (2.0 * splits)
    gradient_units = floor_units(share_of_epsilon**2 / (4.0 * math.log(1.25 / fit.delta)))
    selection_units = PureRelease(share_of_epsilon).cost_units("zcdp")
    return _Plan(
        budget=Budget(floor_units(rho), "zcdp"),
        gradient_units=gradient_units,
        selection_units=selection_units,
        selection_share=float(Fraction(selection_units) / Fraction(gradient_units + selection_units)),
    )


def _further_units(schedule: DPAGDSchedule, spent: Units) -> Units:
    """Cost of one more measurement of a gradient that has cost `spent` so far."""
    return spent if spent == math.inf else max(1, math.floor(schedule.growth * spent))


class _Run:
    """State of one run; every attribute is released or public."""

    def __init__(
        self, fit: Fit, release: Releaser, plan: _Plan, schedule: DPAGDSchedule, there: ScaledColumns
    ) -> None:
        self.fit, self.release, self.plan, self.schedule = fit, release, plan, schedule
        self.objective, self.there = fit.objective, there
        self.w = self.velocity = np.zeros(self.objective.shape)
        self.average = DoublingTailAverage()
        self.step_max = schedule.step_max
        self.gradient_units = plan.gradient_units

    def descend(self) -> None:
        """Update until the budget cannot afford another measurement and line search."""
        history, schedule = self.fit.history, self.schedule
        while len(history) < schedule.max_iter and self.plan.fits(self.gradient_units):
            chosen = self._search(self._gradient_sum())
            if chosen is None:
                return
            direction, step = chosen
            self.w = self.w - step * direction
            self.average.add(self.w)
            gradient_budget = float(self.gradient_units) / 2.0**60
            self.fit.report(len(history) + 1, self.w, step=step, gradient_budget=gradient_budget)
            if len(history) % schedule.step_window == 0:
                largest = max(entry["step"] for entry in history[-schedule.step_window :])
                self.step_max = 1.1 * largest

    def _gradient_sum(self) -> Bounded:
        return self.there.gradient_sum(self.objective, self.w, self.schedule.clip, keep_predictions=True)

    def released(self) -> Array:
        """The result of the run."""
        return self.average.mean() if self.schedule.average and self.fit.history else self.w

    def _search(self, gradient_sum: Bounded) -> tuple[Array, float] | None:
        """Direction and positive step, measuring again while 0 wins; None if the budget is used up.

        The direction is in the coordinates of the data; in preconditioned ones its length is 1.
        """
        plan, schedule, spent = self.plan, self.schedule, self.gradient_units
        measured = self.release.gaussian_sum(gradient_sum, plan.multiplier(spent))
        while True:
            gradient = measured / self.fit.n + self.there.factors * self.objective.penalty_gradient(self.w)
            towards = schedule.momentum * self.velocity + gradient
            length = float(np.linalg.norm(towards))
            if length == 0.0 or not plan.fits():
                return None
            direction = self.there.factors * (towards / length)
            steps = self.step_max * np.arange(schedule.n_candidates + 1) / schedule.n_candidates
            chosen = self._select(direction, steps)
            if chosen > 0:
                self.gradient_units, self.velocity = spent, towards
                return direction, float(steps[chosen])
            self.velocity = np.zeros_like(self.velocity)
            self.step_max *= schedule.shrink
            if spent == math.inf:  # without noise a new measurement would be the same: search closer to 0
                self.step_max /= schedule.n_candidates
                if self.step_max < 1e-12 * schedule.step_max:
                    return None
                continue
            extra = _further_units(schedule, spent)
            if not plan.fits(extra):
                return None
            # Average the unnormalised measurements, weighted by inverse variance.
            again = self.release.gaussian_sum(gradient_sum, plan.multiplier(extra))
            measured = (spent * measured + extra * again) / (spent + extra)
            spent += extra

    def _select(self, direction: Array, steps: Array) -> int:
        scores = clipped_loss_sums(self.objective, self.w, direction, steps, self.schedule.loss_clip)
        public = np.zeros(len(steps))
        if self.objective.l2 > 0.0:
            penalties = [self.objective.penalty(self.w - step * direction) for step in steps]
            public = self.fit.n * np.array(penalties)
        if self.fit.as_published:
            # A record changes all clipped losses in the same direction, so C / scale is the epsilon spent.
            epsilon = pure_epsilon(self.plan.selection_units, self.plan.budget.accountant)
            return self.release.select_laplace(scores, epsilon, public)
        return self.release.select(scores, self.plan.eta(), public)
