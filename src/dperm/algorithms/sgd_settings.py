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
