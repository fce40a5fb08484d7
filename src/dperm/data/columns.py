"""Design matrices in column-major storage, as files and data frames have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.row_kernels import ColumnsSource
from dperm.data.dense import DenseMatrixRows, SoftmaxMatrixRows, matrix_rows
from dperm.data.rows import RowSettings


class ColumnsMatrix:
    """A dense matrix stored column by column.

    Parameters
    ----------
    columns : sequence of (n,) ndarray
        float32 or float64, contiguous, all of the same dtype.
    """

    ndim = 2

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self.columns = tuple(columns)
        self.dtype = self.columns[0].dtype
        self.shape = (self.columns[0].size, len(self.columns))

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """The indexed rows as a dense array."""
        return np.stack([column[rows] for column in self.columns], axis=-1)

    def to_dense(self) -> NDArray[Any]:
        """The matrix as an array in C order."""
        return self[:]

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> DenseMatrixRows:
        """The records with targets `y`, as an objective reads them."""
        return matrix_rows(ColumnsSource(self.columns), y, settings, self.__getitem__)

    def rows_for_one_pass(self, y: ArrayLike, settings: RowSettings) -> DenseMatrixRows:
        """The same for records that were checked before: norms are computed during the pass.

        They are computed from the bytes that the pass itself reads, so clipping holds whatever these are.
        """
        targets = settings.targets.array(y, self.dtype)
        settings.targets.check(targets, settings.non_finite, settings.first_row)
        kind = ColumnsRows if settings.targets.n_classes is None else SoftmaxColumnsRows
        source, intercept = ColumnsSource(self.columns), settings.fit_intercept
        weights = settings.weights_of(targets)
        return kind(source, targets, intercept, settings.row_norm, 1, keep_norms=False, weights=weights)


class _NormsOnDemand:
    """Row norms that are computed when they are needed outside a pass."""

    row_norms: Callable[[int], NDArray[np.float64]]

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        """Norms of the rows."""
        return self.row_norms(1)


class ColumnsRows(_NormsOnDemand, DenseMatrixRows):  # type: ignore[override]
    """Rows of a `ColumnsMatrix` whose norms every pass recomputes."""


class SoftmaxColumnsRows(_NormsOnDemand, SoftmaxMatrixRows):  # type: ignore[override]
    """The same under the softmax loss."""
