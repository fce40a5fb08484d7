"""Projection of weights onto a ball."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def project(w: Array, radius: float) -> Array:
    """Projection of `w` onto the ball ``||w|| <= radius``, which may be infinite."""
    length = math.sqrt(np.vdot(w, w)) if radius < math.inf else 0.0
    return w if length <= radius else w * (radius / length)
