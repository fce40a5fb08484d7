"""Gaussian differential privacy of sampled gradient descent, up to a small slack in delta.

A mechanism is mu-GDP up to slack d if its profile is at most ``delta_G(epsilon, mu) + d`` for every epsilon
>= 0, in both directions. (For epsilon < 0 it follows: ``H(e^-x) = 1 - e^-x + e^-x H_reversed(e^x)``.)

Such mechanisms compose adaptively, as long as caps M on the sum of ``mu^2`` and D on the sum of the slacks
are fixed in advance: the composition is ``sqrt(M)``-GDP up to slack D. Proof, by induction on the number of
mechanisms, for the profile ``H(g)`` of any strategy with caps (M, D). Let the first mechanism have densities
p, q and cost ``(mu^2, d)``; write ``G_m`` for the profile of the m-GDP Gaussian pair, which has densities a,
b for ``m^2 = M - mu^2``. The profile of the rest is at most ``G_m(g q/p) + D - d``, so

    H(g) <= int p G_m(g q/p) + D - d = int a H_first(g b/a) + D - d <= int a (G_mu(g b/a) + d) + D - d
          = G_sqrt(M)(g) + D,

where the equality holds because both sides are the profile of the product pair, and the last line because
Gaussian pairs compose to a Gaussian pair. The slack is needed because the record may have been in every
batch.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from dperm.accounting._checks import bisected, check_delta, check_multiplier
from dperm.accounting.pld import refinement
from dperm.accounting.pld.profiles import Array
from dperm.accounting.subsampling import MIN_DELTA, SgdPlan, make_plan, step_profiles

# Points at which the profile is computed, between 0 and where it falls below the slack.
_POINTS = 160
# The profile is computed down to a power of this, and cached: a ledger grants each fit a little less slack
# than the one before.
_SLACK_STEP = 2.0**-10
_TOLERANCE = 1e-6


def approximate_gdp(
    noise_multiplier: float,
    slack: float,
    *,
    batch_size: float,
    n_samples: int,
    steps: int,
    sampling: str = "poisson",
    neighbors: str = "add_or_remove",
) -> float:
    """Smallest mu for which noisy stochastic gradient descent is mu-GDP up to `slack`.

    Parameters
    ----------
    noise_multiplier : float
        ``sigma / C``, > 0, as in `sgd_epsilon`.
    slack : float
        By how much delta may exceed that of the Gaussian mechanism; in (0, 1), public, fixed in advance.
    batch_size, n_samples, steps, sampling, neighbors
        As in `sgd_epsilon`.

    Returns
    -------
    float
        Rounded up. At every epsilon, delta is at most ``gaussian_delta(epsilon, 1 / mu) + slack``. An
        adaptive composition of such runs and Gaussian releases satisfies this with the root of the summed
        squares and the sum of the slacks, if both sums were capped in advance.

    Raises
    ------
    ValueError, TypeError
        If an argument is outside its range, or the combination has no valid accounting.

    Notes
    -----
    Certified for all epsilon: the profile is convex in ``g = e^epsilon``, so it lies below chords of upper
    bounds at 160 points; each chord lies below a tangent of the Gaussian profile, ``Phi(mu/2 - t/mu) - g
    Phi(-mu/2 - t/mu)`` for a t in the middle of it. Beyond the last point the profile is below the slack.

    Examples
    --------
    >>> round(approximate_gdp(2.0, 1e-9, batch_size=10, n_samples=1000, steps=500), 2)
    0.13
    """
    plan = make_plan(batch_size, n_samples, steps, sampling, neighbors)
    return plan_gdp(plan, noise_multiplier, slack, (plan.steps,))


def plan_gdp(plan: SgdPlan, noise_multiplier: float, slack: float, counts: tuple[int, ...]) -> float:
    """`approximate_gdp` of a run whose number of steps is random, and may be published.

    Parameters
    ----------
    plan : SgdPlan
        With the largest number of steps.
    noise_multiplier, slack : float
        As in `approximate_gdp`.
    counts : tuple of int
        Equally likely numbers of steps, independent of the data and drawn after the run was charged.

    Notes
    -----
    The profile is at most the mean over the counts, since divergences are jointly convex. That mean need not
    be the profile of any count: nothing of this holds *given* the number of steps.
    """
    multiplier, slack = check_multiplier(noise_multiplier), check_delta(slack, "slack", MIN_DELTA)
    if multiplier in (0.0, math.inf):
        raise ValueError(f"noise_multiplier must be a finite number > 0, got {noise_multiplier!r}.")
    unsampled = plan.sensitivity() * math.sqrt(plan.steps) / multiplier * (1.0 + 1e-12)
    if plan.is_gaussian() or multiplier < 1e-3:
        return unsampled
    floor = _SLACK_STEP ** math.ceil(math.log(slack) / math.log(_SLACK_STEP))
    points, deltas = _profile_points(plan, multiplier, max(floor, MIN_DELTA), counts)
    if not lies_below(points, deltas, slack, unsampled):
        return unsampled
    return bisected(lambda mu: lies_below(points, deltas, slack, mu), 0.0, unsampled, _TOLERANCE, least=1e-9)


@lru_cache(maxsize=64)
def _profile_points(
    plan: SgdPlan, multiplier: float, floor: float, counts: tuple[int, ...]
) -> tuple[Array, Array]:
    """Epsilons from 0 up, and upper bounds on delta there; the last is at most `floor`, or infinite."""
    profiles, taken = step_profiles(plan, multiplier), np.array([count for count in counts if count])
    most = int(taken.max())
    coarse = refinement.first_grid(profiles, most, floor)
    end = max(refinement.composed_epsilons(profiles, most, 0.9 * floor, coarse))
    if end == math.inf:
        return np.zeros(1), np.full(1, math.inf)
    points, fine = np.linspace(0.0, max(end, 1e-9), _POINTS), coarse._replace(step=coarse.step / 4.0)
    means = refinement.mean_deltas(profiles, taken, points, 0.1 * floor, fine)
    return points, taken.size / len(counts) * means


def lies_below(points: Array, deltas: Array, slack: float, mu: float) -> bool:
    """Whether the chords of (e^points, deltas) lie below tangents of the Gaussian profile plus slack."""
    if deltas[-1] > slack:
        return False
    middles = 0.5 * (points[1:] + points[:-1])
    heights, slopes = ndtr(mu / 2.0 - middles / mu), ndtr(-mu / 2.0 - middles / mu)
    # Rounded down: both by 1e-13 relative, their difference by 1e-13 of its terms.
    margin = slack - 1e-13 * heights
    left = heights - np.exp(points[:-1]) * slopes * (1.0 + 1e-13) + margin
    right = heights - np.exp(points[1:]) * slopes * (1.0 + 1e-13) + margin
    return bool(np.all(deltas[:-1] <= left) and np.all(deltas[1:] <= right))
