"""Published noise of SGD for non-smooth convex losses: output and gradient perturbation; replace_one.

The loss is alpha-Hoelder with constant L (`holder`), ``M = sup ||g(0, z)||`` (`gradient_at_zero`) and
``f0 = sup f(0, z)`` (`loss_at_zero`), all bounds known in advance. Steps use one uniform index each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dperm.accounting._checks import (
    check_delta,
    check_positive,
    check_positive_epsilon,
    check_probability,
    check_steps,
)
from dperm.accounting.paper.comparison import PaperComparison, verified_noise
from dperm.accounting.permutation_sensitivity import averaged_count_sigma, holder_kappa
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import sgd_epsilon


class HolderConstants(NamedTuple):
    """Constants ``c_(alpha,1)``, ``c_(alpha,2)`` and ``C_alpha`` of Wang et al. 2022, equation (2)."""

    c1: float
    c2: float
    growth: float


class BetaChoice(NamedTuple):
    """Feasible beta with the smallest noise, its order and the noise."""

    beta: float
    order: float
    sigma: float


def holder_constants(
    alpha: float, holder: float, gradient_at_zero: float, loss_at_zero: float
) -> HolderConstants:
    """Return the constants of equation (2); alpha in [0, 1]."""
    alpha = check_probability(alpha, "alpha")
    if alpha == 0.0:
        c1 = gradient_at_zero + holder
        return HolderConstants(c1, holder, c1 * c1 + 2.0 * loss_at_zero)
    c1 = (1.0 + 1.0 / alpha) ** (alpha / (1.0 + alpha)) * holder ** (1.0 / (1.0 + alpha))
    if alpha == 1.0:
        return HolderConstants(c1, 0.0, 2.0 * loss_at_zero)
    c2 = math.sqrt((1.0 - alpha) / (1.0 + alpha)) * (2.0**-alpha * holder) ** (1.0 / (1.0 - alpha))
    first = (1.0 - alpha) / (1.0 + alpha) * c1 ** (2.0 * (1.0 + alpha) / (1.0 - alpha))
    power = (alpha / (1.0 + alpha)) ** (2.0 * alpha / (1.0 - alpha))
    return HolderConstants(c1, c2, first * power + 2.0 * loss_at_zero)


def sgd_output_sensitivity(
    gamma: float,
    *,
    n_samples: int,
    steps: int,
    eta: float,
    alpha: float,
    holder: float,
    gradient_at_zero: float,
    radius: float | None = None,
    loss_at_zero: float = 1.0,
) -> float:
    """Published sensitivity of the average, with probability 1 - gamma over the indices.

    Parameters
    ----------
    gamma : float
        Probability of a bad draw of indices, in (0, 1).
    n_samples, steps : int
        n and T.
    eta : float
        Step size; below ``min(1, 1/L)`` on an unbounded domain.
    alpha, holder, gradient_at_zero, loss_at_zero : float
        Constants of the loss.
    radius : float, optional
        R of the ball that is projected on; without it the domain is unbounded.

    Returns
    -------
    float
        Delta of Theorem 7 (a) (unbounded) or (b).

    Notes
    -----
    Wang et al. 2022, Theorem 7.
    """
    constants = holder_constants(alpha, holder, gradient_at_zero, loss_at_zero)
    if radius is None and eta >= min(1.0, 1.0 / holder):
        raise ValueError(f"eta must be below min(1, 1/L) on an unbounded domain, got {eta!r}.")
    holder_kappa(alpha, holder, eta)  # checks eta for alpha = 1
    ratio = 3.0 * n_samples * math.log(n_samples / gamma) / steps
    k = (1.0 + max(math.sqrt(ratio), ratio)) * steps / n_samples
    reach = radius if radius is not None else math.sqrt(constants.growth * steps * eta)
    bound = gradient_at_zero + holder * reach**alpha
    drift = constants.c2**2 * steps * eta ** (2.0 / (1.0 - alpha)) if alpha < 1.0 else 0.0
    return math.sqrt(math.e * (drift + 4.0 * eta * eta * bound * bound * (1.0 + k) * k))


def sgd_output(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    steps: int,
    eta: float,
    alpha: float,
    holder: float,
    gradient_at_zero: float,
    radius: float | None = None,
    loss_at_zero: float = 1.0,
) -> float:
    """Noise on the average of the iterates as published: ``sqrt(2 log(2.5/delta)) Delta(delta/2)/epsilon``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the accountant does not certify the claim.

    Notes
    -----
    Wang et al. 2022, Algorithm 1 and Theorem 8, proved for epsilon < 1. See `sgd_output_sensitivity`.
    """
    return verified_noise(
        compare_sgd_output(
            epsilon,
            delta,
            n_samples=n_samples,
            steps=steps,
            eta=eta,
            alpha=alpha,
            holder=holder,
            gradient_at_zero=gradient_at_zero,
            radius=radius,
            loss_at_zero=loss_at_zero,
        )
    )


def compare_sgd_output(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    steps: int,
    eta: float,
    alpha: float,
    holder: float,
    gradient_at_zero: float,
    radius: float | None = None,
    loss_at_zero: float = 1.0,
) -> PaperComparison:
    """Published noise against averaged counts (same uniform indices, same gradient bound)."""
    epsilon, delta = check_positive_epsilon(epsilon), check_delta(delta)
    sensitivity = sgd_output_sensitivity(
        delta / 2.0,
        n_samples=check_steps(n_samples, "n_samples"),
        steps=check_steps(steps),
        eta=check_positive(eta, "eta"),
        alpha=alpha,
        holder=holder,
        gradient_at_zero=gradient_at_zero,
        radius=radius,
        loss_at_zero=loss_at_zero,
    )
    noise = math.sqrt(2.0 * math.log(2.5 / delta)) * sensitivity / epsilon
    growth = holder_constants(alpha, holder, gradient_at_zero, loss_at_zero).growth
    reach = radius if radius is not None else math.sqrt(growth * steps * eta)
    push = 2.0 * eta * (gradient_at_zero + holder * reach**alpha)
    kappa = holder_kappa(alpha, holder, eta)

    def tight(target: float) -> float:
        return averaged_count_sigma(target, delta, n_samples, steps, push, kappa, average=True)

    return PaperComparison(
        "dp_sgd_output",
        noise,
        tight(epsilon),
        epsilon,
        delta,
        _smallest_epsilon(lambda target: tight(target) <= noise, epsilon),
        "replace_one",
        epsilon < 1.0,
    )


def feasible_beta(epsilon: float, delta: float, *, n_samples: int, steps: int) -> BetaChoice:
    """Feasible beta in (0, 1) with the smallest noise, G = 1.

    Returns
    -------
    BetaChoice
        ``sigma^2 = 14 T lambda/(beta n^2 epsilon)``, ``lambda = log(1/delta)/((1-beta) epsilon) + 1``.

    Raises
    ------
    ValueError
        If no beta satisfies conditions (32) and (33): the theorem then says nothing.

    Notes
    -----
    Wang et al. 2022, Theorem 11: (32) ``sigma^2/(4 G^2) >= 0.67``, (33) ``lambda - 1 <= sigma^2/(6 G^2)
    log(n/(lambda (1 + sigma^2/(4 G^2))))``. The feasible set is an interval in every case tested.
    """
    epsilon, delta = check_positive_epsilon(epsilon), check_delta(delta)
    n, t = check_steps(n_samples, "n_samples"), check_steps(steps)

    def order(beta: float) -> float:
        return -math.log(delta) / ((1.0 - beta) * epsilon) + 1.0

    def square(beta: float) -> float:
        return 14.0 * t * order(beta) / (beta * n * n * epsilon)

    def slack(beta: float) -> float:
        s, lam = square(beta), order(beta)
        third = s / 6.0 * math.log(n / (lam * (1.0 + s / 4.0))) - (lam - 1.0)
        return min(s / 4.0 - 0.67, third)

    grid = np.concatenate([np.geomspace(1e-9, 0.5, 2000), 1.0 - np.geomspace(0.5, 1e-9, 2000)[1:]])
    values = np.array([slack(float(beta)) for beta in grid])
    feasible = np.flatnonzero(values >= 0.0)
    if feasible.size == 0:
        raise ValueError(
            f"No beta is feasible for epsilon={epsilon:g}, delta={delta:g}, n_samples={n}, steps={t}: "
            "Theorem 11 gives no noise level. Use fewer steps or calibration='tight'."
        )
    best = int(min(feasible, key=lambda i: square(float(grid[i]))))
    beta = float(grid[best])
    for side in (best - 1, best + 1):
        if 0 <= side < grid.size and values[side] < 0.0:
            edge = float(brentq(slack, beta, float(grid[side]), xtol=1e-16, rtol=8.9e-16))
            inside = min((edge, math.nextafter(edge, beta), edge + (beta - edge) * 1e-12), key=square)
            beta = min(beta, inside, key=square) if slack(inside) >= -1e-9 else beta
    return BetaChoice(beta, order(beta), math.sqrt(square(beta)) * (1.0 + 1e-12))


def sgd_gradient(
    epsilon: float, delta: float, *, n_samples: int, steps: int, gradient_bound: float = 1.0
) -> float:
    """Noise on each single-record gradient as published.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples, steps : int
        n and T.
    gradient_bound : float, default=1.0
        G.

    Raises
    ------
    ValueError
        If no beta is feasible, or the accountant does not certify the claim.

    Notes
    -----
    Wang et al. 2022, Algorithm 2 and Theorem 11, with the feasible beta of smallest noise.
    """
    comparison = compare_sgd_gradient(epsilon, delta, n_samples=n_samples, steps=steps)
    return gradient_bound * verified_noise(comparison)


def compare_sgd_gradient(epsilon: float, delta: float, *, n_samples: int, steps: int) -> PaperComparison:
    """Published against tight noise over G for one uniform index per step; see `sgd_gradient`."""
    noise = feasible_beta(epsilon, delta, n_samples=n_samples, steps=steps).sigma
    tight = noise_multiplier(
        epsilon,
        delta,
        batch_size=1,
        n_samples=n_samples,
        steps=steps,
        sampling="without_replacement",
        neighbors="replace_one",
    )
    true = sgd_epsilon(
        noise,
        delta,
        batch_size=1,
        n_samples=n_samples,
        steps=steps,
        sampling="without_replacement",
        neighbors="replace_one",
    )
    return PaperComparison("dp_sgd_gradient", noise, tight, epsilon, delta, true, "replace_one", True)


def _smallest_epsilon(holds: Callable[[float], bool], start: float) -> float:
    """Smallest epsilon for which `holds`, to 1e-6 relative, rounded up; infinite above 1000."""
    high = start
    while not holds(high):
        high *= 2.0
        if high > 1e3:
            return math.inf
    low = high / 2.0
    while low > 1e-9 and holds(low):
        low, high = low / 2.0, low
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
