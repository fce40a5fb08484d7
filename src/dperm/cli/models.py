"""Model files, and the columns that a model reads and predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.cli.estimators import is_classifier
from dperm.cli.screen import Screen
from dperm.cli.targets import (
    Labels,
    Numbers,
    Target,
    as_text,
    features_of,
    labels_of,
    numbers_of,
    schema_in,
    schema_types,
    target_from,
)
from dperm.data.files.arrow_tables import pyarrow
from dperm.data.schema.schema import Schema
from dperm.estimators.storage.loading import read_model
from dperm.estimators.storage.saving import save_model

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
    schema = schema_in(path)
    if schema._is_draft:
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
    """Warn about a weak guarantee."""
    if delta * n >= 1.0:
        screen.warn(
            f"delta = {delta:g} is no less than one over the number of records ({n:,}): publishing a random "
            "record would satisfy it. Choose it well below"
        )
    if epsilon > _LARGE_EPSILON:
        screen.warn(
            f"epsilon = {epsilon:g} is a weak guarantee: it is usual to stay below {_LARGE_EPSILON:g}"
        )


def write(fitted: Any, target: Target, path: Path) -> None:
    """Write a model and what it predicts."""
    save_model(fitted, path, target.entries)


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
