"""From a matrix or another source of records to the rows that an objective reads in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dperm.data.dense import dense_rows
from dperm.data.rows import Rows, RowSettings, RowSource, is_source, is_streamed
from dperm.data.sparse import as_csr, is_sparse, sparse_rows
from dperm.data.targets import Multiplicity
from dperm.errors import DataError


def rows_of(X: ArrayLike | RowSource, y: ArrayLike | None, settings: RowSettings) -> Rows:
    """Records ``(X, y)`` as the kernels read them.

    Raises DataError for invalid data. Nothing is drawn or charged before this check.
    """
    counts = settings.multiplicity
    if counts is not None and is_streamed(X):
        raise DataError(f"counts are for rows in memory: X of type {type(X).__name__} takes none")
    if counts is not None and not counts.each.all():
        X, y, settings = _without_empty_rows(X, y, settings, counts)
    if settings.weights is not None and settings.weights.each is not None and is_streamed(X):
        raise DataError(
            f"weights of records are for rows in memory: X of type {type(X).__name__} takes none (weights of "
            "classes work with it)"
        )
    rows: Rows
    if is_sparse(X):
        rows = sparse_rows(X, y, settings)
    elif is_source(X):
        rows = X.rows(y, settings)
    else:
        rows = dense_rows(cast(ArrayLike, X), y, settings)
    if counts is not None and rows.n_rows != counts.n_records:
        raise DataError(f"X of type {type(X).__name__} takes no counts")
    return rows


def _without_empty_rows(
    X: Any, y: ArrayLike | None, settings: RowSettings, counts: Multiplicity
) -> tuple[Any, Any, RowSettings]:
    """A copy without the rows of multiplicity 0, which must have no influence at all."""
    matrix: Any = as_csr(X) if is_sparse(X) else X if is_source(X) else np.asarray(X)
    targets = np.asarray(y)
    if matrix.shape[:1] + targets.shape != 2 * counts.each.shape:
        raise DataError(
            f"counts, X and y must have one entry per row, got shape {counts.each.shape} for counts and "
            f"{targets.shape} for y"
        )
    present = np.flatnonzero(counts.each)
    weights = None if settings.weights is None else settings.weights.among(present)
    settings = replace(settings, multiplicity=Multiplicity(counts.each[present]), weights=weights)
    return matrix[present], targets[present], settings
