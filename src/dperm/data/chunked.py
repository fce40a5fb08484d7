"""Rows in consecutive parts, of which only a few are in memory at a time, read ahead by a second thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.row_kernels import end_openmp_threads
from dperm.data.passes import DescentSteps, Integers, Pass, share_of
from dperm.data.rows import Rows
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied
from dperm.private_values.secret_rows import SecretRows

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item], *, threaded: bool) -> Generator[Item, None, None]:
    """Yield the items in order; a second thread makes the next one while the current one is in use.

    An error in making an item is raised when that item is requested. The thread ends with this iterator, or
    when the iterator is closed.
    """
    if not threaded:
        yield from items
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        pending = worker.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = worker.submit(next, items, None)
            yield item
            del item  # or it would stay in memory while waiting for the next one


class AdaptiveThreads:
    """The number of threads for one chunk while a reader makes the next: about as few as keep up with it.

    More would compete with the reader for cores. The number depends on timings, so results must not depend
    on the number.
    """

    def __init__(self) -> None:
        self._count = self._limit = 1
        self._waited = self._worked = 0.0

    def count(self, limit: int) -> int:
        """Number of threads for the next chunk, at most `limit`."""
        self._limit = limit
        return min(self._count, limit)

    def update(self, waited: float, worked: float) -> None:
        """Adapt to the seconds spent waiting for a chunk and working on it.

        Moving averages, so that one late read does not matter.
        """
        self._waited = 0.8 * self._waited + 0.2 * waited
        self._worked = 0.8 * self._worked + 0.2 * worked
        before = self._count
        if self._waited > self._worked:
            self._count = max(min(before, self._limit) // 2, 1)
        elif self._waited < 0.1 * self._worked:
            self._count = min(2 * before, self._limit)
        self._worked *= before / self._count  # what it would have been with the new number


Result = TypeVar("Result")


@dataclass(frozen=True)
class Part:
    """Consecutive records: the rows for the kernels, and the matrix and targets they were made from."""

    rows: Rows
    matrix: Any
    targets: NDArray[Any]


class Parts(Protocol):
    """Records in consecutive parts, each in memory only while it is worked on."""

    def read(self) -> Generator[Part, None, None]:
        """Yield all parts in order, none of them empty.

        Raises DataError if the records have changed since construction, possibly only after the last part:
        results may be used once the iteration has ended without an error.
        """

    def stacked(self, matrices: list[Any], targets: NDArray[Any]) -> Rows:
        """Rows of the vertically stacked matrices of several parts."""


class ChunkedRows(NotCopied):
    """Records in parts: every pass adds up the exact integers of the parts.

    The sums equal those of the same records in one piece, wherever the parts begin. The matrix is never kept;
    only passes with a result per row (norms, predictions) keep 8 bytes a record.

    Parameters
    ----------
    parts : Parts
        Read once here, so that all records are checked before anything is drawn or charged.

    Raises
    ------
    DataError
        If records are invalid, parts do not fit together, or there are no records; and, in every pass, if the
        records have changed.
    """

    _refusal = "records in files are not sent to other processes: send the paths, and read them there"
    n_partitions = 0
    reads_whole_rows = True

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._process = os.getpid()
        self._threads = AdaptiveThreads()
        self.n_rows = 0
        with closing(parts.read()) as each:
            for part in each:
                if self.n_rows == 0:
                    self.n_columns, self.dtype = part.rows.n_columns, part.rows.dtype
                    self._entries_per_part = part.rows.n_entries
                elif (part.rows.n_columns, part.rows.dtype) != (self.n_columns, self.dtype):
                    raise DataError(
                        f"the records from row {self.n_rows} on have {part.rows.n_columns} columns of "
                        f"{part.rows.dtype}; those before have {self.n_columns} of {self.dtype}"
                    )
                self.n_rows += part.rows.n_rows
                del part  # or it would stay in memory while waiting for the next one
        if self.n_rows == 0:
            raise DataError("X must have at least one record")

    @property
    def n_entries(self) -> int:
        """Numbers in a part: threads share one part at a time."""
        return self._entries_per_part

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass, part by part; every part is read once."""

        def over_part(part: Part, here: slice) -> Any:
            return part.rows.run(pass_.over_part(here), self._threads.count(n_threads))

        with closing(self._each(over_part)) as results:
            return pass_.combined(results)

    def drawn(self, sample: SecretRows, n_public: int) -> Integers:
        """Ascending indices of a secret sample's records."""
        return sample._among(self.n_rows, n_public)

    def noisy_batch_sums(self, *_: Any) -> None:
        """None: not available for records in parts."""

    def descend(self, steps: DescentSteps) -> None:
        """Make steps of stochastic gradient descent, in place.

        One pass over all parts first gathers the records of these steps in memory.
        """
        rows, places = self._gathered(steps.order)
        rows.descend(replace(steps, order=places))

    def _gathered(self, order: Integers) -> tuple[Rows, Integers]:
        """The records of `order` in memory, and the index of each among them (-1: no such record)."""
        exists = (order >= 0) & (order < self.n_rows)
        wanted = np.unique(np.append(order[exists], 0))  # at least one: a matrix must have rows

        def taken(part: Part, here: slice) -> tuple[Any, NDArray[Any]]:
            share = share_of(wanted, here)
            return part.matrix[share], part.targets[share]

        with closing(self._each(taken)) as shares:
            matrices, targets = zip(*shares, strict=True)
        rows = self._parts.stacked(list(matrices), np.concatenate(targets))
        return rows, np.where(exists, np.searchsorted(wanted, order), -1)

    def _each(self, apply: Callable[[Part, slice], Result]) -> Generator[Result, None, None]:
        """Yield ``apply(part, slice of its records)``; use no result before the iteration has ended."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "records in files cannot be read in a forked process: their reader has threads. Build the "
                "objective in the process that uses it (with joblib: backend 'loky')."
            )
        start, requested = 0, perf_counter()
        with closing(self._parts.read()) as parts:
            for part in parts:
                received = perf_counter()
                here = slice(start, start + part.rows.n_rows)
                if here.stop > self.n_rows:
                    break
                result = apply(part, here)
                self._threads.update(waited=received - requested, worked=perf_counter() - received)
                end_openmp_threads()  # idle ones would spin on cores that the reader needs
                yield result
                requested = perf_counter()
                start = here.stop
                del part  # or it would stay in memory while waiting for the next one
        if start != self.n_rows:
            raise DataError(
                f"the number of records is no longer {self.n_rows}: the data have changed. Nothing was "
                "released from this pass; train on files that nobody writes to."
            )
