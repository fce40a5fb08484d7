"""Noisy gradient descent: full-batch, projected, averaged.

Bassily, Smith and Thakurta, "Private empirical risk minimization: efficient algorithms and tight error
bounds", FOCS 2014, in the form of Nikolov's lecture notes on private ERM, with the exact accounting of
Gaussian differential privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.accounting import PrivacyLedger
from dperm.algorithms.defaults.noisy_gd import NoisyGDSchedule, noisy_gd_schedule
from dperm.algorithms.defaults.rules import gathers_at_a_kink
from dperm.algorithms.fit import Callback, Fit, FitResult
from dperm.algorithms.preconditioner import Preconditioner
from dperm.algorithms.private_scales import ScaleNoise, scale_facts, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.requirements import needs
from dperm.algorithms.step_sizes import StepSize, shrinking, step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.mechanisms.random_source import RandomState
from dperm.objective.objective import Objective
from dperm.objective.projection import project


@needs(private_class_weight=True)
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
    learn_scales: bool | str = "auto",
    calibration: str = "tight",
    neighbors: str | None = None,
    ledger: PrivacyLedger | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> FitResult:
    """Minimise by full-batch gradient descent with Gaussian noise, and average the iterates.

    Settings that are not given follow from public numbers, see
    :func:`dperm.algorithms.defaults.noisy_gd.noisy_gd_schedule`. The notes' algorithm is ``momentum=0,
    tail=1``. Pseudo-code, guarantee and proof: :doc:`/theory/noisy_gd`.

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
        function of the step 1, 2, ... The default falls linearly to 0 in the second half of the run if the
        loss of a real target has a kink.
    momentum : float, optional
        Heavy-ball coefficient in [0, 1).
    tail : float, optional
        The last ``ceil(tail * (steps + 1))`` iterates are averaged; in (0, 1]. By default half of them are,
        and earlier ones as far back as they show no drift.
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    learn_scales : {"auto", True, False}
        Whether to spend part of the budget on estimates of the column scales, the row norm and the mean
        label, or the best constant prediction of real targets, first (for softmax scales alone). Steps are
        then taken in coordinates in which columns have similar scales, and clip and step size follow from
        the row norm there. "auto": what :func:`dperm.algorithms.defaults.scales.scale_shares` considers
        worthwhile, unless a setting in the units of the data was given.
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


def _noisy_gd(fit: Fit, given: Mapping[str, Any], learn_scales: bool | str) -> FitResult:
    scales = scales_to_learn(fit, learn_scales, given)
    problem = fit.problem.without(scales.together)
    schedule = _schedule(given, problem)
    fit.check_published("noisy_gd")
    rest = fit.budget()
    scale_noise = ScaleNoise.of(scales, fit.objective.loss, fit.budget(), rest)
    multiplier = fit.noise_multiplier(
        rest, schedule.steps, published=lambda: _published_multiplier(fit, schedule.steps)
    )
    if fit.as_published and fit.epsilon >= 1.0:
        fit.warn_unproved("noisy_gd", "the textbook Gaussian is proved for epsilon < 1")
    fit.check_gradient_noise(schedule.clip, multiplier, schedule.radius)
    if schedule.radius == math.inf:
        sizes = step_sizes(schedule.step_size, schedule.steps)
        fit.check_growth(sizes, schedule.momentum, schedule.clip)
    scale_noise.check(fit, schedule.clip, multiplier)
    release = fit.open("noisy_gd", fit.budget(), schedule, **scale_facts(scales))

    preconditioner = Preconditioner.learned(fit, release, scale_noise, problem)
    schedule = _schedule(given, preconditioner.problem)
    objective, factors, w = fit.objective, preconditioner.factors, preconditioner.start
    sizes = step_sizes(schedule.step_size, schedule.steps)
    sizes = preconditioner.step_sizes(sizes, schedule.momentum, objective.l2)
    average = average_of(schedule.steps + 1, schedule.tail, extended="tail" not in given, units=factors)
    velocity = np.zeros_like(w)
    average.add(w)
    for t, size in enumerate(sizes, 1):
        # 1. noisy gradient of the clipped mean loss, and of the ridge term
        gradient_sum = preconditioner.gradient_sum(objective, w, schedule.clip, radius=schedule.radius)
        noisy_sum = release.gaussian_sum(gradient_sum, multiplier)
        gradient = noisy_sum / fit.n + factors * objective.penalty_gradient(w)
        # 2. heavy ball and projection: post-processing
        velocity = schedule.momentum * velocity - size * gradient
        w = project(w + factors * velocity, schedule.radius)
        average.add(w)
        fit.report(t, w, gradient=gradient)
    mechanism = "full-batch gradient descent, Gaussian noise on each clipped gradient sum"
    return fit.result(
        average.mean(), preconditioner.description(mechanism), n_iter=schedule.steps, clip=schedule.clip
    )


def _schedule(given: Mapping[str, Any], problem: PublicProblem) -> NoisyGDSchedule:
    """The given settings, completed by default ones."""
    default = noisy_gd_schedule(problem)
    chosen = dict(given)
    if "step_size" not in given and gathers_at_a_kink(problem.loss):
        chosen["step_size"] = shrinking(default.step_size, given.get("steps", default.steps))
    return replace(default, **chosen)


def _published_multiplier(fit: Fit, steps: int) -> float:
    """The noise of the notes: the textbook Gaussian mechanism with a factor of ``sqrt(steps + 1)``."""
    return math.sqrt(steps + 1) * (math.sqrt(2.0 * math.log(1.25 / fit.delta)) / fit.epsilon)
