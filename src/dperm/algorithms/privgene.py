"""PrivGene: coordinate descent by private selection.

Zhang, Xiao, Yang, Zhang and Winslett, "PrivGene: differentially private model fitting using genetic
algorithms", SIGMOD 2013, in the form that Lee and Kifer compare with (KDD 2018, Section 6): one survivor per
generation, offspring along the axes, strides that shrink. The selection rate is that of a
bounded-range mechanism, and the parent is a candidate, too.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting import paper
from dperm.accounting.budget import Budget
from dperm.accounting.events import ExponentialMechanismRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.privgene import offspring_range
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.units import check_target, floor_units, selection_eta
from dperm.accounting.zcdp import zcdp_rho, zcdp_rho_bun_steinke
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note, public_facts
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import check_fraction, check_positive, check_positive_integer, override
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrivGeneSchedule:
    """Public settings of a run.

    Attributes
    ----------
    generations : int
        Number of selections.
    stride : float
        How far the first offspring are from their parent, along one axis.
    decay : float
        The stride is multiplied by this after each generation, in (0, 1].
    entry_bound : float
        Bound on the entries of a row: a record's loss changes by at most ``stride * entry_bound * slope`` at
        any offspring. Larger changes are clipped to that.
    """

    generations: int
    stride: float
    decay: float
    entry_bound: float


# Without noise: losses of records, most generations, and the last stride over the first.
_EXACT_LOSSES, _MOST_EXACT, _LAST_EXACT_STRIDE = 1e8, 2000, 1e-3


def privgene_schedule(n: int, rho: float, row_norm: float, dimension: int = 1) -> PrivGeneSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    n : int
        Public number of records.
    rho : float
        Budget in zero-concentrated differential privacy; infinite without noise.
    row_norm : float
        Bound on the norm of a row.
    dimension : int
        Number of weights; bounds the work of a run without noise.

    Notes
    -----
    One selection tells mean changes of loss apart that differ by about ``h sqrt(T/rho)/n``; the number T of
    generations grows with the square root of ``n sqrt(rho)``, so that more budget buys both more and
    better steps. Strides start at ``2/R``, an effect of at most 2 on a prediction, and shrink to a sixth in a
    run. Entries are taken to be at most 1, as those of scaled columns and of the intercept are. The constants
    were found on public data sets; ``bench/bench_output.py`` measures them. Without noise
    strides shrink to a thousandth, in up to 2000 generations of at most ``1e8`` losses of records in all, or
    in 500.
    """
    if rho == math.inf:
        losses = n * (2 * dimension + 1)  # of a generation
        generations, last = max(500, min(_MOST_EXACT, int(_EXACT_LOSSES / losses))), _LAST_EXACT_STRIDE
    else:
        generations, last = round(min(max(1.5 * math.sqrt(n * math.sqrt(rho)), 10.0), 500.0)), 0.16
    return PrivGeneSchedule(
        generations=generations,
        stride=2.0 / row_norm,
        decay=last ** (1.0 / generations),
        entry_bound=min(1.0, row_norm),
    )


