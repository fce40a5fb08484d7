"""Published noise of SGD for non-smooth convex losses: output and gradient perturbation; replace_one.

The loss is alpha-Hoelder with constant L (`holder`), ``M = sup ||g(0, z)||`` (`gradient_at_zero`) and
``f0 = sup f(0, z)`` (`loss_at_zero`), all bounds known in advance. Steps use one uniform index each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from dperm.accounting._checks import (
    check_delta,
    check_non_negative,
    check_positive,
    check_probability,
    check_steps,
)
from dperm.accounting.paper.comparison import (
    PaperComparison,
    check_claim,
    compared,
    published,
    verified_noise,
    within_doubles,
)
from dperm.accounting.paper.schedules import TheoremSchedule
from dperm.accounting.permutation_sensitivity import averaged_count_sigma, holder_kappa
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import sgd_epsilon

# At alpha above this T is n: the root of 2 alpha^2 + 7 alpha - 3, which makes the exponent of T equal to 1.
_UNBOUNDED_ALPHA = (math.sqrt(73.0) - 7.0) / 4.0


class HolderConstants(NamedTuple):
    """Constants ``c_(alpha,1)``, ``c_(alpha,2)`` and ``C_alpha`` of Wang et al. 2022, equation (2).

    Examples
    --------
    >>> constants = holder_constants(0.0, holder=1.0, gradient_at_zero=1.0, loss_at_zero=1.0)
    >>> [round(value, 3) for value in constants]
    [2.0, 1.0, 6.0]
    """

    c1: float
    c2: float
    growth: float


class BetaChoice(NamedTuple):
    """A feasible beta, with its order and noise.

    Examples
    --------
    >>> choice = feasible_beta(1.0, 1e-6, n_samples=10000, steps=10000)
    >>> round(choice.beta, 3), round(choice.sigma, 2)
    (0.001, 4.14)
    """

    beta: float
    order: float
    sigma: float


@within_doubles
def holder_constants(
    alpha: float, holder: float, gradient_at_zero: float, loss_at_zero: float
) -> HolderConstants:
    """Return the constants of equation (2); alpha in [0, 1].

    Examples
    --------
    The hinge loss (alpha = 0) on rows of norm at most 1:

    >>> [round(value, 3) for value in holder_constants(0.0, 1.0, 1.0, 1.0)]
    [2.0, 1.0, 6.0]
    """
    alpha, holder = check_probability(alpha, "alpha"), check_positive(holder, "holder")
    gradient_at_zero = check_non_negative(gradient_at_zero, "gradient_at_zero")
    loss_at_zero = check_non_negative(loss_at_zero, "loss_at_zero")
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


@dataclass(frozen=True)
class HolderRun:
    """Public numbers of single-record SGD on a Hoelder loss, one uniform index a step.

    Parameters
    ----------
    n_samples, steps : int
        n and T.
    eta : float
        Step size; below ``min(1, 1/L)`` on an unbounded domain.
    alpha, holder, gradient_at_zero, loss_at_zero : float
        Constants of the loss.
    radius : float, optional
        R of the ball that iterates are projected onto; by default the domain is unbounded.

    Examples
    --------
    >>> run = HolderRun(1000, 1000, eta=0.01, alpha=0.0, holder=1.0, gradient_at_zero=1.0, radius=1.0)
    >>> round(run.gradient_bound, 3)
    2.0
    """

    n_samples: int
    steps: int
    eta: float
    alpha: float
    holder: float
    gradient_at_zero: float
    radius: float | None = None
    loss_at_zero: float = 1.0

    def __post_init__(self) -> None:
        check_steps(self.n_samples, "n_samples")
        check_steps(self.steps)
        check_positive(self.eta, "eta")
        check_non_negative(self.gradient_at_zero, "gradient_at_zero")
        check_non_negative(self.loss_at_zero, "loss_at_zero")
        if self.radius is not None:
            check_positive(self.radius, "radius")
        elif self.eta >= min(1.0, 1.0 / check_positive(self.holder, "holder")):
            raise ValueError(f"eta must be below min(1, 1/L) on an unbounded domain, got {self.eta!r}.")
        holder_kappa(self.alpha, self.holder, self.eta)

    @property
    def constants(self) -> HolderConstants:
        """Those of equation (2)."""
        return holder_constants(self.alpha, self.holder, self.gradient_at_zero, self.loss_at_zero)

    @property
    def gradient_bound(self) -> float:
        """Bound on the subgradients along the run."""
        growth = self.constants.growth
        reach = self.radius if self.radius is not None else math.sqrt(growth * self.steps * self.eta)
        return self.gradient_at_zero + self.holder * math.pow(reach, self.alpha)


@within_doubles
def sgd_output_sensitivity(gamma: float, **run: Any) -> float:
    """Published sensitivity of the average, with probability 1 - gamma over the indices.

    Parameters
    ----------
    gamma : float
        Probability of a bad draw of indices, in (0, 1).
    n_samples, steps, eta, alpha, holder, gradient_at_zero, radius, loss_at_zero
        As in `HolderRun`.

    Returns
    -------
    float
        Delta of Theorem 7 (a) (unbounded) or (b).

    Notes
    -----
    Wang et al. 2022, Theorem 7.

    Examples
    --------
    >>> hinge = {"alpha": 0.0, "holder": 1.0, "gradient_at_zero": 1.0}
    >>> round(sgd_output_sensitivity(1e-6, n_samples=1000, steps=1000, eta=0.01, radius=1.0, **hinge), 3)
    4.231
    """
    return _output_sensitivity(check_delta(gamma, "gamma"), HolderRun(**run))


def _output_sensitivity(gamma: float, run: HolderRun) -> float:
    ratio = 3.0 * run.n_samples * math.log(run.n_samples / gamma) / run.steps
    k = (1.0 + max(math.sqrt(ratio), ratio)) * run.steps / run.n_samples
    eta, bound, drift = run.eta, run.gradient_bound, 0.0
    if run.alpha < 1.0:
        drift = run.constants.c2**2 * run.steps * eta ** (2.0 / (1.0 - run.alpha))
    return math.sqrt(math.e * (drift + 4.0 * eta * eta * bound * bound * (1.0 + k) * k))


@published("dp_sgd_output")
def sgd_output(epsilon: float, delta: float, **run: Any) -> PaperComparison:
    """Noise on the average of the iterates as published: ``sqrt(2 log(2.5/delta)) Delta(delta/2)/epsilon``.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples, steps, eta, alpha, holder, gradient_at_zero, radius, loss_at_zero
        As in `HolderRun`.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the accountant does not certify the claim.

    Notes
    -----
    Wang et al. 2022, Algorithm 1 and Theorem 8, proved for epsilon < 1. The tight noise is that of averaged
    counts for the same uniform indices and gradient bound.

    Examples
    --------
    >>> hinge = {"alpha": 0.0, "holder": 1.0, "gradient_at_zero": 1.0}
    >>> round(sgd_output(0.5, 1e-3, n_samples=1000, steps=10, eta=0.01, radius=1.0, **hinge), 2)
    22.98
    """
    epsilon, delta = check_claim(epsilon, delta)
    planned = HolderRun(**run)
    noise = math.sqrt(2.0 * math.log(2.5 / delta)) * _output_sensitivity(delta / 2.0, planned) / epsilon
    displacement = 2.0 * planned.eta * planned.gradient_bound
    kappa = holder_kappa(planned.alpha, planned.holder, planned.eta)

    def tight(target: float) -> float:
        return averaged_count_sigma(
            target, delta, planned.n_samples, planned.steps, displacement, kappa, average=True
        )

    true = _smallest_epsilon(lambda target: tight(target) <= noise, epsilon)
    return PaperComparison(
        "dp_sgd_output", noise, tight(epsilon), epsilon, delta, true, "replace_one", epsilon < 1.0
    )


def feasible_beta(
    epsilon: float, delta: float, *, n_samples: int, steps: int, choose: str = "least_noise"
) -> BetaChoice:
    """A feasible beta in (0, 1), G = 1.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples, steps : int
        n and T.
    choose : {"least_noise", "nearest_half"}
        The one with the smallest noise, or the paper's: the one closest to 1/2.

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

    Examples
    --------
    >>> choice = feasible_beta(1.0, 1e-6, n_samples=10000, steps=10000)
    >>> round(choice.beta, 3), round(choice.order, 1), round(choice.sigma, 2)
    (0.001, 14.8, 4.14)
    """
    epsilon, delta = check_claim(epsilon, delta)
    n, t = check_steps(n_samples, "n_samples"), check_steps(steps)

    def order(beta: float) -> float:
        return -math.log(delta) / ((1.0 - beta) * epsilon) + 1.0

    def square(beta: float) -> float:
        return 14.0 * t * order(beta) / (beta * n * n * epsilon)

    def slack(beta: float) -> float:
        s, lam = square(beta), order(beta)
        third = s / 6.0 * math.log(n / (lam * (1.0 + s / 4.0))) - (lam - 1.0)
        return min(s / 4.0 - 0.67, third)

    if choose not in ("least_noise", "nearest_half"):
        raise ValueError(f"choose must be 'least_noise' or 'nearest_half', got {choose!r}.")
    cost = square if choose == "least_noise" else lambda beta: abs(beta - 0.5)
    grid = np.concatenate([np.geomspace(1e-9, 0.5, 2000), 1.0 - np.geomspace(0.5, 1e-9, 2000)[1:]])
    values = np.array([slack(float(beta)) for beta in grid])
    feasible = np.flatnonzero(values >= 0.0)
    if feasible.size == 0:
        raise ValueError(
            f"No beta is feasible for epsilon={epsilon:g}, delta={delta:g}, n_samples={n}, steps={t}: "
            "Theorem 11 gives no noise level. Use fewer steps or calibration='tight'."
        )
    best = int(min(feasible, key=lambda i: cost(float(grid[i]))))
    beta = float(grid[best])
    for side in (best - 1, best + 1):
        if 0 <= side < grid.size and values[side] < 0.0:
            edge = float(brentq(slack, beta, float(grid[side]), xtol=1e-16, rtol=8.9e-16))
            inside = min((edge, math.nextafter(edge, beta), edge + (beta - edge) * 1e-12), key=cost)
            beta = min(beta, inside, key=cost) if slack(inside) >= -1e-9 else beta
    return BetaChoice(beta, order(beta), math.sqrt(square(beta)) * (1.0 + 1e-12))


def sgd_gradient(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    steps: int,
    gradient_bound: float = 1.0,
    choose: str = "least_noise",
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
    choose : {"least_noise", "nearest_half"}
        Which feasible beta, see `feasible_beta`.

    Raises
    ------
    ValueError
        If no beta is feasible, or the accountant does not certify the claim.

    Notes
    -----
    Wang et al. 2022, Algorithm 2 and Theorem 11.

    Examples
    --------
    >>> round(sgd_gradient(1.0, 1e-6, n_samples=1000, steps=1000), 2)
    7.39
    """
    bound = check_positive(gradient_bound, "gradient_bound")
    settings: dict[str, Any] = {"n_samples": n_samples, "steps": steps, "choose": choose}
    return bound * verified_noise(compare_sgd_gradient(epsilon, delta, **settings))


