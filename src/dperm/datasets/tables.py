"""Tables of cells, and their encoding into a design matrix and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import Cells, Matrix
from dperm.datasets.table_schema import TableSchema
from dperm.errors import DataError

BLOCK_ROWS = 16_384

Entry = TypeVar("Entry", bound=np.generic)


@dataclass(frozen=True)
class Table:
    """Records as blocks of columns, the label last, with repeated records stored once.

    Parameters
    ----------
    n_rows : int
        Number of different rows that the blocks hold.
    blocks : iterator over lists of columns
        Each block holds all columns of some consecutive rows.
    positions : ndarray of int, optional
        Record i is row ``positions[i]`` of the blocks. Without it, record i is row i.
    """

    n_rows: int
    blocks: Iterator[Sequence[Cells]]
    positions: NDArray[np.intp] | None = None


def array_table(rows: NDArray[Any], labels: NDArray[Any]) -> Table:
    """Table of an array of shape (n_rows, n_columns) and its labels."""
    if len(rows) != len(labels):
        raise DataError(f"there are {len(rows)} rows and {len(labels)} labels")
    blocks = (
        [*rows[start : start + BLOCK_ROWS].T, labels[start : start + BLOCK_ROWS]]
        for start in range(0, len(rows), BLOCK_ROWS)
    )
    return Table(len(rows), blocks)


def encode(schema: TableSchema, table: Table, dtype: type[np.floating[Any]]) -> tuple[Matrix, NDArray[Any]]:
    """Design matrix (C order) and labels of `table`.

    Every row is a function of its own record and of the public `schema`.
    """
    X: Matrix = np.empty((table.n_rows, len(schema.feature_names)), dtype=dtype)
    labels = []
    start = 0
    for block in table.blocks:
        if len(block) != len(schema.columns) + 1:
            raise DataError(
                f"{schema.name}: expected {len(schema.columns)} columns and the label, "
                f"got {len(block)} columns"
            )
        stop = start + len(block[-1])
        _encode_block(schema, block, X[start:stop])
        labels.append(schema.label.encode(block[-1]))
        start = stop
    if start == 0:
        raise DataError(f"{schema.name}: there are no records")
    return _spread(X, table.positions), _spread(np.concatenate(labels), table.positions)


def _encode_block(schema: TableSchema, block: Sequence[Cells], out: Matrix) -> None:
    first = 0
    for column, cells in zip(schema.columns, block[:-1], strict=True):
        last = first + len(column.feature_names)
        column.encode(cells, out[:, first:last])
        first = last


def _spread(values: NDArray[Entry], positions: NDArray[np.intp] | None) -> NDArray[Entry]:
    return values if positions is None else values[positions]
