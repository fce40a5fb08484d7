"""Privacy profiles of one subsampled Gaussian step, for each sampling scheme and neighbouring relation.

A profile is the hockey-stick divergence ``h(epsilon) = sup_S P(S) - e^epsilon Q(S)`` of a dominating pair,
as a function of every real epsilon. ``q`` is the sampling rate and ``mu`` the sensitivity of the batch sum
over the standard deviation of the noise; ``delta_G`` is the Gaussian profile of `gaussian.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr, ndtr

Array = npt.NDArray[np.float64]
Profile = Callable[[Array], Array]

_SQRT_HALF_PI = math.sqrt(math.pi / 2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class StepProfiles:
    """Profiles of one step, to be composed separately; the guarantee is the worst of them.

    Parameters
    ----------
    pairs : tuple of (Profile, Profile)
        For each direction the profile of (P, Q) and that of (Q, P), on epsilon >= 0. They are the same
        function for a symmetric pair.
    spread : float
        Rough standard deviation of the privacy loss, which sets the first grid of a discretisation.
    error : float
        Bound on the relative error of the computed profiles.
    """

    pairs: tuple[tuple[Profile, Profile], ...]
    spread: float
    error: float


def gaussian_profile(epsilon: Array, mu: float) -> Array:
    """``delta_G(epsilon, mu)`` for every real epsilon, elementwise (Balle and Wang 2018, Theorem 8)."""
    with np.errstate(under="ignore"):
        return np.minimum(np.exp(log_gaussian_profile(epsilon, mu)), 1.0)


def log_gaussian_profile(epsilon: Array, mu: float) -> Array:
    """``log delta_G(epsilon, mu)`` for every real epsilon; finite far beyond the range of doubles."""
    a = epsilon / mu - mu / 2.0
    above = np.maximum(a, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        difference = np.log(np.maximum(_mills(above) - _mills(above + mu), 0.0))
        tail = -0.5 * above * above - _LOG_SQRT_2PI + difference
        bulk = np.log(np.maximum(ndtr(-a) - np.exp(np.minimum(epsilon + log_ndtr(-a - mu), 0.0)), 0.0))
    return np.where(a > 0.0, tail, bulk)


def unsampled_epsilon(epsilon: Array, q: float) -> Array:
    """``log(1 + (e^epsilon - 1)/q)`` for epsilon > log(1-q), without overflow: amplification undone."""
    small = np.minimum(epsilon, 30.0)
    large = np.maximum(epsilon, 30.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(np.expm1(small) / q)
    far = large + np.log((1.0 - (1.0 - q) * np.exp(-large)) / q)
    return np.where(epsilon <= 30.0, near, far)


def sampled_profile(q: float, mu: float) -> Profile:
    """Return ``h(epsilon) = q delta_G(log(1 + (e^epsilon-1)/q), mu)`` on epsilon >= 0.

    It is the profile of the pair ``((1-q) N(0,1) + q N(mu,1), N(0,1))``, and for sampling without
    replacement an upper bound for both directions (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9).
    """

    def profile(epsilon: Array) -> Array:
        return q * gaussian_profile(unsampled_epsilon(epsilon, q), mu)

    return profile


def reversed_sampled_profile(q: float, mu: float) -> Profile:
    """Profile of ``(N(0,1), (1-q) N(0,1) + q N(mu,1))`` on epsilon >= 0.

    With ``g = e^epsilon`` and ``c = 1 - g (1-q)``: ``c delta_G(log(g q/c), mu)`` where c > 0, else 0. This
    increases in c, which is rounded up because it may be a small difference.
    """

    def profile(epsilon: Array) -> Array:
        rest = q - (1.0 - q) * np.expm1(np.minimum(epsilon, 700.0)) + 2.0**-50 * q
        safe = np.where(rest > 0.0, rest, q)
        inner = epsilon - np.log(safe / q)
        return np.where(rest > 0.0, rest * gaussian_profile(inner, mu), 0.0)

    return profile


def replaced_poisson_profile(q: float, mu: float) -> Profile:
    """Profile of a Poisson-sampled step when one record is replaced, on epsilon >= 0.

    ``q [(1-t) delta_G(e', mu) + t delta_G(e', 2 mu)]`` with ``e' = log(1 + (e^epsilon-1)/q)`` and
    ``t = e^(epsilon - e')``: advanced joint convexity (Balle, Barthe and Gaboardi 2018, Theorem 2) with
    the record absent on the common part.
    """

    def profile(epsilon: Array) -> Array:
        inner = unsampled_epsilon(epsilon, q)
        t = np.exp(epsilon - inner)
        return q * ((1.0 - t) * gaussian_profile(inner, mu) + t * gaussian_profile(inner, 2.0 * mu))

    return profile


def poisson_add_or_remove(q: float, mu: float) -> StepProfiles:
    """Both directions of Poisson sampling (Zhu, Dong and Wang 2022), composed separately."""
    remove, add = sampled_profile(q, mu), reversed_sampled_profile(q, mu)
    return StepProfiles(((remove, add), (add, remove)), _spread(q, mu), _relative_error(mu))


def poisson_replace_one(q: float, mu: float) -> StepProfiles:
    """Poisson sampling when one record is replaced: one symmetric profile."""
    profile = replaced_poisson_profile(q, mu)
    return StepProfiles(((profile, profile),), _spread(q, 2.0 * mu), _relative_error(mu))


def without_replacement_replace_one(q: float, mu: float) -> StepProfiles:
    """Fixed-size batches without replacement when one record is replaced: one symmetric profile."""
    profile = sampled_profile(q, mu)
    return StepProfiles(((profile, profile),), _spread(q, mu), _relative_error(mu))


def _mills(x: Array) -> Array:
    """Mills ratio Phi(-x)/phi(x), for x >= 0."""
    return np.asarray(_SQRT_HALF_PI * erfcx(x / math.sqrt(2.0)), dtype=np.float64)


def _spread(q: float, mu: float) -> float:
    """Standard deviation of the loss for small mu, capped by that of a rare large loss."""
    chi_square = q * q * math.expm1(min(mu * mu, 50.0))
    rare = q * mu * mu * (1.0 + mu * mu / 4.0)
    return math.sqrt(min(chi_square, rare))


def _relative_error(mu: float) -> float:
    """Bound on the relative error of the profiles above where they exceed 1e-250.

    Differences of tails lose a factor 1/mu in accuracy, large arguments a factor mu; the constant is 8 times
    the largest one observed against 60 digits.
    """
    return 2.0**-40 * (1.0 + 1.0 / mu + 2.0 * mu)


ROUNDING = 2.0**-53


class DiscreteLoss(NamedTuple):
    """Masses of the losses ``step * (lowest + 0, 1, 2, ...)`` and of an infinite loss.

    ``step`` has 24 significant bits, so that multiples of it are exact.
    """

    step: float
    lowest: int
    masses: Array
    infinite: float

    @property
    def losses(self) -> Array:
        """Finite losses."""
        return self.step * np.arange(self.lowest, self.lowest + self.masses.size, dtype=np.float64)

    @property
    def highest(self) -> int:
        """Largest finite loss, in steps."""
        return self.lowest + self.masses.size - 1


def coarse_float(step: float) -> float:
    """`step` with 24 significant bits."""
    return float(np.float32(step))


def dominating_loss(
    profile: Profile, reverse: Profile, error: float, step: float, top: int, bottom: int
) -> DiscreteLoss:
    """Distribution of the loss on ``step * (-bottom .. top)`` that dominates a pair.

    Parameters
    ----------
    profile, reverse : Profile
        Of (P, Q) and of (Q, P), on epsilon >= 0.
    error : float
        Bound on their relative errors.
    step : float
        As `coarse_float` returns it.
    top, bottom : int
        At least 1. The value of `profile` at the top becomes infinite loss; losses below the bottom become 0.
    """
    above, infinite = _masses_above_zero(profile, error, step, top)
    below, vanishing = _masses_above_zero(reverse, error, step, bottom)
    shrink = step * np.arange(1, max(top, bottom) + 1, dtype=np.float64)
    at_zero = infinite + math.fsum(-np.expm1(-shrink[:top]) * above)
    at_zero_reversed = vanishing + math.fsum(-np.expm1(-shrink[:bottom]) * below)
    if at_zero_reversed > 0.0:
        factor = max(1.0, at_zero_reversed / at_zero) * (1.0 + 32.0 * ROUNDING)
        above, infinite = above * factor, infinite * factor
    below = below * np.exp(-shrink[:bottom])
    rest = 1.0 - math.fsum([*above.tolist(), *below.tolist(), infinite]) + 4.0 * ROUNDING
    masses = np.concatenate([below[::-1], [max(rest, 0.0)], above])
    return DiscreteLoss(step, -bottom, masses, infinite)


def _masses_above_zero(profile: Profile, error: float, step: float, top: int) -> tuple[Array, float]:
    """Masses at ``step * (1 .. top)`` and at infinity."""
    increase = 1.0 + error + 16.0 * (top + 8) * ROUNDING
    raised = profile(step * np.arange(top + 1, dtype=np.float64)) * increase + 1e-240
    heights = np.maximum.accumulate(raised[::-1])[::-1]
    drops = heights[:-1] - heights[1:]
    masses = drops / -math.expm1(-step)
    masses[:-1] -= drops[1:] / math.expm1(step)
    return np.maximum(masses, 0.0), float(heights[-1])
