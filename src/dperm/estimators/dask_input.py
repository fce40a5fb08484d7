"""Dask collections as inputs of the estimators: their partitions are computed on the workers only."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from dperm.data.checks import check_readable
from dperm.data.dask_collections import (
    Blocks,
    as_array,
    blocks_of,
    delayed_blocks,
    is_dask_collection,
    task,
)
from dperm.data.dask_rows import EncodedCollection
from dperm.data.files.record_files import RecordFiles
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError, ExactScoreWarning, warn_caller
from dperm.statement.privacy_statement import PrivacyStatement

Method = TypeVar("Method", bound=Callable[..., Any])


def training_collections(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Records and targets of ``fit``; sets ``n_features_in_`` and ``feature_names_in_``.

    Raises
    ------
    DataError
        For the wrong number of dimensions. The workers check the contents.
    """
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (records, columns), got {X.ndim}")
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    schema = estimator.schema
    if schema is not None:
        if not hasattr(X, "divisions"):
            raise DataError("with a schema, X must be a Dask data frame: its columns have names")
        estimator.n_features_in_ = len(schema.columns)
        estimator.feature_names_in_ = np.array(schema.column_names, dtype=object)
        return EncodedCollection(X, schema.encode), y
    estimator.n_features_in_ = int(X.shape[1])
    names = list(getattr(X, "columns", []))
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return X, y


def found_labels(y: Any) -> NDArray[Any]:
    """The distinct labels in a Dask array or series."""
    import dask

    return np.unique(np.concatenate(dask.compute(*[task(_different)(block) for block in delayed_blocks(y)])))


def mapped_targets(y: Any, function: Callable[[NDArray[Any]], NDArray[np.float64]]) -> Any:
    """``function`` applied to each block of a Dask array or series, as a lazy float64 array."""
    return _concatenated(y, lambda block: task(_of_block)(function, block), (), np.float64)


def by_blocks(method: Method) -> Method:
    """Make a prediction method accept Dask collections as well: lazily, block by block."""

    @functools.wraps(method)
    def predict(self: Any, X: Any) -> Any:
        return _predictions(self, method.__name__, X) if is_dask_collection(X) else method(self, X)

    return cast(Method, predict)


