"""Dense design matrices: arrays in C order, or column by column as in files, read in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._cached import cached_property
from dperm._kernels.row_kernels import ColumnsSource, MatrixSource, SoftmaxRows
from dperm._kernels.threads import threads_for
from dperm.data.rows import RowSettings, RowsInMemory
from dperm.errors import CopyWarning, DataError, warn_caller

Matrix = NDArray[np.float32] | NDArray[np.float64]


def as_matrix(X: ArrayLike) -> Matrix:
    """``X`` as a C-ordered float32 or float64 matrix; ``X`` itself where it already is one.

    A data frame is read as float64: its dtypes may depend on single cells (one missing value turns integers
    into floats), and the dtype, which determines the grid of every release, must be public.
    """
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        raise DataError(f"X is a {type(X).__name__}, which has not been evaluated: collect() it first")
    matrix = np.asarray(X)
    check_matrix(matrix)
    public = matrix.dtype in (np.float32, np.float64) and not hasattr(X, "columns")
    dtype = matrix.dtype if public else np.float64
    ready: Matrix = np.require(matrix, dtype=dtype, requirements=["C", "ALIGNED"])
    if isinstance(X, np.ndarray) and ready is not X and not np.shares_memory(ready, X):
        warn_caller(
            f"X (dtype {matrix.dtype}, strides {matrix.strides}) was copied once: pass a float32 or "
            "float64 array in C order to have it read in place",
            CopyWarning,
        )
    return ready


def check_matrix(X: Any) -> None:
    """Raise DataError unless `X`, an array or a sparse matrix, is a nonempty matrix of real numbers."""
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got shape {X.shape}")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X must have at least one record and one column, got shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, got dtype {X.dtype}")


def row_products(X: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """``X @ weights`` for doubles in C order, where each row of the result depends on that row of X alone.

    With BLAS the last bits depend on the number of rows and on a row's position among them.
    """
    columns = np.ascontiguousarray(np.atleast_2d(weights.T))
    products = np.stack([np.einsum("ij,j->i", X, column) for column in columns], axis=-1)
    return products.reshape(len(X), *weights.shape[1:])


class DenseMatrixRows(RowsInMemory):
    """Rows of a dense or virtually dense matrix under a loss of one linear prediction."""

    @property
    def n_columns(self) -> int:
        """Number of columns, without the intercept."""
        return int(self.x.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the arithmetic."""
        return self.x.dtype

    @property
    def n_entries(self) -> int:
        """Numbers stored for the matrix."""
        return int(self.x.size)


class SoftmaxMatrixRows(DenseMatrixRows, SoftmaxRows):
    """The same under the softmax loss."""


def dense_rows(X: ArrayLike, y: ArrayLike | None, settings: RowSettings) -> DenseMatrixRows:
    """Records of a dense matrix for the kernels; row norms are computed once.

    Raises DataError if shapes do not match, targets do not suit the loss or, with ``non_finite="raise"``, a
    value is NaN or infinite. Nothing is drawn or charged before this check.
    """
    matrix = as_matrix(X)
    rows = matrix_rows(matrix, y, settings, matrix.__getitem__)
    rows.stored = matrix
    return rows


def matrix_rows(
    matrix: Matrix | MatrixSource,
    y: ArrayLike | None,
    settings: RowSettings,
    dense_row: Callable[[int], NDArray[Any]],
    kinds: tuple[type[DenseMatrixRows], type[DenseMatrixRows]] = (DenseMatrixRows, SoftmaxMatrixRows),
) -> DenseMatrixRows:
    """The same for a matrix in any storage; `dense_row` returns one of its rows.

    ``kinds``: classes of the rows, for losses of one prediction and for softmax.
    """
    if y is None:
        raise DataError("y must be given: one target per record")
    targets = settings.targets.array(y, matrix.dtype)
    multiplicity = settings.multiplicity_of(matrix.shape[0])
    if targets.shape != (matrix.shape[0],):
        raise DataError(
            f"y must have one target per record, shape ({matrix.shape[0]},), got shape {targets.shape}"
        )
    kind = kinds[settings.targets.n_classes is not None]
    threads = threads_for(settings.n_threads, matrix.size)
    counts = None if multiplicity is None else multiplicity.each
    weights = settings.weights_of(targets)
    rows = kind(matrix, targets, settings.fit_intercept, settings.row_norm, threads, counts, True, weights)
    if settings.non_finite == "raise":
        _raise_non_finite(dense_row, targets, rows.norms, settings.first_row)
    settings.targets.check(targets, settings.non_finite, settings.first_row)
    rows.multiplicity = multiplicity
    return rows


def _raise_non_finite(
    dense_row: Callable[[int], NDArray[Any]],
    targets: NDArray[Any],
    norms: NDArray[np.float64],
    first_row: int,
) -> None:
    advice = 'Clean the data, or pass non_finite="zero" so that such records contribute nothing.'
    bad_rows = np.flatnonzero(np.isnan(norms))
    if bad_rows.size:
        row = int(bad_rows[0])
        entries = dense_row(row)
        column = int(np.flatnonzero(~np.isfinite(entries))[0])
        raise DataError(
            f"Input X contains NaN or infinity: first at row {first_row + row}, column {column} "
            f"({entries[column]}). {advice}"
        )
    long_rows = np.flatnonzero(np.isinf(norms))
    if long_rows.size:
        raise DataError(
            f"Input X contains a row whose norm overflows: row {first_row + long_rows[0]}. {advice}"
        )
    bad_targets = np.flatnonzero(~np.isfinite(targets))
    if bad_targets.size:
        row = int(bad_targets[0])
        raise DataError(
            f"Input y contains NaN or infinity: first at row {first_row + row} ({targets[row]}). {advice}"
        )


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


class ColumnsRows(_NormsOnDemand, DenseMatrixRows):
    """Rows of a `ColumnsMatrix` whose norms every pass recomputes."""


class SoftmaxColumnsRows(_NormsOnDemand, SoftmaxMatrixRows):
    """The same under the softmax loss."""
