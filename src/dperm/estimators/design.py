"""Design matrices: the X of a caller becomes a matrix that an objective can read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from dperm.data.checks import check_encoding, check_no_label, check_readable
from dperm.data.dask_collections import is_dask_collection
from dperm.data.dask_rows import EncodedCollection
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.data.sparse import is_sparse
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError
from dperm.estimators.dask_input import training_collections
from dperm.estimators.input_checks import sound_matrix
from dperm.estimators.sklearn_searches import steps_that_learn

# Block size of predictions, so that a block stays in the cache: rows, and numbers of a dense matrix.
_BLOCK_ROWS, _BLOCK_NUMBERS = 4096, 1 << 18
# Numbers of a data frame that are converted to an array at a time.
_PART_NUMBERS = 1 << 21

DRAFT_SCHEMA = "the bounds and categories of a draft schema"

Matrix = NDArray[Any] | TabularMatrix | RecordFiles | EncodedCollection


@dataclasses.dataclass(frozen=True)
class FittedDesign:
    """How a fit turned records into rows: what a prediction needs besides the weights.

    It is kept apart from the parameters, so that setting those after a fit does not change predictions.
    """

    schema: Schema | None
    row_norm: float
    fit_intercept: bool
    #: `Schema.encoding` of the records; empty if they were not encoded by a schema, or it is not known.
    encoding: str = ""


def training_data(estimator: Any, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Matrix, NDArray[Any]]:
    """Records and targets of ``fit``, validated; sets ``n_features_in_`` and ``feature_names_in_``.

    Raises
    ------
    ValueError
        For invalid data.
    """
    schema = estimator.schema
    if not isinstance(schema, Schema | None):
        raise TypeError(f"schema must be a dperm.Schema, got {type(schema).__name__}")
    check_readable(X=X if schema is None else None, y=y)  # a schema checks its columns more closely
    check_no_label(X, y, () if schema is None else schema.column_names)
    estimator._encoding = encoding_of(X, schema)
    if is_dask_collection(X):
        return training_collections(estimator, X, y)
    if isinstance(X, RecordFiles):
        _check_files(X, schema, estimator.row_norm)
        _set_features(estimator, X.n_columns, X.feature_names)
        return X, y
    if not _is_tabular(X, schema):
        check = partial(validate_data, estimator, multi_output=False, y_numeric=y_numeric)
        matrix, targets = _validated(check, X, y, ensure_all_finite=False)
        return matrix, targets
    targets = validate_data(estimator, y=y, multi_output=False, y_numeric=y_numeric)
    matrix = _tabular_matrix(X, FittedDesign(schema, 0.0, False, estimator._encoding))
    if len(matrix) == 0:
        raise DataError("X must have at least one record, got none")
    check_consistent_length(matrix, targets)
    _set_features(estimator, matrix.n_columns)
    return matrix, targets


def _set_features(estimator: Any, n_columns: int, names: Sequence[str] = ()) -> None:
    schema = estimator.schema
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    estimator.n_features_in_ = n_columns if schema is None else len(schema.columns)
    if schema is not None:
        names = schema.column_names
    if names:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def encoding_of(X: Any, schema: Schema | None) -> str:
    """`Schema.encoding` of the records that a model was fitted to; empty if it is not known."""
    if schema is not None:
        return schema.encoding
    if isinstance(X, RecordFiles):
        return "" if X.schema is None else X.schema.encoding
    return X.layout.encoding if isinstance(X, TabularMatrix) else ""


def prediction_blocks(estimator: Any, X: Any, n_columns: int) -> Iterator[Any]:
    """Rows to predict, in order, as dense float64 arrays with `n_columns`, as CSR or as tabular matrices.

    At most one block of a matrix or data frame is copied at a time.

    Raises
    ------
    ValueError
        For invalid data, or data unlike those of ``fit``.
    """
    design = estimator._design
    if isinstance(X, RecordFiles):
        yield from _file_blocks(estimator, X, n_columns)
    elif _is_tabular(X, design.schema):
        for start, part in _parts(X):
            yield from _tabular_blocks(_encoded_part(part, design, start), n_columns)
    else:
        check_readable(X=X)
        for rows in _validated_parts(estimator, X):
            yield from _sparse_blocks(rows) if is_sparse(rows) else _dense_blocks(rows)


def _file_blocks(estimator: Any, files: RecordFiles, n_columns: int) -> Iterator[Any]:
    for part in files_for(estimator, files).matrices():
        if isinstance(part, TabularMatrix):
            yield from _tabular_blocks(_tabular_matrix(part, estimator._design), n_columns)
        else:
            _check_width(part.shape[1], n_columns)
            yield from _dense_blocks(_validated(_check_alone, part))


def files_for(model: Any, files: RecordFiles) -> RecordFiles:
    """The files with the columns that a model was fitted to, in the order of the fit.

    Raises
    ------
    DataError
        For files with other columns, or scanned without the schema that encoded the records of the fit.
    """
    design: FittedDesign | None = getattr(model, "_design", None)
    if files.schema is not None:
        if design is not None and files.schema == getattr(model, "schema", None):
            return dataclasses.replace(files, schema=design.schema)  # with bins that the fit has learned
        return files  # the encoding of each part is checked
    if design is not None and design.encoding:
        raise DataError("X are files scanned without a schema: scan them with the model's, schema=")
    names = getattr(model, "feature_names_in_", None)
    return files if names is None else files.with_columns(tuple(names))


def _tabular_blocks(matrix: TabularMatrix, n_columns: int) -> Iterator[TabularMatrix]:
    _check_width(matrix.n_columns, n_columns)
    for start in range(0, max(len(matrix), 1), _BLOCK_ROWS):
        yield matrix[start : start + _BLOCK_ROWS]


def _dense_blocks(rows: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    step = min(max(_BLOCK_NUMBERS // rows.shape[1], 1), _BLOCK_ROWS)
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(rows[start : start + step], dtype=np.float64)


def _sparse_blocks(rows: Any) -> Iterator[Any]:
    n = rows.shape[0]
    step = max(_PART_NUMBERS * n // max(rows.nnz, 1), 1)
    for start in range(0, n, step):
        yield rows[start : start + step]


def _check_width(n_columns: int, fitted: int) -> None:
    if n_columns != fitted:
        raise DataError(f"X has {n_columns} columns, the model was fitted to {fitted}")


def _validated_parts(estimator: Any, X: Any) -> Iterator[Any]:
    """The rows of `X`, validated."""
    check: Callable[..., Any] = partial(validate_data, estimator, reset=False)
    for _, part in _parts(X):
        yield _validated(check, part)
        check = _check_alone  # the first part has shown the number of columns and their names


def _parts(X: Any) -> Iterator[tuple[int, Any]]:
    """Parts of a data frame, each with its first row number, since its arrays are copies; else all of `X`."""
    frame = hasattr(X, "columns") and hasattr(X, "shape")
    if not frame or not (hasattr(X, "iloc") or hasattr(X, "slice")):
        yield 0, X
        return
    n, n_columns = X.shape
    step = max(_PART_NUMBERS // max(n_columns, 1), 1)
    for start in range(0, max(n, 1), step):
        yield start, X.iloc[start : start + step] if hasattr(X, "iloc") else X.slice(start, step)


def _encoded_part(part: Any, design: FittedDesign, first_row: int) -> TabularMatrix:
    try:
        return _tabular_matrix(part, design)
    except DataError as error:
        raise DataError(f"rows from {first_row} on: {error}" if first_row else str(error)) from None


def public_row_norm(row_norm: float | None, schema: Schema | None, fit_intercept: bool) -> float:
    """The bound on the norm of a row: the given one, else the schema's, else 1."""
    if row_norm is not None:
        return row_norm
    return 1.0 if schema is None else schema.row_norm(fit_intercept)


