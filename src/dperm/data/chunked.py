"""Rows that are the sum of parts, each of which is made when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.row_kernels import end_openmp_threads
from dperm.data.ahead import ThreadsBesideReader
from dperm.data.passes import DescentSteps, Integers, Pass, share_of
from dperm.data.rows import Rows
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied
from dperm.private_values.secret_rows import SecretRows

Result = TypeVar("Result")


@dataclass(frozen=True)
class Part:
    """Consecutive records: as the kernels read them, and the matrix and targets behind them."""

    rows: Rows
    matrix: Any
    targets: NDArray[Any]


class Parts(Protocol):
    """Records in consecutive parts, in memory for as long as they are worked on."""

    def read(self) -> Generator[Part, None, None]:
        """All parts in order, none of them empty.

        Raises DataError, at the latest after the last part, if the records are not what they were at
        construction: whoever has come to the end may use what was computed.
        """

    def stacked(self, matrices: list[Any], targets: NDArray[Any]) -> Rows:
        """Rows of some parts' matrices, one below the other."""


class ChunkedRows(NotCopied):
    """Records in parts: every pass adds up the parts' exact integers.

    They are those of the same records in one piece, whatever the parts. What is kept is 8 bytes a record
    where a pass asks for lengths or predictions; never the matrix.

    Parameters
    ----------
    parts : Parts
        Read once here, so that all records are checked before anything is drawn or charged.

    Raises
    ------
    DataError
        For records that cannot be used, parts that do not fit together, or none at all; in every pass if the
        records have changed.
    """

    _refusal = "records in files are not sent to other processes: send the paths, and read them there"
    n_partitions = 0
    reads_whole_rows = True

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._process = os.getpid()
        self._threads = ThreadsBesideReader()
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
                del part  # not kept while the next one is waited for
        if self.n_rows == 0:
            raise DataError("X must have at least one record")

    @property
    def n_entries(self) -> int:
        """Numbers in a part: passes use threads within one part after the other."""
        return self._entries_per_part

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass: part by part, all of which are read once."""

        def over_part(part: Part, here: slice) -> Any:
            return part.rows.run(pass_.over_part(here), self._threads.of(n_threads))

        with closing(self._each(over_part)) as results:
            return pass_.combined(results)

    def drawn(self, sample: SecretRows, n_public: int) -> Integers:
        """Ascending indices of a secret sample's records."""
        return sample._among(self.n_rows, n_public)

    def noisy_batch_sums(self, *_: Any) -> None:
        """None: parts come one after the other."""

    def descend(self, steps: DescentSteps) -> None:
        """Steps of stochastic gradient descent, in place.

        One pass over all parts collects the records that these steps use, in memory.
        """
        rows, places = self._gathered(steps.order)
        rows.descend(replace(steps, order=places))

    def _gathered(self, order: Integers) -> tuple[Rows, Integers]:
        """The records of `order` in memory, and where each of them is there."""
        there = (order >= 0) & (order < self.n_rows)  # other places hold no record
        wanted = np.unique(np.append(order[there], 0))  # one record at least: a matrix has rows

        def taken(part: Part, here: slice) -> tuple[Any, NDArray[Any]]:
            share = share_of(wanted, here)
            return part.matrix[share], part.targets[share]

        with closing(self._each(taken)) as shares:
            matrices, targets = zip(*shares, strict=True)
        rows = self._parts.stacked(list(matrices), np.concatenate(targets))
        return rows, np.where(there, np.searchsorted(wanted, order), -1)

    def _each(self, apply: Callable[[Part, slice], Result]) -> Generator[Result, None, None]:
        """``apply`` to every part and its place. Nobody may use the results before the last one."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "records in files cannot be read in a forked process: their reader has threads. Build the "
                "objective in the process that uses it (with joblib: backend 'loky')."
            )
        start, asked = 0, perf_counter()
        with closing(self._parts.read()) as parts:
            for part in parts:
                had = perf_counter()
                here = slice(start, start + part.rows.n_rows)
                if here.stop > self.n_rows:
                    break
                result = apply(part, here)
                self._threads.heed(waited=had - asked, worked=perf_counter() - had)
                end_openmp_threads()  # they would spin, and the reader needs their cores
                yield result
                asked = perf_counter()
                start = here.stop
                del part  # not kept while the next one is waited for
        if start != self.n_rows:
            raise DataError(
                f"the data hold another number of records than before ({self.n_rows}): they have changed. "
                "Nothing was released from this pass; train on files that nobody writes to."
            )
