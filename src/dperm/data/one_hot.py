"""Detect one-hot columns in a matrix and store it as a table of codes, in a fraction of the memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.sparse import is_sparse
from dperm.data.tabular import TabularLayout, TabularMatrix

_SAMPLE_SIZE = 1024  # rows checked before all others, to give up early
_MAX_COLUMNS = 1 << 12
_BLOCK_ENTRIES = 1 << 17  # 1 MiB of doubles, which fits in the cache
_MAX_SIZE_RATIO = 0.5  # bytes of the table over bytes of the matrix
_MAX_BYTES = 1 << 30
_SPARSE_ENTRY_BYTES = 12  # a double and its column index


def nonzero_share(matrix: Any) -> float:
    """Share of nonzero entries in a sample of the rows of a dense matrix; 0 for any other matrix."""
    if not isinstance(matrix, np.ndarray):
        return 0.0
    sample = _sample(matrix)
    return float(np.count_nonzero(sample) / max(sample.size, 1))


def as_table(matrix: Any) -> TabularMatrix | None:
    """A table equivalent to a matrix of doubles with one-hot columns; None if it would save little memory.

    Adjacent columns of zeros and ones, no two of which are 1 in the same row, become one column of codes.
    Sums over the table equal those over the matrix bit for bit.

    Parameters
    ----------
    matrix : ndarray or CSR matrix
        Of any dtype; the result is None unless it is float64.

    Raises
    ------
    MemoryError
        If the table cannot be allocated.
    """
    if isinstance(matrix, TabularMatrix) or matrix.dtype != np.float64 or matrix.shape[1] > _MAX_COLUMNS:
        return None
    n, n_columns = matrix.shape
    stored = _SPARSE_ENTRY_BYTES * matrix.nnz / n if is_sparse(matrix) else 8.0 * n_columns
    columns = _Columns(n_columns)
    for block in itertools.chain(_blocks(_sample(matrix)), _blocks(matrix)):
        columns.see(block)
        if columns.row_bytes() > min(_MAX_SIZE_RATIO * stored, _MAX_BYTES / n):
            return None
    return _filled(matrix, columns.layout())


def _sample(matrix: Any) -> Any:
    return matrix[:: max(1, matrix.shape[0] // _SAMPLE_SIZE)]


def _blocks(matrix: Any) -> Iterator[NDArray[np.float64]]:
    rows = max(1, _BLOCK_ENTRIES // matrix.shape[1])
    for first in range(0, matrix.shape[0], rows):
        block = matrix[first : first + rows]
        yield block.toarray() if is_sparse(block) else block


class _Columns:
    """Which columns can share a column of codes, judging by the rows seen so far."""

    def __init__(self, count: int) -> None:
        self._binary = np.ones(count, dtype=bool)
        # For each column, the last earlier one that is 1 in the same row: they cannot share codes.
        self._apart = np.full(count, -1)

    def see(self, block: NDArray[np.float64]) -> None:
        ones = block == 1.0
        self._binary &= (ones | (block == 0.0)).all(axis=0)
        rows, columns = np.nonzero(ones & self._binary)
        together = rows[1:] == rows[:-1]
        np.maximum.at(self._apart, columns[1:][together], columns[:-1][together])

    def groups(self) -> list[tuple[int, int]]:
        """First matrix column and size of each column of codes; the number of groups is minimal."""
        groups: list[tuple[int, int]] = []
        for column in np.flatnonzero(self._binary).tolist():
            first, size = groups[-1] if groups else (0, -1)
            if first + size == column and self._apart[column] < first:
                groups[-1] = first, size + 1
            else:
                groups.append((column, 1))
        return groups

    def row_bytes(self) -> int:
        """Bytes per row of the table."""
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
