"""Model files on the command line: estimators by name, and the columns that a model reads and predicts."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import estimators
from dperm.cli.screen import Screen
from dperm.cli.targets import (
    Labels,
    Numbers,
    Target,
    as_text,
    changed,
    labels_of,
    numbers_of,
    schema_in,
    schema_types,
    target_from,
    with_label,
)
from dperm.data.files.arrow_tables import pyarrow
from dperm.data.schema.schema import Schema
from dperm.estimators.input_checks import check_names
from dperm.estimators.solvers import SOLVERS, check_solver
from dperm.estimators.storage.loading import read_model

#: Class of each estimator, and parameters that its name fixes.
ESTIMATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "logistic": (estimators.LogisticRegression, {}),
    "svc": (estimators.LinearSVC, {}),
    "huber": (estimators.HuberRegressor, {}),
    "ridge": (estimators.HuberRegressor, {"threshold": math.inf}),
    "quantile": (estimators.QuantileRegressor, {}),
}
# Settings that have their own option, and below those that no command offers.
_OPTIONS = {
    **{
        name: f"--{name.replace('_', '-')}"
        for name in ("epsilon", "delta", "l2", "solver", "neighbors", "n_public", "ledger")
    },
    **{"schema": "--schema", "classes": "--class", "target_bound": "--target-bound", "verbose": "--verbose"},
}
_NONE = ("solver_options", "random_state", "callback", "n_threads", "loss")
_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "None": "none"}


def estimator_class(name: str) -> Any:
    """The class of that name; raises ValueError for an unknown one."""
    if name not in ESTIMATORS:
        raise ValueError(f"--estimator must be one of {', '.join(ESTIMATORS)}, got {name!r}")
    return ESTIMATORS[name][0]


def is_classifier(name: str) -> bool:
    """Whether the estimator of that name predicts labels."""
    return "classes" in inspect.signature(estimator_class(name)).parameters


def make(name: str, solver: str, settings: Sequence[str], **arguments: Any) -> Any:
    """An estimator with settings ``key=value``: its own parameters, and options of its solver.

    Raises
    ------
    ValueError
        For a setting that neither has, or a value of the wrong type.
    """
    kind, fixed = estimator_class(name), dict(ESTIMATORS[name][1])
    check_solver(solver)
    own = _types(kind)
    named = {name: f"--{name.replace('_', '-')}" for name in arguments} | _OPTIONS
    options = dict[str, Any]()
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r} must have the form key=value")
        if key in named or key in _NONE or key in fixed:
            instead = f"it is {named[key]}" if key in named else "it cannot be set"
            raise ValueError(f"--set {key}: {instead}")
        check_names("--set", own, [key])
        if key in own:
            fixed[key] = typed(key, text, own[key])
        else:
            options[key] = typed(key, text, _option_type(key, solver, own))
    return kind(solver=solver, solver_options=options or None, **fixed, **arguments)


def grid_of(name: str, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Candidates ``key=value,value,...`` as a grid of parameters of the estimator of that name."""
    own, grid = _types(estimator_class(name)), dict[str, list[Any]]()
    for text in texts:
        key, _, values = text.partition("=")
        check_names("--grid", own, [key])
        if key not in own or key in _NONE or key in grid:
            reason = "is named twice" if key in grid else f"is none of {_names(own)}"
            raise ValueError(f"--grid {key!r} {reason}")
        grid[key] = [typed(key, each, own[key]) for each in values.split(",")]
    if not grid:
        raise ValueError("name the candidates: --grid l2=1e-6,1e-3,1e-1, for instance")
    return grid


def typed(key: str, text: str, annotation: str) -> Any:
    """The text converted to the type in a parameter's annotation."""
    kinds = set(re.findall(r"\w+", annotation))
    if "bool" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "None" in kinds and text.lower() == "none":
        return None
    if "Sequence" in kinds:
        return [typed(key, each, "int") for each in text.split(",")]
    for kind in [each for each in (int, float) if each.__name__ in kinds]:
        try:
            return kind(text)
        except ValueError:
            continue
    if kinds & {"str", "Any"}:
        return text
    wanted = " or ".join(words for kind, words in _WORDS.items() if kind in kinds)
    raise ValueError(f"{key} must be {wanted}, got {text!r}")


