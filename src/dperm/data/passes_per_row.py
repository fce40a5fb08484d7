"""Passes with a result for each row: predictions, and norms used for clipping in other coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.data.passes import Array, KernelRows, Pass


class PerRow(Pass):
    """A pass with a result for each row."""

    exact = False
    #: Whether Dask workers keep the result for later passes over their records.
    stays_with_records: ClassVar[bool] = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of the result for one row."""
        return ()

    def combined(self, results: Iterator[Array]) -> Array:
        """All results, in the order of the parts."""
        return np.concatenate(list(results))


def _of_unscaled_rows(
    norms: Array, rows: KernelRows, row_norm: float, smallest: float, largest: float
) -> Array:
    """Bounds for the unscaled rows, from bounds for the rows scaled onto `row_norm`.

    `smallest` and `largest` bound the factor by which the map changes a norm.
    """
    # The scale factors of extremely long rows lose digits: use the bound that does not need them.
    norms[rows.norms > row_norm * 2.0**900] = largest * row_norm * (1.0 + 2.0**-20)
    with np.errstate(over="ignore", invalid="ignore"):  # rows that are not finite contribute nothing
        norms *= np.maximum(1.0, rows.norms / row_norm)
        return np.maximum(norms, smallest * rows.norms, out=norms)


@dataclass(frozen=True, repr=False, eq=False)
class Predictions(PerRow):
    """Linear predictions."""

    w: Array

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one prediction, or of one per class."""
        return self.w.shape[1:]

    def over_rows(self, rows: KernelRows, n_threads: int) -> Array:
        """Predictions of the rows."""
        return rows.predictions(self.w, n_threads)


@dataclass(frozen=True, repr=False, eq=False)
class ImageNorms(PerRow):
    """Upper bounds on ``||A (x_i, 1)||`` for the unscaled rows and a public matrix ``A``; private."""

    makes_rows_dense = "gradients mapped by a square matrix"
    stays_with_records = True
    row_norm: float  # rows are scaled onto it,
    grid: float  # and rounded to it
    matrix: Array  # ``A`` in integers, laid out for ``norms_through`` of ``kernel_table.h``
    unit: float  # one unit of the integer products, with a margin for the rounding error of their norm
    displacement: float  # bound on how far rounding a row moves its image
    largest: float  # singular value of ``A``
    smallest: float  # singular value of ``A``
    multiplies_rows = True

    def over_rows(self, rows: KernelRows, n_threads: int) -> Array:
        """Norms of the integer products, plus the most that rounding and scaling can have taken off."""
        norms = rows.norms_through(2.0 * self.row_norm, self.grid, self.matrix, n_threads)
        norms *= self.unit
        norms += self.displacement
        return _of_unscaled_rows(norms, rows, self.row_norm, self.smallest, self.largest)


@dataclass(frozen=True, repr=False, eq=False)
class ScaledNorms(PerRow):
    """Upper bounds on ``||(s_j (x_i, 1)_j)_j||`` for the unscaled rows and public factors ``s``; private."""

    makes_rows_dense = "gradients in scaled coordinates"
    stays_with_records = True
    column_scales: Array  # ``s``, positive
    row_norm: float
    #: Whether they are for passes over batches, which need a norm for each of several identical records.
    for_batches: bool

    @property
    def multiplies_rows(self) -> bool:
        """Unless passes over batches follow."""
        return not self.for_batches

    def over_rows(self, rows: KernelRows, n_threads: int) -> Array:
        """Norms of the scaled rows, plus the most that scaling and rounding can have taken off."""
        norms = rows.norms_scaled(self.column_scales, n_threads)
        smallest, largest = float(self.column_scales.min()), float(self.column_scales.max())
        norms *= 1.0 + (len(self.column_scales) + 32) * 2.0**-51
        return _of_unscaled_rows(norms, rows, self.row_norm, smallest, largest)
