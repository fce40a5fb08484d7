"""PrivGene: coordinate descent by private selection.

Zhang, Xiao, Yang, Zhang and Winslett, SIGMOD 2013, in the form that Lee and Kifer compare with (KDD 2018,
Section 6): one survivor per generation, offspring along the axes, shrinking strides. The selection rate is
that of a bounded-range mechanism, and the parent is also a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger, paper, zcdp_rho
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import ExponentialMechanismRelease
from dperm.accounting.selection import offspring_range
from dperm.accounting.units import floor_units, selection_eta
from dperm.accounting.zcdp import zcdp_rho_bun_steinke
from dperm.algorithms.defaults.privgene import PrivGeneSchedule, privgene_schedule
from dperm.algorithms.defaults.scales import ScaleShares, learn_scales_choice
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.preconditioner import Preconditioner
from dperm.algorithms.private_constant import LEAST_SCALE, MOST_SCALE
from dperm.algorithms.private_scales import ScaleNoise, scale_facts, scales_to_learn
from dperm.algorithms.requirements import needs
from dperm.mechanisms.random_source import RandomState
from dperm.objective.losses import coordinate_loss_sums
from dperm.objective.objective import Array, Objective


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
    intercept_stride: float | None = None,
    accountant: str | None = None,
    learn_scales: bool | str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Move along one axis at a time, chosen among all by the exponential mechanism.

    Settings that are not given follow from public numbers, see
    :func:`dperm.algorithms.defaults.privgene.privgene_schedule`. Pseudo-code, guarantee and proof:
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
        Number of selections.
    stride : float, optional
        Distance of the first offspring from their parent, along one axis.
    decay : float, optional
        Factor for the stride after each generation, in (0, 1].
    entry_bound : float, optional
        Bound on the entries of a row: a record's loss changes by at most ``stride * entry_bound * slope`` at
        any offspring. Larger changes are clipped.
    intercept_stride : float, optional
        Stride along the intercept, whose entry is 1 in all rows, relative to those along columns, in (0, 1].
    accountant : {"zcdp", "gdp"}, optional
        How costs are added up for delta > 0; by default as in the ledger, or else "zcdp", which is better
        here.
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on the mean label, or on the best constant prediction of real
        targets and their distance from it, first: the search starts there, and the first stride for targets
        follows from that distance. Not for ``delta=0``. "auto": as for :func:`noisy_gd`.
    calibration : {"tight", "paper"}
        "paper": conversion and selection rate of Lee and Kifer, without the parent as a candidate; by default
        entries of up to 1 and equal strides.
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
    given = PrivGeneSchedule.checked(
        generations=generations, stride=stride, decay=decay, entry_bound=entry_bound,
        intercept_stride=intercept_stride,
    )  # fmt: skip
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _privgene(fit, given, accountant, learn_scales)


def _privgene(
    fit: Fit, given: Mapping[str, Any], accountant: str | None, learn_scales: bool | str
) -> FitResult:
    objective, rho = fit.objective, _rho(fit)
    default = privgene_schedule(fit.problem, rho, pure=fit.delta == 0.0)
    if fit.as_published:
        default = replace(default, entry_bound=min(1.0, objective.row_norm), intercept_stride=1.0)
    scales = _to_learn(fit, learn_scales, given)
    problem = fit.problem.without(scales.together)
    schedule = replace(default, **given)
    budget, eta, noise = _plan(fit, rho, schedule, accountant, scales)
    _check_strides(objective, schedule)
    if noise.of_targets:
        for scale in (LEAST_SCALE, MOST_SCALE):  # in units of the bound on the targets
            learned = replace(problem, target_scale=scale * objective.loss.target_bound)
            _check_strides(objective, replace(privgene_schedule(learned, rho), **given))
    noise.check_labels(fit)
    release = fit.open("privgene", budget, schedule, **_facts(given, scales))

    preconditioner = Preconditioner.unscaled(fit, release, noise, problem)
    w = preconditioner.start
    if scales.together:
        schedule = replace(privgene_schedule(preconditioner.problem, rho, start=w[-1]), **given)
    h = schedule.stride
    axes = np.ones(objective.dimension)  # strides along the axes, relative to h
    if objective.fit_intercept:
        axes[-1] = schedule.intercept_stride
    for generation in range(1, schedule.generations + 1):
        # 1. losses of the parent and of its offspring along the axes
        clip = 2.0 * h * schedule.entry_bound * _slope(objective)
        scores = coordinate_loss_sums(objective, w, h, clip, intercept_stride=h * axes[-1])
        ridge = fit.n * _penalty_changes(objective, w, h * axes)
        if fit.as_published:  # the parent is not a candidate
            ridge[-1] = 4.0 * fit.n * clip + 2.0 * np.abs(ridge).max()
        # 2. the survivor
        candidate = release.select(scores, eta, ridge)
        w = _offspring(w, h * axes, candidate)
        fit.report(generation, w, candidate=candidate, stride=h)
        h *= schedule.decay
    mechanism = "coordinate descent, each step chosen by the exponential mechanism"
    return fit.result(w, preconditioner.description(mechanism), n_iter=schedule.generations)


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


def _to_learn(fit: Fit, learn_scales: bool | str, given: Mapping[str, Any]) -> ScaleShares:
    """Shares of the budget for the start alone: rows and columns keep their scales.

    For labels and other losses than the logistic one, strides are made for a start at 0.
    """
    learn = learn_scales_choice("learn_scales", learn_scales)
    if fit.delta == 0.0:
        if learn is True:
            raise ValueError("learn_scales=True releases Gaussian noise, which needs delta > 0: leave it out")
        return ScaleShares()
    scales = replace(scales_to_learn(fit, learn, given), column_share=0.0, norm_share=0.0)
    if fit.problem.loss.classification and fit.problem.loss.name != "logistic":
        scales = replace(scales, label_share=0.0)
    if learn is True and not scales.together:
        raise ValueError(
            "learn_scales=True of privgene learns where to start, which takes an intercept and either the "
            "logistic loss or real targets with a bound: leave it out"
        )
    return scales


def _facts(given: Mapping[str, Any], scales: ScaleShares) -> dict[str, Any]:
    """Settings for the ledger and the privacy statement, without those that depend on what is learned."""
    later = ("stride", "entry_bound", "intercept_stride") if scales.together else ()
    return scale_facts(scales) | {name: None for name in later if name not in given}


def _plan(
    fit: Fit, rho: float, schedule: PrivGeneSchedule, accountant: str | None, scales: ScaleShares
) -> tuple[Budget | ScheduledBudget, float, ScaleNoise]:
    """The budget, the bounded range of each selection, and the noise of what is learned before."""
    count = schedule.generations
    if fit.delta == 0.0:
        eta = fit.epsilon / count * (1.0 - 2.0**-50)
        return ScheduledBudget(ExponentialMechanismRelease(eta), count, "pure"), eta, ScaleNoise()
    if fit.as_published:
        if accountant not in (None, "zcdp"):
            raise ValueError(f"calibration='paper' of privgene has accountant='zcdp', got {accountant!r}")
        bound, stride = schedule.entry_bound * _slope(fit.objective), schedule.stride
        rate = paper.privgene(rho, generations=count, entry_bound=bound, stride=stride)
        eta = rate * offspring_range(bound, stride, fit.neighbors)
        return Budget(floor_units(rho), "zcdp"), eta, ScaleNoise()
    if accountant is None:
        accountant = "zcdp" if fit.ledger is None else str(fit.ledger.accountant)
    budget, rest, noise = fit.budget(accountant), fit.budget(accountant), ScaleNoise()
    if scales.together:
        noise = ScaleNoise.of(scales, fit.objective.loss, budget, rest)
    return budget, selection_eta(rest.share(parts=count), budget.accountant), noise


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
