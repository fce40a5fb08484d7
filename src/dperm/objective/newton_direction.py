"""Secret Newton directions and their sensitivity."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]

#: Records per public record that the error bound allows for.
MAX_RECORDS = 16


def newton_direction(
    hessian: Array, bound: float, n_public: int, penalty: Array, shift: float, gradient: Array
) -> Bounded:
    """``(H / N + diag(penalty) + shift I)^-1 gradient`` for the exact sum ``H`` of the records' Hessians.

    Parameters
    ----------
    hessian : (d, d) ndarray
        Private: ``H``, to which each record adds a matrix ``v v^T`` with ``||v||^2 <= b``.
    bound : float
        Public: ``b``.
    n_public : int
        The public ``N``; there are at most 16 times as many records.
    penalty : (d,) ndarray
        Public, not negative.
    shift : float
        Public, positive.
    gradient : (d,) ndarray
        Public, such as a released gradient.

    Notes
    -----
    Sensitivity (Ganesh, Haghifam, Steinke and Thakurta 2023, Section 4.2, for the logistic loss). Let ``A``
    be the inverse without a record that adds ``v v^T / N``. By Sherman and Morrison the record moves the
    direction by ``A v <v, A g> / (N + <v, A v>)``. With ``t = <v, A v>`` and the least eigenvalue
    ``s = shift + min(penalty)``, ``||A|| <= 1 / s`` bounds ``||A v||`` by ``sqrt(t / s)`` and ``<v, A g>`` by
    ``sqrt(t / s) ||g||``; the quotient grows with ``t <= b / s``:

        ``b ||g|| / (s (N s + b))``,

    attained by ``H = 0`` and ``v`` along ``g``. Replacing a record is a removal and an addition: twice that.

    Rounding. The computed Cholesky solution solves a system perturbed by ``4 d (3 d + 1) u ||matrix||``
    (Higham 2002, Theorem 10.4 and (10.7)); forming the matrix adds less than that. The error is bounded with
    ``||matrix|| <= 16 b + max(penalty) + shift``, and both results may have it.
    """
    d = len(gradient)
    least = (shift + float(penalty.min())) * (1.0 - 2.0**-50)
    matrix = hessian / n_public
    matrix[np.diag_indices(d)] += penalty + shift
    direction = cho_solve(cho_factor(matrix, lower=True), gradient)
    length = math.sqrt(float(gradient @ gradient)) * (1.0 + 2.0**-40)
    largest = MAX_RECORDS * bound + float(penalty.max()) + shift
    error = 8.0 * d * (3 * d + 1) * 2.0**-53 * largest / least * (length / least) * 2.0
    effect = bound * length / (least * (n_public * least + bound)) * (1.0 + 2.0**-40)
    # A zero gradient gives a zero direction on all data, but the grid still needs a scale.
    tiny = 2.0**-500
    return Bounded.rounding(
        direction, add_or_remove=effect + 2.0 * error + tiny, replace_one=2.0 * effect + 2.0 * error + tiny
    )