def schema_facts(schema: Schema | None) -> dict[str, Any]:
    """What a privacy statement says about the schema, among the public facts."""
    if schema is None:
        return {}
    facts = [repr(schema.name)] if schema.name else []
    if schema.privacy is not None:
        stated = schema.privacy
        facts.append(
            f"learned with epsilon = {stated.epsilon:g}, delta = {stated.delta:g} (its own statement)"
        )
    if schema.draft:
        facts.append("a DRAFT that was read from data")
    facts.append(f"{len(schema.columns)} columns as {schema.n_columns}, SHA-256 {schema.digest[:16]}...")
    return {"schema": ", ".join(facts)}


def learned_exactly(*schemas: Schema | None) -> dict[str, Any]:
    """The public fact of a fit that rests on what the data told without noise, as far as that is known."""
    drafts = [DRAFT_SCHEMA] if any(each is not None and each.draft for each in schemas) else []
    found = drafts + steps_that_learn()
    return {"learned_exactly": found} if found else {}


def _check_files(files: RecordFiles, schema: Schema | None, row_norm: float | None) -> None:
    """Files are encoded by the schema that they were scanned with: the estimator must have the same."""
    if schema is not None and files.schema != schema:
        raise DataError("X are files scanned with another schema, or none: scan them with the same schema=")
    if files.schema is not None and schema is None and row_norm is None:
        raise DataError("X are files scanned with a schema: pass it, or a row_norm, to the estimator as well")


def _is_tabular(X: Any, schema: Schema | None) -> bool:
    return schema is not None or isinstance(X, TabularMatrix)


def _tabular_matrix(X: Any, design: FittedDesign) -> TabularMatrix:
    """The table encoded by the schema; a tabular matrix is returned as it is."""
    if not isinstance(X, TabularMatrix):
        assert design.schema is not None
        return design.schema.encode(X)
    check_encoding(X.layout.encoding, design.encoding)
    if design.schema is not None:
        layout = design.schema.layout
        if dataclasses.replace(X.layout, step=1.0, encoding=layout.encoding) != layout:
            raise DataError(f"X is encoded already, into {X.n_columns} columns, and not by this schema")
    return X


_check_alone = partial(check_array, input_name="X")


def _validated(check: Callable[..., Any], X: Any, *y: Any, **checks: Any) -> Any:
    # Like dperm.data.dense.as_matrix: the dtype of a frame may depend on its cells.
    dtypes = [np.float64] if hasattr(X, "columns") else [np.float64, np.float32]
    try:
        return check(sound_matrix(X), *y, accept_sparse="csr", dtype=dtypes, **checks)
    except ValueError as error:
        if "could not convert" in str(error) and hasattr(X, "columns"):
            raise DataError(
                f"{error}. Columns of text need schema=, a public description of the table: see dperm.Schema"
            ) from None
        raise
