"""Public linear maps of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._cached import cached_property

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_ENTRY_BITS = 24  # of a matrix; the rest of 53 bits is for the vector and the number of terms
_NORM_SLACK = 1.0 + 2.0**-30  # singular values come from floating-point arithmetic


@dataclass(frozen=True, eq=False)
class Transform:
    """A public linear map ``t = A z`` of rows, with a bound on the norm of ``t``.

    Weights in the new coordinates are ``u`` with ``w = A^T u``, and a record's gradient there is ``A g``.

    Attributes
    ----------
    values : (d,) or (m, d) ndarray
        Factors of the columns, for a diagonal ``A``, or the matrix ``A``.
    grid : float
        A power of two of which all values are integer multiples, so that products with exact sums are exact;
        0 for a map of rows in floating point.
    shifts : (d,) ndarray or None
        Of rows in floating point: subtracted after scaling, times the entry 1 of the intercept.
    row_norm : float
        Bound on ``||t||``: longer rows are scaled down, or weighted down, to it. Infinite for that of ``z``.
    """

    values: Array
    grid: float = 0.0
    row_norm: float = math.inf
    shifts: Array | None = None

    @classmethod
    def scaling(cls, factors: ArrayLike, row_norm: float, shifts: ArrayLike | None = None) -> Self:
        """Rows scaled by factors from 2^-600 to 2^600, or 0, shifted and bounded; in floating point."""
        moved = None if shifts is None else np.asarray(shifts, dtype=np.float64)
        return cls(np.asarray(factors, dtype=np.float64), 0.0, row_norm, moved)

    @classmethod
    def powers_of_two(cls, factors: ArrayLike, largest_ratio: float, row_norm: float = math.inf) -> Self:
        """The nearest powers of two, none more than `largest_ratio` times the smallest.

        Raises
        ------
        ValueError
            For factors that are not positive and finite.
        """
        values = np.asarray(factors, dtype=np.float64)
        if values.ndim != 1 or not (values > 0.0).all() or not np.isfinite(values).all():
            raise ValueError("the factors of a transform must be positive and finite")
        exponents = np.rint(np.log2(values)).astype(np.int64)
        above = np.minimum(exponents - exponents.min(), math.frexp(largest_ratio)[1] - 1)
        grid = math.ldexp(1.0, int(exponents.min()))
        return cls(np.ldexp(grid, above), grid, row_norm)

    @classmethod
    def rounding(cls, matrix: ArrayLike, row_norm: float = math.inf) -> Self:
        """The matrix rounded to 24 bits for its largest entry.

        Raises
        ------
        ValueError
            For anything but a finite nonzero matrix with at most 2^13 columns.
        """
        values = np.asarray(matrix, dtype=np.float64)
        if values.ndim != 2 or not np.isfinite(values).all() or not values.any():
            raise ValueError("the matrix of a transform must be finite, two-dimensional and not zero")
        if values.shape[1] > 2**13:
            raise ValueError(f"a transform by a matrix takes at most 8192 columns, got {values.shape[1]}")
        grid = math.ldexp(1.0, math.frexp(float(np.abs(values).max()))[1] - _ENTRY_BITS)
        return cls(np.ascontiguousarray(np.rint(values / grid)) * grid, grid, row_norm)

    @property
    def is_diagonal(self) -> bool:
        """Whether columns are only scaled."""
        return self.values.ndim == 1

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return (len(self.values), self.values.shape[-1])

    @cached_property
    def integers(self) -> Array:
        """The values as integers, in units of the grid."""
        return self.values / self.grid

    @cached_property
    def exponents(self) -> Integers:
        """Base-2 logarithms of powers of two, in units of the grid."""
        return np.log2(self.integers).astype(np.int64)

    def __matmul__(self, vector: Array) -> Array:
        """``A v``, for each column of a matrix ``v``."""
        if self.is_diagonal:
            return np.asarray(_along_rows(self.values, vector) * vector)
        return _product(self.integers, vector) * self.grid

    def transposed(self, vector: Array) -> Array:
        """``A^T v``."""
        if self.is_diagonal:
            return self @ vector
        return np.asarray(_product(self.integers.T, vector) * self.grid)

    @cached_property
    def singular_values(self) -> tuple[float, float]:
        """Upper bound on the largest and lower bound on the smallest singular value."""
        if self.is_diagonal:
            return float(self.values.max()), float(self.values.min())
        values = np.linalg.svd(self.values, compute_uv=False)
        error = 2.0**-40 * values[0]
        return float(values[0] * _NORM_SLACK), float(max(values[-1] - error, 0.0))

    def exact_product(self, vector: Integers) -> tuple[Integers, int]:
        """``(A v / grid) / 2^shift``, each entry rounded to nearest, and that shift.

        Powers of two need no rounding. For a matrix the vector is split into limbs so short that their
        products and sums are exact doubles, in any order of addition.
        """
        if self.is_diagonal:
            return vector << _along_rows(self.exponents, vector), 0
        limb_bits = 53 - _ENTRY_BITS - (len(vector) - 1).bit_length()
        mask = (1 << limb_bits) - 1
        low = _product(self.integers, (vector & mask).astype(np.float64))
        result = (low.astype(np.int64) + (1 << (limb_bits - 1))) >> limb_bits
        rest, place = vector >> limb_bits, 0
        while place < 64 - limb_bits:
            last = place + limb_bits >= 64 - limb_bits
            limb = (rest if last else rest & mask).astype(np.float64)
            result += _product(self.integers, limb).astype(np.int64) << place
            rest, place = rest >> limb_bits, place + limb_bits
        return result, limb_bits


def _product(matrix: Array, vector: Array) -> Array:
    """``matrix @ vector``; of one vector without BLAS, whose threads spin and take cores from a pass."""
    if vector.ndim == 2:
        return np.asarray(matrix @ vector)
    return np.asarray(np.einsum("ij,j->i", matrix, vector), dtype=np.float64)


def _along_rows(values: NDArray[Any], array: NDArray[Any]) -> NDArray[Any]:
    """One value for each row of an array, in the shape in which it multiplies it."""
    return values.reshape(-1, *[1] * (array.ndim - 1))