@compared("dp_sgd_gradient")
def compare_sgd_gradient(
    epsilon: float, delta: float, *, n_samples: int, steps: int, choose: str = "least_noise"
) -> PaperComparison:
    """Published against tight noise over G for one uniform index per step; see `sgd_gradient`."""
    noise = feasible_beta(epsilon, delta, n_samples=n_samples, steps=steps, choose=choose).sigma
    settings: dict[str, Any] = {
        "batch_size": 1,
        "n_samples": n_samples,
        "steps": steps,
        "sampling": "without_replacement",
        "neighbors": "replace_one",
    }
    tight, true = noise_multiplier(epsilon, delta, **settings), sgd_epsilon(noise, delta, **settings)
    return PaperComparison("dp_sgd_gradient", noise, tight, epsilon, delta, true, "replace_one")


@within_doubles
def sgd_output_schedule(
    epsilon: float, delta: float, *, n_samples: int, dimension: int, alpha: float, bounded: bool = True
) -> TheoremSchedule:
    """Output perturbation of SGD for an alpha-Hoelder loss, on a ball (`bounded`) or in all of space.

    Returns
    -------
    TheoremSchedule
        ``eta = 1/(T max(n^(-1/2), a^(1/2)))`` on a ball, ``1/(T max(n^(-1/(3 + alpha)), a^(1/(2 + alpha))))``
        in all of space, ``a = sqrt(d log(1/delta))/(n epsilon)``; the bound is the rate, the sum of the two
        terms, without constants and logarithms.

    Notes
    -----
    Wang et al. 2022, Theorems 9 and 10.

    Examples
    --------
    A smooth loss (alpha = 1) takes one pass, the hinge loss (alpha = 0) one for each record:

    >>> for alpha in (1.0, 0.0):
    ...     schedule = sgd_output_schedule(1.0, 1e-6, n_samples=10_000, dimension=10, alpha=alpha)
    ...     print(f"{schedule.steps:,} steps of {schedule.step_size:.2g}")
    10,000 steps of 0.0029
    100,000,000 steps of 2.9e-07
    """
    n, alpha, noise = _wang(epsilon, delta, n_samples, dimension, alpha)
    if bounded:
        return _wang_schedule(n, _bounded_power(alpha), n**-0.5, math.sqrt(noise))
    power = 1.0
    if alpha <= _UNBOUNDED_ALPHA:
        power = (6.0 - 3.0 * alpha - alpha**2) / ((1.0 + alpha) * (3.0 + alpha))
    return _wang_schedule(n, power, n ** (-1.0 / (3.0 + alpha)), noise ** (1.0 / (2.0 + alpha)))


