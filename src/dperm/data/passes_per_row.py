"""Passes with a result for each row: predictions, and lengths that stand for norms in clips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.data.passes import Array, KernelRows, Pass


class PerRow(Pass):
    """A pass with a result for each row."""

    exact = False
    #: Whether workers of a cluster keep the result for later passes over their records.
    stays_with_records: ClassVar[bool] = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row's result."""
        return ()

    def combined(self, results: Iterator[Array]) -> Array:
        """All results, in the order of the parts."""
        return np.concatenate(list(results))


@dataclass(frozen=True, repr=False, eq=False)
class Predictions(PerRow):
    """Linear predictions."""

    kernel = "predictions"
    w: Array

    @property
    def row_shape(self) -> tuple[int, ...]:
        """One prediction, or one for each class."""
        return self.w.shape[1:]


@dataclass(frozen=True, repr=False, eq=False)
class ImageNorms(PerRow):
    """At least ``||A (x_i, 1)||`` for the unscaled rows and a public matrix ``A``; private.

    Attributes
    ----------
    row_norm, grid : float
        Rows are scaled onto ``row_norm`` and rounded to ``grid``.
    matrix : ndarray
        ``A`` as whole numbers, as ``norms_through`` of ``kernel_table.h`` wants it.
    unit : float
        One unit of the integer products, room for the error of their norm included.
    displacement : float
        By how much rounding a row may move its image.
    largest, smallest : float
        Singular values of ``A``.
    """

    kernel = "norms_through"
    makes_rows_dense = "gradients mapped by a square matrix"
    stays_with_records = True
    row_norm: float
    grid: float
    matrix: Array
    unit: float
    displacement: float
    largest: float
    smallest: float
    multiplies_rows = True

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return "inner_bound", "grid", "matrix"

    @property
    def inner_bound(self) -> float:
        """Bound on the norm of a row before rounding."""
        return 2.0 * self.row_norm

    def over_rows(self, rows: KernelRows, n_threads: int) -> Array:
        """Norms of the integer products, enlarged by what rounding and scaling may have taken off."""
        norms: Array = rows.call(self, n_threads)
        norms *= self.unit
        norms += self.displacement
        # Rows so long that the factor that scales them loses digits: the bound that needs none.
        norms[rows.norms > self.row_norm * 2.0**900] = self.largest * self.row_norm * (1.0 + 2.0**-20)
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite do not count
            norms *= np.maximum(1.0, rows.norms / self.row_norm)
            return np.maximum(norms, self.smallest * rows.norms)


@dataclass(frozen=True, repr=False, eq=False)
class ScaledNorms(PerRow):
    """At least ``||(s_j (x_i, 1)_j)_j||`` for the unscaled rows and public factors ``s``; private.

    Attributes
    ----------
    column_scales : ndarray
        ``s``, positive.
    row_norm : float
    for_batches : bool
        Whether passes over batches are to use them, which tell identical records apart.
    """

    kernel = "norms_scaled"
    makes_rows_dense = "gradients in scaled coordinates"
    stays_with_records = True
    column_scales: Array
    row_norm: float
    for_batches: bool

    @property
    def multiplies_rows(self) -> bool:
        """Unless passes over batches follow."""
        return not self.for_batches

    @classmethod
    def arguments(cls) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return ("column_scales",)

    def over_rows(self, rows: KernelRows, n_threads: int) -> Array:
        """Norms of the scaled rows, enlarged by what scaling and rounding may have taken off."""
        norms: Array = rows.call(self, n_threads)
        smallest, largest = float(self.column_scales.min()), float(self.column_scales.max())
        norms *= 1.0 + (len(self.column_scales) + 32) * 2.0**-51
        # Rows so long that the factor that scales them loses digits: the bound that needs none.
        norms[rows.norms > self.row_norm * 2.0**900] = largest * self.row_norm * (1.0 + 2.0**-20)
        with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite do not count
            norms *= np.maximum(1.0, rows.norms / self.row_norm)
            np.maximum(norms, smallest * rows.norms, out=norms)
        return norms
