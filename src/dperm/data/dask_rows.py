"""Records in Dask collections: they stay on the workers, which send exact sums.

A task encodes and checks each partition and keeps it on its worker. A pass over the records is a task for
each partition, followed by a tree of additions. Sums of integers do not depend on where, in which order or
how often tasks run, so Dask may repeat them when workers die; nothing is released before the total arrives.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

import dperm
from dperm._kernels.threads import threads_for
from dperm.data.dask_collections import Blocks, added_up, as_array, blocks_of, task
from dperm.data.passes import Pass
from dperm.data.passes_per_row import PerRow
from dperm.data.rows import Rows, RowSettings
from dperm.data.sources import rows_of
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied
from dperm.private_values.secret_rows import SecretRows

_MAX_KEPT = 2  # results per row that a partition keeps; 8 bytes a record each

# -- tasks: errors in the data are their results, as Dask would log the arguments of tasks that fail ---------


class _Block(NamedTuple):
    """A partition that has been read, but not checked."""

    matrix: Any
    targets: NDArray[Any]


class Partition:
    """Some of the records, checked, as their worker keeps them.

    Parameters
    ----------
    number : int
        Index among the partitions.
    block : _Block
    settings : RowSettings
        `first_row` is the number of the first record in the whole.
    """

    def __init__(self, number: int, block: _Block, settings: RowSettings) -> None:
        if isinstance(block.matrix, np.ndarray):  # Dask does not align arrays that it has sent
            block = block._replace(matrix=np.require(block.matrix, requirements=["C", "ALIGNED"]))
        self.number, self._block, self._settings = number, block, settings
        self.rows: Rows = rows_of(block.matrix, block.targets, settings)
        self._kept: dict[str, NDArray[np.float64]] = {}

    def run(self, pass_: Pass, n_threads: int | None, needed: Mapping[str, PerRow]) -> Any:
        """Make a pass over the records, with `PerPartition` fields replaced by their values."""
        fields = vars(pass_).items()
        own = {name: each.value(self, needed) for name, each in fields if isinstance(each, PerPartition)}
        return self.rows.run(replace(pass_, **own), threads_for(n_threads, self.rows.n_entries))

    def kept(self, name: str, pass_: PerRow) -> NDArray[np.float64]:
        """The result of a pass, made once and kept under that name while few others are."""
        if name not in self._kept:
            result = self.run(pass_, 1, {})
            while len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = result
        return self._kept[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (self.number, self._block, self._settings)

    def __sizeof__(self) -> int:
        """Bytes, for Dask: records, targets and norms."""
        return self.rows.dtype.itemsize * self.rows.n_entries + 24 * self.rows.n_rows


class _Facts(NamedTuple):
    """What the driver needs to know of a partition."""

    n_columns: int
    dtype: np.dtype[Any]
    n_entries: int
    reads_whole_rows: bool


def _read_block(X: Any, y: Any, read: Callable[[Any], Any]) -> _Block | DataError:
    try:  # an encoder need not take a table without records
        block = _Block(read(X) if X.shape[0] else np.empty((0, 0)), as_array(y))
    except DataError as error:
        return error
    n, got = block.matrix.shape[0], block.targets.shape
    if got == (n,):
        return block
    return DataError(f"y must have one target per record, shape ({n},), got shape {got}.")


def _size(block: _Block | DataError) -> int | DataError:
    return block if isinstance(block, DataError) else len(block.targets)


def _checked(
    number: int, block: _Block | DataError, settings: RowSettings, n_rows: int
) -> Partition | DataError:
    if isinstance(block, DataError) or len(block.targets) != n_rows:  # it has been read without an error
        now = block if isinstance(block, DataError) else f"{n_rows} records then, {len(block.targets)} now"
        return DataError(
            f"partition {number} has changed since training began ({now}): Dask recomputed it from its "
            "source. What was charged stays charged, and nothing was released from this pass over the data; "
            "train on files that nobody writes to."
        )
    try:
        return Partition(number, block, settings)
    except DataError as error:
        return error


def _facts(partition: Partition | DataError) -> _Facts | DataError:
    if isinstance(partition, DataError):
        return partition
    rows = partition.rows
    return _Facts(rows.n_columns, rows.dtype, rows.n_entries, rows.reads_whole_rows)


def _run(
    partition: Partition | DataError, pass_: Pass, n_threads: int | None, needed: Mapping[str, PerRow]
) -> Any:
    if isinstance(partition, DataError):  # recomputed from a source that has changed
        raise partition
    return partition.run(pass_, n_threads, needed)


def _same(pass_: PerRow) -> PerRow:
    return pass_


def _version() -> str:
    return dperm.__version__


# -- fields of passes that differ from partition to partition ---------------------------------------------


class PerPartition(ABC):
    """A field of a pass whose value the worker looks up for each partition."""

    @abstractmethod
    def value(self, partition: Partition, needed: Mapping[str, PerRow]) -> Any:
        """Its value for a partition; `needed` holds the passes of kept results by their names."""


@dataclass(frozen=True, eq=False)
class KeptResult(PerPartition):
    """A result per row, which each worker computes when it first needs it, and keeps with the records.

    So it is always that of the records at hand, even if Dask has made these again.
    """

    pass_: Any  # a future, as the pass may be large; on the driver only
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def value(self, partition: Partition, needed: Mapping[str, PerRow]) -> NDArray[np.float64]:
        """The result for the partition's rows."""
        return partition.kept(self.name, needed[self.name])

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptResult, (None, self.name)


