"""Encodings with constants measured on the records, as in published experiments; not private."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema
from dperm.data.tabular import TabularMatrix
from dperm.datasets.description import Description


def without_transforms(description: Description) -> Description:
    """The same description with numbers on a linear scale."""
    columns = [
        replace(column, transform="none") if isinstance(column, Numeric) else column
        for column in description.schema.columns
    ]
    return _with_columns(description, columns)


def min_max(description: Description, matrix: TabularMatrix) -> tuple[Description, TabularMatrix]:
    """Numbers scaled to [0, 1] by their minimum and maximum instead of public bounds.

    A constant column keeps its bounds.
    """
    low, high = matrix.numeric.min(axis=0), matrix.numeric.max(axis=0)
    low, span = np.where(high > low, low, 0.0), np.where(high > low, high - low, 1.0)
    places = iter(zip(low.tolist(), span.tolist(), strict=True))
    columns = []
    for column in description.schema.columns:
        if isinstance(column, Numeric) and column.n_numbers:
            start, share = next(places)
            width = column.high - column.low
            bounds = {"low": column.low + start * width, "high": column.low + (start + share) * width}
            column = replace(column, **bounds)
        columns.append(column)
    numeric = ((matrix.numeric - low) / span).astype(matrix.numeric.dtype)
    return _with_columns(description, columns), matrix.with_rows(numeric, matrix.codes)


def _with_columns(description: Description, columns: list[Any]) -> Description:
    schema = Schema(columns, name=description.schema.name, ignored=description.schema.ignored)
    return replace(description, schema=schema, measured=True)
