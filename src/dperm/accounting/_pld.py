"""Composition of privacy-loss distributions, pessimistic on every grid.

A profile is sampled on a grid of epsilons, turned into a distribution of the privacy loss that dominates it
("connect the dots", Doroshenko et al. 2022) and composed by FFT; both are done by dp-accounting. Every grid
gives a valid upper bound; a finer one gives a smaller bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dperm.accounting._profiles import Array, Profile, StepProfiles, on_the_line

# The grid is refined until epsilon moves by less than this, relative.
GRID_TOLERANCE = 1e-3
# First grid step in units of the standard deviation of the loss of one step.
_FIRST_STEP = 0.4
# Beyond these the composition is given up; the composition has about 200 sqrt(steps) points.
_MOST_POINTS = 2**21
MOST_STEPS = 10**7
_MOST_REFINEMENTS = 5
# Share of delta that truncations may take.
_TRUNCATION = 1e-4
# Error of a tail of a power by FFT, per step: eight times the largest one measured.
_FFT_ERROR = 2.0**-52
_LARGEST_LOSS = 600.0


class Grid(NamedTuple):
    """Step of the grid in units of the spread of the loss, and the directions to compose."""

    step: float
    directions: tuple[int, ...]


def refined_epsilon(profiles: StepProfiles, steps: int, delta: float) -> tuple[float, Grid]:
    """Smallest epsilon certified by successively finer grids, and the grid on which they settled.

    Returns
    -------
    epsilon : float
        Infinite if nothing can be certified in double precision.
    grid : Grid
        The grid of the result, and the directions within 1 % of the worst.
    """
    if steps == 1:
        return max(_profile_epsilon(pair[0], delta) for pair in profiles.pairs), Grid(_FIRST_STEP, (0,))
    grid = Grid(_FIRST_STEP, tuple(range(len(profiles.pairs))))
    epsilon = math.inf
    for _ in range(_MOST_REFINEMENTS):
        coarse = composed_epsilons(profiles, steps, delta, grid)
        finer = Grid(grid.step / 2.0, grid.directions)
        fine = composed_epsilons(profiles, steps, delta, finer)
        epsilon = min(epsilon, max(coarse), max(fine))
        if epsilon in (0.0, math.inf) or max(fine) == math.inf:
            return epsilon, _only_worst(grid, coarse)
        change = abs(max(coarse) / max(fine) - 1.0)
        if change < GRID_TOLERANCE:
            return epsilon, _only_worst(finer, fine)
        # The error of a grid is proportional to the square of its step.
        shrink = math.sqrt(0.7 * GRID_TOLERANCE / change)
        grid = Grid(grid.step * min(0.5, max(0.1, shrink)), grid.directions)
    return epsilon, _only_worst(grid, fine)


def composed_epsilons(profiles: StepProfiles, steps: int, delta: float, grid: Grid) -> tuple[float, ...]:
    """Upper bounds on epsilon of `steps` compositions, one for each direction of the grid."""
    step = grid.step * profiles.spread
    return tuple(_composed_epsilon(*profiles.pairs[i], steps, delta, step) for i in grid.directions)


def _only_worst(grid: Grid, epsilons: tuple[float, ...]) -> Grid:
    worst = max(epsilons)
    kept = (i for i, epsilon in zip(grid.directions, epsilons, strict=True) if epsilon >= 0.99 * worst)
    return Grid(grid.step, tuple(kept))


def _composed_epsilon(profile: Profile, reverse: Profile, steps: int, delta: float, step: float) -> float:
    from dp_accounting.pld import pld_pmf

    usable = delta - steps * _FFT_ERROR
    if usable < 0.5 * delta or steps > MOST_STEPS:
        return math.inf
    top = _last_point(profile, _TRUNCATION * delta / steps, step)
    bottom = _last_point(reverse, 1e-6 / steps, step)
    if top + bottom > _MOST_POINTS:
        return math.inf
    deltas = on_the_line(profile, reverse, step * np.arange(-bottom, top + 1, dtype=np.float64))
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -bottom, top, deltas).to_dense_pmf()
    if steps > 1:
        pmf = pmf.self_compose(steps, tail_mass_truncation=_TRUNCATION * delta)
    return float(pmf.get_epsilon_for_delta(usable))


def _last_point(profile: Profile, cutoff: float, step: float) -> int:
    """First grid point at which the profile is at most `cutoff` (or the largest loss considered)."""

    def value(epsilon: float) -> float:
        point: Array = np.array([epsilon])
        return float(profile(point)[0])

    high = step
    while value(high) > cutoff and high < _LARGEST_LOSS:
        high *= 2.0
    low = high / 2.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if value(middle) > cutoff else (low, middle)
    return math.ceil(high / step)


def _profile_epsilon(profile: Profile, delta: float) -> float:
    """Epsilon of a single step: root of the profile, rounded up."""

    def excess(epsilon: float) -> float:
        point: Array = np.array([epsilon])
        return float(profile(point)[0]) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    high = 1.0
    while excess(high) > 0.0:
        high *= 2.0
        if high > _LARGEST_LOSS:
            return math.inf
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-12)) * (1.0 + 1e-9)