@dataclass(frozen=True, repr=False)
class WorkerSample(PerPartition):
    """The partition's share of a secret sample; only the worker knows it."""

    samples: Any  # `PartitionSamples` of dperm.mechanisms.batches

    def value(self, partition: Partition, needed: Mapping[str, PerRow]) -> Any:
        """Ascending indices of the sampled records."""
        return self.samples.for_partition(partition.number, partition.rows.n_rows)


# -- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedCollection:
    """A Dask data frame whose partitions are encoded by the workers, for instance with a schema."""

    X: Any
    encode: Callable[[Any], Any]  # from a data frame to a matrix, record by record; sent to the workers

    def rows(self, y: Any, settings: RowSettings) -> DistributedRows:
        """Rows of the records with targets `y`, on the workers."""
        return DistributedRows(blocks_of(self.X, y, self.encode), settings)


class DistributedRows(NotCopied):
    """Records on the workers of a cluster; see :class:`dperm.data.rows.Rows` for the methods.

    No record leaves the workers, nor does any sample: this process receives exact sums, whose total equals
    that of the same records in one place, bit for bit, whatever the partitions.

    Parameters
    ----------
    blocks : Blocks
        Of the design matrix and the targets.
    settings : RowSettings
        `n_threads` limits the threads of a task; by default the tasks of a pass use all threads of the
        cluster.

    Raises
    ------
    DataError
        For invalid records, numbered as in the whole data set.
    RuntimeError
        Without a client, or with another version of the package on the workers.
    """

    _refusal = "records on a cluster belong to this process's client, and are not copied or sent"

    def __init__(self, blocks: Blocks, settings: RowSettings) -> None:
        if settings.multiplicity is not None:
            raise DataError("counts cannot be given with Dask collections: leave the records as they are")
        if settings.weights is not None and settings.weights.each is not None:
            raise DataError("weights of records cannot be given with Dask collections: use class weights")
        self._client = _client()
        read = [task(_read_block)(X, y, blocks.read) for X, y in zip(blocks.X, blocks.y, strict=True)]
        read = self._client.compute(read)
        lengths = self._lengths(read)
        starts = np.cumsum([0, *lengths]).tolist()
        full = [number for number, length in enumerate(lengths) if length]
        if not full:
            raise DataError("X must have at least one record")
        own = [replace(settings, n_threads=1, first_row=first_row) for first_row in starts]
        self._partitions = [
            self._submit(_checked)(number, read[number], own[number], lengths[number]) for number in full
        ]
        self._lengths_of_partitions = [lengths[number] for number in full]
        facts = self._check({number: starts[number] for number in full})
        self.n_partitions = len(full)
        self.n_rows = starts[-1]
        self.n_columns, self.dtype = facts[0].n_columns, facts[0].dtype
        self.n_entries = sum(each.n_entries for each in facts)
        self.reads_whole_rows = all(each.reads_whole_rows for each in facts)
        idle = sum(self._client.nthreads().values()) // self.n_partitions
        limit = settings.n_threads
        self._threads = max(1, idle if limit in (None, -1) else min(idle, limit or 1))

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass: a task for each partition.

        Sums of integers are added up by the workers; those of floating-point numbers here, in the order of
        the partitions. Results per row stay on the workers: as a Dask array in the partitions of the records
        or, if later passes use them, with the records.
        """
        if isinstance(pass_, PerRow):
            return (
                KeptResult(self._submit(_same)(pass_)) if pass_.stays_with_records else self._per_row(pass_)
            )
        needed = {each.name: each.pass_ for each in vars(pass_).values() if isinstance(each, KeptResult)}
        results = self._on_each(_run, pass_, self._threads, needed)
        if pass_.exact:
            return added_up(results, self._submit).result()
        return pass_.combined(iter(self._client.gather(results)))

    def _per_row(self, pass_: PerRow) -> Any:
        """A Dask array, one entry per row."""
        import dask.array

        results = [task(_run)(partition, pass_, self._threads, {}) for partition in self._partitions]
        parts = zip(results, self._lengths_of_partitions, strict=True)
        shape = pass_.row_shape
        blocks = [dask.array.from_delayed(each, (length, *shape), np.float64) for each, length in parts]
        return dask.array.concatenate(blocks)

    def drawn(self, sample: SecretRows, n_public: int) -> WorkerSample:
        """A field from which each worker finds out which of its records are in the sample."""
        return WorkerSample(sample._in_partitions())

    def noisy_batch_sums(self, *_: Any) -> None:
        """None: not available, as workers draw their batches themselves."""

    def descend(self, *_: Any) -> NoReturn:
        """Not supported: partitions are not read a record at a time."""
        raise DataError(
            "single steps of stochastic gradient descent do not work on data in partitions: use dp_sgd "
            "(Poisson samples) or noisy_gd (full batches)"
        )

    def _submit(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls start tasks and return futures; faster than delayed objects."""
        return partial(self._client.submit, function, pure=False)

    def _on_each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return [self._submit(function)(partition, *arguments) for partition in self._partitions]

    def _lengths(self, blocks: Sequence[Any]) -> list[int]:
        """The number of records of each partition; DataError for the first that cannot be read."""
        lengths: list[int] = []
        for number, size in enumerate(self._client.gather([self._submit(_size)(each) for each in blocks])):
            if isinstance(size, DataError):
                raise DataError(
                    f"{size} (In partition {number}, which starts at row {sum(lengths)}; rows are counted "
                    "from there.)"
                )
            lengths.append(size)
        return lengths

    def _check(self, first_rows: dict[int, int]) -> list[_Facts]:
        """The facts of the partitions; DataError for the first invalid record."""
        found: list[_Facts] = []
        facts = self._client.gather(self._on_each(_facts))
        for (number, first_row), each in zip(first_rows.items(), facts, strict=True):
            if isinstance(each, DataError):
                raise DataError(f"{each} (In partition {number}, which starts at row {first_row}.)")
            found.append(each)
            if (each.n_columns, each.dtype) != (found[0].n_columns, found[0].dtype):
                raise DataError(
                    f"partition {number} of X, from row {first_row} on, has {each.n_columns} columns of "
                    f"{each.dtype}; those before have {found[0].n_columns} of {found[0].dtype}"
                )
        return found


def _client() -> Any:
    """The current client of a cluster whose workers have this version of the package."""
    from distributed import Client

    try:
        client = Client.current()
    except ValueError:
        raise RuntimeError(
            "records in Dask collections need a cluster: start one first, for instance with "
            "client = dask.distributed.Client() on this machine"
        ) from None
    if client.asynchronous:
        raise RuntimeError("a fit needs a synchronous client: Client(..., asynchronous=False)")
    versions = client.run(_version, on_error="return")
    if not versions:
        raise RuntimeError("the Dask cluster has no workers: start some, or wait for them")
    for worker, version in versions.items():
        if version != dperm.__version__:
            found = repr(version) if isinstance(version, Exception) else version
            raise RuntimeError(
                f"the workers need dperm {dperm.__version__}, as this process has; {worker}: {found}"
            )
    return client
