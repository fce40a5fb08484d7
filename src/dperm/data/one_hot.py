"""One-hot columns found in a matrix: the table that it stands for, in a fraction of its memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.sparse import is_sparse
from dperm.data.tabular import TabularLayout, TabularMatrix

_LOOKED_AT = 1024  # rows that are looked at before all
_MOST_COLUMNS = 1 << 12
_BLOCK_ENTRIES = 1 << 17  # a megabyte, which stays in the cache
_WORTH_WHILE = 0.5  # of the bytes that passes read
_MOST_BYTES = 1 << 30
_ENTRY_BYTES = 12  # of a sparse matrix: a double and its column


def nonzero_share(matrix: Any) -> float:
    """Share of the entries of a dense matrix that are not 0, of a sample of its rows; 0 for any other."""
    if not isinstance(matrix, np.ndarray):
        return 0.0
    sample = _sample(matrix)
    return float(np.count_nonzero(sample) / max(sample.size, 1))


def as_table(matrix: Any) -> TabularMatrix | None:
    """The table that stands for a matrix of doubles with one-hot columns; None where it would save little.

    Neighbouring columns of zeros and ones, no two of which are 1 in the same row, become one column of
    codes. Sums over the table are those over the matrix, bit for bit.

    Parameters
    ----------
    matrix : ndarray or CSR matrix
        Of any type: None but for float64.

    Raises
    ------
    MemoryError
        If there is none for the table.
    """
    if isinstance(matrix, TabularMatrix) or matrix.dtype != np.float64 or matrix.shape[1] > _MOST_COLUMNS:
        return None
    n, n_columns = matrix.shape
    stored = _ENTRY_BYTES * matrix.nnz / n if is_sparse(matrix) else 8.0 * n_columns
    columns = _Columns(n_columns)
    for block in itertools.chain(_blocks(_sample(matrix)), _blocks(matrix)):
        columns.see(block)
        if columns.row_bytes() > min(_WORTH_WHILE * stored, _MOST_BYTES / n):
            return None
    return _filled(matrix, columns.layout())


def _sample(matrix: Any) -> Any:
    return matrix[:: max(1, matrix.shape[0] // _LOOKED_AT)]


def _blocks(matrix: Any) -> Iterator[NDArray[np.float64]]:
    rows = max(1, _BLOCK_ENTRIES // matrix.shape[1])
    for first in range(0, matrix.shape[0], rows):
        block = matrix[first : first + rows]
        yield block.toarray() if is_sparse(block) else block


class _Columns:
    """What the rows seen so far allow to be one column of codes."""

    def __init__(self, count: int) -> None:
        self._binary = np.ones(count, dtype=bool)
        # The last column before each that is 1 beside it in some row: no column of codes holds both.
        self._apart = np.full(count, -1)

    def see(self, block: NDArray[np.float64]) -> None:
        ones = block == 1.0
        self._binary &= (ones | (block == 0.0)).all(axis=0)
        rows, columns = np.nonzero(ones & self._binary)
        together = rows[1:] == rows[:-1]
        np.maximum.at(self._apart, columns[1:][together], columns[:-1][together])

    def groups(self) -> list[tuple[int, int]]:
        """First column and size of each column of codes: as few as there can be."""
        groups: list[tuple[int, int]] = []
        for column in np.flatnonzero(self._binary).tolist():
            first, size = groups[-1] if groups else (0, -1)
            if first + size == column and self._apart[column] < first:
                groups[-1] = first, size + 1
            else:
                groups.append((column, 1))
        return groups

    def row_bytes(self) -> int:
        """Bytes of a row of the table."""
        groups = self.groups()
        codes = _code_type(size for _, size in groups).itemsize
        return 8 * int(np.count_nonzero(~self._binary)) + codes * len(groups)

    def layout(self) -> TabularLayout:
        first_columns, sizes = zip(*self.groups(), strict=True)
        return TabularLayout(tuple(np.flatnonzero(~self._binary).tolist()), first_columns, sizes)


def _code_type(sizes: Any) -> np.dtype[Any]:
    return np.dtype(np.uint8 if max(sizes, default=0) < 256 else np.uint16)


def _filled(matrix: Any, layout: TabularLayout) -> TabularMatrix:
    n, kind = matrix.shape[0], _code_type(layout.sizes)
    numeric = np.empty((n, len(layout.numeric_columns)))
    codes = np.empty((n, len(layout.sizes)), dtype=kind)
    done = 0
    for block in _blocks(matrix):
        here = slice(done, done + len(block))
        numeric[here] = block[:, list(layout.numeric_columns)]
        for j, (first, size) in enumerate(zip(layout.first_columns, layout.sizes, strict=True)):
            ones = block[:, first : first + size] == 1.0
            codes[here, j] = np.where(ones.any(axis=1), ones.argmax(axis=1), size)
        done += len(block)
    return TabularMatrix(numeric, codes, layout)
