"""Default settings of `dp_agd`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import DPAGD
from dperm.algorithms.defaults.rules import (
    clip_fraction,
    longest_gradient,
    softmax_clip,
    target_range,
)
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting
from dperm.losses.weighted import largest_weight


@dataclass(frozen=True, kw_only=True)
class DPAGDSchedule(Settings):
    """Settings of :func:`dperm.algorithms.dp_agd`; by default those that its authors published."""

    splits: int = setting(check.step_count, 60)
    selection_share: float = setting(check.share, 0.5)
    clip: float = setting(check.clip_norm, DPAGD.PUBLISHED_CLIP)
    loss_clip: float = setting(check.clip_norm, DPAGD.PUBLISHED_CLIP)
    step_max: float = setting(check.positive, 2.0)
    growth: float = setting(check.positive, DPAGD.PUBLISHED_GROWTH)
    momentum: float = setting(check.below_one, 0.0)
    shrink: float = setting(check.fraction, 1.0)
    average: bool = setting(check.boolean, False)
    n_candidates: int = setting(check.candidate_count, 20)
    step_window: int = setting(check.positive_integer, 10)
    max_iter: int = setting(check.step_count, 10_000)
    batch_size: float | None = setting(check.positive, None)


def dp_agd_schedule(problem: PublicProblem) -> DPAGDSchedule:
    """Default settings from public numbers alone.

    Notes
    -----
    As in :func:`dperm.algorithms.defaults.noisy_gd.noisy_gd_schedule` everything depends on the
    signal-to-noise number ``k = n mu / sqrt(dimension)``. Many cheap iterations beat few expensive ones; a
    tenth of the budget is enough for the line searches. A bound on real targets sets the scale of losses and
    steps; softmax losses are clipped at about twice the loss of a random guess. Gradients of a loss that is
    steeper on one side keep their length, as clipping would move the optimum, and first steps are shorter
    instead. Without noise the clips are too large to matter.
    """
    problem = problem.per_record()
    signal, loss, row_norm = problem.signal, problem.loss, problem.row_norm
    bound, one_sided = target_range(loss, problem.target_scale), loss.steeper_on_one_side
    longest = longest_gradient(loss, row_norm, noisy=problem.private, target_scale=problem.target_scale)
    if loss.n_classes is not None:
        clip = softmax_clip(signal, loss, row_norm)
        loss_clip = DPAGD.LOSS_CLIP * math.log2(loss.n_classes) * largest_weight(loss)
    else:
        fraction = clip_fraction(problem, longest, DPAGD.LEAST_CLIP)
        clip = longest * (1.0 if one_sided else fraction)
        loss_clip = DPAGD.LOSS_CLIP if bound == math.inf else loss.highest_value(bound)
        if not (loss.classification or loss.of_residual):  # of any size
            loss_clip = loss.value_at_zero
    step = bound
    if bound == math.inf:
        # With a strong signal the optimum for labels is far from 0, and steps grow by a tenth per window
        # only.
        step = DPAGD.STEP * min(max(1.0, math.sqrt(signal / DPAGD.STEP_SIGNAL)), DPAGD.LONGEST_STEP)
    momentum = DPAGD.MOMENTUM
    if problem.target_scale < math.inf:  # the start is close to the optimum
        step *= min(DPAGD.FROM_CONSTANT * max(1.0, signal / DPAGD.CONSTANT_SIGNAL), 1.0)
        by_signal = signal / DPAGD.CONSTANT_MOMENTUM_SIGNAL
        momentum = min(max(DPAGD.CONSTANT_MOMENTUM, by_signal), DPAGD.MOMENTUM)
    if one_sided:  # the noise of a longer clip
        step *= fraction
    if not problem.private:
        step = min(step, DPAGD.NOISELESS_STEP)  # the line search is exact
        # Without noise a clip only moves the optimum; a larger one would coarsen the grid.
        loss_clip *= DPAGD.NOISELESS_LOSS_CLIP
    splits = max(DPAGD.LEAST_SPLITS, min(signal, DPAGD.MOST_SIMPLE_SPLITS), DPAGD.SPLITS_BEYOND * signal)
    return DPAGDSchedule(
        splits=round(min(splits, DPAGD.MOST_SPLITS)),
        selection_share=DPAGD.SELECTION,
        clip=clip,
        loss_clip=loss_clip,
        step_max=step / row_norm,
        growth=DPAGD.GROWTH,
        momentum=momentum,
        shrink=DPAGD.SHRINK,
        average=True,
    )
