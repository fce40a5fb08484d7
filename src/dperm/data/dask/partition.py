"""Partitions of the records on Dask workers, and the passes that workers make over them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from operator import add
from typing import Any, NoReturn, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import dperm
from dperm._kernels.threads import threads_for
from dperm.data.passes import Pass
from dperm.data.rows import Rows, RowSettings
from dperm.data.sources import rows_of
from dperm.data.sparse import is_sparse
from dperm.errors import DataError

PartitionState = tuple[int, int]  # records, checksum

_MAX_KEPT = 2  # results per row at a time; 8 bytes a record each


class Partition:
    """Some of the records, read in place by the worker that holds them.

    It is pickled as the matrix and the targets, to be sent to another worker when its own retires, and never
    to the driver, which releases results. :meth:`facts` reports invalid records.

    Parameters
    ----------
    number : int
        Index among the partitions.
    X : matrix or data frame
        Whatever :func:`dperm.data.sources.rows_of` reads, or a data frame of numbers.
    y : array or series
        One target per record.
    settings : RowSettings
        For one thread.
    dtype : dtype or None
        float32 or float64, in which arrays and data frames are read; None for the result of `encode`.
    borrowed : bool
        Whether Dask holds `X` as well, so that its size must not be counted twice.
    encode : callable, optional
        Applied to `X` first, record by record.
    checksum : int, optional
        Of a partition that was sent.
    """

    def __init__(
        self,
        number: int,
        X: Any,
        y: Any,
        settings: RowSettings,
        dtype: Any,
        borrowed: bool,
        encode: Callable[[Any], Any] | None = None,
        checksum: int | None = None,
    ) -> None:
        self.number = number
        self._settings = settings
        self._dtype = dtype
        self._X, self._y = X, _array(y)
        self._kept: dict[str, NDArray[np.float64]] = {}
        self.rows: Rows | None = None
        self.problem: str | None = None
        self._encoded = False
        try:
            self._X = encode(X) if encode is not None and self.n_rows else _matrix(X, dtype)
            self._encoded = True
            self.rows = self._read(settings)
        except DataError as error:
            self.problem = str(error)
        self._borrowed = borrowed and self._X is X
        self.checksum = checksum_of(self._X, self._y) if checksum is None else checksum

    def _read(self, settings: RowSettings) -> Rows | None:
        """The records for the kernels; None for an empty partition."""
        if self.n_rows == 0 and self._y.shape == (0,):
            return None
        return rows_of(self._X, self._y, settings)

    @property
    def n_rows(self) -> int:
        """Number of records; may be 0."""
        return int(self._X.shape[0])

    def facts(self) -> PartitionFacts:
        """What the driver needs to know."""
        rows = self.rows
        return PartitionFacts(
            number=self.number,
            n_rows=self.n_rows,
            n_columns=0 if rows is None else rows.n_columns,
            dtype=None if rows is None else rows.dtype,
            n_entries=0 if rows is None else rows.n_entries,
            reads_whole_rows=rows is None or rows.reads_whole_rows,
            problem=self.problem,
            checksum=self.checksum,
        )

    def check_unchanged(self, state: PartitionState) -> None:
        """Raise DataError unless the partition is in that state."""
        n_rows, checksum = state
        if (self.n_rows, self.checksum) == (n_rows, checksum):
            return
        change = f"{n_rows} records then, {self.n_rows} now" if self.n_rows != n_rows else "other values"
        raise DataError(
            f"partition {self.number} has changed since training began ({change}): its worker left the "
            "cluster, and Dask recomputed it from its source. What was charged stays charged, and nothing "
            "was released from this pass over the data; train on files that nobody writes to, read by "
            "deterministic functions."
        )

    def problem_from(self, first_row: int) -> str:
        """The problem, with records numbered from `first_row` on."""
        if not self._encoded:
            return f"{self.problem} (Rows are counted from the start of the partition.)"
        try:
            self._read(replace(self._settings, first_row=first_row))
        except DataError as error:
            return str(error)
        return str(self.problem)

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass over the records, with `PerPartition` fields replaced by their values."""
        assert self.rows is not None
        values = {field.name: getattr(pass_, field.name) for field in fields(pass_)}
        own = {name: each.value(self) for name, each in values.items() if isinstance(each, PerPartition)}
        return self.rows.run(replace(pass_, **own), n_threads)

    def keep(self, name: str, pass_: Pass, n_threads: int) -> None:
        """Store the result of a pass under that name, for `KeptResult`."""
        while len(self._kept) >= _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[name] = self.run(pass_, n_threads)

    def kept(self, name: str) -> NDArray[np.float64]:
        """The result that `keep` stored; NotKept if it is not, or no longer, there."""
        if name not in self._kept:
            raise NotKept(name)
        return self._kept[name]

    def __reduce__(self) -> tuple[Any, ...]:
        encode = None if self._encoded else partial(_refuse, str(self.problem))
        arguments = (self.number, self._X, self._y, self._settings, self._dtype, False, encode, self.checksum)
        return Partition, arguments

    def __sizeof__(self) -> int:
        """Bytes, for Dask: records, targets and norms."""
        from dask.sizeof import sizeof

        return (0 if self._borrowed else int(sizeof(self._X))) + 24 * self.n_rows


