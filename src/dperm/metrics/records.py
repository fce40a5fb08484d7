"""The records to evaluate, in any representation, block by block so that they are never all copied."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.ledger.records import rows_of
from dperm.data.dask_collections import as_array, blocks_of, is_dask_collection, task
from dperm.data.files.record_files import RecordFiles
from dperm.data.multiplicity import Multiplicity
from dperm.data.readable import check_readable
from dperm.data.sparse import as_csr, is_sparse
from dperm.errors import DataError

Integers = NDArray[np.int64]

# Block size: numbers of the design matrix, and rows at most.
_BLOCK_NUMBERS, _BLOCK_ROWS = 1 << 20, 1 << 16


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their multiplicities.

    Attributes
    ----------
    X : Any
        Rows as the model takes them.
    y : ndarray
        Labels or targets as given.
    counts : ndarray of int64
        Multiplicities, at least 1.
    """

    X: Any
    y: NDArray[Any]
    counts: Integers


#: Maps a block to a vector of integers or floating-point numbers.
Summand = Callable[[Block], NDArray[Any]]


def sum_over(summand: Summand, X: Any, y: Any, counts: Any = None) -> tuple[NDArray[Any], int]:
    """The sum of ``summand(block)`` over all records, and the number of records.

    Raises
    ------
    DataError
        For data that do not match, or without any records.
    """
    if is_dask_collection(X):
        if counts is not None:
            raise DataError("counts cannot be given with Dask collections: leave the records as they are")
        return _sum_on_workers(summand, X, y)
    check_readable(X=None if isinstance(X, RecordFiles) else X, y=y)
    total: Any = None
    n_records = 0
    for block in _blocks(X, y, counts):
        part = summand(block)
        total = part if total is None else total + part
        n_records += int(block.counts.sum())
    if total is None:
        raise DataError("there must be at least one record to evaluate, got none")
    return total, n_records


def _blocks(X: Any, y: Any, counts: Any) -> Iterator[Block]:
    if isinstance(X, RecordFiles):
        if counts is not None:
            raise DataError("counts are for rows in memory: files take none")
        if y is not None:
            raise ValueError(f"y must be None: the targets are in the column {X.label!r} of the files")
        with warnings.catch_warnings():  # blocks are arrays: the names of the files have been checked
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            for matrix, cells in X.labelled_matrices():
                yield from _rows_in_memory(matrix, cells, None)
        return
    if y is None:
        raise DataError("y must be given: one target per record")
    yield from _rows_in_memory(X, y, counts)


def _rows_in_memory(X: Any, y: Any, counts: Any) -> Iterator[Block]:
    X = as_csr(X) if is_sparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise DataError(f"X must have two dimensions (records, columns), got shape {X.shape}")
    n, width = X.shape
    targets = np.asarray(y)
    if targets.shape not in ((n,), (n, 1)):
        raise DataError(f"y must have one target per record, shape ({n},), got shape {targets.shape}")
    each = np.ones(n, dtype=np.int64) if counts is None else Multiplicity(counts).each
    if each.shape != (n,):
        raise DataError(f"counts must have one entry per record, shape ({n},), got shape {each.shape}")
    step = min(max(_BLOCK_NUMBERS // max(width, 1), 256), _BLOCK_ROWS)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = Block(rows_of(X, rows), targets[rows].ravel(), each[rows])
        if not block.counts.all():  # rows of multiplicity 0 must not influence anything
            block = chosen(block, np.flatnonzero(block.counts))
        if len(block.y):
            yield block


def chosen(block: Block, rows: NDArray[np.intp]) -> Block:
    """Some rows of a block."""
    return Block(rows_of(block.X, rows), block.y[rows], block.counts[rows])


def _sum_on_workers(summand: Summand, X: Any, y: Any) -> tuple[NDArray[Any], int]:
    blocks = blocks_of(X, y, encode=summand)  # checks partitions, not contents
    import dask

    shared = task(summand)
    pairs = zip(blocks.X, blocks.y, strict=True)
    found = dask.compute(*[task(_of_partition)(shared, part, targets) for part, targets in pairs])
    full = [each for each in found if each is not None]
    if not full:
        raise DataError("there must be at least one record to evaluate, got none")
    return sum(vector for vector, _ in full), sum(n for _, n in full)


def _of_partition(summand: Summand, X: Any, y: Any) -> tuple[NDArray[Any], int] | None:
    targets = as_array(y)
    return sum_over(summand, X, targets) if len(X) or len(targets) else None
