"""Objective perturbation: a random linear term in the objective instead of noise on the result.

Chaudhuri, Monteleoni and Sarwate, JMLR 2011, Algorithm 2; Kifer, Smith and Thakurta, COLT 2012, Algorithm 1.
A computed minimiser is approximate, so the result gets a little noise as well: "approximate minima
perturbation" of Iyengar et al. 2019, with the sensitivity that two approximate minimisers really have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.accounting import PrivacyLedger, gdp_mu, paper
from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import PerturbedMinimumRelease
from dperm.accounting.fit_costs import perturbed_minimum_cost
from dperm.accounting.ledger.cost import FitCost
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.objective_perturbation import (
    logistic_objective_sigma,
    objective_sigma,
    pure_objective_scale,
    replaced_objective_sigma,
)
from dperm.accounting.pure_composition import group_privacy_target
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import ObjectivePerturbation
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.output_noise import (
    LAWS,
    SECRET_ITERATES,
    OutputNoise,
    add_or_remove_note,
    clip_for,
)
from dperm.algorithms.requirements import needs
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.records import PerturbedMinimum
from dperm.objective.bounded_training import Minimisation, PublicConstants
from dperm.objective.objective import Array, Objective
from dperm.private_values.bounded import Bounded

# Losses whose derivative in the margin has one sign.
_MONOTONE = ("logistic", "squared_hinge", "huberized_hinge")


@dataclass(frozen=True)
class _Plan:
    """Public numbers of a fit, on the scale of the sum of losses."""

    law: str  # distribution of the linear term and of the noise on the output
    scale: float  # scale of the linear term
    ridge: float  # least regularisation that the calibration requires


@needs(convex=True, smooth=True, linear_prediction=True)
def objective_perturbation(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    clip: float | None = None,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise the objective plus a random linear term; publish the minimiser with a little noise.

    Pseudo-code, guarantee and proof: :doc:`/theory/objective_perturbation`.

    Parameters
    ----------
    objective : Objective
        Convex and smooth. The proof needs a ridge term on every weight, the intercept included. If the
        objective has less than required (``lambda = n l2 >= 3 beta/epsilon``, or ``R^2/epsilon`` for the
        logistic loss without a clip), the difference is added; the statement says how much.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        In [0, 1). 0 gives a pure guarantee (logistic loss without a clip only).
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it, and for
        ``delta=0``. By default that of :mod:`dperm.algorithms.rules`, or none if that needs less noise.
    calibration : {"tight", "paper"}
        "paper" (logistic loss): for delta > 0 the noise of Kifer et al. (``add_or_remove``), for ``delta =
        0`` that of Chaudhuri et al. (``replace_one``).
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn. With delta > 0 under ``replace_one``, or with a loss whose
        derivative changes sign, no cost in ``mu^2`` is known: the fit then needs a whole, unused ledger.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``, the published weights.

    Returns
    -------
    FitResult
        ``n_iter`` is 1: the solver's running time depends on the records and stays secret.

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    Only the published weights are (epsilon, delta)-DP.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = objective_perturbation(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    if clip is not None:
        clip = check.clip_norm_or_infinite("clip", clip)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _objective_perturbation(fit, clip)


def _objective_perturbation(fit: Fit, given_clip: float | None) -> FitResult:
    objective = fit.objective
    # 1. the linear term, and the ridge term that its privacy relies on
    plan, clip = _plan_and_clip(fit, given_clip)
    constants = PublicConstants.of(objective, clip=clip)
    if max(plan.scale, plan.ridge) > 1e100:
        raise ValueError(f"epsilon = {fit.epsilon:.3g} is too small: the noise would drown every record")
    extra_l2 = max(0.0, (plan.ridge / fit.n - constants.strong) * (1.0 + 2.0**-50))
    training = Minimisation.with_tolerance(
        objective,
        2.0**-20 * (plan.scale or constants.lipschitz) / fit.n,
        extra_l2=extra_l2,
        linear_bound=_norm_bound(plan, objective.dimension) / fit.n,
        clip=clip,
    )
    fit.check_size_cap(2 * fit.n)  # the tolerance allows for twice as many records
    # 2. noise on the output, which covers the distance from the exact minimiser
    event = PerturbedMinimumRelease(plan.law, plan.scale, _output_noise(fit, plan.law))
    cost = (
        None if plan.law != "gaussian" or event.output == 0.0 else _ledger_cost(fit, plan, event.output, clip)
    )
    budget = ScheduledBudget(event, 1, "pure" if fit.delta == 0.0 else "privacy_profile", cost)
    OutputNoise(plan.law, event.output, budget).check(dict.fromkeys(Neighbours, 1.0), fit)
    release = fit.open(
        "objective_perturbation",
        budget,
        clip=clip,
        extra_l2=extra_l2,
        tolerance=training.tolerance,
        output_share=ObjectivePerturbation.OUTPUT,
    )

    def minimise(linear: Array, rounding: float) -> Bounded:
        return training.train_perturbed(objective, linear / fit.n, rounding / fit.n)

    gradient_sensitivity = fit.neighbors.sum_factor * min(objective.loss.lipschitz(objective.row_norm), clip)
    coef = release.perturbed_minimum(PerturbedMinimum(minimise, objective.shape, gradient_sensitivity), event)
    fit.show(1, coef)
    law = LAWS[plan.law]
    mechanism = f"minimisation with a {law} linear term in the objective, {law} noise on the result"
    notes = SECRET_ITERATES, *add_or_remove_note(fit.neighbors), *_ridge_note(extra_l2)
    return fit.result(coef, mechanism, n_iter=1, steps=None, notes=notes)


def _plan_and_clip(fit: Fit, clip: float | None) -> tuple[_Plan, float]:
    """By default whichever has less noise: that with a default clip, or without one."""
    rest = 1.0 - ObjectivePerturbation.OUTPUT

    def plan(clip: float) -> _Plan:
        plan_of = _paper_plan if fit.as_published else _tight_plan
        return plan_of(fit.objective, fit.epsilon * rest, fit.delta * rest, fit.neighbors, clip)

    if clip is not None:
        return plan(clip), clip
    unbounded = fit.objective.loss.lipschitz(fit.objective.row_norm) == math.inf
    clips = [clip_for(fit)] if fit.delta > 0.0 or unbounded else []
    if not unbounded:
        clips.append(math.inf)
    return min(((plan(each), each) for each in clips), key=lambda each: each[0].scale)


def _ledger_cost(fit: Fit, plan: _Plan, output: float, clip: float) -> FitCost | None:
    loss, constants = fit.objective.loss, PublicConstants.of(fit.objective, clip=clip)
    logistic, monotone = loss.name == "logistic" and clip == math.inf, loss.name in _MONOTONE
    return perturbed_minimum_cost(
        constants.row_norm if logistic else constants.lipschitz,
        constants.beta,
        plan.ridge,
        plan.scale,
        output,
        loss="logistic" if logistic else "monotone" if monotone else "other",
        neighbors=fit.neighbors,
    )


def _ridge_note(extra_l2: float) -> tuple[str, ...]:
    if extra_l2 == 0.0:
        return ()
    return (
        "The proof asks for more regularisation than the objective has: a further ridge term of "
        f"strength {extra_l2:.6g} on every weight, the intercept included, was added.",
    )


def _output_noise(fit: Fit, law: str) -> float:
    """Noise multiplier (Gaussian) or epsilon (norm-Laplace) of the noise on the output."""
    epsilon, delta = (each * ObjectivePerturbation.OUTPUT for each in (fit.epsilon, fit.delta))
    if law == "norm_laplace":
        return epsilon
    return 1.0 / gdp_mu(epsilon, delta) if epsilon < math.inf else 0.0


def _norm_bound(plan: _Plan, dimension: int) -> float:
    """Norm that the linear term exceeds with a probability below exp(-700): chi and gamma tails."""
    root = math.sqrt(dimension)
    return plan.scale * (root + 38.0 if plan.law == "gaussian" else dimension + 38.0 * root + 700.0)


def _tight_plan(
    objective: Objective, epsilon: float, delta: float, relation: Neighbours, clip: float
) -> _Plan:
    """The least noise with a proof, for about as little regularisation as the proof allows."""
    loss, constants = objective.loss, PublicConstants.of(objective, clip=clip)
    given = objective.n_public * constants.strong
    if epsilon == math.inf:
        if not given > 0.0:
            raise ValueError("objective_perturbation without noise needs l2 > 0 on every weight")
        return _Plan("gaussian", 0.0, 0.0)
    if loss.name == "logistic" and clip == math.inf:
        plan_of = _logistic_plan if delta > 0.0 else _pure_plan
        return plan_of(epsilon, delta, given, constants.row_norm, relation)
    if delta == 0.0:
        raise ValueError(
            "delta = 0 is proved for the logistic loss without a clip only, got "
            f"{loss.name} with clip={clip:.6g}: pass delta > 0"
        )
    ridge = max(given, ObjectivePerturbation.RIDGE * constants.beta / epsilon)
    sigma = replaced_objective_sigma if relation is Neighbours.REPLACE_ONE else objective_sigma
    monotone = loss.name in _MONOTONE
    scale = sigma(epsilon, delta, constants.lipschitz, constants.beta, ridge, monotone=monotone)
    return _Plan("gaussian", scale, ridge)


def _pure_plan(epsilon: float, delta: float, given: float, row_norm: float, relation: Neighbours) -> _Plan:
    ridge = max(given, relation.sum_factor * row_norm**2 / epsilon * (1.0 + 2.0**-40))
    return _Plan("norm_laplace", pure_objective_scale(epsilon, ridge, row_norm, relation), ridge)


def _logistic_plan(
    epsilon: float, delta: float, given: float, row_norm: float, relation: Neighbours
) -> _Plan:
    beta = row_norm**2 / 4.0
    if relation is Neighbours.ADD_OR_REMOVE:
        ridge = max(given, ObjectivePerturbation.RIDGE_OF_LOGISTIC * beta / epsilon)
        return _Plan("gaussian", logistic_objective_sigma(epsilon, delta, ridge, row_norm), ridge)
    # The smaller of two bounds: both records at once, or one after the other, which costs no Jacobian.
    hop = group_privacy_target(epsilon, delta)
    ridge = max(given, ObjectivePerturbation.RIDGE_OF_LOGISTIC * beta / hop[0])
    scale = replaced_objective_sigma(epsilon, delta, row_norm, beta, ridge, monotone=True)
    if hop[1] > 0.0:  # not underflowed
        scale = min(scale, logistic_objective_sigma(*hop, ridge, row_norm))
    return _Plan("gaussian", scale, ridge)


def _paper_plan(
    objective: Objective, epsilon: float, delta: float, relation: Neighbours, clip: float
) -> _Plan:
    if objective.loss.name != "logistic" or epsilon == math.inf or clip < math.inf:
        raise ValueError("calibration='paper' is for the logistic loss, a finite epsilon and no clip")
    constants = PublicConstants.of(objective)
    n, row_norm, strong = constants.n, constants.row_norm, constants.strong
    if delta > 0.0:
        if relation is not Neighbours.ADD_OR_REMOVE:
            raise ValueError("calibration='paper' with delta > 0 holds for neighbors='add_or_remove' only")
        ridge = max(n * strong, row_norm**2 / (2.0 * epsilon) * (1.0 + 2.0**-40))  # 2 beta/epsilon
        return _Plan(
            "gaussian", paper.objective_perturbation(epsilon, delta, l2=ridge, row_norm=row_norm), ridge
        )
    if relation is not Neighbours.REPLACE_ONE:
        raise ValueError("calibration='paper' with delta = 0 holds for neighbors='replace_one' only")
    if not strong > 0.0:
        raise ValueError("calibration='paper' with delta = 0 needs l2 > 0 on every weight")
    # The paper's rows have norm 1: in weights w R the ridge strength is l2/R^2, and b shrinks by R.
    scaled_l2 = strong / row_norm**2
    published = paper.objective_perturbation_pure(epsilon, n_samples=n, l2=scaled_l2)
    ridge = n * row_norm**2 * (scaled_l2 + max(0.0, published.extra_l2))
    return _Plan("norm_laplace", 2.0 * row_norm / published.epsilon_p, ridge)
