"""Default settings of `noisy_gd`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import NoisyGD, Softmax
from dperm.algorithms.defaults.rules import (
    clip_fraction,
    faster_under_ridge,
    longest_gradient,
    softmax_clip,
    typical_curvature,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_sizes import step_size
from dperm.losses import Loss


@dataclass(frozen=True, kw_only=True)
class NoisyGDSchedule(Settings):
    """Settings of :func:`dperm.algorithms.noisy_gd`."""

    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(step_size)  # or StepSizes
    momentum: float = setting(check.below_one)
    tail: float = setting(check.fraction)
    radius: float = setting(check.positive_or_infinite, math.inf)


def noisy_gd_schedule(problem: PublicProblem) -> NoisyGDSchedule:
    """Default settings from public numbers alone.

    A loss without a Lipschitz constant is clipped as if its slope were at most 1; without noise the clip is
    too large for records to reach. Steps for non-smooth losses follow :func:`typical_curvature`.

    Notes
    -----
    Everything depends on the signal-to-noise number ``k = n mu / sqrt(dimension)``. With little signal there
    are few steps and a clip far below the longest gradient, which trades bias for noise; with much, many
    steps and hardly any clipping. The distance that can be travelled, ``clip * steps * effective step``,
    grows like ``k^1.5``. The step size is stable for any data (heavy ball: ``step_size * smoothness < 2 (1 +
    momentum)``), and the momentum makes up the effective step, ``step_size / (1 - momentum)``.

    With a ridge term, heavy ball converges fastest and oscillates least if the effective step is about ``1 /
    sqrt(l2 smoothness)``. The default is at most half of that, or a seventh if the descent starts from a
    constant prediction and the ridge term is weak.

    No step size is stable at a kink shared by many records: the weights oscillate across it by the length of
    a step. With a ridge term the start is forgotten within ``1/(l2 effective step)`` steps. A run of 20 such
    times is long enough, so the effective step is capped there.
    """
    problem = problem.per_record()
    signal, loss, row_norm, l2 = problem.signal, problem.loss, problem.row_norm, problem.l2
    if loss.n_classes is not None:
        # Its constants were tuned in terms of mu under replace-one, which is twice that per record.
        return _softmax_schedule(problem, 2.0 * signal)
    longest = longest_gradient(loss, row_norm, noisy=problem.private, target_scale=problem.target_scale)
    enough = max(min(NoisyGD.STEPS * signal, NoisyGD.MOST_SIMPLE_STEPS), NoisyGD.STEPS_BEYOND * signal)
    steps = round(min(max(enough, NoisyGD.LEAST_STEPS), NoisyGD.MOST_STEPS))
    fraction = clip_fraction(problem, longest, NoisyGD.LEAST_CLIP)
    one_sided = loss.steeper_on_one_side
    clip = longest * (1.0 if one_sided else fraction)
    plain = clipped = typical_curvature(loss, row_norm, problem.target_scale)
    if loss.smoothness(row_norm) < math.inf:
        clipped = loss.clipped_smoothness(row_norm, clip)
    travelled = NoisyGD.TRAVEL * (signal + NoisyGD.TRAVEL_OFFSET) / steps
    effective_step = min(travelled, NoisyGD.LONGEST) / (plain + l2)
    for factor in [*_step_factors(problem), fraction if one_sided else 1.0]:  # a longer clip is more noise
        effective_step *= factor
    if loss.classification and loss.kink_jump > 0.0:
        effective_step *= NoisyGD.LABEL_KINK
    if l2 > 0.0:
        fastest, slower = 1.0 / math.sqrt(l2 * (plain + l2)), 1.0
        if problem.target_scale < math.inf:  # noise should not carry the weights far from the constant
            faster = faster_under_ridge(problem, longest, steps)
            slower = NoisyGD.RIDGE_FROM_CONSTANT * faster * min(signal / NoisyGD.RIDGE_SIGNAL, 1.0)
        effective_step = min(effective_step, 0.5 * slower * fastest)
    if loss.kink_jump > 0.0 and l2 > 0.0:
        effective_step = min(effective_step, NoisyGD.FORGETTING_TIMES / (l2 * steps))
    step = min(NoisyGD.STABLE / (clipped + l2), NoisyGD.STEP * effective_step)
    return NoisyGDSchedule(
        steps=steps, clip=clip, step_size=step, momentum=1.0 - step / effective_step, tail=0.5
    )


def _step_factors(problem: PublicProblem) -> list[float]:
    """Factors on the effective step: below 1 where noise would carry the weights far from the optimum.

    Labels tolerate more of that than real targets do.
    """
    signal, loss = problem.signal, problem.loss
    by_signal = signal / NoisyGD.TARGET_SIGNAL
    if loss.classification:
        by_signal = (signal / NoisyGD.LABEL_SIGNAL) ** NoisyGD.LABEL_POWER
    factors = [min(by_signal, 1.0)]
    if problem.tight_row_norm and not loss.classification and not loss.kink_jump:
        factors.append(NoisyGD.TIGHT)
    if problem.target_scale < math.inf:
        factors.append(_factor_from_constant(loss, signal))
    return factors


def _factor_from_constant(loss: Loss, signal: float) -> float:
    """A further factor for a descent from the best constant prediction, about which targets hardly vary.

    With much signal noise is no reason to stay near the start; oscillation about a kink is. A Hölder
    continuous derivative is already treated as if it were everywhere as steep as about 0.
    """
    if loss.smoothness(1.0) == math.inf:
        return NoisyGD.CONSTANT_KINK if loss.kink_jump else 1.0
    unbounded = loss.lipschitz(1.0) == math.inf  # the squared error counts as if its slope were 1
    least = NoisyGD.CONSTANT_UNBOUNDED if unbounded else NoisyGD.CONSTANT_BOUNDED
    return min(least * max(1.0, signal / NoisyGD.CONSTANT_SIGNAL), 1.0)


def _softmax_schedule(problem: PublicProblem, signal: float) -> NoisyGDSchedule:
    """The same for softmax, which depends less on the signal.

    For tight row norms the distance travelled (steps times the effective step, in inverse curvatures) is in
    proportion to ``n mu``: the noise that it adds to a prediction grows with that distance over ``n mu``,
    whatever the dimension. With more classes the curvature is lower and margins are larger; with more columns
    each weight is held back less, so that noise accumulates.
    """
    loss, row_norm = problem.loss, problem.row_norm
    steps = round(min(max(Softmax.STEPS * math.sqrt(signal), Softmax.LEAST_STEPS), Softmax.MOST_STEPS))
    curvature = loss.smoothness(row_norm) + problem.l2
    effective_step = min(max(Softmax.LEAST, Softmax.PER_SIGNAL * signal), Softmax.LONGEST)
    if problem.tight_row_norm:
        assert loss.n_classes is not None
        columns = problem.dimension / loss.n_classes
        travelled = Softmax.TRAVEL * problem.n * problem.mu * loss.n_classes**Softmax.CLASS_POWER
        travelled /= columns**Softmax.COLUMN_POWER
        by_signal = min((signal / Softmax.FULL_SIGNAL) ** Softmax.POWER, 1.0)
        effective_step = min(travelled / steps * by_signal, effective_step)
    step, effective_step = min(Softmax.STABLE, 0.5 * effective_step) / curvature, effective_step / curvature
    return NoisyGDSchedule(
        steps=steps,
        clip=softmax_clip(signal, loss, row_norm),
        step_size=step,
        momentum=1.0 - step / effective_step,
        tail=0.5,
    )
