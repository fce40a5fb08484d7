"""Projection of weights onto a ball."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def project(w: Array, radius: float) -> Array:
    """Projection of `w` onto the ball ``||w|| <= radius``, which may be infinite."""
    length = math.sqrt(np.vdot(w, w)) if radius < math.inf else 0.0
    return w if length <= radius else w * (radius / length)


def project_each(weights: Array, radii: Sequence[float]) -> Array:
    """The projection of each ``weights[k]`` onto the ball of its own radius."""
    if min(radii) == math.inf:
        return weights
    return np.stack([project(w, radius) for w, radius in zip(weights, radii, strict=True)])