def _types(kind: Any) -> Mapping[str, str]:
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: str(each.annotation) for each in parameters}


def _option_type(key: str, solver: str, own: Mapping[str, str]) -> str:
    """Annotation of a solver's option; for "auto", from any solver that has it, since the fit checks it."""
    for name in SOLVERS if solver == "auto" else [solver]:
        if key in _types(SOLVERS[name]):
            return _types(SOLVERS[name])[key]
    names = {each for name in (SOLVERS if solver == "auto" else [solver]) for each in _types(SOLVERS[name])}
    close = get_close_matches(key, [*own, *names], n=1)
    known = f"did you mean {close[0]!r}?" if close else f"they take {_names({*own, *names})}"
    raise ValueError(f"--set {key!r} is known to neither the estimator nor solver {solver!r}: {known}")


def _names(keys: Any) -> str:
    hidden = {*_OPTIONS, *_NONE, "objective"}
    return ", ".join(sorted(each for each in keys if each not in hidden))


_LARGE_EPSILON = 10.0


def target_of(
    path: Path,
    label: str | None,
    estimator: str,
    positive: str | None,
    classes: Sequence[str] | None,
    bound: float | None,
) -> tuple[Schema, Target]:
    """The schema of the features, and the column to predict."""
    schema = schema_in(path)
    label = label or schema.label_name
    if not label:
        raise ValueError(f"--label must name the column to predict, as {path} has no label = ...")
    named, schema = bool(schema.label), with_label(schema, label)
    target: Target
    if is_classifier(estimator):
        if bound is not None:
            raise ValueError(f"--target-bound is for numbers, and --estimator {estimator} predicts labels")
        target = labels_of(schema, label, positive, classes)
    else:
        if positive is not None or classes:
            raise ValueError(
                f"--class and --positive are for labels, and --estimator {estimator} predicts numbers"
            )
        target = numbers_of(schema, label, bound)
    return schema if named else changed(schema, label=""), target


def check_epsilon(screen: Screen, epsilon: float) -> None:
    """Warn about a weak guarantee."""
    if epsilon > _LARGE_EPSILON:
        screen.warn(
            f"epsilon = {epsilon:g} is a weak guarantee: it is usual to stay below {_LARGE_EPSILON:g}"
        )


def size_of_model(description: Schema, target: Target, solver: str) -> int:
    """Bytes of the file of a model with this description, or somewhat more."""
    width = description.n_columns + 1
    numbers = width * len(target.entries.get("labels", "1")) + 3 * width**2 * (solver == "noisy_newton")
    names = [description.to_entries(), description.feature_names, target.entries]
    return (1 << 16) + 6 * len(json.dumps(names)) + 26 * numbers


def read(path: Path) -> tuple[Any, Target | None]:
    """The model in a file, and the column that it predicts if the file names it."""
    model, entries = read_model(path)
    return model, None if entries is None else target_from(entries)


def target_named(fitted: Any, target: Target | None, label: str | None) -> Target:
    """The column to predict: the named one, or else that of the model."""
    if target is not None:
        return target if label is None else replace(target, column=label)
    if label is None:
        raise ValueError("the model does not say what it predicts: --label names the column with the truth")
    if not hasattr(fitted, "classes_"):
        return Numbers(label)
    return Labels(label, tuple(map(as_text, fitted.classes_.tolist())))


def in_classes(fitted: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Labels converted to the type of the model's labels; numbers of a regressor unchanged."""
    if not hasattr(fitted, "classes_") or labels.dtype.kind == fitted.classes_.dtype.kind:
        return labels
    classes = {as_text(each): each for each in fitted.classes_.tolist()}
    return np.array([classes[each] for each in labels.tolist()], dtype=fitted.classes_.dtype)


def feature_types(fitted: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arrow types of the columns that a model reads from files with these columns."""
    if fitted.schema is not None:
        return schema_types(fitted.schema)
    own = getattr(fitted, "feature_names_in_", None)
    return dict.fromkeys(names if own is None else map(str, own), pyarrow().float64())
