"""Default settings of `privgene`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.algorithms import settings as check
from dperm.algorithms.defaults.constants import PrivGene
from dperm.algorithms.defaults.rules import typical_loss_at_start
from dperm.algorithms.problem import PublicProblem
from dperm.algorithms.settings import Settings, setting
from dperm.losses import Loss


@dataclass(frozen=True, kw_only=True)
class PrivGeneSchedule(Settings):
    """Settings of :func:`dperm.algorithms.privgene`."""

    generations: int = setting(check.step_count)
    stride: float = setting(check.clip_norm)
    decay: float = setting(check.fraction)
    entry_bound: float = setting(check.positive)
    intercept_stride: float = setting(check.fraction)


def privgene_schedule(
    problem: PublicProblem, rho: float, *, pure: bool = False, start: float = 0.0
) -> PrivGeneSchedule:
    """Default settings from public numbers alone, for a budget of rho in zero-concentrated DP.

    A `pure` budget of ``epsilon = sqrt(8 rho)`` is split into equal parts of epsilon. The search starts at a
    constant prediction `start`, which is 0 or was released.

    Notes
    -----
    One selection can distinguish mean changes of loss that differ by about ``h sqrt(T/rho)/n``. The number T
    of generations grows with the square root of ``n sqrt(rho)``, so a larger budget buys both more and better
    steps. With a pure budget, whose parts are less together than the whole, it grows with the 0.4th power of
    ``n epsilon``; with more than 14 weights it falls with the root of their number, as more candidates look
    better than they are. Strides for labels start at ``4/R``, an effect of at most 4 on a prediction, and
    shrink to 6 %. With real targets within Y of a learned constant they start at ``Y/R``, otherwise with
    targets up to Y at ``0.8 Y/R``, at least ``2/R``, and shrink to 2 %. Under a ridge term strides add up to
    about the distance that the optimum can be away, unless many records share a kink.

    Few entries of scaled columns are near 1, and few slopes the largest. Changes are clipped at half of what
    both would allow, which halves the noise, and strides along the intercept are shorter to fit that. This
    moves the optimum for labels and for losses that are steeper on one side, so there the bound grows like
    the root of the signal-to-noise number ``n sqrt(2 rho / dimension)``, up to what no change exceeds. A rare
    label, whose slopes are the largest at the start, is not clipped there. Without noise strides shrink to a
    thousandth, in up to 2000 generations with ``1e8`` loss evaluations in total, or in 500.
    """
    n, row_norm, loss, stride = problem.n, problem.row_norm, problem.loss, _first_stride(problem)
    if rho == math.inf:
        losses = n * (2 * problem.dimension + 1)  # of a generation
        by_losses = min(PrivGene.MOST_EXACT, int(PrivGene.EXACT_LOSSES / losses))
        generations, last = max(PrivGene.EXACT_GENERATIONS, by_losses), PrivGene.LAST_EXACT_STRIDE
        entry_bound = intercept_stride = 1.0
    else:
        per_root = min(PrivGene.GENERATIONS, PrivGene.FEW_WEIGHTS / math.sqrt(problem.dimension))
        count = per_root * math.sqrt(n * math.sqrt(rho))
        # T equal parts of a pure budget amount to rho / T: count ~ rho^(1/4) becomes count^(4/5).
        count = max(count**PrivGene.PURE_POWER if pure else count, PrivGene.LEAST_GENERATIONS)
        generations = round(min(count, PrivGene.MOST_GENERATIONS))
        last = PrivGene.LAST_OF_LABELS if loss.classification else PrivGene.LAST_OF_TARGETS
        signal = n * math.sqrt(2.0 * rho / problem.dimension) / (PrivGene.PURE_SIGNAL if pure else 1.0)
        entry_bound, intercept_stride = _bounds(loss, signal, start)
        stride = _under_ridge(problem, stride, math.log(1.0 / last) / generations)
        if _shares_a_kink(loss):
            intercept_stride = min(_past_the_kink(stride * intercept_stride) / stride, 1.0)  # if rounded up
    return PrivGeneSchedule(
        generations=generations,
        stride=stride,
        decay=last ** (1.0 / generations),
        entry_bound=min(1.0, row_norm) * entry_bound,
        intercept_stride=intercept_stride,
    )


def _first_stride(problem: PublicProblem) -> float:
    """Distance of the first offspring without a ridge term."""
    loss = problem.loss
    if loss.classification:
        return PrivGene.LABEL_STRIDE / problem.row_norm
    if problem.target_scale < math.inf:
        return problem.target_scale / problem.row_norm
    target = loss.prediction_bound if loss.prediction_bound < math.inf else 1.0
    return max(PrivGene.LEAST_TARGET_STRIDE, PrivGene.TARGET_STRIDE * target) / problem.row_norm


def _shares_a_kink(loss: Loss) -> bool:
    """Whether records meet a kink together, such as labels at a constant: no short stride leaves it."""
    return loss.classification and loss.kink_jump > 0.0


def _past_the_kink(stride: float) -> float:
    """The longest stride of at most that length of which no multiple is near 1.

    There is the kink of labels: a search along the intercept that meets it before other weights move remains.
    """
    return stride if stride > PrivGene.KINK_STRIDE else 1.0 / (math.ceil(1.0 / stride - 0.5) + 0.5)


def _under_ridge(problem: PublicProblem, stride: float, first: float) -> float:
    """A first stride with which all add up to how far from the start the ridge term lets the optimum be.

    Or `stride`, if that is shorter. Strides that add up to 1 start with `first`. Real targets may have as far
    to go along several axes: from 0, and from a learned constant that the ridge term moves them away from.
    """
    if problem.l2 == 0.0 or _shares_a_kink(problem.loss):
        return stride
    at_start, penalty = typical_loss_at_start(problem), problem.start_penalty
    whole = first * math.sqrt(2.0 * (at_start + penalty) / problem.l2)
    if problem.loss.classification:
        return min(stride, whole)
    if problem.target_scale == math.inf:
        return min(stride, 2.0 * whole)
    return max(min(stride, whole), PrivGene.RIDGE_STRIDE * min(penalty / at_start, 1.0) * whole)


def _bounds(loss: Loss, signal: float, start: float) -> tuple[float, float]:
    """The entry bound for a norm bound of 1 or more, and the stride along the intercept that fits it."""
    asymmetric, bound = loss.steeper_on_one_side, PrivGene.ENTRY_BOUND
    if loss.classification:
        steepest = np.abs(loss.derivative([start, start], [1.0, -1.0])).max()
        bound = max(float(steepest) / loss.lipschitz(1.0) if start else 0.0, bound)
    if loss.classification or asymmetric:
        bound = min(max(math.sqrt(signal / PrivGene.UNBIASED_SIGNAL), bound), 1.0)
    return bound, bound if asymmetric else min(PrivGene.INTERCEPT_STRIDE * bound, 1.0)
