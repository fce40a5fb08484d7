"""Records of releases, and the objective that `Releaser.perturbed_minimum` minimises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import GaussianRelease, PrivacyEvent
from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]


@dataclass(slots=True)
class ReleaseRecord:
    """A release, or several identical ones in a row; public."""

    event: PrivacyEvent  # what each of them was charged
    #: Largest change between neighbours: the norm for a vector, the range of the changes for scores.
    sensitivity: float
    #: Standard deviation of Gaussian noise, scale of norm-Laplace noise; for a selection, the sensitivity
    #: over the bounded range or epsilon.
    scale: float
    grid: float  # grid of the exact sum
    noise: str = "exact"  # or "float"
    selection: bool = False  # whether a candidate was chosen
    count: int = 1

    def repeats(self, other: ReleaseRecord) -> bool:
        """Whether both are the same release, except for the count."""
        return self._terms() == other._terms()

    def _terms(self) -> tuple[object, ...]:
        return self.event, self.sensitivity, self.scale, self.grid, self.noise, self.selection


@dataclass(frozen=True)
class PerturbedMinimum:
    """An objective to be minimised with a random linear term."""

    #: ``minimise(linear, rounding) -> Bounded``: the computed minimiser, with twice the bound on its
    #: distance from the exact minimiser (for the linear term before rounding) as its sensitivity.
    minimise: Callable[[Array, float], Bounded]
    shape: tuple[int, ...]  # shape of the weights
    sensitivity: float  # sensitivity of the sum of gradients that the linear term masks


@functools.lru_cache(maxsize=64)  # an iterative algorithm makes the same release at each step
def gaussian_release(noise_multiplier: float) -> GaussianRelease:
    """The event of a Gaussian release."""
    return GaussianRelease(noise_multiplier)
