"""Predictions of a model for the records to evaluate, block by block: labels as codes, scores as log-odds."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm._cached import cached_property
from dperm.accounting.ledger.records import rows_of
from dperm.data.checks import check_readable
from dperm.data.dask_collections import as_array, blocks_of, is_dask_collection, task
from dperm.data.files.record_files import RecordFiles
from dperm.data.sparse import as_csr, is_sparse
from dperm.data.tabular import TabularMatrix
from dperm.data.targets import Multiplicity
from dperm.errors import DataError
from dperm.estimators.input_checks import checked_codes, finite_rows
from dperm.estimators.linear_model import PrivateLinearModel

Integers = NDArray[np.int64]

# Block size: numbers of the design matrix, and rows at most.
_BLOCK_NUMBERS, _BLOCK_ROWS = 1 << 20, 1 << 16


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their multiplicities.

    Attributes
    ----------
    X : Any
        Rows as the model takes them.
    y : ndarray
        Labels or targets as given.
    counts : ndarray of int64
        Multiplicities, at least 1.
    """

    X: Any
    y: NDArray[Any]
    counts: Integers


#: Maps a block to a vector of integers or floating-point numbers.
Summand = Callable[[Block], NDArray[Any]]


def sum_over(summand: Summand, X: Any, y: Any, counts: Any = None) -> tuple[NDArray[Any], int]:
    """The sum of ``summand(block)`` over all records, and the number of records.

    Raises
    ------
    DataError
        For data that do not match, or without any records.
    """
    if is_dask_collection(X):
        if counts is not None:
            raise DataError("counts cannot be given with Dask collections: leave the records as they are")
        return _sum_on_workers(summand, X, y)
    check_readable(X=None if isinstance(X, RecordFiles) else X, y=y)
    total: Any = None
    n_records = 0
    for block in _blocks(X, y, counts):
        part = summand(block)
        total = part if total is None else total + part
        n_records += int(block.counts.sum())
    if total is None:
        raise DataError("there must be at least one record to evaluate, got none")
    return total, n_records


def _blocks(X: Any, y: Any, counts: Any) -> Iterator[Block]:
    if isinstance(X, RecordFiles):
        if counts is not None:
            raise DataError("counts are for rows in memory: files take none")
        if y is not None:
            raise ValueError(f"y must be None: the targets are in the column {X.label!r} of the files")
        with warnings.catch_warnings():  # blocks are arrays: the names of the files have been checked
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            for matrix, cells in X.labelled_matrices():
                yield from _rows_in_memory(matrix, cells, None)
        return
    if y is None:
        raise DataError("y must be given: one target per record")
    yield from _rows_in_memory(X, y, counts)


