"""Output perturbation: gradient descent in secret, noise on the result.

Zhang, Zheng, Mou and Wang, IJCAI 2017, Algorithm 1, with a tighter sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dperm.accounting import Neighbours, gaussian_or_norm_laplace
from dperm.accounting.paper.full_batch import output_perturbation, smooth_erm_sensitivity
from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult
from dperm.algorithms.output_noise import (
    OutputNoise,
    SecretTrainingTerms,
    clip_for,
    noise_law,
    output_noise,
    publish,
    published_noise,
)
from dperm.algorithms.rules_of_thumb import output_reach
from dperm.algorithms.settings import Schedule, Setting
from dperm.objective.bounded_training import GradientDescent, PublicConstants, released_sensitivity
from dperm.objective.objective import Objective


class OutputPerturbationSchedule(Schedule):
    """Public settings of the descent.

    Attributes
    ----------
    steps : int
        Number of gradient steps.
    step_size : float
        Constant step on the mean objective, in (0, 2/(l2 + beta)].
    radius : float
        Radius of the ball that iterates are projected onto; infinite for no projection.
    clip : float
        Bound on the norm of one record's gradient; infinite where the loss itself bounds it (in the ball).
        By default from public numbers: see :func:`dperm.algorithms.output_noise.default_clip`.
    output : {"last", "average"}
        The last iterate, or the mean of all but the start.
    """

    steps: Setting[int] = Setting(check.step_count)
    step_size: Setting[float] = Setting(check.positive)
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)
    clip: Setting[float] = Setting(check.clip_norm_or_infinite)
    output: Setting[str] = Setting(check.one_of("last", "average"), "last")


_MOST_STEPS = 2000
# Without noise: least number of gradient evaluations, and the most steps for them.
_EXACT_GRADIENTS, _MOST_EXACT_STEPS = 2e7, 10_000


def output_perturbation_schedule(
    objective: Objective, epsilon: float, delta: float, *, radius: float = math.inf, clip: float = math.inf
) -> OutputPerturbationSchedule:
    """Default settings from public numbers alone.

    Parameters
    ----------
    objective : Objective
        Only its public constants are used: n, dimension, loss, row norm, ridge strength.
    epsilon, delta : float
        Target.
    radius, clip : float
        Radius of the projection, and bound on the norm of one record's gradient.

    Notes
    -----
    The horizon ``t = steps * step_size`` minimises ``D^2/(2 t) + beta E||z||^2/(2 d)``: the suboptimality of
    gradient descent towards a point at distance D, plus the cost of the noise z for horizon t under a Hessian
    of trace at most beta. With a ridge term on every weight no direction has a curvature h below l2, which
    leaves ``e D^2 h (1 - step_size h)^(2 steps)`` for the worst h; without one that amounts to the same. D is
    taken to be ``20/row_norm`` for labels and ``4 Y/row_norm`` for targets up to Y, at most the radius and
    what the ridge term allows. The step size is 0.9 of the largest that contracts, or smaller if a single
    step would go too far.
    """
    c = PublicConstants.of(objective, radius=radius, clip=clip)
    step = 1.8 / (c.l2 + c.beta)
    distance = min(output_reach(objective.loss, c.row_norm, c.strong), radius)

    def risk(steps: int, step_size: float) -> float:
        descent = GradientDescent(steps, step_size, radius=radius, clip=clip)
        moved = descent.sensitivity(objective, Neighbours.REPLACE_ONE, refined=False)
        noise = gaussian_or_norm_laplace(epsilon, delta, c.dimension, moved).mean_square(c.dimension)
        curvature = max(c.strong, 1.0 / (step_size * (2 * steps + 1)))  # the worst one
        left = math.e * distance**2 * curvature * (1.0 - step_size * curvature) ** (2 * steps)
        return left + 0.5 * (c.beta / c.dimension + c.strong) * noise

    shorter = [(1, step * 2.0**-k) for k in range(8)]
    longer = [(steps, step) for steps in sorted({round(1.1**k) for k in range(81)}) if steps <= _MOST_STEPS]
    if epsilon == math.inf:
        longer = [(max(_MOST_STEPS, min(_MOST_EXACT_STEPS, int(_EXACT_GRADIENTS) // c.n)), step)]
    steps, step_size = min([*longer, *shorter], key=lambda pair: risk(*pair))
    return OutputPerturbationSchedule(steps=steps, step_size=step_size, radius=radius, clip=clip)


class OutputPerturbationArguments(OutputPerturbationSchedule, SecretTrainingTerms):
    """Arguments of :func:`output_perturbation_gd`."""


@algorithm(OutputPerturbationArguments, convex=True, smooth=True, linear_prediction=True)
def output_perturbation_gd(fit: Fit, given: OutputPerturbationArguments) -> FitResult:
    """Train by full-batch gradient descent without noise, in secret, and publish a noisy result.

    Settings follow from public numbers where they are not given: :func:`output_perturbation_schedule`.

    Parameters
    ----------
    objective : Objective
        Convex and smooth loss.
    calibration : {"tight", "paper"}
        "paper": published sensitivity and noise (``replace_one``), with a clip for the Lipschitz constant
        if one is given.

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
    objective, schedule = fit.objective, given.completed(clip=clip_for(fit))
    if None in (given.steps, given.step_size):
        bounds = {"radius": schedule.radius, "clip": schedule.clip}
        default = output_perturbation_schedule(objective, fit.epsilon, fit.delta, **bounds)
        schedule = schedule.completed(default)
    c = PublicConstants.of(objective, radius=schedule.radius, clip=schedule.clip)
    if schedule.step_size * (c.l2 + c.beta) > 2.0:
        limit = 2.0 / (c.l2 + c.beta)
        raise ValueError(f"step_size must be at most 2/(l2 + beta) = {limit:.6g}, got {schedule.step_size!r}")
    training = _training(fit, schedule, can_do_without=given.clip is None)
    noise = _published_noise(fit, training, given.mechanism) if fit.as_published else None
    return publish(
        fit,
        "output_perturbation_gd",
        training,
        noise or output_noise(fit, noise_law(fit, given.mechanism)),
        words="full-batch gradient descent",
        steps=schedule.steps,
        step_size=schedule.step_size,
        radius=schedule.radius,
        clip=training.clip,
        output=schedule.output,
    )


def _training(fit: Fit, schedule: OutputPerturbationArguments, *, can_do_without: bool) -> GradientDescent:
    """What is run; without a clip that does not lower the sensitivity, if that is allowed."""
    clipped = GradientDescent(
        schedule.steps, schedule.step_size, schedule.radius, schedule.output == "average", schedule.clip
    )
    own, relation = fit.objective, fit.neighbors
    if can_do_without and own.loss.lipschitz(own.row_norm, schedule.radius) < math.inf:
        unclipped = replace(clipped, clip=math.inf)
        return min(unclipped, clipped, key=lambda training: training.sensitivity(own, relation))
    return clipped


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
