"""Passes over rows seen through a public matrix, weighted by how long they are there.

``kernel_table.h`` says what images, weights and factors are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.data.passes import Array, LossSpec, RowsCountedOnce

#: What multiplies an image beside its weight: nothing, or a derivative of the loss.
PLAIN, SLOPE, CURVATURE, THIRD = range(4)


@dataclass(frozen=True, repr=False, eq=False)
class ImagePass(RowsCountedOnce):
    """What these passes have in common.

    Attributes
    ----------
    inner_bound, grid : float
        Of the rows before they are multiplied.
    matrix : ndarray
        Whole numbers, as for `ImageNorms`.
    n_images : int
        Columns of it that are no padding.
    image_unit : float
        One unit of the integer products, in units of the grid of the sums.
    clip : float
        Length from which images are weighted down, in the same units.
    """

    makes_rows_dense = "rows seen through a matrix"
    inner_bound: float
    grid: float
    matrix: Array
    n_images: int
    image_unit: float
    clip: float


@dataclass(frozen=True, repr=False, eq=False)
class ImageSum(ImagePass):
    """Sum of weighted images, each no longer than `image_bound`; ``w`` None for predictions of 0."""

    kernel = "image_sum"
    loss_spec: LossSpec
    w: Array | None
    image_factor: int
    image_bound: float


@dataclass(frozen=True, repr=False, eq=False)
class ImageGram(ImageSum):
    """Upper triangle of the sum of their outer products."""

    kernel = "image_gram"


@dataclass(frozen=True, repr=False, eq=False)
class ImageTable(ImagePass):
    """Along which axes the longest images lie, by powers of two of their length."""

    kernel = "image_table"
    n_bins: int


@dataclass(frozen=True, repr=False, eq=False)
class ResidualSums(ImagePass):
    """Rows that are weighted down, squared slopes and curvatures, the last two in units of `inner_clips`."""

    kernel = "residual_sums"
    loss_spec: LossSpec
    w: Array
    inner_clips: Array


#: One record counts so many in tables and sums of residuals.
COUNT_UNITS = np.int64(2**20)