def _rows_in_memory(X: Any, y: Any, counts: Any) -> Iterator[Block]:
    X = as_csr(X) if is_sparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise DataError(f"X must have two dimensions (records, columns), got shape {X.shape}")
    n, width = X.shape
    targets = np.asarray(y)
    if targets.shape not in ((n,), (n, 1)):
        raise DataError(f"y must have one target per record, shape ({n},), got shape {targets.shape}")
    each = np.ones(n, dtype=np.int64) if counts is None else Multiplicity(counts).each
    if each.shape != (n,):
        raise DataError(f"counts must have one entry per record, shape ({n},), got shape {each.shape}")
    step = min(max(_BLOCK_NUMBERS // max(width, 1), 256), _BLOCK_ROWS)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = Block(rows_of(X, rows), targets[rows].ravel(), each[rows])
        if not block.counts.all():  # rows of multiplicity 0 must not influence anything
            block = chosen(block, np.flatnonzero(block.counts))
        if len(block.y):
            yield block


def chosen(block: Block, rows: NDArray[np.intp]) -> Block:
    """Some rows of a block."""
    return Block(rows_of(block.X, rows), block.y[rows], block.counts[rows])


def _sum_on_workers(summand: Summand, X: Any, y: Any) -> tuple[NDArray[Any], int]:
    blocks = blocks_of(X, y, encode=summand)  # checks partitions, not contents
    import dask

    shared = task(summand)
    pairs = zip(blocks.X, blocks.y, strict=True)
    found = dask.compute(*[task(_of_partition)(shared, part, targets) for part, targets in pairs])
    full = [each for each in found if each is not None]
    if not full:
        raise DataError("there must be at least one record to evaluate, got none")
    return sum(vector for vector, _ in full), sum(n for _, n in full)


def _of_partition(summand: Summand, X: Any, y: Any) -> tuple[NDArray[Any], int] | None:
    targets = as_array(y)
    return sum_over(summand, X, targets) if len(X) or len(targets) else None


Array = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Judge:
    """A model with public weights, and the kinds of predictions that it makes.

    Attributes
    ----------
    model : Any
        With `predict`, and `decision_function` or `predict_proba` for curves.
    """

    model: Any

    def __post_init__(self) -> None:
        if isinstance(self.model, BaseEstimator):
            check_is_fitted(self.model)
        if not any(hasattr(self.model, name) for name in ("predict", "decision_function", "predict_proba")):
            raise TypeError(f"model must have predict or decision_function, got {type(self.model).__name__}")
        if hasattr(self.model, "decision_function") and self.classes is None:
            raise TypeError(
                "a model with decision_function needs classes_, its labels in the order of its scores"
            )

    @cached_property
    def classes(self) -> NDArray[Any] | None:
        """The labels of a classifier, of two the positive one last; None for a regressor."""
        classes = getattr(self.model, "classes_", None)
        return None if classes is None else np.asarray(classes)[:: self.direction]

    @cached_property
    def direction(self) -> int:
        """-1 if `classes` are those of the model, as its probabilities, in reverse order, else 1."""
        positive, classes = getattr(_last_step(self.model), "pos_label_", None), self.model.classes_
        return -1 if positive is not None and len(classes) == 2 and classes[0] == positive else 1

    @property
    def has_scores(self) -> bool:
        """Whether the model gives more than labels."""
        return hasattr(self.model, "decision_function") or self.has_probabilities

    @property
    def has_probabilities(self) -> bool:
        """Whether the model gives probabilities."""
        return hasattr(self.model, "predict_proba")

    @property
    def target_bound(self) -> float | None:
        """The public bound on real targets that the model was fitted with."""
        model = _last_step(self.model)
        known = getattr(model, "_known_target_bound", None)  # a schema may know it
        return getattr(model, "target_bound", None) if known is None else known()

    @property
    def quantile(self) -> float:
        """The quantile level that the model predicts."""
        return float(getattr(_last_step(self.model), "quantile", 0.5))

    @property
    def non_finite(self) -> str:
        """What happens to a record with NaN or infinity: "raise" or "zero"."""
        return str(getattr(_last_step(self.model), "non_finite", "raise"))

    @property
    def scores_one_by_one(self) -> bool:
        """Whether a record's score is known to be independent of its position and of other records."""
        return isinstance(self.model, PrivateLinearModel)

    def portable(self) -> Judge:
        """A copy without ledger and random state, which predictions do not need."""
        last = _last_step(self.model)
        if not hasattr(last, "ledger"):
            return self
        last = copy.copy(last)
        last.ledger = last.random_state = None
        if not isinstance(self.model, Pipeline):
            return Judge(last)
        pipeline = copy.copy(self.model)
        pipeline.steps = [*self.model.steps[:-1], (self.model.steps[-1][0], last)]
        return Judge(pipeline)


def _last_step(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


class Judged:
    """A block of records with its predictions, computed on first use.

    A record that cannot be scored, or whose score is not finite, gets a fixed prediction: the first class,
    even odds, or NaN for a real prediction, which gives the largest loss. So its contribution depends on it
    alone. A probability outside [0, 1] is clipped.
    """

    def __init__(self, judge: Judge, block: Block) -> None:
        self.judge, self._block = judge, block
        self.counts = block.counts

    @cached_property
    def truth(self) -> Codes:
        """Index of each label among the classes."""
        return checked_codes(self._block.y, self._classes).astype(np.int64)

    @cached_property
    def predicted(self) -> Codes:
        """Index of each predicted label among the classes."""
        if not hasattr(self.judge.model, "predict"):
            return np.asarray(self.log_odds.argmax(axis=1), dtype=np.int64)
        codes = self._answers(lambda X: checked_codes(self.judge.model.predict(X), self._classes))
        return np.nan_to_num(codes, nan=0.0).astype(np.int64)

    @cached_property
    def log_odds(self) -> Array:
        """Log-odds of each class, shape (n, K); without probabilities, the model's scores in their place."""
        if self.judge.has_probabilities:
            scores = logit(self._probabilities)
        else:
            scores = self._by_class(self._decisions)
        return np.asarray(np.nan_to_num(scores, nan=0.0))  # infinities become large: the outermost bins

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each class, shape (n, K)."""
        return np.nan_to_num(self._probabilities, nan=1.0 / len(self._classes))

    @cached_property
    def log_loss(self) -> Array:
        """Negative log-probability of the true class; NaN where there is none."""
        model = self.judge.model
        if hasattr(model, "predict_log_proba"):
            logs = self._by_class(model.predict_log_proba)
        else:
            with np.errstate(divide="ignore"):  # the loss of a probability of 0 is infinite, then clipped
                logs = np.log(self._probabilities)
        return -np.take_along_axis(logs, self.truth[:, None], axis=1)[:, 0]

    @cached_property
    def target(self) -> Array:
        """Real targets, NaN where they are not finite."""
        try:
            targets = np.asarray(self._block.y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                "y must hold real numbers: the model has no classes_, so it is a regressor"
            ) from error
        finite = np.isfinite(targets)
        if self.judge.non_finite == "raise" and not finite.all():
            raise DataError(f"y contains NaN or infinity ({targets[~finite][0]})")
        return np.where(finite, targets, np.nan)

    @cached_property
    def prediction(self) -> Array:
        """Real predictions."""
        return self._answers(self.judge.model.predict)

    @property
    def _classes(self) -> NDArray[Any]:
        assert self.judge.classes is not None
        return self.judge.classes

    @cached_property
    def _probabilities(self) -> Array:
        """Probability of each class, shape (n, K); NaN where there is none."""
        return np.clip(self._by_class(self.judge.model.predict_proba), 0.0, 1.0)

    def _by_class(self, ask: Callable[[Any], Any]) -> Array:
        """The output for each record and class."""
        return self._answers(ask, len(self._classes))[:, :: self.judge.direction]

    def _decisions(self, X: Any) -> Array:
        """The model's scores of each class; of two classes, it may score the second one alone."""
        scores = np.asarray(self.judge.model.decision_function(X), dtype=np.float64)
        if len(self._classes) == 2 and scores.shape in ((X.shape[0],), (X.shape[0], 1)):
            return np.column_stack([-scores, scores])
        return scores

    def _answers(self, ask: Callable[[Any], Any], *width: int) -> Array:
        """The output for each record, one number or `width` of them; NaN for a record that is not usable."""
        X, usable = self._block.X, self._usable_rows
        with np.errstate(divide="ignore", over="ignore"):  # the logarithm of a probability of 0
            if usable is None:
                return _rows(ask(X), X.shape[0], *width)
            answers = np.full((len(usable), *width), np.nan)
            if usable.any():
                known = chosen(self._block, np.flatnonzero(usable)).X
                answers[usable] = _rows(ask(known), known.shape[0], *width)
        return answers

    @cached_property
    def _usable_rows(self) -> NDArray[np.bool_] | None:
        """Rows of finite numbers, for a model that ignores others; None if all are usable."""
        X = self._block.X
        has_schema = getattr(_last_step(self.judge.model), "schema", None) is not None
        if self.judge.non_finite == "raise" or isinstance(X, TabularMatrix) or has_schema:
            return None
        usable = finite_rows(X)
        return None if usable.all() else usable


def _rows(output: Any, n: int, *width: int) -> Array:
    """What a model returned for n records, as doubles; without `width`, a column counts as a vector.

    Raises
    ------
    DataError
        For another shape: then it is not known which number belongs to which record.
    """
    numbers = np.asarray(output, dtype=np.float64)
    if not width and numbers.shape == (n, 1):
        numbers = numbers[:, 0]
    if numbers.shape != (n, *width):
        raise DataError(
            f"the model must return an array of shape {(n, *width)} for {n} records, got {numbers.shape}"
        )
    return numbers
