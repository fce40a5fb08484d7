"""Scores of models on held-out records: exact integers that one record moves by at most a public bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from dperm.data.multiplicity import Multiplicity
from dperm.data.tabular import TabularMatrix
from dperm.estimators.linear_model import PrivateLinearModel, PrivateLinearRegressor
from dperm.private_values.bounded import Bounded

Array = NDArray[np.float64]

# Losses of real targets are rounded to a grid of this share of their bound.
_LOSS_STEPS = 2.0**20


@dataclass(frozen=True)
class Scoring:
    """A score of each record, from 0 (good) to a bound.

    Attributes
    ----------
    name : str
        As it is stated.
    bound : float
        Public; larger losses count as much. A multiple of the grid.
    grid : float
        A power of two.
    losses : callable
        Of predictions and targets, elementwise.
    """

    name: str
    bound: float
    grid: float
    losses: Callable[[NDArray[Any], NDArray[Any]], Array]

    def integers(self, predictions: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.int64]:
        """In steps of the grid; 0 for a record that is not finite."""
        losses = self.losses(predictions, targets)
        clipped = np.where(losses <= self.bound, losses, np.where(np.isnan(losses), 0.0, self.bound))
        return np.rint(clipped / self.grid).astype(np.int64)


def scoring_of(name: str | None, model: PrivateLinearModel) -> Scoring:
    """The scoring by that name.

    Raises
    ------
    ValueError
        For a name that is not one of the model's kind.
    """
    if is_classifier(model):
        if name not in (None, "errors"):
            raise ValueError(f"scoring of a classifier must be None or 'errors', got {name!r}")
        return Scoring("errors", 1.0, 1.0, lambda predictions, y: (predictions != y).astype(np.float64))
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
    grid = math.ldexp(1.0, math.frexp(bound / _LOSS_STEPS)[1] - 1)
    within = _moved_onto(target_bound, losses)
    return Scoring(f"{words}, at most {bound:g}", math.ceil(bound / grid) * grid, grid, within)


def _moved_onto(target_bound: float, losses: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    def bounded(predictions: NDArray[Any], targets: NDArray[Any]) -> Array:
        moved = np.clip(np.asarray(targets, dtype=np.float64), -target_bound, target_bound)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(losses(predictions, moved), dtype=np.float64)

    return bounded


class HeldOut:
    """Records that models are scored on.

    Parameters
    ----------
    X, y, counts
        Checked, as `fit` takes them.
    scoring : Scoring
    model : PrivateLinearModel
        Before it was fitted: its schema encodes the records once, and where it lets records that are not
        finite count for nothing, so do scores.
    """

    def __init__(self, X: Any, y: Any, counts: ArrayLike | None, scoring: Scoring, model: Any) -> None:
        self.scoring = scoring
        targets = np.asarray(y)
        each = np.ones(len(targets), dtype=np.int64)
        if counts is not None and len(targets):
            each = Multiplicity(counts).each
        schema = getattr(model, "schema", None)
        if schema is not None and not isinstance(X, TabularMatrix) and len(targets):
            X = schema.encode(X)
        if getattr(model, "non_finite", "raise") == "zero" and not isinstance(X, TabularMatrix):
            finite = np.flatnonzero(_finite_rows(X))
            if len(finite) < len(targets):
                X = X.iloc[finite] if hasattr(X, "iloc") else X[finite]
                targets, each = targets[finite], each[finite]
        self._X, self._targets, self._counts = X, targets, each

    def scores(self, models: Sequence[Any]) -> Bounded:
        """Of each model, for a choice among them; the smallest is the best."""
        own = self.scoring
        totals = np.array([self._total(model) for model in models], dtype=np.int64)
        return Bounded(totals, grid=own.grid, add_or_remove=own.bound, scores=True)

    def score(self, model: Any) -> Bounded:
        """Of one model, for a release with noise, of shape ``(1,)``."""
        own, total = self.scoring, np.array([self._total(model)], dtype=np.int64)
        return Bounded(total, grid=own.grid, add_or_remove=own.bound, replace_one=own.bound)

    def _total(self, model: Any) -> int:
        if not len(self._targets):
            return 0
        return int(self._counts @ self.scoring.integers(model.predict(self._X), self._targets))


def _finite_rows(X: Any) -> NDArray[np.bool_]:
    if hasattr(X, "tocsr"):
        rows = X.tocsr()
        bad = (
            np.add.reduceat(~np.isfinite(rows.data), rows.indptr[:-1])
            if rows.nnz
            else np.zeros(rows.shape[0])
        )
        return np.asarray(bad == 0)
    return np.asarray(np.isfinite(np.asarray(X, dtype=np.float64)).all(axis=1))
