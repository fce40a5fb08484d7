"""What the algorithms of stochastic gradient descent share: bounds on gradients, and fresh secret batches."""

from __future__ import annotations

import math

from dperm._kernels.samplers import RandomBits
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms.fit import Fit
from dperm.losses import Loss
from dperm.mechanisms.descent_batches import PoissonBatches, UniformBatches
from dperm.mechanisms.noise import gaussian_scale
from dperm.objective.stochastic_descent import DescentPlan


def gradient_bound(loss: Loss, row_norm: float, radius: float, clip: float) -> float:
    """Bound on the norm of a record's gradient on the ball of the radius.

    Raises
    ------
    ValueError
        If there is none.
    """
    bound = min(clip, loss.lipschitz(row_norm, radius))
    if bound == math.inf:
        raise ValueError(
            f"the slope of the {loss.name} loss grows without limit: pass clip, or a radius"
            + ("" if loss.classification else " and a loss with a target_bound")
        )
    return bound


def check_batch_size(batch_size: int, n: int) -> None:
    """Raise ValueError for batches larger than the data set."""
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n}, got {batch_size}")


def fresh_batches(
    bits: RandomBits, relation: Neighbours, n: int, batch_size: int
) -> UniformBatches | PoissonBatches:
    """Fresh secret batches: of fixed size where a record is replaced, Poisson where it comes or goes."""
    if relation is Neighbours.REPLACE_ONE:
        return UniformBatches(bits, n, batch_size)
    return PoissonBatches(bits, n, batch_size / n)  # the rate that is accounted for, or less


def sampling_name(relation: Neighbours) -> str:
    """What the accounting and the statement call :func:`fresh_batches`."""
    return "without_replacement" if relation is Neighbours.REPLACE_ONE else "poisson"


def check_descent(fit: Fit, plan: DescentPlan, multiplier: float, noise: str) -> None:
    """Before the charge: whether the run can be made.

    Raises
    ------
    DataError
        For more records than places to draw batches of fixed size from.
    ValueError
        For noise that does not fit the grid of the sums.
    """
    if fit.neighbors is Neighbours.REPLACE_ONE:
        fit.objective.check_places()
    contribution, grid = fit.objective.descent_sum_bounds(plan)
    if noise == "exact":
        gaussian_scale(multiplier * fit.neighbors.sum_factor * contribution, grid)
