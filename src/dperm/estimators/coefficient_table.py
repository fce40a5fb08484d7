"""Weights of a fitted model as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.schema import Schema

INTERCEPT = "(intercept)"


def coefficient_values(
    weights: NDArray[np.float64],
    intercept: NDArray[np.float64] | None,
    names: Schema | Sequence[str] | None,
    classes: Sequence[Any],
) -> dict[str, list[Any]]:
    """Column, category and numbers of each weight, the intercept last.

    Parameters
    ----------
    weights : (n_features, K) ndarray
    intercept : (K,) ndarray or None
    names : Schema, sequence of str or None
        Of the weights; a schema knows column and category of each.
    classes : sequence
        Names of the K columns of numbers, if there are several; else it is "coefficient".
    """
    columns, categories = _columns_and_categories(names, len(weights))
    if intercept is not None:
        weights = np.vstack([weights, intercept])
        columns, categories = [*columns, INTERCEPT], [*categories, None]
    several = weights.shape[1] > 1
    values = {
        str(label) if several else "coefficient": weights[:, k].tolist() for k, label in enumerate(classes)
    }
    return {"column": columns, "category": categories, **values}


def _columns_and_categories(
    names: Schema | Sequence[str] | None, n_features: int
) -> tuple[list[str], list[str | None]]:
    if not isinstance(names, Schema):
        known = (
            [f"x{place}" for place in range(n_features)] if names is None else [str(each) for each in names]
        )
        return known, [None] * n_features
    pairs = [
        (column.name, None if feature == column.name else feature.removeprefix(f"{column.name}="))
        for column in names.columns
        for feature in column.feature_names
    ]
    return [column for column, _ in pairs], [category for _, category in pairs]


def data_frame(values: dict[str, list[Any]]) -> Any:
    """A data frame of pandas or polars, whichever is installed, in this order.

    Raises
    ------
    ImportError
        Where neither is.
    """
    try:
        import pandas

        return pandas.DataFrame(values)
    except ImportError:
        pass
    try:
        import polars
    except ImportError:
        raise ImportError("coefficients() makes a data frame: pip install pandas, or polars") from None
    return polars.DataFrame(values)
