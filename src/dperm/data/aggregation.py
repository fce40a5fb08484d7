"""Merging identical records into one row with a multiplicity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.record_kernels import distinct_records
from dperm._kernels.threads import check_n_threads, threads_for
from dperm.data.dask_collections import is_dask_collection
from dperm.data.dense import as_matrix
from dperm.data.rows import is_streamed
from dperm.data.sparse import as_csr, is_sparse
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse

Integers = NDArray[np.int64]
Matrix = TypeVar("Matrix", bound="NDArray[Any] | TabularMatrix | scipy.sparse.csr_array")

# The bytes of record i: items i, or items starts[i] to starts[i + 1], of each of these arrays.
Parts = list[tuple[NDArray[Any], Integers | None]]


def aggregate(
    X: Matrix, y: ArrayLike, *, n_threads: int | None = None
) -> tuple[Matrix, NDArray[Any], Integers]:
    """Merge identical records: keep each distinct pair of row and target once, with its multiplicity.

    ``Objective(loss, X, y, counts=counts)`` on the result computes the same private sums, bit for bit and
    under the same guarantee, as ``Objective(loss, X, y)`` on the records, but only takes as long as the
    distinct rows do. An objective also merges by itself when it makes many passes over data with many
    repeated records; merging beforehand saves memory and serves any number of objectives.

    Parameters
    ----------
    X : (n_samples, n_columns) array_like, TabularMatrix, or CSR matrix or array of scipy.sparse
        A dense matrix that is not float32 or float64 in C order is copied first. Rows of a sparse matrix
        are compared in canonical form: indices sorted, duplicate entries summed.
    y : (n_samples,) array_like
        Targets, of any dtype with a fixed item size.
    n_threads : int, optional
        None or -1: all threads that the process may use. The result does not depend on it.

    Returns
    -------
    X : same type as `X`
        The distinct rows in order of first occurrence; rows of a table are reordered so that those with the
        same categories and zeros in the same columns are neighbours, which makes passes fastest.
    y : ndarray
        Their targets.
    counts : ndarray of int64
        The multiplicity of each row, at least 1. Private, like the rows.

    Raises
    ------
    DataError
        For data of other types or shapes.

    Notes
    -----
    Records are equal if their bytes are. So 0.0 and -0.0, explicit and implicit zeros of a sparse matrix, and
    NaNs with different payloads stay apart, which costs rows but changes no sum. It takes about as long as
    reading the records once, and memory (besides the result) proportional to the number of distinct records.
    Nothing is released: the result is the private data in another form.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X, y, counts = aggregate(np.array([[0.5], [1.0], [0.5]]), np.array([1, -1, 1]))
    >>> X.ravel(), y, counts
    (array([0.5, 1. ]), array([ 1, -1]), array([2, 1]))
    >>> dperm.Objective("logistic", X, y, counts=counts).n_public
    3
    """
    check_n_threads(n_threads)
    _check_in_memory(X, y)
    targets = np.require(y, requirements=["C", "ALIGNED"])
    if targets.dtype.hasobject or targets.dtype.itemsize == 0:
        raise DataError(f"y must hold values of a fixed size, got dtype {targets.dtype}: convert it first")
    return _merged(X, targets, n_threads)


def _check_in_memory(X: Any, y: Any) -> None:
    for name, part in (("X", X), ("y", y)):
        if is_dask_collection(part):
            raise DataError(
                f"{name} is a Dask collection, but records can only be merged in memory: pass "
                f"{name}.compute() if it fits, or train on the collection as it is"
            )
    if is_streamed(X):
        raise DataError(
            f"X of type {type(X).__name__} is not in memory, where records are merged: train on it as it is, "
            "or pass an array, a TabularMatrix or a CSR matrix, with targets y"
        )
    if y is None:
        raise DataError("y must hold one target per record, got None")


def _merged(X: Any, y: NDArray[Any], n_threads: int | None) -> tuple[Any, NDArray[Any], Integers]:
    matrix, parts = _matrix_parts(X)
    n_rows = matrix.shape[0]
    if y.shape != (n_rows,):
        raise DataError(f"y must have one target per record, shape ({n_rows},), got shape {y.shape}")
    parts.append((y, None))
    size = sum(items.nbytes for items, _ in parts) // 8
    first, counts = distinct_records(parts, n_rows, threads_for(n_threads, size))
    order = np.argsort(first, kind="stable")
    if isinstance(matrix, TabularMatrix):
        order = order[grouped_by_zeros(matrix[first[order]], counts[order])]
    first = first[order]
    return matrix[first], y[first], counts[order]


def grouped_by_zeros(table: TabularMatrix, counts: Integers) -> Integers:
    """A permutation after which rows whose dense form is 0 in the same columns are neighbours.

    Among these, records that occur once come first: passes need no products with counts for them. Then
    records with equal codes of maps are neighbours.
    """
    sizes, maps = np.array(table.layout.sizes), table.layout.maps or (None,) * len(table.layout.sizes)
    has_map = np.array([each is not None for each in maps], dtype=bool)
    mapped = np.ascontiguousarray(table.codes[:, has_map])
    nonzero = np.packbits(np.hstack([table.numeric != 0, mapped < sizes[has_map]]), axis=1)
    one_hot = np.ascontiguousarray(table.codes[:, ~has_map]).view(np.uint8)
    words = _words(np.hstack([nonzero, one_hot]))
    return np.lexsort([*_words(mapped.view(np.uint8)).T, counts > 1, *words.T])


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint64]:
    words = np.zeros((len(octets), -(-octets.shape[1] // 8)), dtype=np.uint64)
    words.view(np.uint8)[:, : octets.shape[1]] = octets
    return words


def _matrix_parts(X: Any) -> tuple[Any, Parts]:
    """The matrix as it is read, and the arrays that hold its rows."""
    parts: Parts
    if isinstance(X, TabularMatrix):
        matrix: Any = X
        parts = [(items, None) for items in (X.numeric, X.codes) if items.shape[1]]
    elif is_sparse(X):
        matrix = _canonical(X)
        starts = matrix.indptr.astype(np.int64)
        parts = [(np.ascontiguousarray(items), starts) for items in (matrix.indices, matrix.data)]
    else:
        matrix = as_matrix(X)
        parts = [(matrix, None)]
    if matrix.shape[0] == 0:
        raise DataError(f"X must have at least one record, got shape {matrix.shape}")
    return matrix, parts


def _canonical(X: Any) -> Any:
    if X.format != "csr" or X.dtype.kind not in "fiub":
        raise DataError(
            f"a sparse X must be a CSR matrix of real numbers, got format {X.format!r} and dtype {X.dtype}: "
            "convert it with X.tocsr()"
        )
    return as_csr(X, warn=False)
