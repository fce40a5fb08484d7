"""Passes over images of the rows under a public matrix, weighted down where they are long.

``kernel_table.h`` defines images, weights and factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.data.passes import Array, Integers, KernelRows, LossSpec, RowsCountedOnce

#: What multiplies an image besides its weight: nothing, or a derivative of the loss.
PLAIN, SLOPE, CURVATURE, THIRD = range(4)


@dataclass(frozen=True, repr=False, eq=False)
class Images:
    """Images of the rows under a matrix, and when they are weighted down; all public."""

    inner_bound: float  # norm bound of the rows before the multiplication
    grid: float  # of the rows before the multiplication
    matrix: Array  # integers, as for `ImageNorms`
    n_images: int  # number of columns of the matrix without padding
    image_unit: float  # one unit of the integer products, in units of the grid of the sums
    clip: float  # norm above which images are weighted down, in the same units


@dataclass(frozen=True, repr=False, eq=False)
class ImagePass(RowsCountedOnce):
    """Common fields of these passes."""

    makes_rows_dense = "rows mapped by a matrix"
    images: Images


@dataclass(frozen=True, repr=False, eq=False)
class ImageSum(ImagePass):
    """Sum of weighted images, each of norm at most `image_bound`; ``w`` None for predictions of 0."""

    loss_spec: LossSpec
    w: Array | None
    image_factor: int
    image_bound: float

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The sum."""
        factor = self.loss_spec, self.w, self.image_factor
        return rows.image_sum(self.images, *factor, self.image_bound, n_threads, batch=batch)


@dataclass(frozen=True, repr=False, eq=False)
class ImageGram(ImageSum):
    """Upper triangle of the sum of the outer products of weighted images."""

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The triangle."""
        factor = self.loss_spec, self.w, self.image_factor
        return rows.image_gram(self.images, *factor, self.image_bound, n_threads, batch=batch)


@dataclass(frozen=True, repr=False, eq=False)
class ImageTable(ImagePass):
    """Squared coordinates of the long images, normalised, by powers of two of their norm."""

    n_bins: int

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The table."""
        return rows.image_table(self.images, self.n_bins, n_threads, batch=batch)


@dataclass(frozen=True, repr=False, eq=False)
class ResidualSums(ImagePass):
    """Number of rows weighted down; squared slopes and curvatures, in units of their largest values."""

    loss_spec: LossSpec
    w: Array
    largest_square: float
    largest_curvature: float

    def over_batch(self, rows: KernelRows, batch: Integers | None, n_threads: int) -> Integers:
        """The three sums."""
        largest = self.largest_square, self.largest_curvature
        return rows.residual_sums(self.images, self.loss_spec, self.w, *largest, n_threads, batch=batch)


#: The contribution of one record to tables and sums of residuals.
COUNT_UNITS = np.int64(2**20)