@needs(lipschitz=True, linear_prediction=True, whole_rows=True)
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
    neighbors: str = "add_or_remove",
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Move along one axis at a time, chosen among all by the exponential mechanism.

    ::

        w <- 0
        repeat: w <- one of {w, w + h e_j, w - h e_j : j}, where the sum of losses is (probably) least
                h <- decay * h

    Parameters
    ----------
    objective : Objective
        Any loss of bounded slope.
    epsilon : float
        Greater than 0; infinite takes the best candidate and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee.
    generations, stride, decay, entry_bound : optional
        See :class:`PrivGeneSchedule`; by default from :func:`privgene_schedule`, which looks at public
        numbers only.
    accountant : {"zcdp", "gdp"}, optional
        What adds up where delta > 0; by default that of the ledger, or else "zcdp", the better one here.
    calibration : {"tight", "paper"}
        "paper": conversion and selection rate of Lee and Kifer; the parent is no candidate.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation.
    ledger : PrivacyLedger, optional
        Charged (epsilon, delta) once, before anything is drawn.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called after each generation with ``{"iteration", "coef", "candidate"}``, all released.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For a setting out of range.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    (epsilon, delta)-DP of the whole transcript. One record changes the losses of the candidates by amounts in
    an interval of length ``r = 2 h entry_bound slope`` (add_or_remove; twice that for replace_one), so that a
    selection at rate c is ``c r``-bounded range and costs ``(c r)^2/8`` of rho (Cesar and Rogers 2021; Dong,
    Durfee and Rogers 2020), or ``c r`` of a pure epsilon.

    Without noise the run is a coordinate descent whose strides shrink to a thousandth of the first: it ends
    near the optimum, unless that is further away along the axes than the strides add up to. The 500
    generations of large data sets are too few for many weights: with 200,000 records of 50 columns a mean
    logistic loss ended 0.08 above its minimum.
    """
    relation = Neighbours.parse(neighbors)
    epsilon, delta = check_target(epsilon, delta)
    rho = _rho(epsilon, delta, calibration)
    schedule = override(
        privgene_schedule(objective.n_public, rho, objective.row_norm, objective.dimension),
        generations=generations,
        stride=stride,
        decay=decay,
        entry_bound=entry_bound,
    )
    _check(schedule)
    if accountant is None and delta > 0.0:
        accountant = "zcdp" if ledger is None or calibration == "paper" else str(ledger.accountant)
    plan = _plan(objective, epsilon, delta, rho, schedule, accountant, calibration, relation)
    public = public_facts(objective, **asdict(schedule), calibration=calibration)
    releaser = Releaser(
        epsilon,
        delta,
        plan.budget,
        neighbors=relation,
        ledger=ledger,
        random_state=random_state,
        description="privgene",
        statement=public,
    )
    coef, history = _evolve(objective, releaser, plan.eta, schedule, calibration != "paper", callback)
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        neighbors=relation,
        mechanism="coordinate descent, each step chosen by the exponential mechanism",
        accountant=plan.budget.accountant,
        row_norm=objective.row_norm,
        steps=schedule.generations,
        random=releaser.random,
        non_finite=objective.non_finite,
        ledger=ledger_note(ledger, epsilon, delta),
        public=public,
        mu=gdp_mu(epsilon, delta) if plan.budget.accountant == "gdp" else None,
        rho=rho if plan.budget.accountant == "zcdp" else None,
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=schedule.generations, history=history)


def _evolve(
    objective: Objective,
    releaser: Releaser,
    eta: float,
    schedule: PrivGeneSchedule,
    with_parent: bool,
    callback: Callback | None,
) -> tuple[Array, list[dict[str, Any]]]:
    w, stride = np.zeros(objective.dimension), schedule.stride
    history: list[dict[str, Any]] = []
    for generation in range(1, schedule.generations + 1):
        clip = 2.0 * stride * schedule.entry_bound * _slope(objective)
        scores = objective.coordinate_loss_sums(w, stride, clip)
        ridge = objective.n_public * _penalty_changes(objective, w, stride)
        if not with_parent:
            ridge[-1] = 4.0 * objective.n_public * clip + 2.0 * np.abs(ridge).max()  # never the best
        candidate = releaser.select(scores, eta, ridge)
        w = _offspring(w, stride, candidate)
        history.append({"candidate": candidate, "stride": stride})
        stride *= schedule.decay
        if callback is not None:
            callback({"iteration": generation, "coef": w.copy(), "candidate": candidate})
    return w, history


def _offspring(w: Array, stride: float, candidate: int) -> Array:
    """Candidate number j or d + j: plus or minus the stride along axis j; the last: the parent."""
    child = w.copy()
    if candidate < 2 * len(w):
        sign = 1.0 if candidate < len(w) else -1.0
        child[candidate % len(w)] += sign * stride
    return child


def _penalty_changes(objective: Objective, w: Array, stride: float) -> Array:
    """Ridge term at each candidate minus that at the parent; public."""
    slope = stride * objective.penalty_gradient(w)
    bend = 0.5 * stride * objective.penalty_gradient(np.full_like(w, stride))
    return np.concatenate([bend + slope, bend - slope, [0.0]])


def _slope(objective: Objective) -> float:
    """Lipschitz constant of the loss in the prediction."""
    return objective.loss.lipschitz(objective.row_norm) / objective.row_norm


@dataclass(frozen=True)
class _Plan:
    budget: Budget | ScheduledBudget
    eta: float  # bounded range of each selection


def _plan(
    objective: Objective,
    epsilon: float,
    delta: float,
    rho: float,
    schedule: PrivGeneSchedule,
    accountant: str | None,
    calibration: str,
    relation: Neighbours,
) -> _Plan:
    count = schedule.generations
    if delta == 0.0:
        eta = epsilon / count * (1.0 - 2.0**-50)
        return _Plan(ScheduledBudget(ExponentialMechanismRelease(eta), count, "pure"), eta)
    if calibration == "tight":
        budget = Budget.from_epsilon(epsilon, delta, accountant or "zcdp")
        return _Plan(budget, selection_eta(budget.share(parts=count), budget.accountant))
    bound, stride = schedule.entry_bound * _slope(objective), schedule.stride
    rate = paper.privgene(rho, generations=count, entry_bound=bound, stride=stride)
    return _Plan(Budget(floor_units(rho), "zcdp"), rate * offspring_range(bound, stride, relation))


def _rho(epsilon: float, delta: float, calibration: str) -> float:
    """The budget in zCDP."""
    if calibration not in ("tight", "paper"):
        raise ValueError(f"calibration must be 'tight' or 'paper', got {calibration!r}")
    if calibration == "paper":
        if epsilon == math.inf or delta == 0.0:
            raise ValueError("calibration='paper' needs a finite epsilon and delta > 0")
        return zcdp_rho_bun_steinke(epsilon, delta)
    return epsilon**2 / 8.0 if delta == 0.0 else zcdp_rho(epsilon, delta)


def _check(schedule: PrivGeneSchedule) -> None:
    check_positive_integer("generations", schedule.generations)
    check_positive("stride", schedule.stride)
    check_fraction("decay", schedule.decay)
    check_positive("entry_bound", schedule.entry_bound)
