"""PrivGene: coordinate descent by private selection.

Zhang, Xiao, Yang, Zhang and Winslett, SIGMOD 2013, in the form that Lee and Kifer compare with (KDD 2018,
Section 6): one survivor per generation, offspring along the axes, shrinking strides. The selection rate is
that of a bounded-range mechanism, and the parent is also a candidate.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dperm.accounting import (
    Budget,
    ExponentialMechanismRelease,
    ScheduledBudget,
    paper,
    selection_eta,
    zcdp_rho,
    zcdp_rho_bun_steinke,
)
from dperm.accounting.privgene import offspring_range
from dperm.accounting.units import floor_units
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult, PublishedTerms
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Schedule, Setting
from dperm.objective.objective import Array, Objective


class PrivGeneSchedule(Schedule):
    """Public settings of a run.

    Attributes
    ----------
    generations : int
        Number of selections.
    stride : float
        Distance of the first offspring from their parent, along one axis.
    decay : float
        Factor for the stride after each generation, in (0, 1].
    entry_bound : float
        Bound on the entries of a row: a record's loss changes by at most ``stride * entry_bound * slope`` at
        any offspring. Larger changes are clipped.
    intercept_stride : float
        Stride along the intercept, whose entry is 1 in all rows, relative to those along columns, in (0, 1].
    """

    generations: Setting[int] = Setting(check.step_count)
    stride: Setting[float] = Setting(check.clip_norm)
    decay: Setting[float] = Setting(check.fraction)
    entry_bound: Setting[float] = Setting(check.positive)
    intercept_stride: Setting[float] = Setting(check.fraction)


# Without noise: loss evaluations, largest number of generations, and ratio of the last stride to the first.
_EXACT_LOSSES, _MOST_EXACT, _LAST_EXACT_STRIDE = 1e8, 2000, 1e-3
# Bound on changes of loss relative to that for entries of 1, and stride along the intercept that fits it: for
# longer ones changes would be clipped in most records, and weigh too little against the ridge term.
_ENTRY_BOUND, _INTERCEPT_STRIDE = 0.5, 0.65


def privgene_schedule(problem: PublicProblem, rho: float, *, pure: bool = False) -> PrivGeneSchedule:
    """Default settings from public numbers alone, for a budget of rho in zero-concentrated DP.

    A `pure` budget of ``epsilon = sqrt(8 rho)`` is split into equal parts of epsilon.

    Notes
    -----
    One selection can distinguish mean changes of loss that differ by about ``h sqrt(T/rho)/n``. The number T
    of generations grows with the square root of ``n sqrt(rho)``, so a larger budget buys both more and better
    steps; with a pure budget, whose parts are less together than the whole, it grows with the 0.4th power of
    ``n epsilon``; with more than 14 weights it falls with the root of their number, as more candidates look
    better than they are. Strides for labels start at ``4/R``, an effect of at most 4 on a prediction, and
    shrink to 6 %. With real targets up to Y they start at ``0.8 Y/R``, at least ``2/R``, and shrink to 2 %.
    Few entries of scaled columns are near 1, and few slopes the largest: changes are clipped at half of what
    both would allow, which halves the noise, and strides along the intercept are shorter to fit that. The
    constants were found on public data sets and generated ones. Without noise strides shrink to a thousandth,
    in up to 2000 generations with ``1e8`` loss evaluations in total, or in 500.
    """
    n, row_norm, loss = problem.n, problem.row_norm, problem.loss
    if rho == math.inf:
        losses = n * (2 * problem.dimension + 1)  # of a generation
        generations, last = max(500, min(_MOST_EXACT, int(_EXACT_LOSSES / losses))), _LAST_EXACT_STRIDE
    else:
        count = min(4.0, 15.0 / math.sqrt(problem.dimension)) * math.sqrt(n * math.sqrt(rho))
        # T equal parts of a pure budget amount to rho / T: count ~ rho^(1/4) becomes count^(4/5).
        generations = round(min(max(count**0.8 if pure else count, 10.0), 500.0))
        last = 0.06 if loss.classification else 0.02
    target = loss.target_bound if loss.target_bound < math.inf else 1.0
    return PrivGeneSchedule(
        generations=generations,
        stride=(4.0 if loss.classification else max(2.0, 0.8 * target)) / row_norm,
        decay=last ** (1.0 / generations),
        entry_bound=min(1.0, row_norm) * (_ENTRY_BOUND if rho < math.inf else 1.0),
        intercept_stride=_INTERCEPT_STRIDE if rho < math.inf else 1.0,
    )


class PrivGeneArguments(PrivGeneSchedule, PublishedTerms):
    """Arguments of :func:`privgene`.

    Attributes
    ----------
    accountant : {"zcdp", "gdp"}
        How costs are added up for delta > 0; by default as in the ledger, or else "zcdp", which is better
        here.
    """

    accountant: str | None = None


@algorithm(PrivGeneArguments, lipschitz=True, linear_prediction=True, whole_rows=True, unweighted=True)
def privgene(fit: Fit, given: PrivGeneArguments) -> FitResult:
    """Move along one axis at a time, chosen among all by the exponential mechanism.

    Settings follow from public numbers where they are not given: :func:`privgene_schedule`.

    Parameters
    ----------
    objective : Objective
        Any loss of bounded slope.
    epsilon : float
        Greater than 0; infinite selects the best candidate and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee.
    calibration : {"tight", "paper"}
        "paper": conversion and selection rate of Lee and Kifer, without the parent as a candidate; by default
        entries of up to 1 and equal strides.
    callback : callable, optional
        Called after each generation with ``{"iteration", "coef", "candidate"}``, all released.

    Notes
    -----
    The whole transcript is (epsilon, delta)-DP.

    Without noise this is coordinate descent with strides that shrink to a thousandth. It ends near the
    optimum, unless that is further away along the axes than the strides add up to. On large data sets 500
    generations are too few for many weights: with 200,000 records of 50 columns a mean logistic loss ended
    0.08 above its minimum.

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
    objective, rho = fit.objective, _rho(fit)
    default = privgene_schedule(fit.problem, rho, pure=fit.delta == 0.0)
    if fit.as_published:
        default = replace(default, entry_bound=min(1.0, objective.row_norm), intercept_stride=1.0)
    schedule = given.completed(default)
    budget, eta = _plan(fit, rho, schedule)
    _check_strides(objective, schedule)
    release = fit.open("privgene", budget, schedule)

    w, h = np.zeros(objective.dimension), schedule.stride
    axes = np.ones(objective.dimension)  # strides along the axes, relative to h
    if objective.fit_intercept:
        axes[-1] = schedule.intercept_stride
    for generation in range(1, schedule.generations + 1):
        # 1. losses of the parent and of its offspring along the axes
        clip = 2.0 * h * schedule.entry_bound * _slope(objective)
        scores = objective.coordinate_loss_sums(w, h, clip, intercept_stride=h * axes[-1])
        ridge = fit.n * _penalty_changes(objective, w, h * axes)
        if fit.as_published:  # the parent is not a candidate
            ridge[-1] = 4.0 * fit.n * clip + 2.0 * np.abs(ridge).max()
        # 2. the survivor
        candidate = release.select(scores, eta, ridge)
        w = _offspring(w, h * axes, candidate)
        fit.report(generation, w, candidate=candidate, stride=h)
        h *= schedule.decay
    mechanism = "coordinate descent, each step chosen by the exponential mechanism"
    return fit.result(w, mechanism, n_iter=schedule.generations)


