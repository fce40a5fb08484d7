"""Dask arrays and data frames as pairs of a block of the matrix and its targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import DataError

_INSTALL = "pip install 'dperm[distributed]'"


def is_dask_collection(X: Any) -> bool:
    """Whether ``X`` is a Dask array or data frame; Dask is not imported to find out."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class Blocks:
    """Corresponding blocks of a matrix and of its targets, as delayed objects.

    Attributes
    ----------
    X, y : list of dask.delayed.Delayed
    dtype : dtype or None
        float32 or float64, in which the blocks of the matrix are read; None for matrices that know.
    held : list of distributed.Future
        What workers hold of the matrix already.
    encode : callable or None
        Makes matrices of the blocks.
    """

    X: list[Any]
    y: list[Any]
    dtype: Any
    held: list[Any]
    encode: Callable[[Any], Any] | None = None

    @property
    def placed(self) -> bool:
        """Whether workers hold the matrix already."""
        return bool(self.held)


def blocks_of(X: Any, y: Any, encode: Callable[[Any], Any] | None = None) -> Blocks:
    """Blocks of a Dask array or data frame and of its targets.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        An array that is cut along the columns, too, is put together row-wise, on the workers.
    y : dask array of shape (n,) or dask series
        In as many blocks of rows.
    encode : callable, optional
        Applied to every block of `X` by the worker that holds it, such as a schema's `encode`.

    Raises
    ------
    DataError
        Where they do not match.
    ModuleNotFoundError
        Without Dask.
    """
    try:
        import dask
        from distributed import futures_of
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"records in Dask collections need Dask: {_INSTALL}") from error

    if y is None:
        raise DataError("y must be given: one target per record")
    if not is_dask_collection(y):
        raise DataError(
            f"X is a Dask collection, so y must be a Dask array or series with the same partitions, got "
            f"{type(y).__name__}. If it fits this machine: dask.array.from_array(y, chunks=X.chunks[0])."
        )
    dtype = _dtype(X) if encode is None else None
    X, y = _whole_rows(X), _in_one_column(y)
    y = _cut_alike(X, y)
    held = futures_of(X)
    if not (_is_frame(X) or _is_frame(y)):
        X, y = dask.optimize(X, y)  # together, so that they share what they have in common
    return Blocks(_delayed(X), _delayed(y), dtype, held, encode)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "divisions")


def _dtype(X: Any) -> Any:
    """Type in which the entries are read; DataError for what holds no numbers."""
    if _is_frame(X):
        columns = [(name, dtype) for name, dtype in X.dtypes.items()]
        wrong = [(name, dtype) for name, dtype in columns if getattr(dtype, "kind", "O") not in "fiub"]
        if wrong:
            name, dtype = wrong[0]
            raise DataError(
                f"X must hold real numbers; column {name!r} has dtype {dtype}. A schema encodes columns of "
                "other kinds."
            )
        return np.dtype(np.float64)  # as other frames: types of columns may come from their cells
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, got dtype {X.dtype}")
    return np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _whole_rows(X: Any) -> Any:
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got {X.ndim}")
    if not _is_frame(X) and X.numblocks[1] != 1:
        return X.rechunk({1: -1})
    return X


def _in_one_column(y: Any) -> Any:
    if y.ndim != 1:
        raise DataError(f"y must have one target per record, shape (n,), got {y.ndim} dimensions")
    return y


def _n_blocks(collection: Any) -> int:
    return int(collection.npartitions if _is_frame(collection) else collection.numblocks[0])


def _cut_alike(X: Any, y: Any) -> Any:
    """``y`` in the blocks of ``X``, where the lengths of both are known; the workers check the others."""
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
