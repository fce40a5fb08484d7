"""Sums of clipped losses: along a line, and at the neighbours of the weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dperm.data.passes import ClippedLossSums, CoordinateLossSums
from dperm.objective.arguments import clip_bound, number, real_array
from dperm.objective.exact_sums import DOUBLE_BITS
from dperm.objective.hooks import private_sum
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded


@private_sum
def clipped_loss_sums(
    objective: Objective, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, clip: float
) -> Bounded:
    """``sum_i min(loss_i(w - a direction), clip)`` for every ``a`` in ``steps``, in one pass.

    Computes two products per row, or one after a `clipped_gradient_sum` at the same `w` that kept its
    predictions; the result is the same, bit for bit.

    Parameters
    ----------
    w, direction : array_like
        Finite weights and direction, of the objective's shape.
    steps : (m,) array_like
        Finite step sizes.
    clip : float
        Positive upper bound on the loss of one record.

    Returns
    -------
    Bounded
        Scores of shape ``(m,)``; each record adds a value in ``[0, clip]`` to each.

    Examples
    --------
    >>> from dperm import Objective
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("hinge", [[0.5], [-1.0]], [1, -1])
    >>> release_without_privacy(clipped_loss_sums(objective, [0.0], [-1.0], steps=[0.0, 1.0], clip=3.0))
    NOT PRIVATE ([2. , 0.5])
    """
    bounds = objective._exact.losses(clip_bound(clip))
    weights = objective._weights(w, "w")
    towards = objective._weights(direction, "direction")
    candidates = real_array("steps", steps)
    if candidates.ndim != 1 or candidates.size == 0 or not np.isfinite(candidates).all():
        raise ValueError(f"steps must be a non-empty list of finite numbers, got {steps!r}")
    objective._check_overflow(objective._exact.finest)
    sums = ClippedLossSums(
        objective.loss.kernel, weights, towards, candidates, bounds.inner_clip, bounds.grid
    )
    return bounds.of(objective._run(sums), scores=True)


@private_sum
def coordinate_loss_sums(objective: Objective, w: ArrayLike, stride: float, clip: float = np.inf) -> Bounded:
    """Change of the sum of losses from `w` to each ``w +- stride e_j``, up to a constant, in one pass.

    A record's change of loss is clipped to ``[-c/2, c/2]``, ``c = min(clip, 2 h L)`` with the
    stride h and the Lipschitz constant L of the loss, and counted from ``-c/2``: a selection depends on
    differences between candidates only, whose range is smaller than that of the losses.

    Parameters
    ----------
    w : (dimension,) array_like
        Finite weights.
    stride : float
        Positive.
    clip : float
        Positive upper bound on the range of one record's changes; may be infinite if the loss has a
        Lipschitz constant.

    Returns
    -------
    Bounded
        Scores of shape ``(2 dimension + 1,)`` at all ``w + stride e_j``, all ``w - stride e_j``, and
        ``w``; one record adds a value in ``[0, c]`` to each.

    Examples
    --------
    >>> from dperm import Objective
    >>> from dperm.mechanisms import release_without_privacy
    >>> objective = Objective("hinge", [[0.5], [-1.0]], [1, -1])
    >>> release_without_privacy(coordinate_loss_sums(objective, [0.0], stride=1.0))  # up is best
    NOT PRIVATE ([0.5, 3.5, 2. ])
    """
    objective._refuse_weights("changes of losses along the axes")
    weights = objective._weights(w, "w")
    bounds = objective._exact.coordinate_losses(stride, number("clip", clip))
    objective._check_overflow(DOUBLE_BITS)
    stride = float(stride)
    sums = CoordinateLossSums(objective.loss.kernel, weights, stride, bounds.inner_clip, bounds.grid)
    return bounds.of(objective._run(sums), scores=True)
