"""What the algorithms of stochastic gradient descent share: streams, checks and public rules of thumb."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import RandomBits
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit_result import Callback
from dperm.algorithms.noisy_gd import typical_curvature
from dperm.algorithms.settings import check_positive_integer
from dperm.losses import Loss
from dperm.mechanisms.descent_batches import PoissonBatches, UniformBatches
from dperm.mechanisms.random_source import RandomState, Source, random_bits, random_source


def batch_and_noise_streams(random_state: RandomState) -> tuple[RandomBits, Source]:
    """Bits for drawing batches, and an independent source for the noise of the Releaser."""
    source = random_source(random_state)
    return random_bits(source.spawn(1)[0]), source


def typical_reach(loss: Loss, row_norm: float, radius: float = math.inf, l2: float = 0.0) -> float:
    """How far the optimum may be from 0, for step sizes.

    The radius, or else ``200/row_norm``, with real targets up to Y ``4 Y/row_norm``; no further than a ridge
    term allows that costs less than the weights 0.
    """
    if radius < math.inf:
        return radius
    reach = (200.0 if loss.target_bound == math.inf else 4.0 * loss.target_bound) / row_norm
    return min(reach, math.sqrt(2.0 * typical_loss_at_zero(loss) / l2)) if l2 > 0.0 else reach


def typical_step_limit(loss: Loss, row_norm: float, l2: float) -> float:
    """The largest step that a default takes: longer ones may overshoot however little noise there is."""
    return 1.0 / (typical_curvature(loss, row_norm) + l2)


def typical_loss_at_zero(loss: Loss) -> float:
    """What the weights 0 may cost a record: the most, or without a bound on targets that of a target 1."""
    at_zero = loss.value_at_zero
    return at_zero if at_zero < math.inf else float(loss.value(0.0, 1.0))


def exact_clip(loss: Loss, row_norm: float) -> float:
    """A clip for runs without noise: none, or for a slope without limit 20 times the one at ``w = 0``.

    It has to be finite, as the grids of sums and results follow from it; few records reach it at an optimum.
    """
    if loss.lipschitz(row_norm) < math.inf:
        return math.inf
    return 20.0 * usual_gradient(loss, row_norm)


def usual_gradient(loss: Loss, row_norm: float) -> float:
    """Norm of a record's gradient at ``w = 0``; with real targets without bound that of a slope of 1."""
    at_zero = loss.slope_at_zero(row_norm)
    return at_zero if at_zero < math.inf else row_norm


def affordable_noise(loss: Loss, n: int, mu: float, dimension: int) -> float:
    """What noise may cost, by a bound on the risk that a default step size keeps to.

    A quarter of what the weights 0 cost, so that a fit is not worse than no fit. The bound is far above the
    real cost where there is much signal; margins, which may grow long, are then worth more noise.
    """
    signal = n * mu / math.sqrt(dimension)
    share = 0.25 * max(1.0, math.sqrt(signal / 125.0)) if loss.classification else 0.25
    return share * typical_loss_at_zero(loss)


def typical_clip(loss: Loss, row_norm: float, n: int, mu: float, dimension: int) -> float:
    """A clip from public numbers: below the longest gradient where there is little signal.

    Clipping trades bias for noise; a slope without limit is clipped like one of 1. Without noise see
    :func:`exact_clip`.
    """
    if mu == math.inf:
        return exact_clip(loss, row_norm)
    longest = loss.lipschitz(row_norm)
    share = max(0.25, math.sqrt(n * mu / math.sqrt(dimension) / 4800.0))
    if longest == math.inf:
        return row_norm * min(1.0, share)
    return longest * share if share < 1.0 else math.inf


def gradient_bound(loss: Loss, row_norm: float, radius: float, clip: float) -> float:
    """Bound on the norm of a record's gradient on the ball of the radius.

    Raises
    ------
    ValueError
        If there is none, or `clip` or `radius` is not positive.
    """
    for name, value in (("clip", clip), ("radius", radius)):
        if not value > 0.0:
            raise ValueError(f"{name} must be positive (inf for none), got {value!r}")
    bound = min(clip, loss.lipschitz(row_norm, radius))
    if bound == math.inf:
        raise ValueError(
            f"the slope of the {loss.name} loss grows without limit: pass clip, or a radius"
            + ("" if loss.classification else " and a loss with a target_bound")
        )
    return bound


def observer(
    callback: Callback | None, n: int, batch_size: int, report_every: int | None
) -> tuple[Callable[[int, NDArray[np.float64]], None] | None, int]:
    """What a noisy run shows the callback, and every how many steps: by default once a pass."""
    every = max(1, n // batch_size) if report_every is None else report_every
    check_positive_integer("report_every", every)
    if callback is None:
        return None, every
    return lambda step, w: callback({"iteration": step, "coef": w}), every


def draw_batches(
    bits: RandomBits, relation: Neighbours, n: int, batch_size: int
) -> UniformBatches | PoissonBatches:
    """Fresh secret batches: of fixed size where a record is replaced, Poisson where it comes or goes."""
    if relation is Neighbours.REPLACE_ONE:
        return UniformBatches(bits, n, batch_size)
    return PoissonBatches(bits, n, batch_size / n)  # the rate that is accounted for, or less


def sampling_name(relation: Neighbours) -> str:
    """What the accounting and the statement call :func:`draw_batches`."""
    return "without_replacement" if relation is Neighbours.REPLACE_ONE else "poisson"
