"""Noisy gradient descent: full-batch, projected, averaged.

Bassily, Smith and Thakurta, "Private empirical risk minimization: efficient algorithms and tight error
bounds", FOCS 2014, in the form of Nikolov's lecture notes on private ERM, with the exact accounting of
Gaussian differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Usual
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.rules import heavy_ball_step, usual_clip, usual_steps
from dperm.algorithms.scaled_columns import ScaledColumns, ScaleNoise
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_sizes import StepSize, step_size, step_sizes
from dperm.algorithms.tail_average import TailAverage
from dperm.mechanisms.random_source import RandomState
from dperm.objective.objective import Objective
from dperm.objective.projection import project


@dataclass(frozen=True, kw_only=True)
class NoisyGDSchedule(Settings):
    """Settings of :func:`noisy_gd`."""

    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(step_size)  # or StepSizes
    momentum: float = setting(check.below_one, Usual.MOMENTUM)
    tail: float = setting(check.fraction, Usual.TAIL)
    radius: float = setting(check.positive_or_infinite, math.inf)

    @classmethod
    def of(cls, problem: PublicProblem, given: Mapping[str, Any]) -> NoisyGDSchedule:
        """The given settings, completed by the one rule."""
        default = {
            "steps": usual_steps(problem),
            "clip": usual_clip(problem),
            "step_size": heavy_ball_step(problem),
        }
        return cls(**{**default, **given})


@needs()
def noisy_gd(
    objective: Objective,
    epsilon: float,
    delta: float,
    *,
    steps: int | None = None,
    clip: float | None = None,
    step_size: StepSize | None = None,
    momentum: float | None = None,
    tail: float | None = None,
    radius: float = math.inf,
    learn_scales: bool = False,
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by full-batch gradient descent with Gaussian noise, and average the iterates.

    Settings that are not given follow from public numbers: :mod:`dperm.algorithms.rules`. That of the notes
    is ``momentum=0, tail=1``. Pseudo-code, guarantee and proof: :doc:`/theory/noisy_gd`.

    Parameters
    ----------
    objective : Objective
        Any loss.
    epsilon : float
        Greater than 0; infinite runs without noise and protects nothing.
    delta : float
        Strictly between 0 and 1.
    steps : int, optional
        Number of noisy gradients; the iterates are ``w_0 = 0, ..., w_steps``.
    clip : float, optional
        Bound on the norm of one record's gradient.
    step_size : float, str, mapping or callable, optional
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ...
    momentum : float, optional
        Heavy-ball coefficient in [0, 1); by default .95.
    tail : float, optional
        The last ``ceil(tail * (steps + 1))`` iterates are averaged; in (0, 1], by default .5.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    learn_scales : bool
        Whether to spend 8 % of the budget, in mu^2, on a histogram of the magnitudes in each column first,
        and to take the steps in coordinates in which columns have similar scales. Other settings are then
        those for such columns; `clip`, `step_size` and `radius`, in the units of the data, go without.
    calibration : {"tight", "paper"}
        "paper": the notes' noise (textbook Gaussian, ``add_or_remove`` only).
    neighbors : {"add_or_remove", "replace_one"}, optional
        Neighbouring relation; by default the ledger's, and "add_or_remove" without a ledger.
    ledger : PrivacyLedger, optional
        Charged once, before anything is drawn.
    random_state : None, int or Generator
        None draws cryptographic noise. Seeds are for tests; a ledger refuses them.
    callback : callable, optional
        Called after each step with ``{"iteration", "steps", "coef", "gradient"}``, all released; the gradient
        is in the learned coordinates if scales are learned.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError, TypeError, DataError, BudgetExceededError
        Before anything is charged, see :mod:`dperm.algorithms`.

    Notes
    -----
    The whole transcript, all iterates included, is (epsilon, delta)-DP: ``steps`` releases with noise
    multiplier ``sqrt(steps) / mu`` are ``mu``-GDP exactly (Dong, Roth and Su 2022, Corollary 3.3), and
    ``mu`` is the largest for which mu-GDP implies (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8).

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 2))
    >>> objective = dperm.Objective("logistic", X, np.sign(X @ [1.0, -1.0]))
    >>> result = noisy_gd(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> np.sign(result.coef)
    array([ 1., -1.])
    """
    given = NoisyGDSchedule.checked(
        steps=steps, clip=clip, step_size=step_size, momentum=momentum, tail=tail, radius=radius
    )
    with Fit(
        objective, epsilon, delta, calibration=calibration, neighbors=neighbors, ledger=ledger,
        random_state=random_state, callback=callback,
    ) as fit:  # fmt: skip
        return _noisy_gd(fit, given, learn_scales)


def _noisy_gd(fit: Fit, given: Mapping[str, Any], learn_scales: bool) -> FitResult:
    fit.check_published("noisy_gd")
    rest = fit.budget()
    scales = ScaleNoise.of(fit, learn_scales, given, rest)
    schedules = [NoisyGDSchedule.of(problem, given) for problem in scales.problems(fit)]
    steps = schedules[0].steps
    multiplier = fit.noise_multiplier(rest, steps, published=lambda: _published_multiplier(fit, steps))
    for schedule in schedules:
        fit.check_gradient_noise(schedule.clip, multiplier, schedule.radius)
    if fit.as_published and fit.epsilon >= 1.0:
        fit.warn_unproved("noisy_gd", "the textbook Gaussian is proved for epsilon < 1")
    if schedule.radius == math.inf:
        sizes = step_sizes(schedule.step_size, schedule.steps)
        fit.check_growth(sizes, schedule.momentum, schedule.clip)
    release = fit.open("noisy_gd", fit.budget(), schedule, **scales.facts)

    there = ScaledColumns.learned(fit, release, scales)
    schedule = NoisyGDSchedule.of(there.problem, given)
    objective, factors = fit.objective, there.factors
    average = TailAverage(schedule.steps + 1, schedule.tail)
    w = velocity = np.zeros(objective.shape)
    average.add(w)
    for t, size in enumerate(step_sizes(schedule.step_size, schedule.steps), 1):
        # 1. noisy gradient of the clipped mean loss, and of the ridge term
        gradient_sum = there.gradient_sum(objective, w, schedule.clip, radius=schedule.radius)
        noisy_sum = release.gaussian_sum(gradient_sum, multiplier)
        gradient = noisy_sum / fit.n + factors * objective.penalty_gradient(w)
        # 2. heavy ball and projection: post-processing
        velocity = schedule.momentum * velocity - size * gradient
        w = project(w + factors * velocity, schedule.radius)
        average.add(w)
        fit.report(t, w, gradient=gradient)
    mechanism = "full-batch gradient descent, Gaussian noise on each clipped gradient sum"
    return fit.result(average.mean(), there.description(mechanism), n_iter=schedule.steps, clip=schedule.clip)


def _published_multiplier(fit: Fit, steps: int) -> float:
    """The noise of the notes: the textbook Gaussian mechanism with a factor of ``sqrt(steps + 1)``."""
    return math.sqrt(steps + 1) * (math.sqrt(2.0 * math.log(1.25 / fit.delta)) / fit.epsilon)
