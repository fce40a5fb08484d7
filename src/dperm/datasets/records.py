"""Records of published data sets, and their encoding as a design matrix and labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical
from dperm.data.tabular import TabularMatrix, stacked_tables
from dperm.datasets.description import Description
from dperm.errors import DataError

#: Some records: a table that `Schema.encode` accepts, and the cells of the label.
Records = tuple[Any, NDArray[Any]]


def array_records(description: Description, rows: NDArray[Any], labels: NDArray[Any]) -> Records:
    """Records from an array with the columns of the published file; texts may be bytes."""
    if len(rows) != len(labels):
        raise DataError(f"there are {len(rows)} rows and {len(labels)} labels")
    table = dict(zip(description.file_columns, rows.T, strict=True))
    for column in description.schema.columns:
        if isinstance(column, Categorical):
            table[column.name] = _texts(table[column.name])
    return table, _texts(labels)


def encode(
    description: Description, records: Iterable[Records], numeric_dtype: str
) -> tuple[TabularMatrix, NDArray[Any]]:
    """Design matrix and labels. Each row is a function of its record and of the public `description`."""
    parts = [
        (description.schema.encode(table, numeric_dtype), description.label.encode(labels))
        for table, labels in records
    ]
    if not parts:
        raise DataError(f"{description.name}: there are no records")
    matrices, labels = zip(*parts, strict=True)
    if len(parts) == 1:
        return matrices[0], labels[0]
    return stacked_tables(matrices), np.concatenate(labels)


def _texts(cells: NDArray[Any]) -> NDArray[Any]:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]
    return texts
