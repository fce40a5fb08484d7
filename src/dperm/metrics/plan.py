"""What to release for the requested metrics."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dperm.accounting._checks import shown
from dperm.metrics.intervals import MATRIX_METRICS
from dperm.metrics.judging import Judge
from dperm.metrics.parts import Confusion, Count, Determination, Hits, Loss, Part, Scores

OF_MATRIX = ("confusion_matrix", *MATRIX_METRICS)
OF_SCORES = ("roc_curve", "roc_auc", "precision_recall_curve", "average_precision", "calibration")
BY_CLASS = ("roc_auc", "average_precision")  # for more than two classes: the one-against-rest mean
OF_PROBABILITIES = ("calibration", "brier", "log_loss")
REGRESSION = ("mae", "mse", "pinball", "r2")
CLASSIFICATION = (*OF_MATRIX, *OF_SCORES, "brier", "log_loss")

#: Names in other software.
_ALIASES = {
    "auc": "roc_auc",
    "matthews_corrcoef": "mcc",
    "brier_score": "brier",
    "pr_curve": "precision_recall_curve",
}

_MAX_BINS = 1 << 10
# scikit-learn's log loss clips probabilities at the resolution of doubles.
_EXACT_LOG_LOSS = -math.log(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Plan:
    """The metrics, in the requested order, and the parts of the vector that they need.

    Attributes
    ----------
    names : tuple of str
    parts : dict
        Keyed by "hits", "confusion", "scores", "count", or the name of a loss.
    """

    names: tuple[str, ...]
    parts: dict[str, Part]

    @property
    def bounds(self) -> dict[str, float]:
        """Public bounds at which losses and targets are clipped."""
        found = {}
        for key, part in self.parts.items():
            if isinstance(part, Loss):
                found[key] = part.bound
            elif isinstance(part, Determination):
                found.update(mse=part.bound, target=part.target_bound)
        return {key: bound for key, bound in found.items() if bound < math.inf}


@dataclass(frozen=True)
class Settings:
    """Public arguments of `evaluate`.

    Attributes
    ----------
    loss_bound : float, mapping or None
    bins : int
    exact : bool
        Whether the evaluation is not private, so that no bounds are needed.
    size_known : bool
        Whether the number of records is public.
    """

    loss_bound: float | Mapping[str, float] | None
    bins: int
    exact: bool
    size_known: bool

    def __post_init__(self) -> None:
        if not (isinstance(self.bins, numbers.Integral) and 2 <= self.bins <= _MAX_BINS):
            raise ValueError(f"bins must be an integer from 2 to {_MAX_BINS}, got {shown(self.bins)}")
        given = self.loss_bound
        bounds = given if isinstance(given, Mapping) else {} if given is None else {"a loss": given}
        known = ("log_loss", "target", "a loss", *REGRESSION[:3])
        unknown = [
            key for key in bounds if key not in known or (isinstance(given, Mapping) and key == "a loss")
        ]
        if unknown:
            raise ValueError(f"loss_bound is for log_loss, mae, mse, pinball and target, got {unknown}")
        for key, bound in bounds.items():
            if not (isinstance(bound, numbers.Real) and 0.0 < bound < math.inf):
                raise ValueError(f"loss_bound of {key} must be a positive finite number, got {shown(bound)}")


def plan_for(judge: Judge, metrics: str | Sequence[str] | None, settings: Settings) -> Plan:
    """The plan for these metrics, or for the default metrics of that kind of model.

    Raises
    ------
    ValueError
        For a metric that does not apply to the model, or a loss without a bound.
    """
    names = _names(judge, metrics)
    asked, parts = set(names), dict[str, Part]()
    binary = judge.classes is not None and len(judge.classes) == 2
    if asked & (set(OF_MATRIX) - {"accuracy"}):
        assert judge.classes is not None
        parts["confusion"] = Confusion(len(judge.classes))
    elif "accuracy" in asked:
        parts["hits"] = Hits(settings.size_known)
    if asked & set(OF_SCORES if binary else BY_CLASS):
        assert judge.classes is not None
        parts["scores"] = Scores(len(judge.classes))
    if "brier" in asked:
        parts["brier"] = Loss("brier", 1.0 if binary else 2.0)
    bounds = _Bounds(judge, settings, asked)
    if "r2" in asked:
        parts["r2"] = Determination(bounds.of("mse"), bounds.of_targets())
    for name in ("log_loss", "mae", "mse", "pinball"):
        if name in asked and not (name == "mse" and "r2" in asked):
            parts[name] = Loss(name, bounds.of(name))
    if not settings.size_known and not parts.keys() & {"hits", "confusion", "scores"}:
        parts["count"] = Count()
    return Plan(names, parts)


def _names(judge: Judge, metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    if metrics is None:
        return _default_names(judge)
    given = [metrics] if isinstance(metrics, str) else list(metrics)
    names = tuple(dict.fromkeys(_ALIASES.get(name, name) for name in given))
    possible = REGRESSION if judge.classes is None else CLASSIFICATION
    unknown = [name for name in names if name not in possible]
    if unknown or not names:
        kind = "regressor" if judge.classes is None else "classifier"
        raise ValueError(f"metrics of a {kind} are {', '.join(possible)}; got {unknown or given}")
    if judge.classes is not None:
        _check_scores(judge, names)
    return names


def _check_scores(judge: Judge, names: tuple[str, ...]) -> None:
    assert judge.classes is not None
    for name in names:
        if name in OF_SCORES and name not in BY_CLASS and len(judge.classes) != 2:
            raise ValueError(f"{name} is for two classes, and the model has {len(judge.classes)}")
        if name in OF_PROBABILITIES and not judge.has_probabilities:
            raise ValueError(f"{name} needs a model with predict_proba: its scores are not probabilities")
        if name in OF_SCORES and not judge.has_scores:
            raise ValueError(f"{name} needs a model with decision_function or predict_proba")


def _default_names(judge: Judge) -> tuple[str, ...]:
    if judge.classes is None:
        return ("mae", "mse", "r2")
    if len(judge.classes) != 2 or not judge.has_scores:
        return OF_MATRIX
    return (*OF_MATRIX, *((*OF_SCORES, "brier") if judge.has_probabilities else OF_SCORES[:4]))


class _Bounds:
    """Public bounds on losses: those given, else those derived from public facts about the model."""

    def __init__(self, judge: Judge, settings: Settings, asked: set[str]) -> None:
        self._judge, self._exact = judge, settings.exact
        given = settings.loss_bound
        self._given: dict[str, float] = dict(given) if isinstance(given, Mapping) else {}
        if isinstance(given, numbers.Real):
            if {"mse", "r2"} & asked and {"mae", "pinball"} & asked:
                raise ValueError(
                    "loss_bound is one number, and the losses have different units: give a mapping, such as "
                    "{'mae': 10, 'mse': 100}"
                )
            self._given = dict.fromkeys(("log_loss", "mae", "mse", "pinball"), float(given))

    def of(self, name: str) -> float:
        """Bound on one record's loss."""
        if name in self._given:
            return float(self._given[name])
        if name == "log_loss":
            assert self._judge.classes is not None
            return _EXACT_LOG_LOSS if self._exact else 4.0 + math.log(len(self._judge.classes))
        if self._exact:
            return math.inf
        bound = self._judge.target_bound
        if bound is None:
            raise ValueError(
                f"loss_bound must be given: a public bound on the {name} of one record, in its own unit, "
                "chosen from domain knowledge and not from the data; larger losses are clipped"
            )
        return float(bound**2 if name == "mse" else bound)

    def of_targets(self) -> float:
        """Bound on the absolute value of a target."""
        if "target" in self._given:
            return float(self._given["target"])
        if self._exact:
            return math.inf
        bound = self._judge.target_bound
        return math.sqrt(self.of("mse")) if bound is None else float(bound)