@within_doubles
def sgd_gradient_schedule(
    epsilon: float, delta: float, *, n_samples: int, dimension: int, alpha: float
) -> TheoremSchedule:
    """Gradient perturbation of SGD for an alpha-Hoelder loss on a ball.

    Returns
    -------
    TheoremSchedule
        ``eta = 1/(T max(n^(-1/2), a))``, ``a = sqrt(d log(1/delta))/(n epsilon)``; the bound is the claimed
        rate, the sum of the two terms, without constants and logarithms.

    Notes
    -----
    Wang et al. 2022, Theorem 12. The rate treats beta of Theorem 11 as a constant; the feasible one is far
    smaller for ``T ~ n``, and there may be none: see `feasible_beta`.

    Examples
    --------
    >>> schedule = sgd_gradient_schedule(1.0, 1e-6, n_samples=10_000, dimension=10, alpha=0.5)
    >>> schedule.steps, round(schedule.bound, 4)
    (10000, 0.0112)
    """
    n, alpha, noise = _wang(epsilon, delta, n_samples, dimension, alpha)
    return _wang_schedule(n, _bounded_power(alpha), n**-0.5, noise)


def feasible_epsilon(n_samples: int) -> float:
    """Epsilon above which a feasible beta is claimed to exist, for T = n >= 18 and delta = 1/n^2.

    Returns
    -------
    float
        ``(7 (n^(1/3) - 1) + 4 n log n + 7)/(2 n (n^(1/3) - 1))``.

    Notes
    -----
    Wang et al. 2022, Lemma 13. There is none at the threshold for n = 18 .. 43: search with `feasible_beta`.

    Examples
    --------
    >>> [round(feasible_epsilon(n), 2) for n in (100, 1000, 10_000)]
    [2.57, 1.54, 0.9]
    """
    n = check_steps(n_samples, "n_samples", least=18)
    root = math.cbrt(n) - 1.0
    return (7.0 * root + 4.0 * n * math.log(n) + 7.0) / (2.0 * n * root)


def _wang(
    epsilon: float, delta: float, n_samples: int, dimension: int, alpha: float
) -> tuple[int, float, float]:
    epsilon, delta = check_claim(epsilon, delta)
    n, d = check_steps(n_samples, "n_samples"), check_steps(dimension, "dimension")
    return n, check_probability(alpha, "alpha"), math.sqrt(d * math.log(1.0 / delta)) / (n * epsilon)


def _bounded_power(alpha: float) -> float:
    return (2.0 - alpha) / (1.0 + alpha) if alpha < 0.5 else 1.0


def _wang_schedule(n: int, power: float, sampling: float, noise: float) -> TheoremSchedule:
    steps = math.ceil(n**power * (1.0 - 1e-12))
    return TheoremSchedule(steps, 1.0 / (steps * max(sampling, noise)), sampling + noise)


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
