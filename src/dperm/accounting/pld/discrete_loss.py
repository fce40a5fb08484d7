"""A privacy loss on a grid that dominates a given profile; for the proof see `dperm.accounting.pld`, 2."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dperm.accounting.pld.profiles import Array, Profile

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
