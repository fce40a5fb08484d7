"""Models as files, and what a command knows of their columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dperm import estimators
from dperm.cli.estimators import is_classifier
from dperm.cli.outputs import write_whole
from dperm.cli.screen import Screen
from dperm.cli.targets import Labels, Numbers, Target, features_of, labels_of, numbers_of, schema_in
from dperm.data.schema.schema import Schema
from dperm.statement.privacy_statement import PrivacyStatement

_LARGE_EPSILON = 10.0


def target_of(
    screen: Screen,
    path: Path,
    label: str,
    estimator: str,
    positive: str | None,
    classes: Sequence[str] | None,
    bound: float | None,
) -> tuple[Schema, Target]:
    """The schema of the features, and the column to predict."""
    schema, is_draft = schema_in(path)
    if is_draft:
        screen.warn(f"{path} is still a draft, read from data: check it, and delete its first lines")
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
    return features_of(schema, label), target


def check_terms(screen: Screen, epsilon: float, delta: float, n: int) -> None:
    """Warn of a guarantee that says little."""
    if delta * n >= 1.0:
        screen.warn(
            f"delta = {delta:g} is no less than one over the number of records ({n:,}): publishing a "
            "record would satisfy that. Choose it well below"
        )
    if epsilon > _LARGE_EPSILON:
        screen.warn(
            f"epsilon = {epsilon:g} is a weak guarantee: it is usual to stay below {_LARGE_EPSILON:g}"
        )


def write(fitted: Any, target: Target, path: Path) -> None:
    """Write a model and what it predicts."""
    schema: Schema = fitted.schema
    entries = {
        "model": type(fitted).__name__,
        "target": _entries(target),
        "coef": fitted.coef_.tolist(),
        "intercept": np.asarray(fitted.intercept_).tolist(),
        "schema": schema.to_text(),
        "privacy": fitted.privacy_.to_dict(),
    }
    write_whole(path, json.dumps(entries, indent=1) + "\n")


def read(path: Path) -> tuple[Any, Target | None]:
    """The model in a file, and the column that it predicts if the file says it."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no model: {error}") from None
    kind = getattr(estimators, entries["model"])
    target = _target(entries["target"])
    model = kind(schema=Schema.from_text(entries["schema"]), **target.arguments)
    model.coef_, model.intercept_ = np.array(entries["coef"]), np.array(entries["intercept"])
    if isinstance(target, Labels):
        model.classes_ = np.array(target.classes)
    model.privacy_ = PrivacyStatement.from_dict(entries["privacy"])
    model.n_features_in_ = len(model.schema.columns)
    return model, target


def _entries(target: Target) -> dict[str, Any]:
    if isinstance(target, Labels):
        return {"column": target.column, "labels": list(target.known), "positive": target.positive}
    return {"column": target.column, "bound": target.bound}


def _target(entries: dict[str, Any]) -> Target:
    if "labels" in entries:
        return Labels(entries["column"], tuple(entries["labels"]), entries["positive"])
    return Numbers(entries["column"], entries["bound"])


def target_named(target: Target | None, label: str | None) -> Target:
    """The column to predict: of the model, or the one that is named."""
    if target is None:
        raise ValueError("the model does not say what it predicts: --label names the column with the truth")
    return target if label is None else replace(target, column=label)
