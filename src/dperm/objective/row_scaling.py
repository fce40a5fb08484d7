"""Public coordinates of rows for second moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RowScaling:
    """Rows ``t = (s_j z_j)_j``, scaled down to `row_norm` if longer."""

    column_scales: NDArray[np.float64]  # ``s``, of the weights' shape; from 2^-600 to 2^600, or 0
    row_norm: float
