"""Dask arrays and data frames as corresponding blocks of a matrix and its targets, and tasks over blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.checks import check_names
from dperm.data.sparse import is_sparse
from dperm.errors import DataError

_ADDED_AT_ONCE = 8


def is_dask_collection(X: Any) -> bool:
    """Whether ``X`` is a Dask array or data frame; does not import Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Blocks:
    """Corresponding blocks of a matrix and of its targets, as delayed objects."""

    X: list[Any]  # of dask.delayed.Delayed, like y
    y: list[Any]
    read: Callable[[Any], Any]  # from a block of `X` to a matrix, on the worker


def blocks_of(X: Any, y: Any, encode: Callable[[Any], Any] | None = None) -> Blocks:
    """Blocks of a Dask array or data frame and of its targets.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        An array that is also chunked along the columns is rechunked into whole rows, on the workers.
    y : dask array of shape (n,) or dask series
        In as many blocks of rows.
    encode : callable, optional
        How a worker reads a block of `X`, such as a schema's `encode`; by default as numbers.

    Raises
    ------
    DataError
        If they do not match.
    ModuleNotFoundError
        Without Dask.
    """
    try:
        import dask
    except ModuleNotFoundError as error:
        message = "records in Dask collections need Dask: pip install 'dperm[distributed]'"
        raise ModuleNotFoundError(message) from error

    if y is None:
        raise DataError("y must be given: one target per record")
    if not is_dask_collection(y):
        raise DataError(
            f"X is a Dask collection, so y must be a Dask array or series with the same partitions, got "
            f"{type(y).__name__}. If y fits in memory: dask.array.from_array(y, chunks=X.chunks[0])."
        )
    read = _reader(X) if encode is None else encode
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got {X.ndim}")
    if not _is_frame(X) and X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    if y.ndim != 1:
        raise DataError(f"y must have one target per record, shape (n,), got {y.ndim} dimensions")
    y = _chunked_like(X, y)
    if not (_is_frame(X) or _is_frame(y)):
        X, y = dask.optimize(X, y)  # together, so that common tasks are shared
    return Blocks(delayed_blocks(X), delayed_blocks(y), read)


def delayed_blocks(collection: Any) -> list[Any]:
    """Blocks of a series, a data frame, or a Dask array with a single column of blocks."""
    optimize = _is_frame(collection)
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=optimize), dtype=object)))


def task(function: Callable[..., Any]) -> Any:
    """A function that makes Dask tasks, each with a key of its own and its arguments as they are."""
    import dask

    return dask.delayed(function, pure=False, traverse=False)


def added_up(parts: Sequence[Any], make: Callable[[Callable[..., Any]], Any] = task) -> Any:
    """The sum of delayed values (or futures, if `make` makes futures), added in a tree."""
    while len(parts) > 1:
        groups = (parts[start : start + _ADDED_AT_ONCE] for start in range(0, len(parts), _ADDED_AT_ONCE))
        parts = [make(_added)(*group) for group in groups]
    return parts[0]


def as_array(values: Any) -> NDArray[Any]:
    """A block of a series or an array as an array."""
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _added(*values: Any) -> Any:
    return reduce(add, values)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "divisions")


def _reader(X: Any) -> Callable[[Any], Any]:
    """How blocks of numbers are read; DataError unless the collection declares numbers."""
    if not _is_frame(X):
        if X.dtype.kind not in "fiub":
            raise DataError(f"X must hold real numbers, got dtype {X.dtype}")
        return partial(
            _matrix, dtype=np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        )
    for name, dtype in X.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise DataError(
                f"X must hold real numbers; column {name!r} has dtype {dtype}. A schema encodes columns of "
                "other kinds."
            )
    # float64 as for all data frames, whose dtypes may depend on single cells
    return partial(_numbers_of_frame, names=list(X.columns))


def _numbers_of_frame(frame: Any, names: list[Any]) -> Any:
    """The columns of a partition in the order that the collection declares, whatever their order in it."""
    found = list(frame.columns)
    if found != names:
        check_names(found, names, table="a partition of X", by="the collection", advice="declare them")
        frame = frame[names]
    return _matrix(frame, np.dtype(np.float64))


def _matrix(X: Any, dtype: np.dtype[Any]) -> Any:
    """An array or a data frame of numbers in the layout of the kernels, copied only if necessary."""
    if is_sparse(X):
        return X
    matrix = as_array(X)
    if matrix.ndim == 0:
        raise DataError(
            "blocks of X must be arrays, data frames or matrices of scipy.sparse, got "
            f"{type(X).__module__}.{type(X).__qualname__}"
        )
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        return matrix  # `rows_of` raises an error
    return np.require(matrix, dtype=dtype, requirements=["C", "ALIGNED"])


def _chunked_like(X: Any, y: Any) -> Any:
    """``y`` in the chunks of ``X`` if the lengths of both are known; otherwise the workers check them."""
    if not (_is_frame(X) or _is_frame(y)):
        lengths, others = X.chunks[0], y.chunks[0]
        known = not (np.isnan(lengths).any() or np.isnan(others).any())
        if known and sum(lengths) != sum(others):
            raise DataError(
                f"y must have one target per record, shape ({sum(lengths)},), got shape ({sum(others)},)"
            )
        if known:
            return y if lengths == others else y.rechunk((lengths,))
    in_X, in_y = (int(each.npartitions if _is_frame(each) else each.numblocks[0]) for each in (X, y))
    if in_X != in_y:
        raise DataError(
            f"X has {in_X} partitions and y has {in_y}: they must match, row by row. Take both from the same "
            "data frame, or repartition them."
        )
    return y
