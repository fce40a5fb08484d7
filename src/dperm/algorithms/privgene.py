"""PrivGene: coordinate descent by private selection.

Zhang, Xiao, Yang, Zhang and Winslett, SIGMOD 2013, in the form that Lee and Kifer compare with (KDD 2018,
Section 6): one survivor per generation, offspring along the axes, shrinking strides. The selection rate is
that of a bounded-range mechanism, and the parent is also a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger, paper, zcdp_rho
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import ExponentialMechanismRelease
from dperm.accounting.selection import offspring_range
from dperm.accounting.units import floor_units, selection_eta
from dperm.accounting.zcdp import zcdp_rho_bun_steinke
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import PrivGene
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import reach
from dperm.algorithms.settings import Settings, setting
from dperm.mechanisms.random_source import RandomState
from dperm.objective.losses import coordinate_loss_sums
from dperm.objective.objective import Array, Objective


@dataclass(frozen=True, kw_only=True)
class PrivGeneSchedule(Settings):
    """Settings of :func:`privgene`."""

    generations: int = setting(check.step_count)
    stride: float = setting(check.clip_norm)
    decay: float = setting(check.fraction)
    entry_bound: float = setting(check.positive)

    @classmethod
    def of(cls, problem: PublicProblem, given: Mapping[str, Any]) -> PrivGeneSchedule:
        """The given settings, completed from public numbers.

        With ``k = n mu / sqrt(dimension)`` a selection can distinguish mean changes of loss that differ by
        about ``stride sqrt(T) / k``, so a larger budget buys both more and better generations.
        """
        least, most = PrivGene.GENERATIONS
        by_signal = PrivGene.PER_ROOT_OF_SIGNAL * math.sqrt(problem.per_record().signal)
        generations = given.get("generations", round(min(max(by_signal, least), most)))
        default = {
            "generations": generations,
            "stride": reach(problem.loss) / problem.row_norm,
            "decay": PrivGene.LAST_STRIDE ** (1.0 / generations),
            "entry_bound": min(1.0, problem.row_norm),
        }
        return cls(**{**default, **given})


@needs(lipschitz=True, linear_prediction=True, whole_rows=True, unweighted=True)
def privgene(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    generations: int | None = None,
    stride: float | None = None,
    decay: float | None = None,
    entry_bound: float | None = None,
    accountant: str | None = None,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Move along one axis at a time, chosen among all by the exponential mechanism.

    Settings that are not given follow from public numbers. Pseudo-code, guarantee and proof:
    :doc:`/theory/privgene`.

    Parameters
    ----------
    objective : Objective
        Any loss of bounded slope.
    epsilon : float
        Greater than 0; infinite selects the best candidate and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee.
    generations : int, optional
        Number of selections; by default ``4 sqrt(n mu / sqrt(dimension))``, from 10 to 500.
    stride : float, optional
        Distance of the first offspring from their parent, along one axis; by default the bound on real
        targets, or 4, over the row norm.
    decay : float, optional
        Factor for the stride after each generation, in (0, 1]; by default the last is a twentieth.
    entry_bound : float, optional
        Bound on the entries of a row: a record's loss changes by at most ``stride * entry_bound * slope`` at
        any offspring. Larger changes are clipped.
    accountant : {"zcdp", "gdp"}, optional
        How costs are added up for delta > 0; by default as in the ledger, or else "zcdp", which is better
        here.
    calibration : {"tight", "paper"}
        "paper": conversion and selection rate of Lee and Kifer, without the parent as a candidate.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each generation with ``{"iteration", "coef", "candidate"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    The whole transcript is (epsilon, delta)-DP.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = privgene(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = PrivGeneSchedule.checked(
        generations=generations, stride=stride, decay=decay, entry_bound=entry_bound
    )
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _privgene(fit, given, accountant)


def _privgene(fit: Fit, given: Mapping[str, Any], accountant: str | None) -> FitResult:
    objective, rho = fit.objective, _rho(fit)
    schedule = PrivGeneSchedule.of(fit.problem, given)
    budget, eta = _plan(fit, rho, schedule, accountant)
    _check_strides(objective, schedule)
    release = fit.open("privgene", budget, schedule)

    w, h = np.zeros(objective.dimension), schedule.stride
    for generation in range(1, schedule.generations + 1):
        # 1. losses of the parent and of its offspring along the axes
        clip = 2.0 * h * schedule.entry_bound * _slope(objective)
        scores = coordinate_loss_sums(objective, w, h, clip)
        ridge = fit.n * _penalty_changes(objective, w, h)
        if fit.as_published:  # the parent is not a candidate
            ridge[-1] = 4.0 * fit.n * clip + 2.0 * np.abs(ridge).max()
        # 2. the survivor
        candidate = release.select(scores, eta, ridge)
        w = _offspring(w, h, candidate)
        fit.report(generation, w, candidate=candidate, stride=h)
        h *= schedule.decay
    mechanism = "coordinate descent, each step chosen by the exponential mechanism"
    return fit.result(w, mechanism, n_iter=schedule.generations)


def _offspring(w: Array, stride: float, candidate: int) -> Array:
    """Candidates j and d + j move by plus and minus the stride along axis j; the last one is the parent."""
    child = w.copy()
    if candidate < 2 * len(w):
        child[candidate % len(w)] += stride if candidate < len(w) else -stride
    return child


def _penalty_changes(objective: Objective, w: Array, stride: float) -> Array:
    """Public: change of the ridge term from the parent to each candidate."""
    slope = stride * objective.penalty_gradient(w)
    bend = 0.5 * stride * objective.penalty_gradient(np.full_like(w, stride))
    return np.concatenate([bend + slope, bend - slope, [0.0]])


def _slope(objective: Objective) -> float:
    """Lipschitz constant of the loss in the prediction."""
    return objective.loss.lipschitz(objective.row_norm) / objective.row_norm


def _plan(
    fit: Fit, rho: float, schedule: PrivGeneSchedule, accountant: str | None
) -> tuple[Budget | ScheduledBudget, float]:
    """The budget, and the bounded range of each selection."""
    count = schedule.generations
    if fit.delta == 0.0:
        eta = fit.epsilon / count * (1.0 - 2.0**-50)
        return ScheduledBudget(ExponentialMechanismRelease(eta), count, "pure"), eta
    if fit.as_published:
        if accountant not in (None, "zcdp"):
            raise ValueError(f"calibration='paper' of privgene has accountant='zcdp', got {accountant!r}")
        bound, stride = schedule.entry_bound * _slope(fit.objective), schedule.stride
        rate = paper.privgene(rho, generations=count, entry_bound=bound, stride=stride)
        return Budget(floor_units(rho), "zcdp"), rate * offspring_range(bound, stride, fit.neighbors)
    if accountant is None:
        accountant = "zcdp" if fit.ledger is None else str(fit.ledger.accountant)
    budget = fit.budget(accountant)
    return budget, selection_eta(budget.share(parts=count), budget.accountant)


def _rho(fit: Fit) -> float:
    """The budget in zCDP."""
    if fit.as_published:
        if fit.delta == 0.0:
            raise ValueError("calibration='paper' of privgene needs delta > 0")
        fit.check_published("privgene", neighbors=None)
        return zcdp_rho_bun_steinke(fit.epsilon, fit.delta)
    return fit.epsilon**2 / 8.0 if fit.delta == 0.0 else zcdp_rho(fit.epsilon, fit.delta)


def _check_strides(objective: Objective, schedule: PrivGeneSchedule) -> None:
    """Raise ValueError for strides, or clips of loss changes, that exact sums have no grid for."""
    last = schedule.stride * schedule.decay ** (schedule.generations - 1)
    for stride in (schedule.stride, last):
        changes = 2.0 * stride * _slope(objective) * min(schedule.entry_bound, objective.row_norm)
        if not (stride >= 2.0**-64 and 2.0**-64 <= changes <= 2.0**64):
            raise ValueError(
                f"strides from {schedule.stride:g} down to {last:g} with entry_bound="
                f"{schedule.entry_bound:g} imply changes of losses outside 2^-64 to 2^64: use a larger "
                "decay or stride, or fewer generations"
            )
