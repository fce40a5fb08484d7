"""Noisy gradient descent: full-batch, projected, averaged.

Bassily, Smith and Thakurta, "Private empirical risk minimization: efficient algorithms and tight
error bounds", FOCS 2014, in the form of Nikolov's lecture notes on private ERM, with the exact
accounting of Gaussian differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dperm.algorithms import settings as check
from dperm.algorithms.declaration import algorithm
from dperm.algorithms.fit import Fit, FitResult, PublishedTerms
from dperm.algorithms.learned_coordinates import Frame
from dperm.algorithms.private_scales import LearnedScales, ScaleNoise, scales_to_learn
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.rules_of_thumb import (
    clip_share,
    gathers_at_a_kink,
    longest_gradient,
    quicker_under_ridge,
    softmax_clip,
    steeper_on_one_side,
    typical_curvature,
)
from dperm.algorithms.settings import Schedule, Setting
from dperm.algorithms.step_sizes import StepSize, shrinking, step_size, step_sizes
from dperm.algorithms.suffix_average import average_of
from dperm.losses import Loss
from dperm.objective.projection import project


class NoisyGDSchedule(Schedule):
    """Public settings of a run of noisy gradient descent.

    Attributes
    ----------
    steps : int
        Number of noisy gradients; the iterates are ``w_0 = 0, ..., w_steps``.
    clip : float
        Bound on the norm of one record's gradient.
    step_size : float
        Step on the mean gradient.
    momentum : float
        Heavy-ball coefficient in [0, 1).
    tail : float
        The last ``ceil(tail * (steps + 1))`` iterates are averaged; in (0, 1]. By default half of them are,
        and earlier ones as far back as they show no drift.
    """

    steps: Setting[int] = Setting(check.step_count)
    clip: Setting[float] = Setting(check.clip_norm)
    step_size: Setting[float] = Setting(check.positive)
    momentum: Setting[float] = Setting(check.below_one)
    tail: Setting[float] = Setting(check.fraction)


def noisy_gd_schedule(problem: PublicProblem) -> NoisyGDSchedule:
    """Default settings from public numbers alone.

    A loss without a Lipschitz constant is clipped as if its slope were at most 1; without noise the clip is
    too large for records to reach. Steps for non-smooth losses follow :func:`typical_curvature`.

    Notes
    -----
    Everything depends on the signal-to-noise number ``k = n mu / sqrt(dimension)``: with little signal, few
    steps and a clip far below the longest gradient, which trades bias for noise; with much, many steps
    and hardly any clipping. The distance that can be travelled, ``clip * steps * step_size /
    (1 - momentum)``, grows like ``k^1.5``; it is reached with a step that is stable for any data (heavy
    ball: ``step_size * smoothness < 2 (1 + momentum)``, with the smoothness of the clipped objective)
    and whatever momentum this requires. The constants were found on public data sets;
    ``bench/accuracy.py`` measures them.

    With a ridge term, heavy ball converges fastest and oscillates least if ``reach = step_size /
    (1 - momentum)`` is about ``1 / sqrt(l2 smoothness)``; the default is at most half of that, or a seventh
    if the descent starts from a constant prediction and the ridge term is weak.

    No step size is stable at a kink shared by many records: the weights oscillate across it by the length of
    a step. With a ridge term the start is forgotten within ``1/(l2 reach)`` steps. A run of 20 such times is
    long enough, so the reach is capped there, which keeps steps short.
    """
    problem = problem.per_record()
    signal, loss, row_norm, l2 = problem.signal, problem.loss, problem.row_norm, problem.l2
    if loss.n_classes is not None:
        # Its constants were tuned in terms of mu under replace-one, which is twice that per record.
        return _softmax_schedule(problem, 2.0 * signal)
    lipschitz = longest_gradient(loss, row_norm, noisy=problem.private, spread=problem.spread)
    enough = max(min(2.0 * signal, 500.0), 0.05 * signal)
    steps = round(min(max(enough, 50.0), 1000.0))
    share = clip_share(problem, lipschitz, 0.02)
    one_sided = steeper_on_one_side(loss)
    clip = lipschitz * (1.0 if one_sided else share)
    plain = clipped = typical_curvature(loss, row_norm, problem.spread)
    if loss.smoothness(row_norm) < math.inf:
        clipped = loss.clipped_smoothness(row_norm, clip)
    reach = min(140.0 * (signal + 15.0) / steps, 160.0) / (plain + l2)  # step_size / (1 - momentum)
    # With less signal, noise alone would carry the weights far from 0; classification tolerates more of that.
    reach *= min((signal / 8.0) ** 1.5 if loss.classification else signal / 20.0, 1.0)
    if problem.attained and not loss.classification and not loss.kink_jump:
        reach *= _REACH_WHERE_ATTAINED
    from_constant = problem.spread < math.inf
    if from_constant:
        reach *= _reach_from_constant(loss, signal)
    if one_sided:  # the noise of a longer clip
        reach *= share
    if loss.classification and loss.kink_jump > 0.0:
        reach *= _REACH_AT_KINKS
    if l2 > 0.0:
        fastest = 1.0 / math.sqrt(l2 * (plain + l2))
        slower = 1.0
        if from_constant:  # the best under the ridge term, which noise should not carry weights far from
            slower = 0.3 * quicker_under_ridge(problem, lipschitz, steps) * min(signal / 40.0, 1.0)
        reach = min(reach, 0.5 * slower * fastest)
    if loss.kink_jump > 0.0 and l2 > 0.0:
        reach = min(reach, _FORGETTING_TIMES / (l2 * steps))
    step_size = min(3.6 / (clipped + l2), 0.1 * reach)
    return NoisyGDSchedule(
        steps=steps, clip=clip, step_size=step_size, momentum=1.0 - step_size / reach, tail=0.5
    )


# Factor on the reach if many rows attain the norm bound: regression weights need not grow as margins do.
_REACH_WHERE_ATTAINED = 0.3

# Factor on the reach for classification losses with kinks: it lowers the objective to between a third and a
# half, and accuracy changes by less than a point.
_REACH_AT_KINKS = 0.3

# Maximum length of a run on a loss with kinks, in units of the 1/(l2 reach) steps that forget the start.
_FORGETTING_TIMES = 20.0


def _reach_from_constant(loss: Loss, signal: float) -> float:
    """A further factor if targets are bounded, and so may start from a constant: they hardly vary about it.

    With much signal noise is no reason to stay near the start; oscillation about a kink is. A Hölder
    continuous derivative is already treated as if it were everywhere as steep as about 0.
    """
    if loss.smoothness(1.0) == math.inf:
        return 0.3 if loss.kink_jump else 1.0
    least = 0.1 if loss.lipschitz(1.0) == math.inf else 0.3  # the squared error counts as if its slope were 1
    return min(least * max(1.0, signal / 400.0), 1.0)


def _softmax_schedule(problem: PublicProblem, signal: float) -> NoisyGDSchedule:
    """As :func:`noisy_gd_schedule`; depends less on the signal than for a loss of one prediction.

    Where many rows attain the norm bound, the distance travelled (steps times reach, in units of the inverse
    curvature) is in proportion to ``n mu``: the noise that it adds to a prediction grows with that distance
    over ``n mu``, whatever the dimension. With more classes the curvature is lower and margins are larger;
    with more columns each weight is held back less, so that noise accumulates.
    """
    loss, row_norm = problem.loss, problem.row_norm
    steps = round(min(max(14.0 * math.sqrt(signal), 30), 1000))
    curvature = loss.smoothness(row_norm) + problem.l2
    reach = min(max(100.0, 0.5 * signal), 160.0)  # step_size / (1 - momentum), in units of 1 / curvature
    if problem.attained:
        assert loss.n_classes is not None
        columns = problem.dimension / loss.n_classes
        travelled = 4.1 * problem.n * problem.mu * loss.n_classes**0.75 / columns**0.25
        reach = min(travelled / steps * min((signal / 8.0) ** 1.5, 1.0), reach)
    step_size, reach = min(3.6, 0.5 * reach) / curvature, reach / curvature
    return NoisyGDSchedule(
        steps=steps,
        clip=softmax_clip(signal, loss, row_norm),
        step_size=step_size,
        momentum=1.0 - step_size / reach,
        tail=0.5,
    )


class NoisyGDArguments(NoisyGDSchedule, LearnedScales, PublishedTerms):
    """Arguments of :func:`noisy_gd`.

    Attributes
    ----------
    step_size : float, str, mapping or callable
        Step on the mean gradient. One number, or ``"c/t"`` or ``"c/sqrt(t)"`` for a number c, as in
        ``"0.5/sqrt(t)"``; a mapping from steps to the sizes from there on, ``{1: 0.5, 1000: 0.05}``; or a
        function of the step 1, 2, ...
    radius : float
        Project the iterates onto the ball ``||w|| <= radius``; infinite for no projection.
    """

    step_size: Setting[StepSize] = Setting(step_size)  # type: ignore[assignment]
    radius: Setting[float] = Setting(check.positive_or_infinite, math.inf)


@algorithm(NoisyGDArguments, weighs_privately=True)
def noisy_gd(fit: Fit, given: NoisyGDArguments) -> FitResult:
    """Minimise by full-batch gradient descent with Gaussian noise, and average the iterates.

    Settings follow from public numbers where they are not given: :func:`noisy_gd_schedule`, whose step size
    falls linearly to 0 in the second half of the run if the loss of a real target has a kink. The notes'
    algorithm is ``momentum=0, tail=1``.

    Parameters
    ----------
    calibration : {"tight", "paper"}
        "paper": the notes' noise (textbook Gaussian, ``add_or_remove`` only).
    callback : callable, optional
        Called after each step with ``{"iteration", "coef", "gradient"}``, all released; the gradient is in
        the learned coordinates if scales are learned.

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
    scales = scales_to_learn(fit, given)
    problem = fit.problem.without(scales.together)
    schedule = _completed(given, problem)
    fit.check_published("noisy_gd")
    rest = fit.budget()
    noise_of_scales = ScaleNoise.of(scales, fit.objective.loss, fit.budget(), rest)
    multiplier = fit.noise_multiplier(
        rest, schedule.steps, published=lambda: _published_multiplier(fit, schedule.steps)
    )
    if fit.as_published and fit.epsilon >= 1.0:
        fit.warn_unproved("noisy_gd", "the textbook Gaussian is proved for epsilon < 1")
    fit.check_gradient_noise(schedule.clip, multiplier, schedule.radius)
    sizes = step_sizes(schedule.step_size, schedule.steps)
    if schedule.radius == math.inf:
        fit.check_growth(sizes, schedule.momentum, schedule.clip)
    noise_of_scales.check(fit, schedule.clip, multiplier)
    release = fit.open("noisy_gd", fit.budget(), schedule, **scales.facts())

    frame = Frame.learned(fit, release, noise_of_scales, problem)
    schedule = _completed(given, frame.problem)
    sizes = step_sizes(schedule.step_size, schedule.steps)
    sizes = frame.step_sizes(sizes, schedule.momentum, fit.objective.l2)
    extended = "tail" not in given.chosen
    average = average_of(schedule.steps + 1, schedule.tail, extended=extended, units=frame.factors)

    objective, w = fit.objective, frame.start
    velocity = np.zeros_like(w)
    average.add(w)
    for t, size in enumerate(sizes, 1):
        # 1. noisy gradient of the clipped mean loss, and of the ridge term
        gradient_sum = frame.gradient_sum(objective, w, schedule.clip, schedule.radius)
        noisy_sum = release.gaussian_sum(gradient_sum, multiplier)
        gradient = noisy_sum / fit.n + frame.factors * objective.penalty_gradient(w)
        # 2. heavy ball and projection: post-processing
        velocity = schedule.momentum * velocity - size * gradient
        w = project(w + frame.factors * velocity, schedule.radius)
        average.add(w)
        fit.report(t, w, gradient=gradient)
    mechanism = frame.in_words("full-batch gradient descent, Gaussian noise on each clipped gradient sum")
    return fit.result(average.mean(), mechanism, n_iter=schedule.steps, clip=schedule.clip)


def _completed(given: NoisyGDArguments, problem: PublicProblem) -> NoisyGDArguments:
    """The given settings, completed by default ones."""
    default = noisy_gd_schedule(problem)
    schedule = given.completed(default)
    if "step_size" in given.chosen or not gathers_at_a_kink(problem.loss):
        return schedule
    return replace(schedule, step_size=shrinking(default.step_size, schedule.steps))


def _published_multiplier(fit: Fit, steps: int) -> float:
    """The noise of the notes: the textbook Gaussian mechanism with a factor of ``sqrt(steps + 1)``."""
    return math.sqrt(steps + 1) * (math.sqrt(2.0 * math.log(1.25 / fit.delta)) / fit.epsilon)
