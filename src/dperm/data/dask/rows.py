"""Records in partitions held by the workers of a Dask cluster.

The partitions belong to Dask: tasks make them from the user's collection, workers keep them, and Dask
recomputes them when a worker dies. Passes are not tasks: there are thousands of them, and the scheduler takes
many milliseconds for each. Instead each worker is called directly and adds up exact integers over its
partitions. A pass is a pure function of the partitions, of public numbers and of the key of a secret sample;
so a call that a worker does not answer is repeated on the workers that then hold its partitions. The sum is
the same, and nothing was released in between.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NoReturn

import numpy as np

import dperm
from dperm.data.dask.collections import Blocks, blocks_of
from dperm.data.dask.partition import (
    Call,
    KeptResult,
    NotKept,
    PartitionFacts,
    PartitionState,
    Reply,
    Share,
    WorkerSample,
    WorkerThreads,
    pass_on_worker,
    result_per_row,
    version_of_worker,
)
from dperm.data.dask.placement import (
    FIRST_WAIT,
    LONGEST_WAIT,
    LOOK_AFTER,
    NOTHING_RELEASED,
    PATIENCE,
    PlacedPartitions,
)
from dperm.data.passes import Pass
from dperm.data.passes_per_row import PerRow
from dperm.data.rows import RowSettings
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied
from dperm.private_values.secret_rows import SecretRows

# The scheduler may list a dead worker for a moment. Waits between tries double, and the count starts again
# when some worker has answered.
_MAX_TRIES = 20


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
        `n_threads` limits the threads that a worker uses; by default it uses all of its own.

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
        self._check_versions()
        self._threads = WorkerThreads(settings.n_threads)
        self._name = f"dperm-partition-{uuid.uuid4().hex}"
        self._partitions = PlacedPartitions(self._client, self._name, blocks, replace(settings, n_threads=1))
        self._states: dict[int, PartitionState] = {}  # of the partitions when they were checked
        self._results: weakref.WeakValueDictionary[str, KeptResult] = weakref.WeakValueDictionary()
        facts = self._each(Call("facts"))
        self._check(facts)
        full = [each for each in facts if each.n_rows]
        self._partitions.keep(each.number for each in full)
        self._states.update((each.number, each.state) for each in full)
        self.n_partitions = len(full)
        self.n_rows = sum(each.n_rows for each in full)
        self.n_columns: int = full[0].n_columns
        self.dtype: np.dtype[Any] = full[0].dtype
        self.n_entries = sum(each.n_entries for each in full)
        self.reads_whole_rows = all(each.reads_whole_rows for each in full)

    # -- passes ------------------------------------------------------------------------------------------

    def run(self, pass_: Pass, n_threads: int) -> Any:
        """Make a pass: one call to each worker.

        Exact sums are added up by the workers and here; floating-point sums depend on the partitions, but not
        on the workers. Results per row stay on the workers: as a Dask array in the partitions of the records
        or, if later passes use them, under a name.
        """
        if isinstance(pass_, PerRow):
            return self._kept(pass_) if pass_.stays_with_records else self._per_row(pass_)
        if pass_.exact:
            call = Call("run", (pass_,), self._threads, added=True)
            return np.asarray(reduce(add, self._call(call, self._partitions.futures).values()))
        return pass_.combined(iter(self._each(Call("run", (pass_,), self._threads))))

    def _per_row(self, pass_: PerRow) -> Any:
        """A Dask array, one entry per row."""
        import dask.array
        from dask import delayed

        make = delayed(result_per_row, pure=False, traverse=False)
        blocks = [
            dask.array.from_delayed(
                make(self._partitions.futures[number], state, pass_, self._threads),
                (state[0], *pass_.row_shape),
                np.float64,
            )
            for number, state in self._states.items()
        ]
        return dask.array.concatenate(blocks)

    def _kept(self, pass_: PerRow) -> KeptResult:
        """A handle to the result, which the workers keep."""
        result = KeptResult(uuid.uuid4().hex, pass_)
        self._results[result.name] = result
        self._keep(result, self._partitions.futures)
        return result

    def _keep(self, result: KeptResult, numbers: Iterable[int]) -> None:
        self._call(Call("keep", (result.name, result.pass_), self._threads), numbers)

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

    # -- calls -------------------------------------------------------------------------------------------

    def _each(self, call: Call) -> list[Any]:
        """One result per partition, in their order."""
        results: dict[int, Any] = {}
        for group, values in self._call(call, self._partitions.futures).items():
            results.update(zip(group, values, strict=True))
        return [results[number] for number in self._partitions.futures]

    def _call(self, call: Call, numbers: Iterable[int]) -> dict[tuple[int, ...], Any]:
        """Results keyed by groups of partitions on one worker; each partition is in exactly one group."""
        todo, results, failures, answered_at = list(numbers), {}, 0, time.monotonic()
        while todo:
            self._partitions.locate(
                number for number in todo if self._partitions.futures[number].status != "finished"
            )
            answers = self._ask(call, todo)
            results.update(answers)
            answered = {number for group in answers for number in group}
            todo = [number for number in todo if number not in answered]
            failures = 0 if answered else failures + 1
            answered_at = time.monotonic() if answered else answered_at
            if failures > _MAX_TRIES and time.monotonic() - answered_at > PATIENCE:
                raise RuntimeError(
                    f"the workers that hold the records have not answered for {PATIENCE:.0f} seconds. "
                    f"{NOTHING_RELEASED}"
                )
            if todo:
                time.sleep(min(FIRST_WAIT * 2.0**failures, LONGEST_WAIT))
                self._partitions.locate(todo)
        return results

    def _ask(self, call: Call, numbers: Iterable[int]) -> dict[tuple[int, ...], Any]:
        """Call each worker once; the results of those that returned one."""
        shares: dict[str, Share] = defaultdict(dict)
        for number in numbers:
            shares[self._partitions.holders[number]][number] = self._states.get(number)
        replies = self._replies(call, dict(shares))
        results = {}
        for worker, share in shares.items():
            reply = replies.get(worker)
            if isinstance(reply, Exception) and not isinstance(reply, OSError):
                raise reply
            if not isinstance(reply, Reply):
                continue  # the connection broke: the call will be repeated
            if isinstance(reply.error, NotKept):
                self._keep(self._results[reply.error.args[0]], share)
            elif reply.error is not None:
                raise reply.error
            elif not reply.absent:
                results[tuple(share)] = reply.result
        return results

    def _replies(self, call: Call, shares: dict[str, Share]) -> dict[str, Any]:
        """The workers' answers; none at all if one of the workers has left the cluster.

        Dask tries for half a minute to connect to a worker that is dead. So a thread makes the call, and is
        abandoned when the scheduler reports that a worker has gone.
        """
        replies: Future[dict[str, Any]] = Future()
        threading.Thread(target=self._ask_workers, args=(replies, call, shares), daemon=True).start()
        while True:
            try:
                return replies.result(timeout=LOOK_AFTER)
            except TimeoutError:
                present = self._client.scheduler_info(n_workers=-1)["workers"]
                if not (replies.done() or set(shares) <= set(present)):
                    return {}

    def _ask_workers(self, replies: Future[dict[str, Any]], call: Call, shares: dict[str, Share]) -> None:
        try:
            replies.set_result(
                self._client.run(
                    pass_on_worker, self._name, shares, call, workers=list(shares), on_error="return"
                )
            )
        except BaseException as error:
            replies.set_exception(error)

    # -- partitions --------------------------------------------------------------------------------------

    def _check_versions(self) -> None:
        versions = self._client.run(version_of_worker, on_error="return")
        if not versions:
            raise RuntimeError("the Dask cluster has no workers: start some, or wait for them")
        for worker, version in versions.items():
            if isinstance(version, OSError):  # the worker has gone
                continue
            if version != dperm.__version__:
                found = repr(version) if isinstance(version, Exception) else version
                raise RuntimeError(
                    f"the workers need dperm {dperm.__version__}, as this process has; {worker}: {found}"
                )

    def _check(self, facts: Sequence[PartitionFacts]) -> None:
        """Raise DataError for the first invalid record."""
        first_row = 0
        first: PartitionFacts | None = None
        for each in facts:
            if each.problem is not None:
                call = Call("problem_from", (first_row,))
                ((problem,),) = self._call(call, [each.number]).values()
                raise DataError(f"{problem} (In partition {each.number}, which starts at row {first_row}.)")
            if each.n_rows:
                first = each if first is None else first
                if (each.n_columns, each.dtype) != (first.n_columns, first.dtype):
                    raise DataError(
                        f"partition {each.number} of X, from row {first_row} on, has {each.n_columns} "
                        f"columns of {each.dtype}; those before have {first.n_columns} of {first.dtype}"
                    )
            first_row += each.n_rows
        if first is None:
            raise DataError("X must have at least one record")


def _client() -> Any:
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
    return client
