"""Dense design matrices: float32 or float64 arrays in C order, read in place."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm._kernels.row_kernels import DenseRows
from dperm._kernels.threads import threads_for
from dperm.errors import CopyWarning, DataError

Matrix = NDArray[np.float32] | NDArray[np.float64]

NON_FINITE_POLICIES = ("raise", "zero")


def as_matrix(X: ArrayLike) -> Matrix:
    """``X`` as a C-ordered float32 or float64 matrix; the very same array where it already is one."""
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got shape {matrix.shape}")
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise DataError(f"X must have at least one record and one column, got shape {matrix.shape}")
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, got dtype {matrix.dtype}")
    dtype = matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float64
    ready: Matrix = _in_kernel_layout(matrix, dtype)
    if isinstance(X, np.ndarray) and ready is not X and not np.shares_memory(ready, X):
        warnings.warn(
            f"X (dtype {matrix.dtype}, strides {matrix.strides}) was copied once: pass a float32 or "
            "float64 array in C order to have it read in place",
            CopyWarning,
            stacklevel=4,  # the caller of Objective
        )
    return ready


def _in_kernel_layout(array: NDArray[Any], dtype: Any) -> Any:
    return np.require(array, dtype=dtype, requirements=["C", "ALIGNED"])


def as_targets(y: ArrayLike, dtype: Any, bound: float = math.inf) -> NDArray[Any]:
    """``y`` in the matrix's dtype, clamped to ``[-bound, bound]``; targets that are not finite stay so."""
    targets = np.asarray(y)
    if targets.dtype.kind not in "fiub":
        raise DataError(f"y must hold real numbers, got dtype {targets.dtype}")
    with np.errstate(over="ignore"):  # a target beyond float32 becomes infinite, hence not finite
        ready = _in_kernel_layout(targets, dtype)
        limit = ready.dtype.type(bound)
    if float(limit) > bound:  # the bound has no float32 equal: a comparison in float32 would miss it
        limit = np.nextafter(limit, ready.dtype.type(0))
    too_far = (np.abs(ready) > limit) & np.isfinite(ready)
    if too_far.any():
        ready = np.where(too_far, np.copysign(limit, ready), ready)
    return np.asarray(ready)


def dense_rows(
    X: ArrayLike,
    y: ArrayLike,
    *,
    fit_intercept: bool,
    row_norm: float,
    non_finite: str,
    n_threads: int | None,
    target_bound: float = math.inf,
    kernels: type[DenseRows] = DenseRows,
) -> DenseRows:
    """Records ``(X, y)`` for the kernels, with the norms of the rows computed once.

    Targets beyond ``target_bound`` are moved onto it, as rows beyond ``row_norm`` are.

    Raises
    ------
    DataError
        When shapes do not match, or, with ``non_finite="raise"``, when a value is NaN or infinite.
        Nothing is drawn or charged before this check.
    """
    if non_finite not in NON_FINITE_POLICIES:
        raise ValueError(f"non_finite must be one of {NON_FINITE_POLICIES}, got {non_finite!r}")
    matrix = as_matrix(X)
    targets = as_targets(y, matrix.dtype, target_bound)
    if targets.shape != (matrix.shape[0],):
        raise DataError(
            f"y must have one target per record, shape ({matrix.shape[0]},), got shape {targets.shape}"
        )
    rows = kernels(matrix, targets, fit_intercept, row_norm, threads_for(n_threads, matrix.size))
    if non_finite == "raise":
        _raise_non_finite(matrix, targets, rows.norms)
    return rows


def _raise_non_finite(
    matrix: Matrix, targets: Matrix | NDArray[np.float64], norms: NDArray[np.float64]
) -> None:
    advice = 'Clean the data, or pass non_finite="zero" to let such records count for nothing.'
    bad_rows = np.flatnonzero(np.isnan(norms))
    if bad_rows.size:
        row = int(bad_rows[0])
        column = int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
        raise DataError(
            f"Input X contains NaN or infinity: first at row {row}, column {column} "
            f"({matrix[row, column]}). {advice}"
        )
    long_rows = np.flatnonzero(np.isinf(norms))
    if long_rows.size:
        raise DataError(
            f"Input X contains a row whose norm is above the largest double: row {long_rows[0]}. {advice}"
        )
    bad_targets = np.flatnonzero(~np.isfinite(targets))
    if bad_targets.size:
        row = int(bad_targets[0])
        raise DataError(f"Input y contains NaN or infinity: first at row {row} ({targets[row]}). {advice}")