def _refuse(problem: str, X: Any) -> NoReturn:
    """In place of an encoder that had that problem with `X` already."""
    raise DataError(problem)


def checksum_of(X: Any, y: NDArray[Any]) -> int:
    """CRC-32 of the arrays that store a matrix, and of targets.

    It detects sources that were written to, at the speed of reading them; it is no protection from forgery.
    """
    checksum = crc32(repr(X.shape).encode())
    for array in (*_arrays(X), y):
        checksum = crc32(f"{array.dtype} {array.shape}".encode(), checksum)
        if not array.dtype.hasobject:  # kernels never read objects
            checksum = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, checksum)
    return checksum


def _arrays(X: Any) -> list[NDArray[Any]]:
    if isinstance(X, np.ndarray):
        return [X]
    parts = getattr(X.tocsr() if is_sparse(X) else X, "__dict__", {})
    values = [parts[name] for name in sorted(parts)]
    flat = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    return [each for each in flat if isinstance(each, np.ndarray)]


class NotKept(KeyError):
    """A requested result is not, or no longer, stored with the partition."""


@dataclass(frozen=True)
class PartitionFacts:
    """Shape of a partition, and the problem that makes it unusable if there is one."""

    number: int
    n_rows: int
    n_columns: int
    dtype: Any
    n_entries: int
    reads_whole_rows: bool
    problem: str | None
    checksum: int = field(repr=False)

    @property
    def state(self) -> PartitionState:
        """What identifies the contents of the partition."""
        return self.n_rows, self.checksum


def _array(values: Any) -> NDArray[Any]:
    """A series or an array as an array."""
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _matrix(X: Any, dtype: Any) -> Any:
    """A data frame or an array in the layout of the kernels, copied only if necessary."""
    if dtype is None or is_sparse(X):
        return X
    matrix = _array(X)
    if matrix.ndim == 0:
        raise DataError(
            "blocks of X must be arrays, data frames or matrices of scipy.sparse, got "
            f"{type(X).__module__}.{type(X).__qualname__}"
        )
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        return matrix  # `rows_of` raises an error
    return np.require(matrix, dtype=dtype, requirements=["C", "ALIGNED"])


# -- fields of passes that differ from partition to partition ---------------------------------------------


class PerPartition(ABC):
    """A field of a pass whose value the worker looks up for each partition."""

    @abstractmethod
    def value(self, partition: Partition) -> Any:
        """Its value for a partition."""


