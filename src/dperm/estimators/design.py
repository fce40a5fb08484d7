"""Design matrices of estimators: what a caller passes as X becomes a matrix that an objective reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, validate_data

from dperm.data.dask.collections import is_dask_collection
from dperm.data.dask.rows import EncodedCollection
from dperm.data.files.record_files import RecordFiles
from dperm.data.readable import check_readable
from dperm.data.schema.schema import Schema
from dperm.data.sparse import is_sparse
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError
from dperm.estimators.dask_input import training_collections
from dperm.estimators.input_checks import sound_matrix

# What a prediction works on at a time, so that it stays in the cache: rows, and numbers of a dense matrix.
_BLOCK_ROWS, _BLOCK_NUMBERS = 4096, 1 << 18

Matrix = NDArray[Any] | TabularMatrix | RecordFiles | EncodedCollection


def training_data(estimator: Any, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Matrix, NDArray[Any]]:
    """Records and targets of ``fit``, checked; sets ``n_features_in_`` and ``feature_names_in_``.

    Raises
    ------
    ValueError
        For data that cannot be used.
    """
    schema = estimator.schema
    check_readable(X=X if schema is None else None, y=y)  # a schema knows more of its columns
    if is_dask_collection(X):
        return training_collections(estimator, X, y)
    if isinstance(X, RecordFiles):
        _check_files(X, schema, estimator.row_norm)
        estimator.n_features_in_ = X.n_columns
        return X, y
    if not _is_tabular(X, schema):
        matrix, targets = _validated(
            estimator, X, y, ensure_all_finite=False, multi_output=False, y_numeric=y_numeric
        )
        return matrix, targets
    targets = validate_data(estimator, y=y, multi_output=False, y_numeric=y_numeric)
    matrix = _tabular_matrix(X, schema)
    if len(matrix) == 0:
        raise DataError("X must have at least one record, got none")
    check_consistent_length(matrix, targets)
    estimator.n_features_in_ = matrix.n_columns if schema is None else len(schema.columns)
    if schema is not None:
        estimator.feature_names_in_ = np.array(schema.column_names, dtype=object)
    return matrix, targets


def prediction_blocks(estimator: Any, X: Any, n_columns: int) -> Iterator[Any]:
    """Rows to predict as dense arrays of doubles with `n_columns`, as CSR or as tabular matrices, in order.

    Raises
    ------
    ValueError
        For data that cannot be used, or are not like those of ``fit``.
    """
    if isinstance(X, RecordFiles):
        for part in X.matrices():
            yield from prediction_blocks(estimator, part, n_columns)
        return
    if not _is_tabular(X, estimator.schema):
        check_readable(X=X)
        rows = _validated(estimator, X, reset=False)
        if is_sparse(rows):
            yield rows
            return
        step = min(max(_BLOCK_NUMBERS // rows.shape[1], 1), _BLOCK_ROWS)
        for start in range(0, max(len(rows), 1), step):
            yield np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
        return
    matrix = _tabular_matrix(X, estimator.schema)
    if matrix.n_columns != n_columns:
        raise DataError(f"X has {matrix.n_columns} columns, the model was fitted to {n_columns}")
    for start in range(0, max(len(matrix), 1), _BLOCK_ROWS):
        yield matrix[start : start + _BLOCK_ROWS]


def public_row_norm(row_norm: float | None, schema: Schema | None, fit_intercept: bool) -> float:
    """The bound on the norm of a row: the given one, else the schema's, else 1."""
    if row_norm is not None:
        return row_norm
    return 1.0 if schema is None else schema.row_norm(fit_intercept)


def schema_facts(schema: Schema | None) -> dict[str, str]:
    """What a privacy statement says of the schema among what was public."""
    if schema is None:
        return {}
    name = f"{schema.name!r}, " if schema.name else ""
    text = f"{name}{len(schema.columns)} columns as {schema.n_columns}, SHA-256 {schema.digest[:16]}..."
    if schema.privacy is not None:
        stated = schema.privacy
        text += f", learned with epsilon = {stated.epsilon:g}, delta = {stated.delta:g} (its own statement)"
    return {"schema": text}


def _check_files(files: RecordFiles, schema: Schema | None, row_norm: float | None) -> None:
    """Files are encoded by the schema that they were scanned with, which the estimator must know of."""
    if schema is not None and files.schema != schema:
        raise DataError("X are files scanned with another schema, or none: scan them with the same schema=")
    if files.schema is not None and schema is None and row_norm is None:
        raise DataError("X are files scanned with a schema: pass it to the estimator, too, or a row_norm")


def _is_tabular(X: Any, schema: Schema | None) -> bool:
    if schema is not None and not isinstance(schema, Schema):
        raise TypeError(f"schema must be a dperm.Schema, got {type(schema).__name__}")
    return schema is not None or isinstance(X, TabularMatrix)


def _tabular_matrix(X: Any, schema: Schema | None) -> TabularMatrix:
    """The table encoded by the schema; a tabular matrix as it is."""
    if not isinstance(X, TabularMatrix):
        assert schema is not None
        return schema.encode(X)
    if schema is not None and dataclasses.replace(X.layout, step=1.0) != schema.layout:
        raise DataError(f"X is encoded already, into {X.n_columns} columns, and not by this schema")
    return X


def _validated(estimator: Any, X: Any, *y: Any, **checks: Any) -> Any:
    # As dperm.data.dense.as_matrix: the dtype of a frame may come from its cells.
    dtypes = [np.float64] if hasattr(X, "columns") else [np.float64, np.float32]
    try:
        return validate_data(estimator, sound_matrix(X), *y, accept_sparse="csr", dtype=dtypes, **checks)
    except ValueError as error:
        if "could not convert" in str(error) and hasattr(X, "columns"):
            raise DataError(
                f"{error}. Columns of text need schema=, a public description of the table: see dperm.Schema"
            ) from None
        raise
