"""Composition on successively finer grids, until the result settles."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dperm.accounting.pld.composition import Counts, composed_epsilon, mean_composed_deltas
from dperm.accounting.pld.profiles import (
    Array,
    DiscreteLoss,
    Profile,
    StepProfiles,
    coarse_float,
    dominating_loss,
)

# The grid is refined until epsilon moves by less than this, relative.
GRID_TOLERANCE = 1e-3
# First grid step in units of the standard deviation of the loss of one step.
FIRST_STEP = 0.4
# Points of the first grid where losses are rare, so that their standard deviation is too small a step.
_FIRST_POINTS = 2**13
_MAX_POINTS = 2**21
_MAX_REFINEMENTS = 5
# Share of delta that may become infinite loss.
TRUNCATION = 1e-4
_LARGEST_LOSS = 600.0


class Grid(NamedTuple):
    """Step of the grid in units of the spread of the loss, and the directions to compose."""

    step: float
    directions: tuple[int, ...]


def refined_epsilon(profiles: StepProfiles, steps: int, delta: float) -> tuple[float, Grid]:
    """Smallest epsilon certified by successively finer grids, and the grid on which they converged.

    Returns
    -------
    epsilon : float
        Infinite if nothing can be certified in double precision.
    grid : Grid
        The grid of the result, and the directions within 1 % of the worst.
    """
    if steps == 1:
        one_step = (_profile_epsilon(pair[0], delta / (1.0 + profiles.error)) for pair in profiles.pairs)
        return max(one_step), Grid(FIRST_STEP, (0,))
    grid, epsilon = first_grid(profiles, steps, delta), math.inf
    for _ in range(_MAX_REFINEMENTS):
        coarse = composed_epsilons(profiles, steps, delta, grid)
        finer = Grid(grid.step / 2.0, grid.directions)
        fine = composed_epsilons(profiles, steps, delta, finer)
        epsilon = min(epsilon, max(coarse), max(fine))
        if epsilon in (0.0, math.inf) or max(fine) == math.inf:
            return epsilon, _only_worst(grid, coarse)
        if max(fine) >= max(coarse):
            return epsilon, _only_worst(grid, coarse)  # rounding outweighs the gain of a finer grid
        change = abs(max(coarse) / max(fine) - 1.0)
        if change < GRID_TOLERANCE:
            return epsilon, _only_worst(finer, fine)
        # The error of a grid is proportional to the square of its step.
        shrink = math.sqrt(0.7 * GRID_TOLERANCE / change)
        grid = Grid(grid.step * min(0.5, max(0.1, shrink)), grid.directions)
    return epsilon, _only_worst(grid, fine)


def first_grid(profiles: StepProfiles, steps: int, delta: float) -> Grid:
    """A coarse grid for all directions, with `FIRST_STEP` or at most `_FIRST_POINTS` points."""
    cutoff = TRUNCATION * delta / steps
    finest = coarse_float(FIRST_STEP * profiles.spread)
    points = max(_last_point(profile, cutoff, finest) for profile, _ in profiles.pairs)
    return Grid(FIRST_STEP * max(1.0, points / _FIRST_POINTS), tuple(range(len(profiles.pairs))))


def composed_epsilons(profiles: StepProfiles, steps: int, delta: float, grid: Grid) -> tuple[float, ...]:
    """Upper bounds on epsilon of `steps` compositions, one for each direction of the grid."""
    losses = (_loss_on_grid(profiles, i, steps, delta, grid) for i in grid.directions)
    return tuple(math.inf if loss is None else composed_epsilon(loss, steps, delta) for loss in losses)


def _only_worst(grid: Grid, epsilons: tuple[float, ...]) -> Grid:
    worst = max(epsilons)
    kept = (i for i, epsilon in zip(grid.directions, epsilons, strict=True) if epsilon >= 0.99 * worst)
    return Grid(grid.step, tuple(kept))


def mean_delta(profiles: StepProfiles, counts: Counts, epsilon: float, delta: float, grid: Grid) -> float:
    """`mean_deltas` at one epsilon."""
    return float(mean_deltas(profiles, counts, np.array([epsilon]), delta, grid)[0])


def mean_deltas(profiles: StepProfiles, counts: Counts, epsilons: Array, delta: float, grid: Grid) -> Array:
    """Upper bounds on the mean over numbers of steps of delta, the larger of the two directions.

    The divergence of a mixture whose component is independent of the data, even when it is published, is at
    most the mean.

    Parameters
    ----------
    profiles : StepProfiles
        One step.
    counts : array of int
        Equally likely numbers of steps, each >= 1.
    epsilons : ndarray
        Where delta is evaluated, ascending.
    delta : float
        Target; it decides how much of the tails may be cut off. The result may be larger or smaller.
    grid : Grid
        Step of the grid in units of the spread, and the directions.

    Returns
    -------
    ndarray
        At most 1; infinite where nothing can be certified.
    """
    found = np.zeros(epsilons.size)
    for i in grid.directions:
        loss = _loss_on_grid(profiles, i, int(counts.max()), delta, grid)
        if loss is None:
            return np.full(epsilons.size, math.inf)
        found = np.maximum(found, mean_composed_deltas(loss, counts, epsilons, delta))
    return found


def _loss_on_grid(
    profiles: StepProfiles, direction: int, steps: int, delta: float, grid: Grid
) -> DiscreteLoss | None:
    """Dominating loss of one step; None if it has too many points."""
    profile, reverse = profiles.pairs[direction]
    step = coarse_float(grid.step * profiles.spread)
    top = _last_point(profile, TRUNCATION * delta / steps, step)
    bottom = _last_point(reverse, 1e-6 / steps, step)
    if top + bottom > _MAX_POINTS:
        return None
    return dominating_loss(profile, reverse, profiles.error, step, top, bottom)


def _last_point(profile: Profile, cutoff: float, step: float) -> int:
    """First grid point at which the profile is at most `cutoff` (or the largest loss considered)."""

    def first_below(points: Array) -> float:
        below = np.flatnonzero(profile(points) <= cutoff)
        return float(points[below[0] if below.size else -1])

    doublings = max(0, math.ceil(math.log2(_LARGEST_LOSS / step)))
    high = first_below(np.ldexp(np.full(doublings + 1, step), np.arange(doublings + 1)))
    width = high / 2.0
    for _ in range(2):
        high, width = first_below(np.linspace(high - width, high, 65)[1:]), width / 64.0
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
