"""The records of a search, and scores of models on those held out: exact sums of bounded integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from dperm.accounting import LedgerPart
from dperm.accounting.ledger.records import rows_of
from dperm.data.files.record_files import RecordFiles
from dperm.data.tabular import TabularMatrix
from dperm.data.targets import Multiplicity, Weights
from dperm.errors import DataError
from dperm.estimators.input_checks import finite_rows
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.estimators.regressors import PrivateLinearRegressor
from dperm.private_values.bounded import Bounded


@dataclass(frozen=True)
class Records:
    """Records as the estimators take them.

    Attributes
    ----------
    X
        A matrix, a table, or files.
    y : array_like or None
        None with files.
    counts, weights : array_like or None
        Multiplicity and sample weight of each row.
    """

    X: Any
    y: Any
    counts: ArrayLike | None = None
    weights: ArrayLike | None = None

    @property
    def in_files(self) -> bool:
        """Whether the records are in files, which every pass reads again."""
        return isinstance(self.X, RecordFiles)

    @property
    def number(self) -> int:
        """The number of records, multiplicities included; at least 1."""
        if self.counts is not None:
            return Multiplicity(self.counts).n_records
        if self.in_files:
            return max(1, len(self.targets))
        return max(1, self.X.shape[0] if getattr(self.X, "shape", ()) else len(np.asarray(self.X)))

    @property
    def targets(self) -> NDArray[Any]:
        """Labels or real targets, read from the files if need be."""
        return np.asarray(self.X.targets() if self.in_files else self.y)

    def split(self, part: LedgerPart) -> tuple[Self, Self]:
        """The records of a part, and the others; they must have been validated for fitting."""
        X = self.X
        if hasattr(X, "tocsr"):
            X = X.tocsr()
        elif not hasattr(X, "shape") and not self.in_files:
            X = np.asarray(X)
        mask = part.mask(X)
        return self._where(X, mask), self._where(X, ~mask)

    def _where(self, X: Any, mask: NDArray[np.bool_]) -> Self:
        if self.in_files:
            return type(self)(X.where(mask), None)
        rows = np.flatnonzero(mask)
        y = np.asarray(self.y)
        others = (each if each is None else np.asarray(each)[rows] for each in (self.counts, self.weights))
        return type(self)(rows_of(X, rows), y.reshape(len(y))[rows], *others)


Array = NDArray[np.float64]

# Grid steps within the bound of a loss of real targets.
_LOSS_STEPS = 2.0**20
# Steps in a sum of scores: 64-bit integers with room for noise.
_MAX_STEPS = 2.0**61


@dataclass(frozen=True)
class Scoring:
    """A score for each record, from 0 (good) to a bound: its loss times its weight.

    Attributes
    ----------
    name : str
        As shown in the statement.
    bound : float
        Public bound on a score, a multiple of the grid.
    grid : float
        A power of two.
    losses : callable
        Elementwise loss of predictions and targets.
    largest : float
        Public bound on a loss; larger ones are clipped.
    weight_bound : float
        Public bound on the sample weights.
    of_classes : mapping
        Public weights of labels; 1 for those that are not in it.
    """

    name: str
    bound: float
    grid: float
    losses: Callable[[NDArray[Any], NDArray[Any]], Array]
    largest: float
    weight_bound: float = 1.0
    of_classes: Mapping[Any, float] = field(default_factory=dict)

    def integers(self, predictions: NDArray[Any], targets: NDArray[Any], weights: Array) -> NDArray[np.int64]:
        """Scores in steps of the grid; 0 for a record that is not finite."""
        if predictions.shape != targets.shape:
            raise DataError(f"a model must predict shape {targets.shape}, got {predictions.shape}")
        losses = self.losses(predictions, targets)
        clipped = np.clip(np.nan_to_num(losses, nan=0.0), 0.0, self.largest)
        return np.rint(clipped * weights / self.grid).astype(np.int64)


def scoring_of(name: str | None, model: PrivateLinearModel, *, weighted: bool = False) -> Scoring:
    """The scoring of that name, with the model's class weights and, if `weighted`, sample weights.

    Raises
    ------
    ValueError
        For a name that does not fit the kind of model.
    """
    if is_classifier(model):
        if name not in (None, "errors"):
            raise ValueError(f"scoring of a classifier must be None or 'errors', got {name!r}")
        plain = Scoring("errors", 1.0, 1.0, lambda p, y: (p != y).astype(np.float64), 1.0)
        return _weighted(plain, model, weighted)
    assert isinstance(model, PrivateLinearRegressor)
    target_bound = model._public_target_bound()
    loss = model._loss(target_bound)
    known = {
        None: (f"{loss.name} loss", loss.value_at_zero, loss.value),
        "absolute_error": ("absolute error", target_bound, lambda p, y: np.abs(p - y)),
        "squared_error": ("squared error", target_bound**2, lambda p, y: np.square(p - y)),
    }
    if name not in known:
        raise ValueError(
            "scoring of a regressor must be None (the loss of the estimator), 'absolute_error' or "
            f"'squared_error', got {name!r}"
        )
    words, bound, losses = known[name]
    within = _moved_onto(target_bound, losses)
    plain = Scoring(f"{words}, at most {bound:g}", *_on_grid(bound), within, bound)
    return _weighted(plain, model, weighted)


def _on_grid(bound: float) -> tuple[float, float]:
    grid = math.ldexp(1.0, math.frexp(bound / _LOSS_STEPS)[1] - 1)
    return math.ceil(bound / grid) * grid, grid


def _weighted(plain: Scoring, model: PrivateLinearModel, of_records: bool) -> Scoring:
    given = getattr(model, "class_weight", None)
    of_classes = given if isinstance(given, Mapping) else {}
    if not (of_records or of_classes):
        return plain
    weights, classes = [float(each) for each in of_classes.values()], getattr(model, "classes", None)
    if classes is None or any(label not in of_classes for label in classes):
        weights.append(1.0)
    weight_bound = float(model._weight_bound()) if of_records else 1.0
    bound, grid = _on_grid(plain.largest * weight_bound * max(weights))
    weighted = replace(plain, name=f"{plain.name}, weighted", bound=bound, grid=grid)
    return replace(weighted, weight_bound=weight_bound, of_classes=of_classes)


def _moved_onto(target_bound: float, losses: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    def bounded(predictions: NDArray[Any], targets: NDArray[Any]) -> Array:
        moved = np.clip(np.asarray(targets, dtype=np.float64), -target_bound, target_bound)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(losses(predictions, moved), dtype=np.float64)

    return bounded


class HeldOut:
    """Held-out records, to score models on.

    Parameters
    ----------
    records : Records
        Validated, as `fit` takes them.
    scoring : Scoring
    model : PrivateLinearModel
        The unfitted model: its schema encodes the records once, for all that have the same, and with
        ``non_finite="zero"`` records that are not finite do not count in the scores either.
    """

    def __init__(self, records: Records, scoring: Scoring, model: Any) -> None:
        self.scoring = scoring
        X, targets = records.X, records.targets
        weights = Weights.given(records.weights, scoring.weight_bound, scoring.of_classes).of(targets)
        each = np.ones(len(targets), dtype=np.int64)
        if records.counts is not None and len(targets):
            multiplicity = Multiplicity(records.counts)
            each = multiplicity.each
            if multiplicity.n_records * scoring.bound > _MAX_STEPS * scoring.grid:
                raise DataError(
                    f"counts stand for {multiplicity.n_records} records to score, too many for exact sums of "
                    "scores: search on a sample, or with smaller counts"
                )
        schema = getattr(model, "schema", None)
        encoded = records.in_files or isinstance(X, TabularMatrix)
        self._schema = schema if schema is not None and not encoded and len(targets) else None
        self._encoded = None if self._schema is None else self._schema.encode(X)
        if getattr(model, "non_finite", "raise") == "zero" and not encoded and schema is None:
            finite = np.flatnonzero(finite_rows(X))
            if len(finite) < len(targets):
                X = X.iloc[finite] if hasattr(X, "iloc") else X[finite]
                targets, each, weights = targets[finite], each[finite], weights[finite]
        self._X, self._targets, self._counts, self._weights = X, targets, each, weights

    def scores(self, models: Sequence[Any]) -> Bounded:
        """Score of each model, to select from; the smallest is the best."""
        own = self.scoring
        totals = np.array([self._total(model) for model in models], dtype=np.int64)
        return Bounded(totals, grid=own.grid, add_or_remove=own.bound, scores=True)

    def score(self, model: Any) -> Bounded:
        """Score of one model, shape ``(1,)``, to release with noise."""
        own, total = self.scoring, np.array([self._total(model)], dtype=np.int64)
        return Bounded(total, grid=own.grid, add_or_remove=own.bound, replace_one=own.bound)

    def _total(self, model: Any) -> int:
        if not len(self._targets):
            return 0
        own = getattr(model, "schema_", None)
        X = self._encoded if self._schema is not None and own == self._schema else self._X
        return int(self._counts @ self.scoring.integers(model.predict(X), self._targets, self._weights))
