"""Dask arrays and data frames as corresponding blocks of a matrix and its targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import DataError


def is_dask_collection(X: Any) -> bool:
    """Whether ``X`` is a Dask array or data frame; does not import Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Blocks:
    """Corresponding blocks of a matrix and of its targets, as delayed objects."""

    X: list[Any]  # of dask.delayed.Delayed, like y
    y: list[Any]
    #: float32 or float64, in which the blocks of the matrix are read; None if `encode` determines it.
    dtype: Any
    held: list[Any]  # futures of blocks of the matrix that workers hold already
    encode: Callable[[Any], Any] | None = None  # from a block to a matrix

    @property
    def placed(self) -> bool:
        """Whether workers hold the matrix already."""
        return bool(self.held)


def blocks_of(X: Any, y: Any, encode: Callable[[Any], Any] | None = None) -> Blocks:
    """Blocks of a Dask array or data frame and of its targets.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        An array that is also chunked along the columns is rechunked into whole rows, on the workers.
    y : dask array of shape (n,) or dask series
        In as many blocks of rows.
    encode : callable, optional
        Applied to every block of `X` by the worker that holds it, such as a schema's `encode`.

    Raises
    ------
    DataError
        If they do not match.
    ModuleNotFoundError
        Without Dask.
    """
    try:
        import dask
        from distributed import futures_of
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
    dtype = _dtype(X) if encode is None else None
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got {X.ndim}")
    if not _is_frame(X) and X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    if y.ndim != 1:
        raise DataError(f"y must have one target per record, shape (n,), got {y.ndim} dimensions")
    y = _chunked_like(X, y)
    held = futures_of(X)
    if not (_is_frame(X) or _is_frame(y)):
        X, y = dask.optimize(X, y)  # together, so that common tasks are shared
    return Blocks(_delayed(X), _delayed(y), dtype, held, encode)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "divisions")


def _dtype(X: Any) -> Any:
    """Dtype in which the entries are read; DataError unless they are numbers."""
    if _is_frame(X):
        for name, dtype in X.dtypes.items():
            if getattr(dtype, "kind", "O") not in "fiub":
                raise DataError(
                    f"X must hold real numbers; column {name!r} has dtype {dtype}. A schema encodes "
                    "columns of other kinds."
                )
        return np.dtype(np.float64)  # as for all data frames, whose dtypes may depend on single cells
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, got dtype {X.dtype}")
    return np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _n_blocks(collection: Any) -> int:
    return int(collection.npartitions if _is_frame(collection) else collection.numblocks[0])


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
    if _n_blocks(X) != _n_blocks(y):
        raise DataError(
            f"X has {_n_blocks(X)} partitions and y has {_n_blocks(y)}: they must match, row by row. Take "
            "both from the same data frame, or repartition them."
        )
    return y


def _delayed(collection: Any) -> list[Any]:
    optimize = _is_frame(collection)
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=optimize), dtype=object)))
