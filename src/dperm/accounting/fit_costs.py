"""What a ledger is charged for fits whose cost does not follow from (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dperm.accounting.approximate_gdp import plan_gdp
from dperm.accounting.ledger.cost import FitCost
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.objective_perturbation import logistic_threshold
from dperm.accounting.subsampling import make_plan

# Exceeds the rounding error of every quotient and logarithm below.
_UP = 1.0 + 2.0**-48


def sampled_gaussian_cost(
    noise_multiplier: float,
    *,
    batch_size: float,
    n_samples: int,
    steps: int,
    sampling: str,
    neighbors: str,
    beside: float = 0.0,
    counts: Sequence[int] | None = None,
) -> Callable[[float], FitCost]:
    """Cost of noisy gradient descent with secret batches, given a slack; see `approximate_gdp`.

    `beside` is the mu of Gaussian releases that come before. If the number of steps is drawn after the
    charge, `counts` are its equally likely values, `steps` at most.
    """

    def cost(slack: float) -> FitCost:
        plan = make_plan(batch_size, n_samples, steps, sampling, neighbors)
        mu = plan_gdp(plan, noise_multiplier, slack, tuple(counts or (steps,)))
        return FitCost(mu=math.hypot(mu, beside) * _UP if beside else mu, slack=slack)

    return cost


def perturbed_minimum_cost(
    lipschitz: float, beta: float, l2: float, sigma: float, output: float, *, loss: str, neighbors: str
) -> FitCost | None:
    """Cost of objective perturbation with a Gaussian linear term and Gaussian noise on the result.

    Parameters
    ----------
    lipschitz, beta : float
        L and beta of the loss in w; for the logistic loss R and R^2/4.
    l2 : float
        Regulariser on the sum.
    sigma : float
        Standard deviation of the linear term.
    output : float
        Noise multiplier of the noise on the result.
    loss : {"logistic", "monotone", "other"}
        "monotone": another loss whose derivative in the margin has one sign.
    neighbors : {"add_or_remove", "replace_one"}

    Returns
    -------
    FitCost or None
        With ``mu = L/sigma`` and ``c = log(1 + beta/l2)``: ``mu`` alone for the logistic loss and ``l2 >= 2
        sigma^2``; ``mu`` and the pure epsilon c for monotone losses; both with the mu of the output noise.
        None for other losses and under replace_one.

    Notes
    -----
    Let the data of P have one record more than those of Q. In ``log p/q = Z + J`` the Jacobian term J is in
    [0, c]: it has one sign, since the record adds a positive semidefinite matrix of rank one. Z is convex in
    the derivative of the record's loss, so it is at most ``max(0, X)``, where X is the privacy loss of the
    Gaussian mechanism for the largest derivative. Hence, with ``G(e) = delta_G(e; mu)`` for every
    real e, ``H_PQ(e) <= G(e - c)`` for ``e >= c`` and ``H_QP(e) <= G(e)`` for ``e >= 0``. Both are at most
    ``G(e - c)`` for *every* e:

    * H_PQ: for e <= 0 by ``H_PQ(e) = 1 - e^e + e^e H_QP(-e) <= G(e)``; between 0 and c it is at most
      ``H_PQ(0) <= G(0) <= G(e - c)``, as it decreases.
    * H_QP at ``e = -x < 0``: ``1 - H_QP(-x) = e^-x (1 - H_PQ(x))`` is at least ``e^-x K(max(x - c, 0))`` with
      ``K = 1 - G``, and ``1 - G(-x - c) = e^-(x+c) K(x + c)``. The slope of log K is at most 1/2 on the
      right of 0, so ``K(x + c) <= e^c K(max(x - c, 0))``.

    A profile of at most ``G(e - c)`` composes like that of a Gaussian release after a c-DP one, see
    :mod:`dperm.accounting.ledger.cost`.
    """
    if Neighbours.parse(neighbors) is Neighbours.REPLACE_ONE or loss == "other" or not sigma > 0.0:
        return None
    mu = math.hypot(lipschitz / sigma, 1.0 / output) * _UP
    if loss == "logistic" and logistic_threshold(l2, sigma, lipschitz) <= 0.0:
        return FitCost(mu=mu)
    return FitCost(mu=mu, epsilon=math.log1p(beta / l2) * _UP)
