"""Tables of cells, and their encoding into a design matrix and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Numeric
from dperm.data.tabular import TabularMatrix
from dperm.datasets.description import Description
from dperm.errors import DataError

BLOCK_ROWS = 16_384


@dataclass(frozen=True)
class Table:
    """Records as blocks of columns, the label last, with repeated records stored once.

    Parameters
    ----------
    blocks : iterator over lists of columns
        Each block holds all columns of some consecutive rows.
    positions : ndarray of int, optional
        Record i is row ``positions[i]`` of the blocks. Without it, record i is row i.
    """

    blocks: Iterator[Sequence[Sequence[Any] | NDArray[Any]]]
    positions: NDArray[np.intp] | None = None


def array_table(rows: NDArray[Any], labels: NDArray[Any]) -> Table:
    """Table of an array of shape (n_rows, n_columns) and its labels."""
    if len(rows) != len(labels):
        raise DataError(f"there are {len(rows)} rows and {len(labels)} labels")
    return Table(
        [*rows[start : start + BLOCK_ROWS].T, labels[start : start + BLOCK_ROWS]]
        for start in range(0, len(rows), BLOCK_ROWS)
    )


def encode(description: Description, table: Table, numeric_dtype: str) -> tuple[TabularMatrix, NDArray[Any]]:
    """Design matrix and labels of `table`."""
    return in_order(encode_rows(description, table, numeric_dtype))


#: Design matrix and labels of rows, and which of them each record is (None: one after the other).
Encoded = tuple[TabularMatrix, NDArray[Any], NDArray[np.intp] | None]


def in_order(encoded: Encoded) -> tuple[TabularMatrix, NDArray[Any]]:
    """Design matrix and labels of the records."""
    X, y, positions = encoded
    return (X, y) if positions is None else (X[positions], y[positions])


def encode_rows(description: Description, table: Table, numeric_dtype: str) -> Encoded:
    """The rows of `table` and their labels, repeated ones once.

    Every row is a function of its own record and of the public `description`.
    """
    schema = description.schema
    parts, labels = [], []
    for block in table.blocks:
        if len(block) != len(description.file_columns) + 1:
            raise DataError(
                f"{description.name}: expected {len(description.file_columns)} columns and the label, "
                f"got {len(block)} columns"
            )
        stored = dict(zip(description.file_columns, block[:-1], strict=True))
        cells = {
            column.name: _numbers(column.name, stored[column.name])
            if isinstance(column, Numeric)
            else _texts(stored[column.name])
            for column in schema.columns
        }
        parts.append(schema.encode(cells, numeric_dtype))
        labels.append(description.label.encode(_texts(block[-1])))
    if not parts:
        raise DataError(f"{description.name}: there are no records")
    X = parts[0].with_rows(
        np.concatenate([part.numeric for part in parts]), np.concatenate([part.codes for part in parts])
    )
    return X, np.concatenate(labels), table.positions


def _numbers(name: str, cells: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Cells of a numeric column, which a file holds as text."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        return cells
    try:
        return np.fromiter(map(float, cells), np.float64, count=len(cells))
    except (TypeError, ValueError):
        bad = next(cell for cell in cells if not _is_number(cell))
        raise DataError(f"column {name!r} must hold numbers, got {bad!r}") from None


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _texts(cells: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]
    return texts
