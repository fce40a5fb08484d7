"""CSR matrices of scipy as design matrices, read in place row by row."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.row_kernels import SoftmaxRows, SparseSource
from dperm.data.dense import DenseMatrixRows, check_matrix, matrix_rows
from dperm.data.passes import Pass
from dperm.data.rows import RowSettings
from dperm.errors import CopyWarning, DataError, warn_caller

#: Limit for passes that make rows dense, as their work or result does not scale with the stored entries.
MAX_DENSE_COLUMNS = 1 << 14


def is_sparse(X: Any) -> bool:
    """Whether `X` is a matrix or array of scipy.sparse; does not import it."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


class SparseMatrixRows(DenseMatrixRows):
    """Rows of a sparse matrix under a loss of one linear prediction.

    Gradients, losses along a line, predictions and steps of stochastic gradient descent read the stored
    entries alone; the other passes make blocks of rows dense.
    """

    @property
    def reads_whole_rows(self) -> bool:  # type: ignore[override]
        """Whether rows are short enough to be made dense."""
        return self.n_columns <= MAX_DENSE_COLUMNS

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass; ValueError for one that would make very long rows dense."""
        if pass_.makes_rows_dense and not self.reads_whole_rows:
            raise ValueError(
                f"{pass_.makes_rows_dense} cannot be computed for sparse data with {self.n_columns} columns "
                f"(at most {MAX_DENSE_COLUMNS}): use another algorithm, such as noisy_gd, dp_sgd or dp_agd"
            )
        return super().run(pass_, n_threads)


class SparseSoftmaxRows(SparseMatrixRows, SoftmaxRows):
    """The same under the softmax loss, whose passes make blocks of rows dense."""

    def __init__(self, *arguments: Any) -> None:
        if arguments[0].shape[1] > MAX_DENSE_COLUMNS:
            raise DataError(
                f"the softmax loss supports sparse data with at most {MAX_DENSE_COLUMNS} columns, got "
                f"{arguments[0].shape[1]}: train one binary model per class instead"
            )
        super().__init__(*arguments)


def sparse_rows(X: Any, y: ArrayLike | None, settings: RowSettings) -> DenseMatrixRows:
    """Records of a matrix of scipy.sparse for the kernels.

    A float32 or float64 matrix in canonical CSR form (ascending indices without duplicates in each row) is
    read in place. Anything else is copied once, with a `CopyWarning`; the caller's matrix is never changed.

    Raises DataError as `dense_rows` does, and for arrays that do not form a valid sparse matrix. Nothing is
    drawn or charged before this check.
    """
    matrix = as_csr(X)
    n_entries = matrix.indptr[-1]
    source = SparseSource(
        np.require(matrix.data[:n_entries], None, ["C", "ALIGNED"]),
        np.require(matrix.indices[:n_entries], _index_type(matrix.indices), ["C", "ALIGNED"]),
        np.array(matrix.indptr, np.int64),  # the kernels trust their own copy
        matrix.shape[1],
    )
    kinds = SparseMatrixRows, SparseSoftmaxRows
    rows = matrix_rows(source, y, settings, lambda row: matrix[[row]].toarray()[0], kinds)
    rows.stored = matrix
    return rows


def as_csr(X: Any, *, warn: bool = True) -> Any:
    """`X` as a canonical CSR matrix of float32 or float64; shares its arrays with `X` if that is one.

    With `warn`, a copy comes with a `CopyWarning`.
    """
    check_matrix(X)
    reasons = []
    if X.format != "csr":
        _check_other_format(X)
        reasons.append(f"format {X.format!r}")
    matrix = X if X.format == "csr" else X.tocsr()
    if not _is_canonical_csr(matrix.indptr, matrix.indices, matrix.data, matrix.shape):
        reasons.append("indices unsorted or repeated")
        matrix = _canonical(matrix)
    if matrix.dtype not in (np.float32, np.float64):
        reasons.append(f"dtype {X.dtype}")
        matrix = matrix.astype(np.float64)
    if reasons and warn:
        warn_caller(
            f"X ({', '.join(reasons)}) was copied once: pass a float32 or float64 CSR matrix with sorted "
            "indices, none of them twice, to have it read in place",
            CopyWarning,
        )
    return matrix


def _index_type(indices: NDArray[Any]) -> Any:
    return np.int32 if indices.dtype == np.int32 else np.int64


def _canonical(matrix: Any) -> Any:
    """A copy with sorted indices; duplicates are summed in the order in which they are stored."""
    copy = matrix.tocsc().tocsr()
    copy.sum_duplicates()
    return copy


def _is_canonical_csr(indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> bool:
    """Whether the indices of each row (or column, of a CSC matrix) ascend without duplicates.

    Raises DataError for arrays that are not a compressed matrix of that shape: scipy checks only part of
    this, and the arrays may have been modified since.
    """
    arrays = {"indptr": indptr, "indices": indices, "data": data}
    for name, array in arrays.items():
        if not (isinstance(array, np.ndarray) and array.ndim == 1):
            _refuse(f"{name} must be an array of one dimension")
    for name in ("indptr", "indices"):
        if arrays[name].dtype.kind not in "iu":
            _refuse(f"{name} must hold integers, got dtype {arrays[name].dtype}")
    if indptr.size != shape[0] + 1:
        _refuse(f"indptr must have {shape[0] + 1} entries for shape {shape}, got {indptr.size}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if indptr[0] != 0 or falls.size:
        _refuse(f"indptr must start at 0 and never fall; it does at row {int(falls[0]) if falls.size else 0}")
    if indptr[-1] > min(indices.size, data.size):
        _refuse(f"indptr ends at {indptr[-1]}; there are {indices.size} indices and {data.size} values")
    starts = np.require(indptr, dtype=np.int64, requirements=["C", "ALIGNED"])
    columns = np.require(indices, dtype=_index_type(indices), requirements=["C", "ALIGNED"])
    no_values = np.empty(0, dtype=np.float32)  # the check does not read them
    fault, row = SparseSource(no_values, columns, starts, shape[1]).fault()
    if fault == "out of range":
        wrong = columns[starts[row] : starts[row + 1]]
        index = int(wrong[(wrong < 0) | (wrong >= shape[1])][0])
        _refuse(f"index {index} in row {row} is not in 0 .. {shape[1] - 1}")
    return fault is None


def _check_other_format(X: Any) -> None:
    """Check the indices before scipy converts the matrix: its routines trust them."""
    rows, columns = X.shape
    if X.format == "csc":
        _is_canonical_csr(X.indptr, X.indices, X.data, (columns, rows))
    elif X.format == "bsr":
        height, width = X.data.shape[1:]
        _is_canonical_csr(X.indptr, X.indices, X.data[:, 0, 0], (rows // height, columns // width))
    elif X.format == "coo":
        for axis, indices in enumerate(X.coords):
            wrong = (indices < 0) | (indices >= X.shape[axis])
            if wrong.any():
                _refuse(f"index {int(indices[wrong][0])} on axis {axis} is not in 0 .. {X.shape[axis] - 1}")


def _refuse(what: str) -> NoReturn:
    raise DataError(
        f"X is not a valid sparse matrix: {what}. Rebuild it from its entries, for example with "
        "scipy.sparse.csr_array((values, (rows, columns)), shape)"
    )
