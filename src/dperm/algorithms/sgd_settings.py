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

_LARGEST_EPSILON, _SMALLEST_DELTA = 1e4, 1e-200


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


def check_calibration(fit: Fit, batch_size: int, steps: int) -> None:
    """Raise ValueError where a search for the noise of so many batches would not end.

    That is where delta allows for every record that is used, where hardly any noise is asked for, and where
    delta is next to nothing.
    """
    if _LARGEST_EPSILON < fit.epsilon < math.inf:
        raise ValueError(
            f"epsilon must be at most {_LARGEST_EPSILON:g}, or infinite for no noise, got {fit.epsilon:g}"
        )
    if 0.0 < fit.delta < _SMALLEST_DELTA:
        raise ValueError(f"delta must be at least {_SMALLEST_DELTA:g}, got {fit.delta:g}")
    if fit.epsilon < math.inf and steps * batch_size <= fit.delta * fit.n:
        raise ValueError(
            f"delta = {fit.delta:g} is no less than the probability that a record is used at all, "
            f"{steps * batch_size / fit.n:g}: choose a smaller delta, or more steps"
        )


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
