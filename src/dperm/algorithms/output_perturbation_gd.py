"""Output perturbation: gradient descent in secret, noise on the result.

Zhang, Zheng, Mou and Wang, IJCAI 2017, Algorithm 1, with a tighter sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dperm.accounting import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.accounting.paper.baselines import output_perturbation, smooth_erm_sensitivity
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Usual
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.output_noise import (
    OutputNoise,
    clip_for,
    noise_law,
    output_noise,
    publish,
    published_noise,
)
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import distance
from dperm.algorithms.settings import Settings, setting
from dperm.mechanisms.random_source import RandomState
from dperm.objective.bounded_training import GradientDescent, PublicConstants, released_sensitivity
from dperm.objective.objective import Objective


@dataclass(frozen=True, kw_only=True)
class OutputPerturbationSchedule(Settings):
    """Settings of :func:`output_perturbation_gd`."""

    steps: int = setting(check.step_count)
    step_size: float = setting(check.positive)
    radius: float = setting(check.positive_or_infinite, math.inf)
    clip: float = setting(check.clip_norm_or_infinite)


@needs(convex=True, smooth=True, linear_prediction=True)
def output_perturbation_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    step_size: float | None = None,
    radius: float = math.inf,
    clip: float | None = None,
    mechanism: str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Train by full-batch gradient descent without noise, in secret, and publish a noisy result.

    Settings that are not given follow from public numbers. Pseudo-code, guarantee and proof:
    :doc:`/theory/output_perturbation_gd`.

    Parameters
    ----------
    objective : Objective
        Convex and smooth loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        In [0, 1); 0 gives a pure guarantee, by norm-Laplace noise.
    steps : int, optional
        Number of gradient steps; by default those after which noise would cost more than they gain.
    step_size : float, optional
        Constant step on the mean objective, in (0, 2/(l2 + beta)], by default at most half of that.
    radius : float
        Radius of the ball that iterates are projected onto; infinite for no projection.
    clip : float, optional
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it (in the ball).
        By default that of :mod:`dperm.algorithms.rules`.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        "auto": whichever has the smaller mean square error. In few dimensions that is norm-Laplace noise,
        which spends no delta.
    calibration : {"tight", "paper"}
        "paper": published sensitivity and noise (``replace_one``), with a clip for the Lipschitz constant
        if one is given.
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger. Here
        "add_or_remove" replaces a record by an empty one; the number of records stays public.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called once with ``{"iteration", "coef"}``, the published weights; iterates stay secret.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    Only the published weights are (epsilon, delta)-DP. The noise grows with ``steps * step_size``.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = output_perturbation_gd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = OutputPerturbationSchedule.checked(steps=steps, step_size=step_size, radius=radius, clip=clip)
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        training = _training(fit, given)
        noise = _published_noise(fit, training, mechanism) if fit.as_published else None
        return publish(
            fit,
            "output_perturbation_gd",
            training,
            noise or output_noise(fit, noise_law(fit, mechanism)),
            description="full-batch gradient descent",
            steps=training.steps,
            step_size=training.step_size,
            radius=training.radius,
            clip=training.clip,
        )


def _training(fit: Fit, given: dict[str, Any]) -> GradientDescent:
    """What is run.

    The time ``t = steps * step_size`` minimises ``D^2/(2 t) + beta E||z||^2/(2 d)``: the suboptimality of
    gradient descent towards a point at distance D, plus what noise z for time t costs under a Hessian of
    trace at most beta. A ridge term on every weight makes more than ``log(n) / l2`` pointless.
    """
    given = {"clip": clip_for(fit)} | given
    c = PublicConstants.of(fit.objective, radius=given["radius"], clip=given["clip"])
    noise = gaussian_or_norm_laplace(fit.epsilon, fit.delta, c.dimension, 2.0 * c.lipschitz / c.n)
    of_noise = c.beta * noise.mean_square(c.dimension) / c.dimension  # twice what it costs, for t = 1
    far, most = distance(fit.problem, given["radius"]), Usual.MOST_SECRET_STEPS
    time = (far**2 / (2.0 * of_noise)) ** (1.0 / 3.0) if of_noise > 0.0 else math.inf
    if c.strong > 0.0:
        time = min(time, math.log(c.n + 1.0) / c.strong)
    step = min(1.0 / (c.l2 + c.beta), time)
    default = {"steps": max(1, round(min(time / step, most))), "step_size": step}
    schedule = OutputPerturbationSchedule(**{**default, **given})
    if schedule.step_size * (c.l2 + c.beta) > 2.0:
        limit = 2.0 / (c.l2 + c.beta)
        raise ValueError(f"step_size must be at most 2/(l2 + beta) = {limit:.6g}, got {schedule.step_size!r}")
    return GradientDescent(schedule.steps, schedule.step_size, schedule.radius, schedule.clip)


def _published_noise(fit: Fit, training: GradientDescent, mechanism: str) -> OutputNoise:
    """Zhang et al.: Lemma 2 or 3 for the sensitivity, Theorem 1 for the Gaussian."""
    fit.check_published("output_perturbation_gd", neighbors=None)
    if mechanism not in ("auto", "norm_laplace" if fit.delta == 0.0 else "gaussian"):
        raise ValueError(
            "calibration='paper' has Gaussian noise for delta > 0 and norm-Laplace noise for delta = 0, "
            f"got mechanism={mechanism!r}"
        )
    c = PublicConstants.of(fit.objective, radius=training.radius, clip=training.clip)
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
