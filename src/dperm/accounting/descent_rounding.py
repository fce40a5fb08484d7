"""How much rounding to double precision adds to the sensitivity of stochastic gradient descent.

Sensitivity is proved for exact steps. A computed step that is within e of the exact one moves the final
iterate by at most e, because exact steps do not amplify a displacement; on two data sets, by at most 2 e.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_UNIT = 2.0**-52


class DescentRounding(NamedTuple):
    """Bounds on the effect of rounding in one run.

    Attributes
    ----------
    additive : float
        Added to the sensitivity of the last iterate and of the average.
    drift : float
        Added to kappa^2, the growth of the squared distance in a step on shared records; 0 where gradients
        are Lipschitz continuous.
    """

    additive: float
    drift: float


def descent_rounding(
    steps: int,
    step_size: float,
    *,
    batch_size: int,
    dimension: int,
    gradient_bound: float,
    smoothness: float,
    l2: float,
    reach: float,
) -> DescentRounding:
    """Bound the effect of rounding on a run.

    Parameters
    ----------
    steps : int
        T.
    step_size : float
        Largest step size eta.
    batch_size, dimension : int
        b and d.
    gradient_bound, smoothness : float
        G and beta of the loss; beta may be infinite.
    l2 : float
        Strength of the ridge term, with ``step_size * l2 <= 1``.
    reach : float
        W, bound on the norm of the iterates: that of the start plus ``eta G T``, or the radius of the ball
        that they are projected onto.

    Notes
    -----
    The rounding error of a step is at most ``2^-52 (eta ((b + d + 16) (G + l2 W) + (d + 4) beta W) + (d + 16)
    W)``: the sum over the batch, the error of the dot product times the Lipschitz constant of the gradient,
    and the update with its projection. If the gradient is not Lipschitz, the derivative is exact at a
    prediction that is off by ``2^-52 (d + 4) B W``, where B is the largest norm of a row; as derivatives are
    monotone, that adds at most ``8 eta G (d + 4) W 2^-52`` to the squared distance.
    """
    own = step_size * (batch_size + dimension + 16) * (gradient_bound + l2 * reach)
    per_step = _UNIT * (own + (dimension + 16) * reach)
    moved = _UNIT * step_size * (dimension + 4) * reach
    drift = 0.0
    if smoothness < math.inf:
        per_step += moved * smoothness
    else:
        drift = 8.0 * moved * gradient_bound
    average = _UNIT * (steps + 2) * reach  # plain summation
    return DescentRounding(2.0 * steps * per_step + 2.0 * average, drift)