class ScoredByBlocks:
    """`score` that accepts Dask collections: the workers compare predictions with targets, block by block."""

    privacy_: PrivacyStatement

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, or coefficient of determination of a regressor, on these records.

        Parameters
        ----------
        X : (n_samples, n_features) array_like, data frame, RecordFiles, or Dask array or data frame
        y : (n_samples,) array_like, or Dask array or series in the partitions of `X`
            None with files, which hold the targets as well.
        sample_weight : (n_samples,) array_like, optional
            Not for Dask data frames.

        Returns
        -------
        float
            Not private: it is computed from these records without noise. The first score of a private model
            in a process warns about this; use `dperm.metrics.evaluate` for private records.

        Raises
        ------
        DataError
            For Dask collections whose partitions do not match.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
        >>> y = np.sign(X[:, 0])
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1], random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        """
        check_readable(y=y, sample_weight=sample_weight)
        check_is_fitted(self)
        if self.privacy_.epsilon < math.inf:
            _warn_once_of_exact_scores()
        if y is None:
            y = _targets_of(X, is_classifier(self))
        if not is_dask_collection(X) or (sample_weight is not None and not hasattr(X, "divisions")):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        if sample_weight is not None:
            raise DataError("score takes no sample_weight with Dask data frames: leave it out")
        blocks = blocks_of(X, y, encode=self.predict)  # type: ignore[attr-defined]
        return _score_of_blocks(self, blocks)


def _targets_of(X: Any, labels: bool) -> NDArray[Any]:
    if not isinstance(X, RecordFiles):
        raise DataError("y must be given, one target per record: only files hold their targets")
    return X.targets() if labels else X.targets().astype(np.float64)


@functools.cache
def _warn_once_of_exact_scores() -> None:
    warn_caller(
        "score is not private: it is computed from these records without noise. No guarantee covers it or "
        "what is chosen by it; dperm.metrics.evaluate makes a private release.",
        ExactScoreWarning,
    )


def _score_of_blocks(estimator: Any, blocks: Blocks) -> float:
    import dask

    model, sample = _to_send(estimator, "predict")
    summary = _hits if is_classifier(estimator) else _squares
    shared = task(model)
    pairs = zip(blocks.X, blocks.y, strict=True)
    found = dask.compute(*[task(_compared)(summary, shared, X, y, sample) for X, y in pairs])
    n, *rest = np.array([each for each in found if each[0]], dtype=np.float64).reshape(-1, len(found[0])).T
    if not n.size:
        raise DataError("X must have at least one record")
    if summary is _hits:
        return float(rest[0].sum() / n.sum())
    means, spreads, residuals = rest
    total = spreads.sum() + (n * np.square(means - np.average(means, weights=n))).sum()
    if total == 0.0:
        return float(residuals.sum() == 0.0)
    return float(1.0 - residuals.sum() / total)


def _compared(summary: Callable[..., Any], model: Any, X: Any, y: Any, sample: NDArray[Any]) -> Any:
    targets = as_array(y)
    predictions = _prediction(model, "predict", X, sample)
    if targets.shape != predictions.shape:
        raise DataError(
            f"y must have one target per record: a partition has {len(predictions)} records and "
            f"{len(targets)} targets"
        )
    return summary(targets, predictions)


def _hits(targets: NDArray[Any], predictions: NDArray[Any]) -> tuple[int, int]:
    """Number of records, and of correct predictions."""
    return len(targets), int(np.count_nonzero(targets == predictions))


def _squares(targets: NDArray[Any], predictions: NDArray[Any]) -> tuple[int, float, float, float]:
    """Number of records, mean of the targets, and sums of squares about the mean and the predictions."""
    if not len(targets):
        return 0, 0.0, 0.0, 0.0
    mean = float(np.mean(targets))
    about_mean, residuals = (float(np.square(targets - each).sum()) for each in (mean, predictions))
    return len(targets), mean, about_mean, residuals


def _to_send(estimator: Any, name: str) -> tuple[Any, NDArray[Any]]:
    """The model for the workers, and what its method returns for a sample row."""
    model = copy.copy(estimator)
    model.ledger = model.random_state = None  # predictions need neither, and a ledger may not be picklable
    return model, getattr(model, name)(_one_row(model))


def _predictions(estimator: Any, name: str, X: Any) -> Any:
    model, sample = _to_send(estimator, name)
    if hasattr(X, "chunks") and X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    shared, predict = task(model), task(_prediction)
    return _concatenated(
        X, lambda block: predict(shared, name, block, sample), sample.shape[1:], sample.dtype
    )


def _concatenated(
    collection: Any, apply: Callable[[Any], Any], row_shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """A lazy array of the results for each block, which have a row for each of its rows."""
    import dask.array

    lengths = collection.chunks[0] if hasattr(collection, "chunks") else [np.nan] * collection.npartitions
    return dask.array.concatenate(
        [
            dask.array.from_delayed(apply(block), (length, *row_shape), dtype)
            for block, length in zip(delayed_blocks(collection), lengths, strict=True)
        ]
    )


def _one_row(model: Any) -> Any:
    """A row that the model accepts."""
    schema = model._design.schema
    if schema is None:
        row = np.zeros((1, model.n_features_in_))
        if hasattr(model, "feature_names_in_"):
            import pandas as pd

            return pd.DataFrame(row, columns=model.feature_names_in_)
        return row
    numeric, codes = len(schema.layout.numeric_columns), len(schema.layout.sizes)
    return TabularMatrix(np.zeros((1, numeric)), np.zeros((1, codes), dtype=np.uint8), schema.layout)


def _prediction(model: Any, name: str, block: Any, sample: NDArray[Any]) -> Any:
    return getattr(model, name)(block) if len(block) else sample[:0]


def _different(block: Any) -> NDArray[Any]:
    return np.unique(as_array(block))


def _of_block(function: Callable[[NDArray[Any]], NDArray[np.float64]], block: Any) -> NDArray[np.float64]:
    return np.asarray(function(as_array(block)), dtype=np.float64)
