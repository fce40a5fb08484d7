"""Predictions of a model for a block of records, and the truth: labels as codes, scores as log-odds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError
from dperm.estimators.input_checks import checked_codes, finite_rows
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.metrics.records import Block, chosen

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
                "a model with decision_function needs classes_, its labels, the negative one first"
            )

    @cached_property
    def classes(self) -> NDArray[Any] | None:
        """The labels of a classifier; None for a regressor."""
        classes = getattr(self.model, "classes_", None)
        return None if classes is None else np.asarray(classes)

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
        return getattr(_last_step(self.model), "target_bound", None)

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
            scores = self._answers(self._decisions, len(self._classes))
        return np.nan_to_num(scores, nan=0.0)  # infinities become large: the outermost bins

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each class, shape (n, K)."""
        return np.nan_to_num(self._probabilities, nan=1.0 / len(self._classes))

    @cached_property
    def log_loss(self) -> Array:
        """Negative log-probability of the true class; NaN where there is none."""
        model = self.judge.model
        if hasattr(model, "predict_log_proba"):
            logs = self._answers(model.predict_log_proba, len(self._classes))
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
        return np.clip(self._answers(self.judge.model.predict_proba, len(self._classes)), 0.0, 1.0)

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
