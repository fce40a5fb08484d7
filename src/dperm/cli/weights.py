"""Sample weights and class weights from the options of ``dperm fit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.cli.inputs import Inputs
from dperm.cli.targets import Labels, Numbers, Target, features_of, with_columns
from dperm.data.files.arrow_tables import pyarrow
from dperm.data.schema.schema import Schema


def weight_arguments(target: Target, of_classes: Sequence[str] | None, bound: float | None) -> dict[str, Any]:
    """Arguments of an estimator for weights.

    Raises
    ------
    ValueError
        For weights of unknown classes, or of a regressor.
    """
    arguments: dict[str, Any] = {} if bound is None else {"weight_bound": bound}
    if not of_classes:
        return arguments
    if not isinstance(target, Labels):
        raise ValueError("--class-weight is for labels, and the estimator predicts numbers")
    if list(of_classes) == ["private"]:
        return arguments | {"class_weight": "private"}
    weights = dict(_weight_of_class(text, target.classes) for text in of_classes)
    if len(weights) < len(of_classes):
        raise ValueError("--class-weight names a label twice")
    return arguments | {"class_weight": weights}


def _weight_of_class(text: str, classes: Sequence[str]) -> tuple[str, float]:
    label, equals, number = text.rpartition("=")  # the label may contain "=" itself
    try:
        weight = float(number if equals else "")
    except ValueError:
        raise ValueError(f"--class-weight must be 'private' or LABEL=NUMBER, got {text!r}") from None
    if label not in classes:
        raise ValueError(f"--class-weight {text!r}: {label!r} is not one of {list(classes)}")
    return label, weight


def without_weights(schema: Schema, column: str | None, bound: float | None, target: Target) -> Schema:
    """The schema without the column of weights, which is not a feature.

    Raises
    ------
    ValueError
        Without a bound, or if it is the column to predict.
    """
    if column is None and bound is None:
        return schema
    if column is None or bound is None:
        raise ValueError(
            "--weight-column and --weight-bound go together: weights are clipped at the bound, which is "
            "public and must not be read from the data"
        )
    if column == target.column:
        raise ValueError(f"--weight-column {column!r} is the column to predict")
    ignored = [*(each for each in schema.ignored if each != column), column]
    return with_columns(schema, features_of(schema, column).columns, ignored)


def load_weights(inputs: Inputs, column: str) -> NDArray[Any]:
    """The weights of all records; NaN where one is missing."""
    cells = inputs.table({column: pyarrow().float64()}).column(column)
    return Numbers(column).read(np.asarray(cells.to_numpy()), 0)
