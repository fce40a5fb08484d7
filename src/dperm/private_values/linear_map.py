"""Public matrices on a grid, whose products with exact sums are exact."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_ENTRY_BITS = 24  # of a matrix; the rest of 53 bits is for the vector and the number of terms
_NORM_SLACK = 1.0 + 2.0**-30  # singular values come from floating-point arithmetic


def product(matrix: Array, vector: Array) -> Array:
    """``matrix @ vector`` without BLAS, whose threads keep spinning and take cores from the next pass."""
    return np.asarray(np.einsum("ij,j->i", matrix, vector), dtype=np.float64)


def along_rows(values: NDArray[Any], n_axes: int) -> NDArray[Any]:
    """One value for each row, in the shape in which it multiplies an array with that many axes."""
    return values.reshape(-1, *[1] * (n_axes - 1))


@dataclass(frozen=True)
class LinearMap:
    """A public matrix, rounded to integer multiples of a power of two.

    Attributes
    ----------
    integers : (m, d) ndarray of float64
        Integers of absolute value at most 2^24.
    grid : float
        Power of two; the matrix is ``grid * integers``.
    """

    integers: Array
    grid: float

    @classmethod
    def rounding(cls, matrix: ArrayLike) -> "LinearMap":
        """The matrix rounded to 24 bits for its largest entry.

        Raises
        ------
        ValueError
            For anything but a finite nonzero matrix with at most 2^13 columns.
        """
        values = np.asarray(matrix, dtype=np.float64)
        if values.ndim != 2 or not np.isfinite(values).all() or not values.any():
            raise ValueError("the matrix of a linear map must be finite, two-dimensional and not zero")
        if values.shape[1] > 2**13:
            raise ValueError(f"a linear map takes at most 8192 numbers, got {values.shape[1]}")
        grid = math.ldexp(1.0, math.frexp(float(np.abs(values).max()))[1] - _ENTRY_BITS)
        return cls(np.ascontiguousarray(np.rint(values / grid)), grid)

    @property
    def matrix(self) -> Array:
        """The rounded matrix."""
        return self.integers * self.grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return self.integers.shape

    def __matmul__(self, vector: Array) -> Array:
        return product(self.integers, vector) * self.grid

    def transposed(self, vector: Array) -> Array:
        """The transposed matrix times a vector."""
        return np.asarray(np.einsum("ij,i->j", self.integers, vector) * self.grid)

    def singular_values(self) -> tuple[float, float]:
        """Upper bound on the largest and lower bound on the smallest singular value."""
        return self._singular_values

    @functools.cached_property
    def _singular_values(self) -> tuple[float, float]:
        values = np.linalg.svd(self.matrix, compute_uv=False)
        error = 2.0**-40 * values[0]
        return float(values[0] * _NORM_SLACK), float(max(values[-1] - error, 0.0))

    def exact_product(self, vector: Integers) -> tuple[Integers, int]:
        """``(integers @ vector) / 2^shift``, each entry rounded to nearest, and that shift.

        The vector is split into limbs so short that their products and sums are exact doubles, in any order
        of addition.
        """
        limb_bits = 53 - _ENTRY_BITS - (len(vector) - 1).bit_length()
        mask = (1 << limb_bits) - 1
        low = product(self.integers, (vector & mask).astype(np.float64))
        result = (low.astype(np.int64) + (1 << (limb_bits - 1))) >> limb_bits
        rest, place = vector >> limb_bits, 0
        while place < 64 - limb_bits:
            last = place + limb_bits >= 64 - limb_bits
            limb = (rest if last else rest & mask).astype(np.float64)
            result += product(self.integers, limb).astype(np.int64) << place
            rest, place = rest >> limb_bits, place + limb_bits
        return result, limb_bits


@dataclass(frozen=True)
class DiagonalMap:
    """A public diagonal matrix of powers of two; products are exact.

    Attributes
    ----------
    exponents : (d,) ndarray of int64
        Base-2 logarithms of the factors over the smallest one.
    grid : float
        Power of two, the smallest factor.
    """

    exponents: Integers
    grid: float

    @classmethod
    def rounding(cls, factors: ArrayLike, largest_ratio: float) -> "DiagonalMap":
        """The nearest powers of two, none more than `largest_ratio` times the smallest.

        Raises
        ------
        ValueError
            For factors that are not positive and finite.
        """
        values = np.asarray(factors, dtype=np.float64)
        if values.ndim != 1 or not (values > 0.0).all() or not np.isfinite(values).all():
            raise ValueError("the factors of a diagonal map must be positive and finite")
        exponents = np.rint(np.log2(values)).astype(np.int64)
        above = np.minimum(exponents - exponents.min(), math.frexp(largest_ratio)[1] - 1)
        return cls(above, math.ldexp(1.0, int(exponents.min())))

    @property
    def factors(self) -> Array:
        """The diagonal."""
        return np.ldexp(self.grid, self.exponents)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return (len(self.exponents),) * 2

    def __matmul__(self, vector: Array) -> Array:
        """Times a vector, or each column of a matrix."""
        return np.asarray(along_rows(self.factors, vector.ndim) * vector)

    transposed = __matmul__

    def singular_values(self) -> tuple[float, float]:
        """The largest and the smallest factor."""
        return float(self.factors.max()), self.grid

    def exact_product(self, vector: Integers) -> tuple[Integers, int]:
        """A vector, or each column of a matrix, times ``factors / grid``; and a shift of 0."""
        return vector << along_rows(self.exponents, vector.ndim), 0
