"""Default settings of `dp_sgd`, `dp_lssgd` and `dp_lsadam`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import Minibatch
from dperm.algorithms.defaults.noisy_gd import noisy_gd_schedule
from dperm.algorithms.defaults.rules import faster_under_ridge, longest_gradient
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting
from dperm.algorithms.step_sizes import step_size


@dataclass(frozen=True, kw_only=True)
class MinibatchSchedule(Settings):
    """Settings of :func:`dperm.algorithms.dp_sgd` and of its variants."""

    batch_size: float = setting(check.positive)
    steps: int = setting(check.step_count)
    clip: float = setting(check.clip_norm)
    step_size: float = setting(step_size)  # or StepSizes
    momentum: float = setting(check.below_one)
    tail: float = setting(check.portion)
    radius: float = setting(check.positive_or_infinite, math.inf)


def minibatch_schedule(problem: PublicProblem) -> MinibatchSchedule:
    """Default settings from public numbers alone: those of noisy gradient descent, on small batches.

    Notes
    -----
    With as many steps as noisy gradient descent and the same clip, the privacy noise on a mean gradient is
    the same for every batch size (while the noise multiplier is above 1). The batch can therefore be as small
    as its sampling error stays well below that noise. With ``k = n mu / sqrt(dimension)`` the ratio of their
    squared norms is at most ``k^2 / (batch_size steps)``; the batch size makes it 1/10.
    """
    full = noisy_gd_schedule(problem)
    n, own = problem.n, problem.per_record()
    signal = replace(own, mu=min(own.mu, Minibatch.LARGEST_MU)).signal
    hidden = Minibatch.SAMPLING * signal**2 / full.steps
    batch_size = min(n, max(round(min(hidden, n)), min(Minibatch.LEAST_BATCH, n)))
    return MinibatchSchedule(batch_size=batch_size, **vars(full))


def default_schedule(problem: PublicProblem, optimizer: str, steps: int | None = None) -> MinibatchSchedule:
    """`minibatch_schedule` for an optimizer, and for a given number of steps, if any.

    Softmax runs take more and shorter steps. A few small batches out of many records would need so small a
    noise multiplier that subsampling hardly amplifies privacy; more steps are amplified better, and their
    total noise is less.
    """
    schedule = minibatch_schedule(problem)
    if optimizer == "adam":
        length = Minibatch.ADAM
        if problem.target_scale < math.inf:
            # From the best constant, predictions move by the target scale at most if the ridge term is weak.
            scale = problem.target_scale
            longest = longest_gradient(problem.loss, problem.row_norm, noisy=True, target_scale=scale)
            faster = faster_under_ridge(problem, longest, schedule.steps)
            length = Minibatch.ADAM_FROM_CONSTANT * scale * faster
        return replace(schedule, step_size=length / problem.row_norm, momentum=Minibatch.ADAM_DECAY)
    if steps is None:
        steps = math.ceil(Minibatch.SOFTMAX_PASSES * problem.n / schedule.batch_size)
    if problem.loss.n_classes is None or steps <= schedule.steps:
        return schedule
    return replace(schedule, steps=steps, step_size=schedule.step_size * schedule.steps / steps)


def smoothed_schedule(problem: PublicProblem, optimizer: str, steps: int | None) -> MinibatchSchedule:
    """`default_schedule` with longer effective steps for softmax, at most those without tight row norms."""
    schedule = default_schedule(problem, optimizer, steps)
    if optimizer != "momentum" or problem.loss.n_classes is None:
        return schedule
    longest = default_schedule(replace(problem, tight_row_norm=False), optimizer, steps)
    own, most = (each.step_size / (1.0 - each.momentum) for each in (schedule, longest))
    effective_step = min(Minibatch.SMOOTHED * own, most)
    step = min(longest.step_size, 0.5 * effective_step)
    return replace(schedule, step_size=step, momentum=1.0 - step / effective_step)
