"""What the door is handed beside sums, and what it writes down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.events import PrivacyEvent
from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]


@dataclass(slots=True)
class ReleaseRecord:
    """One release that was made, or several alike in a row; public.

    Attributes
    ----------
    event : PrivacyEvent
        What was charged, once for each of them.
    sensitivity : float
        Largest change between neighbours: of a vector its norm, of scores the range of the changes.
    scale : float
        Standard deviation of Gaussian noise, scale of norm-Laplace noise; of a selection the sensitivity
        over the bounded range or epsilon.
    grid : float
        On which the exact sum lies.
    noise : {"exact", "float"}
    selection : bool
        Whether a candidate was chosen.
    count : int
    """

    event: PrivacyEvent
    sensitivity: float
    scale: float
    grid: float
    noise: str = "exact"
    selection: bool = False
    count: int = 1

    def repeats(self, other: ReleaseRecord) -> bool:
        """Whether both tell of the same release but for how often it was made."""
        return (
            self.sensitivity == other.sensitivity
            and self.scale == other.scale
            and self.grid == other.grid
            and self.noise == other.noise
            and self.selection == other.selection
            and self.event == other.event
        )


@dataclass(frozen=True)
class PerturbedMinimum:
    """The minimiser of an objective with a random linear term: a private value once the term is drawn.

    Attributes
    ----------
    minimise : callable
        ``minimise(linear, rounding) -> Bounded``: the computed minimiser, its sensitivity being twice
        its distance from the exact one with the linear term as it was before rounding.
    shape : tuple of int
        Of the weights.
    sensitivity : float
        Of the sum of gradients that the linear term hides.
    """

    minimise: Callable[[Array, float], Bounded]
    shape: tuple[int, ...]
    sensitivity: float