@dataclass(frozen=True, eq=False)
class KeptResult(PerPartition):
    """A result per row that the workers store under a name; only the name is sent."""

    name: str
    pass_: Pass | None = None  # the pass that makes it, on the driver only

    def value(self, partition: Partition) -> NDArray[np.float64]:
        """The result for the partition's rows."""
        return partition.kept(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptResult, (self.name,)


class DrawnApart(Protocol):
    """Samples drawn for each partition from its number, see :mod:`dperm.mechanisms.batches`."""

    def for_partition(self, number: int, n_rows: int) -> NDArray[np.int64]:
        """Ascending indices of the sampled records."""


@dataclass(frozen=True, repr=False)
class WorkerSample(PerPartition):
    """The partition's share of a secret sample; only the worker knows it."""

    samples: DrawnApart

    def value(self, partition: Partition) -> NDArray[np.int64]:
        """Ascending indices of the sampled records."""
        return self.samples.for_partition(partition.number, partition.n_rows)


# -- calls -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkerThreads:
    """Threads for a pass: all of the worker's, which makes one pass at a time, up to a limit."""

    limit: int | None

    def over(self, partition: Partition, n_threads: int) -> int:
        """Threads for a pass over the partition; the worker has `n_threads`."""
        limited = n_threads if self.limit in (None, -1) else min(n_threads, self.limit or 1)
        return threads_for(limited, 0 if partition.rows is None else partition.rows.n_entries)


@dataclass(frozen=True, repr=False)
class Call:
    """A call of a method of `Partition` on every partition. Without a repr, as a pass may be secret."""

    method: str
    arguments: tuple[Any, ...] = ()
    #: Determines the last argument, the number of threads; None for methods without it.
    threads: WorkerThreads | None = None
    added: bool = False  # whether a worker adds up the results of its partitions

    def over(self, partitions: Sequence[Partition], n_threads: int) -> Any:
        """Sum of the results, or a list of them."""
        results = (self._on(partition, n_threads) for partition in partitions)
        return reduce(add, results) if self.added else list(results)

    def _on(self, partition: Partition, n_threads: int) -> Any:
        threads = () if self.threads is None else (self.threads.over(partition, n_threads),)
        return getattr(partition, self.method)(*self.arguments, *threads)


@dataclass(frozen=True, repr=False)
class Reply:
    """What a worker answers: a result, or why there is none."""

    result: Any = None
    #: Whether it does not hold all requested partitions, or is closing: they have to be located again.
    absent: bool = False
    error: Exception | None = None


#: Partitions of a worker, with the states that they must be in; None for any.
Share = dict[int, PartitionState | None]


async def pass_on_worker(name: str, shares: dict[str, Share], call: Call, *, dask_worker: Any) -> Reply:
    """Make a pass over the partitions of a worker, in its thread pool.

    Errors are returned rather than raised: for an exception the worker would log the arguments, which may
    contain secrets.
    """
    try:
        if dask_worker.status.name in ("closing", "closed"):
            return Reply(absent=True)  # it still answers, but its thread pool is gone
        share = shares[dask_worker.address]
        keys = [partition_key(name, number) for number in share]
        if any(key not in dask_worker.data for key in keys):
            return Reply(absent=True)
        partitions = [dask_worker.data[key] for key in keys]
        for partition, state in zip(partitions, share.values(), strict=True):
            if state is not None:
                partition.check_unchanged(state)
        n_threads = dask_worker.state.nthreads
        loop, pool = asyncio.get_running_loop(), dask_worker.executors["default"]
        return Reply(await loop.run_in_executor(pool, call.over, partitions, n_threads))
    except Exception as error:
        return Reply(error=error)


def partition_key(name: str, number: int) -> str:
    """Dask's key of a partition."""
    return f"{name}-{number}"


def result_per_row(partition: Partition, state: PartitionState, pass_: Pass, threads: WorkerThreads) -> Any:
    """Dask task: the result of a pass over a partition in that state."""
    from distributed import get_worker

    partition.check_unchanged(state)
    return partition.run(pass_, threads.over(partition, get_worker().state.nthreads))


async def version_of_worker() -> str:
    """Version of the package on the worker."""
    return dperm.__version__
