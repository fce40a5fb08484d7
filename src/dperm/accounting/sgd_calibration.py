"""Noise for stochastic gradient descent: the inverse of `sgd_epsilon`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from scipy.optimize import brentq

from dperm.accounting._checks import check_delta, check_positive_epsilon
from dperm.accounting.approximate_gdp import approximate_gdp
from dperm.accounting.gaussian import gaussian_sigma, gdp_epsilon, gdp_mu
from dperm.accounting.pld import refinement
from dperm.accounting.pure_composition import sgd_advanced_noise
from dperm.accounting.subsampling import (
    MAX_EPSILON,
    MIN_DELTA,
    SgdPlan,
    SubsamplingAccountant,
    check_moments,
    first_guess,
    make_plan,
    parse_accountant,
    plan_epsilon,
    step_profiles,
)

# The result meets the target, and this much less noise (relative) misses it.
TOLERANCE = 1e-3
_ROOT_TOLERANCE = 1e-4
_CAP = 50.0


def noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    batch_size: float,
    n_samples: int,
    steps: int,
    sampling: str = "poisson",
    neighbors: str = "add_or_remove",
    accountant: str = "pld",
    max_moment: int = 32,
) -> float:
    """Smallest noise for which stochastic gradient descent is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon > 0 (infinite: no noise, no privacy), delta strictly between 0 and 1.
    batch_size, n_samples, steps, sampling, neighbors, accountant, max_moment
        As in `sgd_epsilon`.

    Returns
    -------
    float
        ``sigma / C``, the standard deviation of the noise on the *sum* of clipped gradients over the
        clipping norm C, for every relation. ``sgd_epsilon(result, delta, ...) <= epsilon``, and 0.1 % less
        noise exceeds epsilon. Full batches and permutations are exact to 1e-9.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, the combination has no valid accounting, or the accountant
        certifies the target for no amount of noise (``"moments"`` has a floor, log(1/delta)/max_moment).

    Notes
    -----
    See `sgd_epsilon` for the theorems.

    Examples
    --------
    >>> round(noise_multiplier(1.0, 1e-5, batch_size=64, n_samples=10000, steps=1000), 2)
    1.06
    """
    epsilon, delta = check_positive_epsilon(epsilon), check_delta(delta, least=MIN_DELTA)
    plan = make_plan(batch_size, n_samples, steps, sampling, neighbors)
    kind = parse_accountant(accountant, plan)
    return plan_noise(plan, epsilon, delta, kind, check_moments(max_moment))


def noise_multiplier_after(
    mu: float, epsilon: float, delta: float, *, batch_size: float, n_samples: int, steps: int, **sampling: str
) -> float:
    """Noise for which Gaussian releases followed by stochastic gradient descent are (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        mu-GDP guarantee of these releases together; below ``gdp_mu(epsilon, 0.9 delta)``.
    epsilon, delta : float
        Target for everything together.
    batch_size, n_samples, steps, sampling, neighbors
        As in `sgd_epsilon`.

    Returns
    -------
    float
        ``sigma / C``, at most about 0.2 % above the smallest for which `approximate_gdp` with a slack of a
        tenth of delta composes with ``mu`` to the target.
    """
    if epsilon == math.inf:
        return 0.0
    slack = 0.1 * delta
    target = math.sqrt(gdp_mu(epsilon, delta - slack) ** 2 - mu**2) * (1.0 - 1e-12)
    plan: dict[str, Any] = {"batch_size": batch_size, "n_samples": n_samples, "steps": steps, **sampling}
    noise = noise_multiplier(gdp_epsilon(target, delta), delta, **plan)
    for attempt in itertools.count():
        ratio = approximate_gdp(noise, slack, **plan) / target
        if ratio <= 1.0 and (ratio >= 0.998 or attempt >= 20):
            break
        noise *= ratio * (1.0 + 5e-4 * (attempt + 1)) if ratio > 1.0 else math.sqrt(ratio)
    return noise


@lru_cache(maxsize=4096)
def plan_noise(
    plan: SgdPlan, epsilon: float, delta: float, accountant: SubsamplingAccountant, max_moment: int = 32
) -> float:
    """Noise multiplier of a checked plan; see `noise_multiplier`."""
    if epsilon == math.inf:
        return 0.0
    if plan.is_gaussian():
        return gaussian_sigma(epsilon, delta, plan.sensitivity() * math.sqrt(plan.steps))
    if accountant is SubsamplingAccountant.ADVANCED_COMPOSITION:
        noise = sgd_advanced_noise(epsilon, delta, plan.rate, plan.steps)
        return plan.sensitivity() * noise * (1.0 + 1e-11)
    floor = -math.log(delta) / max_moment
    if accountant is SubsamplingAccountant.MOMENTS and epsilon <= floor:
        raise ValueError(
            f"accountant='moments' with max_moment={max_moment} reports at least log(1/delta)/max_moment = "
            f"{floor:.4g} for any noise, so epsilon={epsilon!r} cannot be met. Raise max_moment or use 'pld'."
        )

    if epsilon > MAX_EPSILON:
        if accountant is SubsamplingAccountant.MOMENTS:
            raise ValueError(f"epsilon must be at most {MAX_EPSILON:g} for 'moments', got {epsilon!r}.")
        return gaussian_sigma(epsilon, delta, plan.sensitivity() * math.sqrt(plan.steps))

    def certified(multiplier: float) -> float:
        return plan_epsilon(plan, multiplier, delta, accountant, max_moment)

    guess = first_guess(plan, epsilon, delta)
    quick: Callable[[float], float] = certified
    if accountant is SubsamplingAccountant.PLD and plan.steps > 1:
        # The central limit theorem is inaccurate for rare losses; a search on the coarsest grid is cheap.
        guess = _solve(_epsilon_on_grid(plan, delta, None, SubsamplingAccountant.RDP), epsilon, guess)
        quick = _quick_epsilon(plan, delta, guess)
    return _settle(certified, _solve(quick, epsilon, guess), epsilon)


def _quick_epsilon(plan: SgdPlan, delta: float, guess: float) -> Callable[[float], float]:
    """Epsilon on the grid and in the worst direction that were found at `guess`, for a fast search."""
    settled, grid = refinement.refined_epsilon(step_profiles(plan, guess), plan.steps, delta)
    if settled == math.inf:
        return lambda multiplier: plan_epsilon(plan, multiplier, delta, SubsamplingAccountant.RDP)
    return _epsilon_on_grid(plan, delta, grid, SubsamplingAccountant.PLD)


def _epsilon_on_grid(
    plan: SgdPlan, delta: float, grid: refinement.Grid | None, fallback: SubsamplingAccountant
) -> Callable[[float], float]:
    """Epsilon on `grid` (the first grid if None), or by `fallback` where the grid certifies nothing."""

    def epsilon_on_grid(multiplier: float) -> float:
        profiles = step_profiles(plan, multiplier)
        chosen = refinement.first_grid(profiles, plan.steps, delta) if grid is None else grid
        epsilon = max(refinement.composed_epsilons(profiles, plan.steps, delta, chosen))
        return epsilon if epsilon < math.inf else plan_epsilon(plan, multiplier, delta, fallback)

    return epsilon_on_grid


def _solve(epsilon_of: Callable[[float], float], target: float, guess: float) -> float:
    """Root of ``epsilon_of(z) = target`` (decreasing in z), from a guess: secant steps, then bisection."""

    def excess(log_multiplier: float) -> float:
        epsilon = epsilon_of(math.exp(log_multiplier))
        return min(_CAP, max(-_CAP, math.log(epsilon / target))) if epsilon > 0.0 else -_CAP

    x, slope = math.log(guess), -1.5
    value = excess(x)
    for _ in range(8):
        if abs(value) < _ROOT_TOLERANCE:
            return math.exp(x)
        old_x, old_value = x, value
        x -= min(0.5, max(-0.5, value / slope))
        value = excess(x)
        slope = max(-100.0, min(-0.2, (value - old_value) / (x - old_x)))
    low, high, stride = x, x, 0.05
    while excess(high) > 0.0:
        high, stride = high + stride, 1.5 * stride
    while excess(low) < 0.0:
        low, stride = low - stride, 1.5 * stride
    return math.exp(float(brentq(excess, low, high, xtol=_ROOT_TOLERANCE, rtol=8.9e-16)))


def _settle(certified: Callable[[float], float], start: float, target: float) -> float:
    """Adjust `start` until it meets the target and 0.1 % less noise does not."""
    noise, stride = start * (1.0 + _ROOT_TOLERANCE), 1e-4
    while certified(noise) > target:
        noise *= 1.0 + stride
        stride *= 1.5
    while certified(noise * (1.0 - 0.95 * TOLERANCE)) <= target:
        noise *= 1.0 - 0.95 * TOLERANCE
    return noise
