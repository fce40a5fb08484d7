"""Steps and step sizes as the theorems choose them, with their bounds on the excess risk.

Nothing here adds noise or spends budget. Where a theorem is stated up to a constant, the constants are those
of its proof; where it hides logarithms as well, the bound is a rate, and the docstring says so. All functions
take public numbers only: a bound `distance` on the norm of the optimum, never the optimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting._checks import (
    check_delta,
    check_non_negative,
    check_positive,
    check_positive_epsilon,
    check_steps,
)
from dperm.accounting.gaussian import smoothing_beta, smoothing_gamma
from dperm.accounting.paper.baselines import smooth_erm_sensitivity
from dperm.accounting.paper.comparison import check_claim, within_doubles
from dperm.accounting.paper.stochastic import rrpsgd_sigma


class TheoremSchedule(NamedTuple):
    """Settings chosen by a theorem, and the bound that it gives.

    Attributes
    ----------
    steps : int
        T.
    step_size : float
        eta.
    bound : float
        Bound on the expected excess risk, unless the function says otherwise.

    Examples
    --------
    >>> schedule = projected_gd_schedule(0.5, 1e-6, n_samples=1000, dimension=10, radius=10.0)
    >>> schedule.steps, round(schedule.step_size, 3)
    (891, 0.237)
    """

    steps: int
    step_size: float
    bound: float


@within_doubles
def smooth_erm_schedule(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    dimension: int,
    lipschitz: float,
    beta: float,
    distance: float,
    l2: float = 0.0,
) -> TheoremSchedule:
    """Gradient descent with output perturbation, calibrated by `output_perturbation`.

    Parameters
    ----------
    epsilon, delta : float
        Target; delta = 0 for norm-Laplace noise.
    n_samples, dimension : int
        n and d.
    lipschitz, beta, l2 : float
        L and smoothness of the loss, and the ridge term, as in `smooth_erm_sensitivity`.
    distance : float
        D, bound on the distance from the start to the optimum.

    Returns
    -------
    TheoremSchedule
        For l2 = 0 ``eta = 1/beta`` and the T that minimises ``beta D^2/(2T) + (beta/2) E||noise||^2``. Else
        ``eta = 1/(l2 + b)``, b = l2 + beta, and the smallest T with ``(b/2) D^2 (b/(l2 + b))^(2T)`` no larger
        than ``(b/2) E||noise||^2``; the bound is the sum.

    Notes
    -----
    Zhang et al. 2017, Theorems 2 (strongly convex) and 3 (convex): rates ``b L^2 d log(1/delta)/(n epsilon
    mu)^2`` and ``(L beta^(1/2) D^2 (d log(1/delta))^(1/2)/(n epsilon))^(2/3)``.

    Examples
    --------
    Logistic regression on 10,000 rows of norm at most 1, without and with a ridge term:

    >>> problem = {"n_samples": 10_000, "dimension": 10, "lipschitz": 1.0, "beta": 0.25, "distance": 10.0}
    >>> steps, step_size, bound = smooth_erm_schedule(1.0, 1e-6, **problem)
    >>> steps, step_size, round(bound, 3)
    (49, 4.0, 0.381)
    >>> smooth_erm_schedule(1.0, 1e-6, l2=0.01, **problem).steps
    65
    """
    epsilon = check_positive_epsilon(epsilon)
    distance, d = check_positive(distance, "distance"), check_steps(dimension, "dimension")
    total = check_non_negative(l2, "l2") + check_positive(beta, "beta")
    step_size = 1.0 / (total if l2 == 0.0 else l2 + total)
    once = smooth_erm_sensitivity(n_samples, 1, step_size, lipschitz, beta, l2)
    squares = d * (d + 1.0) if delta == 0.0 else 2.0 * d * math.log(2.0 / check_delta(delta))
    noise = 0.5 * total * squares * (once / epsilon) ** 2  # after one step, or after any number
    if l2 > 0.0:
        start = 0.5 * total * distance**2
        halving = 2.0 * math.log1p(l2 / total)
        steps = max(1, math.ceil(math.log(start / noise) / halving)) if start > noise else 1
        return TheoremSchedule(steps, step_size, start * math.exp(-halving * steps) + noise)

    def bound(steps: int) -> float:
        return 0.5 * total * distance**2 / steps + noise * float(steps) ** 2

    best = (total * distance**2 / (4.0 * noise)) ** (1.0 / 3.0)
    steps = min((max(1, math.floor(best)), math.ceil(best) or 1), key=bound)
    return TheoremSchedule(steps, step_size, bound(steps))


def round_probabilities(step_sizes: ArrayLike, beta: float) -> NDArray[np.float64]:
    """Law of the random round R = 1..N: proportional to ``2 eta_k - beta eta_k^2``, eta_k < 2/beta.

    Notes
    -----
    Zhang et al. 2017, Algorithm 2; Ghadimi and Lan 2013. `rrpsgd` draws R from it.

    Examples
    --------
    >>> round_probabilities([1.0, 0.5, 0.5], beta=1.0)
    array([0.4, 0.3, 0.3])
    """
    eta = _steps_below(step_sizes, beta)
    weights = eta * (2.0 - beta * eta)
    return np.asarray(weights / weights.sum())


def random_round_bound(step_sizes: ArrayLike, beta: float, *, gap: float, variance: float) -> float:
    """Bound on ``E||grad F(w_(R-1))||^2`` for R from `round_probabilities`; F need not be convex.

    Parameters
    ----------
    step_sizes : array_like
        eta_1 .. eta_N, below 2/beta.
    beta : float
        Smoothness of F.
    gap : float
        Bound on ``F(w_0) - min F``.
    variance : float
        Bound on the mean squared error of a noisy gradient: sampling, plus ``d sigma^2``.

    Returns
    -------
    float
        ``(2 gap + beta variance sum eta_k^2)/sum(2 eta_k - beta eta_k^2)``.

    Notes
    -----
    Zhang et al. 2017, Theorem 5, with the constants of Ghadimi and Lan 2013, Theorem 2.1.

    Examples
    --------
    Steps that are too long amplify the noise, steps that are too short make no progress:

    >>> bounds = [random_round_bound([eta] * 100, 1.0, gap=0.5, variance=0.2) for eta in (0.01, 0.1, 1.0)]
    >>> [round(bound, 3) for bound in bounds]
    [0.504, 0.063, 0.21]
    """
    eta = _steps_below(step_sizes, beta)
    noise = beta * check_non_negative(variance, "variance") * float((eta**2).sum())
    return (2.0 * check_non_negative(gap, "gap") + noise) / float((eta * (2.0 - beta * eta)).sum())


@within_doubles
def rrpsgd_schedule(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    dimension: int,
    lipschitz: float,
    beta: float,
    gap: float,
) -> TheoremSchedule:
    """Random-round SGD with the noise of `rrpsgd`; F need not be convex.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples, dimension : int
        n and d.
    lipschitz, beta : float
        L and smoothness of the loss.
    gap : float
        Bound on ``F(w_0) - min F``.

    Returns
    -------
    TheoremSchedule
        ``T = n^2`` and ``eta = min(1/beta, D/(s n))``, ``D^2 = 2 gap/beta``, ``s^2 = 4 L^2 + 4 d L^2 log(3n/
        delta) log(2/delta)/epsilon^2``. The bound is that on ``E||grad F(w_(R-1))||^2``.

    Notes
    -----
    Zhang et al. 2017, Theorem 5.

    Examples
    --------
    >>> problem = {"dimension": 10, "lipschitz": 1.0, "beta": 0.25, "gap": 0.7}
    >>> [round(rrpsgd_schedule(1.0, 1e-6, n_samples=n, **problem).bound, 3) for n in (10**3, 10**5)]
    [0.067, 0.001]
    """
    (epsilon, delta), lipschitz = check_claim(epsilon, delta), check_positive(lipschitz, "lipschitz")
    n, d = check_steps(n_samples, "n_samples"), check_steps(dimension, "dimension")
    beta, distance = check_positive(beta, "beta"), math.sqrt(2.0 * check_positive(gap, "gap") / beta)
    variance = lipschitz**2 * (4.0 + d * rrpsgd_sigma(epsilon, delta, n) ** 2)
    eta = min(1.0 / beta, distance / (math.sqrt(variance) * n))
    bound = beta * (distance**2 / float(n) ** 2 + variance * eta**2) / (eta * (2.0 - beta * eta))
    return TheoremSchedule(n**2, eta, bound)


def _steps_below(step_sizes: ArrayLike, beta: float) -> NDArray[np.float64]:
    eta, limit = np.asarray(step_sizes, dtype=np.float64), 2.0 / check_positive(beta, "beta")
    if eta.ndim != 1 or not eta.size or not ((eta > 0.0) & (eta < limit)).all():
        raise ValueError(f"step_sizes must be numbers above 0 and below 2/beta = {limit:.6g}.")
    return eta


def projected_gd_step_size(radius: float, gradient_bound: float, steps: int) -> float:
    """``R/(B sqrt(T))``, which minimises ``R^2/(2 eta T) + eta B^2/2``, the minimum being ``R B/sqrt(T)``.

    That bounds the excess risk of the mean of T iterates from 0 on a ball of radius R, whose (noisy)
    gradients have a mean square of at most B^2.

    Notes
    -----
    Nikolov, lecture notes on private ERM, Section 5 and Theorem 1.

    Examples
    --------
    >>> projected_gd_step_size(radius=10.0, gradient_bound=2.0, steps=100)
    0.5
    """
    root = math.sqrt(check_steps(steps))
    return check_positive(radius, "radius") / (check_positive(gradient_bound, "gradient_bound") * root)


@within_doubles
def projected_gd_schedule(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    dimension: int,
    radius: float,
    clip: float = 1.0,
    steps: int | None = None,
) -> TheoremSchedule:
    """Projected noisy gradient descent with the noise of `noisy_gd`: ``B^2 = C^2 + d sigma^2``.

    By default T is the number of steps at which noise and gradients contribute equally, and ``sqrt(2) R C
    sqrt(2 d log(1.25/delta))/(n epsilon)`` the bound; more steps lower it by at most a factor sqrt(2).

    Notes
    -----
    Nikolov, lecture notes on private ERM, Theorem 1 and Section 6; the textbook Gaussian is for epsilon < 1.

    Examples
    --------
    >>> problem = {"n_samples": 1000, "dimension": 10, "radius": 10.0}
    >>> projected_gd_schedule(0.5, 1e-6, **problem).steps
    891
    >>> [round(projected_gd_schedule(0.5, 1e-6, steps=T, **problem).bound, 2) for T in (10, 100, 1000)]
    [3.18, 1.05, 0.46]
    """
    epsilon, delta = check_claim(epsilon, delta)
    n, clip = check_steps(n_samples, "n_samples"), check_positive(clip, "clip")
    single = check_steps(dimension, "dimension") * 2.0 * math.log(1.25 / delta) / (n * epsilon) ** 2
    count = max(2, math.ceil(1.0 / single)) if steps is None else check_steps(steps, least=2)
    longest = clip * math.sqrt(1.0 + count * single)
    step_size = projected_gd_step_size(radius, longest, count)
    return TheoremSchedule(count, step_size, radius * longest / math.sqrt(count))


def projected_gd_sizes(
    excess: float, epsilon: float, delta: float, *, dimension: int, radius: float, clip: float = 1.0
) -> tuple[int, int]:
    """Steps and records that suffice for a given expected excess risk.

    Returns
    -------
    steps, n_samples : int
        ``T >= 4 (R C/excess)^2`` and ``n >= 2 R C sqrt(2 d log(1.25/delta))/(excess epsilon)``.

    Notes
    -----
    Nikolov, lecture notes on private ERM, Section 7.

    Examples
    --------
    >>> projected_gd_sizes(0.1, 0.5, 1e-6, dimension=10, radius=10.0)
    (40000, 6703)
    """
    epsilon, delta = check_claim(epsilon, delta)
    length = check_positive(radius, "radius") * check_positive(clip, "clip")
    twice = 2.0 * length / check_positive(excess, "excess")
    spread = math.sqrt(2.0 * check_steps(dimension, "dimension") * math.log(1.25 / delta)) / epsilon
    return math.ceil(twice**2), math.ceil(twice * spread)


def decaying_step_size(diameter: float, gradient_bound: float, sigma: float, dimension: int) -> float:
    """The c of the step sizes ``c/sqrt(t)`` of noisy SGD: ``D/sqrt(G^2 + d sigma^2)``.

    Parameters
    ----------
    diameter : float
        D, diameter of the ball that iterates are projected onto.
    gradient_bound, sigma : float
        Bound on the norm of the mean gradient of a batch, and noise on each of its coordinates.
    dimension : int
        d.

    Notes
    -----
    Bassily, Smith and Thakurta 2014, Theorem 2.4: the last of T iterates is within ``2 c (G^2 + d sigma^2)
    (2 + log T)/sqrt(T)`` of the optimum (Shamir and Zhang 2013, Theorem 2: ``(D^2/c + c G^2)(2 + log T)
    /sqrt(T)``, which this c minimises). Pass ``step_size=f"{c}/sqrt(t)"`` to an algorithm.

    Examples
    --------
    >>> c = decaying_step_size(diameter=20.0, gradient_bound=1.0, sigma=0.5, dimension=12)
    >>> f"{c}/sqrt(t)"
    '10.0/sqrt(t)'
    """
    variance = check_steps(dimension, "dimension") * check_non_negative(sigma, "sigma") ** 2
    square = check_positive(gradient_bound, "gradient_bound") ** 2 + variance
    return check_positive(diameter, "diameter") / math.sqrt(square)


@within_doubles
def dp_lssgd_schedule(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    dimension: int,
    clip: float,
    gap: float,
    smoothing: float = 1.0,
    smoothness: float | None = None,
) -> TheoremSchedule:
    """DP-LSSGD with the noise of `dp_lssgd` and steps ``1/sqrt(T)``, epsilon at most log(1/delta).

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_samples, dimension : int
        n and d.
    clip : float
        G, bound on the gradients.
    gap : float
        Convex: ``D_s = ||w_0 - w*||^2`` in the norm of ``A = I - s L``. Otherwise ``F(w_0) - min F``.
    smoothing : float, default=1.0
        s.
    smoothness : float, optional
        Smoothness of a loss that need not be convex; if not given, the loss is convex.

    Returns
    -------
    TheoremSchedule
        Convex: ``T = (D_s + G^2) (n epsilon)^2/(24 gamma d G^2 log(1/delta))``, and ``(D_s + G^2)/sqrt(T)``
        bounds the excess risk of the mean iterate. Otherwise, with smoothness K, ``T = (2 gap + K G^2)
        (n epsilon)^2/(24 beta d K G^2 log(1/delta))``, and ``(2 gap + K G^2)/sqrt(T)`` bounds ``E ||A^(-1/2)
        grad F||^2`` at a uniformly random iterate. T is rounded down, so that noise contributes at most half.

    Notes
    -----
    DP-LSSGD, Theorems 2 and 3, corrected: the printed T of Theorem 2 drops gamma, that of Theorem 3 contains
    the noise, and no bound holds at the mean iterate of a loss that is not convex, for which the printed
    bound is twice ours. With these T the noise is proved only for batches of at least ``(24 gamma d G^2/(5
    (D_s + G^2)))^(1/2)`` records. Times ``1 + 4 s`` the bound without convexity holds for ``E||grad F||^2``.

    Examples
    --------
    For the same gap, smoothing reduces the noise, so there are more steps and the bound is smaller:

    >>> for smoothing in (0.0, 1.0):
    ...     schedule = dp_lssgd_schedule(
    ...         0.5, 1e-6, n_samples=1000, dimension=10, clip=1.0, gap=4.0, smoothing=smoothing
    ...     )
    ...     print(schedule.steps, round(schedule.bound, 2))
    376 0.26
    842 0.17
    """
    epsilon, delta = check_claim(epsilon, delta)
    if epsilon > math.log(1.0 / delta):
        raise ValueError(f"epsilon must be at most log(1/delta) = {math.log(1.0 / delta):.6g}.")
    n, d = check_steps(n_samples, "n_samples"), check_steps(dimension, "dimension")
    square, gap = check_positive(clip, "clip") ** 2, check_positive(gap, "gap")
    if smoothness is None:
        weight, rest = smoothing_gamma(smoothing, d), gap + square
    else:
        curvature = check_positive(smoothness, "smoothness")
        weight, rest = smoothing_beta(smoothing, d) * curvature, 2.0 * gap + curvature * square
    noise = 24.0 * weight * d * square * math.log(1.0 / delta) / (n * epsilon) ** 2  # of one step
    steps = max(1, math.floor(rest / noise))
    root = math.sqrt(steps)
    return TheoremSchedule(steps, 1.0 / root, 0.5 * (rest + noise * steps) / root)
