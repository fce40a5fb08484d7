"""Noise of stochastic gradient descent that stops after a random number of rounds.

The number of rounds R is independent of the data; R - 1 noisy sums are taken, and R may be published.
The guarantee, and a cost derived from it (`dperm.accounting.approximate_gdp.plan_gdp`), is a mean over R. It
does not hold given R: a ledger must be charged before R is drawn, with the same amount whatever R is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dperm.accounting._checks import check_delta, check_positive_epsilon, check_steps
from dperm.accounting.gaussian import gaussian_delta, gaussian_sigma
from dperm.accounting.pld import refinement
from dperm.accounting.pld.composition import Counts
from dperm.accounting.pld.refinement import Grid
from dperm.accounting.rdp import RDP_ORDERS
from dperm.accounting.subsampling import (
    MAX_EPSILON,
    MIN_DELTA,
    Sampling,
    SgdPlan,
    first_guess,
    make_plan,
    step_profiles,
    step_rdp,
)

# The distribution of R is split into this many parts of equal probability; each is replaced by its largest R.
BINS = 96
_GRID_TOLERANCE = 5e-4
_ROOT_TOLERANCE = 1e-5
_MAX_REFINEMENTS = 4


def random_round_noise_multiplier(
    epsilon: float,
    delta: float,
    n_samples: int,
    batch_size: int = 1,
    steps: int | None = None,
    *,
    neighbors: str = "replace_one",
    round_weights: Sequence[float] | NDArray[np.float64] | None = None,
    first_round: int = 1,
) -> float:
    """Smallest noise for which gradient descent with a random number of rounds is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        epsilon > 0 (infinite: no noise, no privacy), delta strictly between 0 and 1.
    n_samples : int
        Public number of records n.
    batch_size : int, default=1
        b; the batch is drawn afresh in every step, without replacement under ``replace_one`` and as a
        Poisson sample of rate b/n under ``add_or_remove``.
    steps : int, optional
        Largest number of rounds N, >= 2; n^2 if not given.
    neighbors : {"replace_one", "add_or_remove"}
        Neighbouring relation.
    round_weights : sequence of float, optional
        Probabilities of R = 1..N up to a factor, independent of the data; uniform if not given. For step
        sizes eta_k they are ``2 eta_k - beta eta_k^2`` (Ghadimi and Lan 2013).
    first_round : int, default=1
        Least R of a uniform distribution, from 1 to N.

    Returns
    -------
    float
        ``sigma / C``: standard deviation of the noise on the *sum* of the clipped gradients over the clip C,
        as in `noise_multiplier`. Under ``replace_one``, noise over the sensitivity 2 C is half of that.

    Notes
    -----
    Joint convexity: with R independent of the data, ``delta(epsilon) <= E_R delta_(R-1)(epsilon)``. The mean
    is taken over 96 parts of equal probability with the largest R of each, an upper bound. Where no
    composition can be certified (N above 1e12), Renyi bounds are averaged instead.

    Examples
    --------
    >>> round(random_round_noise_multiplier(1.0, 1e-3, 1000) / 2.0, 1)
    2.5
    """
    epsilon, delta = check_positive_epsilon(epsilon), check_delta(delta, least=MIN_DELTA)
    n_samples = check_steps(n_samples, "n_samples")
    most = check_steps(n_samples**2 if steps is None else steps)
    if most < 2:
        raise ValueError(f"steps must be at least 2, got {most}: R rounds take R - 1 noisy sums.")
    scheme = Sampling.POISSON if neighbors == "add_or_remove" else Sampling.WITHOUT_REPLACEMENT
    plan = make_plan(check_steps(batch_size, "batch_size"), n_samples, most - 1, scheme, neighbors)
    counts = largest_rounds(most, round_weights, first=first_round) - 1
    if epsilon > MAX_EPSILON:
        return gaussian_sigma(epsilon, delta, plan.sensitivity() * math.sqrt(plan.steps))
    return _solve_plan(plan, counts, epsilon, delta)


def largest_rounds(
    most: int,
    weights: Sequence[float] | NDArray[np.float64] | None = None,
    bins: int = BINS,
    *,
    first: int = 1,
) -> Counts:
    """Largest R of each of `bins` parts of equal probability.

    Parameters
    ----------
    most : int
        N, >= 1.
    weights : sequence of float, optional
        Probabilities of R = 1..N up to a factor, finite, >= 0, not all 0; uniform if not given.
    bins : int, default=96
        Number of parts.
    first : int, default=1
        Least R without weights, from 1 to N.

    Raises
    ------
    ValueError
        If the weights have another length, or something is outside its range.
    """
    first = check_steps(first, "first_round")
    if first > (most if weights is None else 1):
        limit = f"at most steps = {most}" if weights is None else "1 with round_weights, which may be 0"
        raise ValueError(f"first_round must be {limit}, got {first}.")
    if weights is None:
        width = most - first + 1
        return np.array([first - 1 - (-part * width // bins) for part in range(1, bins + 1)], dtype=np.int64)
    law = np.asarray(weights, dtype=np.float64)
    if law.shape != (most,) or not np.all(np.isfinite(law)) or np.any(law < 0.0) or not law.any():
        raise ValueError(f"round_weights must be {most} finite numbers >= 0 that are not all 0.")
    cumulative = np.cumsum(law)
    # Levels are rounded up by more than the error of the cumulative sums, so that no part is too short.
    levels = np.arange(1, bins + 1) / bins * cumulative[-1] * (1.0 + 2.0**-52 * most)
    possible = int(np.flatnonzero(law)[-1])
    places = np.minimum(np.searchsorted(cumulative, levels), possible)
    return np.asarray(places + 1, dtype=np.int64)


def _solve_plan(plan: SgdPlan, counts: Counts, epsilon: float, delta: float) -> float:
    grid = Grid(refinement.FIRST_STEP, (0, 1) if plan.sampling is Sampling.POISSON else (0,))
    guess, noise = first_guess(plan, epsilon, delta), math.inf
    if plan.is_gaussian():
        return _root(lambda z: _gaussian_mean(plan, counts, epsilon, z), guess, delta)
    for _ in range(_MAX_REFINEMENTS):
        finer = _root(partial(_pld_mean, plan, counts, epsilon, delta, grid), guess, delta)
        if finer == math.inf:
            break
        settled = abs(noise / finer - 1.0) < _GRID_TOLERANCE
        guess, noise, grid = finer, min(noise, finer), Grid(grid.step / 2.0, grid.directions)
        if settled:
            return noise
    if noise < math.inf:
        return noise
    return _root(lambda z: _rdp_mean(plan, counts, epsilon, z), guess, delta)


def _pld_mean(plan: SgdPlan, counts: Counts, epsilon: float, delta: float, grid: Grid, z: float) -> float:
    taken = counts[counts > 0]
    share, profiles = taken.size / counts.size, step_profiles(plan, z)
    return share * float(refinement.mean_deltas(profiles, taken, np.array([epsilon]), delta, grid)[0])


def _gaussian_mean(plan: SgdPlan, counts: Counts, epsilon: float, z: float) -> float:
    moves = plan.sensitivity() / z * np.sqrt(counts.astype(np.float64))
    return math.fsum(gaussian_delta(epsilon, 1.0, float(move)) for move in moves if move) / counts.size


def _rdp_mean(plan: SgdPlan, counts: Counts, epsilon: float, z: float) -> float:
    """Mean over the parts of the smallest delta of any order (Canonne et al. 2020, Proposition 12)."""
    rdp, orders = np.array(step_rdp(plan, z)), np.array(RDP_ORDERS)
    losses = counts[:, None].astype(np.float64) * rdp[None, :] + np.log1p(-1.0 / orders) - epsilon
    log_deltas = np.min((orders - 1.0) * losses - np.log(orders), axis=1)[counts > 0]
    return float(np.sum(np.exp(np.minimum(log_deltas, 0.0)))) / counts.size


def _root(delta_of: Callable[[float], float], guess: float, delta: float) -> float:
    """Smallest z with ``delta_of(z) <= delta``, rounded up; infinite if nothing can be certified."""

    def excess(log_z: float) -> float:
        value = delta_of(math.exp(log_z))
        return math.inf if value == math.inf else math.log(max(value, 1e-300) / delta)

    low = high = math.log(guess)
    value, stride = excess(high), 0.02
    while 0.0 < value < math.inf:
        low, high, stride = high, high + stride, 2.0 * stride
        value = excess(high)
    if value == math.inf:
        return math.inf
    while low == high or excess(low) < 0.0:
        low, high, stride = low - stride, low if low < high else high, 2.0 * stride
    if excess(low) == math.inf:
        return math.inf
    z = math.exp(float(brentq(excess, low, high, xtol=_ROOT_TOLERANCE)))
    while delta_of(z) > delta:
        z *= 1.0 + _ROOT_TOLERANCE
    return z