def _offspring(w: Array, strides: Array, candidate: int) -> Array:
    """Candidates j and d + j move by plus and minus the stride along axis j; the last one is the parent."""
    child = w.copy()
    if candidate < 2 * len(w):
        axis, sign = candidate % len(w), 1.0 if candidate < len(w) else -1.0
        child[axis] += sign * strides[axis]
    return child


def _penalty_changes(objective: Objective, w: Array, strides: Array) -> Array:
    """Public: change of the ridge term from the parent to each candidate."""
    slope = strides * objective.penalty_gradient(w)
    bend = 0.5 * strides * objective.penalty_gradient(strides)
    return np.concatenate([bend + slope, bend - slope, [0.0]])


def _slope(objective: Objective) -> float:
    """Lipschitz constant of the loss in the prediction."""
    return objective.loss.lipschitz(objective.row_norm) / objective.row_norm


def _plan(fit: Fit, rho: float, schedule: PrivGeneArguments) -> tuple[Budget | ScheduledBudget, float]:
    """The budget, and the bounded range of each selection."""
    count, accountant = schedule.generations, schedule.accountant
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
    last = schedule.stride * schedule.decay ** (schedule.generations - 1) * schedule.intercept_stride
    for stride in (schedule.stride, last):
        changes = 2.0 * stride * _slope(objective) * min(schedule.entry_bound, objective.row_norm)
        if not (stride >= 2.0**-64 and 2.0**-64 <= changes <= 2.0**64):
            raise ValueError(
                f"strides from {schedule.stride:g} down to {last:g} with entry_bound="
                f"{schedule.entry_bound:g} imply changes of losses outside 2^-64 to 2^64: use a larger "
                "decay, stride or intercept_stride, or fewer generations"
            )
