"""Output perturbation: gradient descent in secret, noise on the result.

Zhang, Zheng, Mou and Wang, "Efficient private ERM for smooth objectives", IJCAI 2017, Algorithm 1, with
the sensitivity that gradient descent really has: two thirds of the published one for convex losses,
a fifth to two fifths for strongly convex ones, less again for the logistic loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.accounting.paper.full_batch import output_perturbation, smooth_erm_sensitivity
from dperm.algorithms.fit import Fit, Terms
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.output_noise import (
    LAWS,
    SECRET_ITERATES,
    OutputNoise,
    ResultSensitivity,
    add_or_remove_note,
    noise_law,
    output_noise,
    published_noise,
)
from dperm.algorithms.requirements import needs
from dperm.algorithms.settings import (
    Schedule,
    checked,
    one_of,
    positive,
    positive_or_infinite,
    step_count,
)
from dperm.objective.bounded_training import (
    GradientDescent,
    PublicConstants,
    check_record_count,
    released_sensitivity,
)
from dperm.objective.objective import Objective


@dataclass(frozen=True)
class OutputPerturbationSchedule(Schedule):
    """Public settings of the descent.

    Attributes
    ----------
    steps : int
        Number of gradient steps.
    step_size : float
        Constant step on the mean objective, in (0, 2/(l2 + beta)].
    radius : float
        Of the ball that iterates are projected onto; infinite for none.
    output : {"last", "average"}
        Last iterate, or the mean of all but the start.
    """

    steps: int = checked(step_count)
    step_size: float = checked(positive)
    radius: float = checked(positive_or_infinite)
    output: str = checked(one_of("last", "average"))


# Predictions of the longest row at the optimum that the default schedule is made for: log-odds, or in the
# unit of bounded targets.
_REACH, _REACH_PER_TARGET = 20.0, 4.0
_MOST_STEPS = 2000
# Without noise: gradients of records, where they are more than that, and the most steps for them.
_EXACT_GRADIENTS, _MOST_EXACT_STEPS = 2e7, 10_000


def output_perturbation_schedule(
    objective: Objective, epsilon: float, delta: float, *, radius: float = math.inf
) -> OutputPerturbationSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    objective : Objective
        For its public constants: n, dimension, loss, row norm, ridge strength.
    epsilon, delta : float
        Target.
    radius : float
        Of the projection.

    Notes
    -----
    The horizon ``t = steps * step_size`` minimises ``D^2/(2 t) + beta E||z||^2/(2 d)``: what gradient descent
    leaves of the gap to a point at distance D, plus what noise z of the size that t calls for costs under a
    Hessian of trace at most beta. D is 20, or 4 times the bound on the targets, in units of ``1/row_norm``.
    The step is 0.9 of the largest one that contracts, and shorter where a single one would go too far.
    """
    c = PublicConstants.of(objective, radius=radius)
    step = 1.8 / (c.l2 + c.beta)
    bound = objective.loss.target_bound
    reach = _REACH_PER_TARGET * bound if bound < math.inf else _REACH
    distance = min(reach / c.row_norm, radius)

    def risk(steps: int, step_size: float) -> float:
        descent = GradientDescent(steps, step_size, radius=radius)
        moved = descent.sensitivity(objective, Neighbours.REPLACE_ONE, refined=False)
        noise = gaussian_or_norm_laplace(epsilon, delta, c.dimension, moved).mean_square(c.dimension)
        return distance**2 / (2.0 * steps * step_size) + c.beta * noise / (2.0 * c.dimension)

    shorter = [(1, step * 2.0**-k) for k in range(8)]
    longer = [(steps, step) for steps in sorted({round(1.1**k) for k in range(81)}) if steps <= _MOST_STEPS]
    if epsilon == math.inf:
        longer = [(max(_MOST_STEPS, min(_MOST_EXACT_STEPS, int(_EXACT_GRADIENTS) // c.n)), step)]
    steps, step_size = min([*longer, *shorter], key=lambda pair: risk(*pair))
    return OutputPerturbationSchedule(steps, step_size, radius, "last")


@needs(convex=True, smooth=True, linear_prediction=True)
def output_perturbation_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    step_size: float | None = None,
    radius: float = math.inf,
    output: str = "last",
    mechanism: str = "auto",
    **terms: Unpack[Terms],
) -> FitResult:
    """Train by full-batch gradient descent without noise, in secret, and publish a noisy result.

    Parameters
    ----------
    objective : Objective
        Convex and smooth loss; one whose slope grows without limit needs a finite `radius`.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee, by norm-Laplace noise.
    steps : int, optional
        Number of gradient steps, fixed in advance. See :func:`output_perturbation_schedule`.
    step_size : float, optional
        Step on the mean objective, at most ``2/(l2 + beta)``.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    output : {"last", "average"}
        Publish the last iterate, or the mean of all but the start.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        "auto": whichever has the smaller mean square error; norm-Laplace noise in few dimensions, which
        then spends no delta.
    calibration : {"tight", "paper"}
        "paper": published sensitivity and noise (``replace_one``).
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation. "add_or_remove" means that a record is replaced by an empty one: the public
        number of records stays.
    ledger : PrivacyLedger, optional
        Charged once, before the records are read.
    random_state : None, int or Generator
        None: cryptographic noise.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``, the published weights.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError
        For a setting out of range, a step too large for the proof, or a paper calibration that does not
        give the claimed guarantee.
    DataError
        If there are more records than ``objective.n_public``.
    BudgetExceededError
        When the ledger cannot afford the fit.

    Notes
    -----
    The published weights alone are (epsilon, delta)-DP. A gradient step on a smooth convex function does
    not move two points further apart (Hardt, Recht and Singer 2016, Lemma 3.7), so that one record moves the
    result by at most ``T eta s L/n`` (geometrically less with a ridge term on every weight), s = 2 or 1; for
    the logistic loss by less, because iterates are bounded and two gradients at one point are not opposite.
    Rounding errors of the program are counted, see
    :mod:`dperm.objective.bounded_training`. Noise: Gaussian (Balle and Wang 2018,
    Theorem 8) or norm-Laplace (Chaudhuri, Monteleoni and Sarwate 2011).
    """
    fit = Fit(objective, epsilon, delta, **terms)
    radius = positive_or_infinite("radius", radius)
    if steps is None or step_size is None:
        default = output_perturbation_schedule(objective, fit.epsilon, fit.delta, radius=radius)
    else:
        default = OutputPerturbationSchedule(steps, step_size, radius, output)
    schedule = default.replaced(steps=steps, step_size=step_size, output=output)
    c = PublicConstants.of(objective, radius=radius)
    if schedule.step_size * (c.l2 + c.beta) > 2.0:
        limit = 2.0 / (c.l2 + c.beta)
        raise ValueError(f"step_size must be at most 2/(l2 + beta) = {limit:.6g}, got {schedule.step_size!r}")
    training = GradientDescent(schedule.steps, schedule.step_size, radius, schedule.output == "average")
    check_record_count(objective)
    moved = ResultSensitivity.of_training(fit, training)
    if fit.as_published:
        noise = _published_noise(fit, training, mechanism)
    else:
        noise = output_noise(fit, noise_law(fit, mechanism))
    noise.claim(fit, moved)
    release = fit.open("output_perturbation_gd", noise.budget, schedule, mechanism=noise.law)

    coef = noise.release(release, training.train(objective))
    fit.show(1, coef)
    words = f"full-batch gradient descent in secret, {LAWS[noise.law]} noise on the result"
    notes = SECRET_ITERATES, *add_or_remove_note(fit.neighbors)
    return fit.result(coef, words, n_iter=schedule.steps, steps=schedule.steps, notes=notes)


def _published_noise(fit: Fit, training: GradientDescent, mechanism: str) -> OutputNoise:
    """Zhang et al.: Lemma 2 or 3 for the sensitivity, Theorem 1 for the Gaussian."""
    fit.check_published("output_perturbation_gd", neighbors=None)
    if mechanism not in ("auto", "norm_laplace" if fit.delta == 0.0 else "gaussian"):
        raise ValueError(
            "calibration='paper' has Gaussian noise for delta > 0 and norm-Laplace noise for delta = 0, "
            f"got mechanism={mechanism!r}"
        )
    c = PublicConstants.of(fit.objective, radius=training.radius)
    if c.strong != c.l2:
        raise ValueError("calibration='paper' needs l2=0 or penalize_intercept=True")
    settings: dict[str, Any] = {
        "n_samples": c.n, "steps": training.steps, "eta": training.step_size,
        "lipschitz": c.lipschitz, "beta": c.beta, "l2": c.l2,
    }  # fmt: skip
    scale = output_perturbation(fit.epsilon, fit.delta, **settings)
    if fit.neighbors is Neighbours.ADD_OR_REMOVE:
        fit.warn_unproved("output_perturbation_gd", "the paper's neighbours differ by replacing one record")
    if fit.delta == 0.0:
        scale = smooth_erm_sensitivity(**settings) / fit.epsilon
    sensitivity = released_sensitivity(training, fit.objective, fit.neighbors)
    return published_noise(fit, scale, sensitivity)
