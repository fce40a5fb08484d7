"""Records in partitions that the workers of a Dask cluster hold.

The partitions are Dask's: tasks that make them from the user's collection, kept on the workers, and made anew
by Dask when a worker dies. Passes are no tasks: thousands of them would go through the scheduler, many
milliseconds each. They are calls that Dask hands on to the workers, one for each worker, which adds up
exact integers over its partitions. A pass is a pure function of the partitions, of public numbers and of the
key of a secret sample; so a call that a worker does not answer is made again to whoever holds its partitions
then. The sum is the same, and nothing was released in between.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NoReturn

import numpy as np

import dperm
from dperm.data.dask.collections import Blocks
from dperm.data.dask.partition import (
    Call,
    KeptResult,
    NotKept,
    Partition,
    PartitionFacts,
    PartitionState,
    Reply,
    Share,
    WorkerSample,
    WorkerThreads,
    partition_key,
    pass_on_worker,
    result_per_row,
    version_of_worker,
)
from dperm.data.dask.placement import Placement
from dperm.data.passes import Array, Pass, PerRow
from dperm.data.rows import RowSettings
from dperm.errors import DataError
from dperm.private_values.opaque import NotCopied
from dperm.private_values.secret_rows import SecretRows

# A worker that died may be on the scheduler's list for a moment: waits double from the first to the longest,
# and start again when some worker has answered.
_FIRST_WAIT, _LONGEST_WAIT, _MAX_TRIES = 0.02, 2.0, 20

# Seconds after which a call, or a task, that has not come back is looked after.
_LOOK_AFTER = 0.5

# Seconds without any worker, or any answer of one, after which a pass is given up: machines may take minutes
# to come, and Dask takes five to notice that one has gone without closing its connections.
_PATIENCE = 600.0


_NOTHING_RELEASED = "What was charged stays charged, and nothing was released from this pass."
_LOST = (
    "records are lost with their worker, and Dask cannot make them again: they were sent to the cluster by "
    "scatter, or the cluster was restarted. Build the collection from files or functions."
)


class DistributedRows(NotCopied):
    """Records on the workers of a cluster; see :class:`dperm.data.rows.Rows` for the passes.

    No record leaves the workers, and no sample of them either: this process gets exact sums, which it adds
    up to those of the same records in one place, bit for bit, whatever the partitions.

    Parameters
    ----------
    blocks : Blocks
        Of the design matrix and the targets.
    settings : RowSettings
        `n_threads` limits the threads that a worker uses, which are otherwise its own.

    Raises
    ------
    DataError
        For records that cannot be used, numbered as in the whole data set.
    RuntimeError
        Without a client, or with another version of the package on the workers.
    """

    _refusal = "records on a cluster belong to this process's client, and are not copied or sent"

    def __init__(self, blocks: Blocks, settings: RowSettings) -> None:
        if settings.multiplicity is not None:
            raise DataError("counts cannot be given with Dask collections: leave the records as they are")
        self._client = _client()
        self._check_versions()
        self._threads = WorkerThreads(settings.n_threads)
        self._name = f"dperm-partition-{uuid.uuid4().hex}"
        self._placement = Placement(self._client, self._name)
        self._futures = self._hold(blocks, replace(settings, n_threads=1))
        self._holders: dict[int, str] = {}  # addresses of workers
        self._states: dict[int, PartitionState] = {}  # in which the partitions were found usable
        self._results: weakref.WeakValueDictionary[str, KeptResult] = weakref.WeakValueDictionary()
        self._locate(self._futures)
        self._placement.lift(self._keys(self._futures))
        facts = self._each(Call("facts"))
        self._check(facts)
        full = [each for each in facts if each.n_rows]
        self._futures = {each.number: self._futures[each.number] for each in full}
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

        Exact sums are added up by the workers and here; sums of floating-point numbers depend on the
        partitions, not on the workers. Results per row stay on the workers: as a Dask array in the partitions
        of the records, or, where later passes take them, under a name.
        """
        if isinstance(pass_, PerRow):
            return self._kept(pass_) if pass_.stays_with_records else self._per_row(pass_)
        if pass_.exact:
            call = Call("run", (pass_,), self._threads, added=True)
            return np.asarray(reduce(add, self._call(call, self._futures).values()))
        gradients, losses = zip(*self._each(Call("run", (pass_,), self._threads)), strict=True)
        return compensated_sum(gradients), math.fsum(losses)

    def _per_row(self, pass_: PerRow) -> Any:
        """A Dask array, one entry per row."""
        import dask.array
        from dask import delayed

        make = delayed(result_per_row, pure=False, traverse=False)
        blocks = [
            dask.array.from_delayed(
                make(self._futures[number], state, pass_, self._threads),
                (state[0], *pass_.row_shape),
                np.float64,
            )
            for number, state in self._states.items()
        ]
        return dask.array.concatenate(blocks)

    def _kept(self, pass_: PerRow) -> KeptResult:
        """What stands for the result, which the workers keep."""
        result = KeptResult(uuid.uuid4().hex, pass_)
        self._results[result.name] = result
        self._keep(result, self._futures)
        return result

    def _keep(self, result: KeptResult, numbers: Iterable[int]) -> None:
        self._call(Call("keep", (result.name, result.pass_), self._threads), numbers)

    def drawn(self, sample: SecretRows, n_public: int) -> WorkerSample:
        """What tells each worker which of its records are in the sample."""
        return WorkerSample(sample._in_partitions())

    def noisy_batch_sums(self, *_: Any) -> None:
        """None: workers draw their batches."""

    def descend(self, *_: Any) -> NoReturn:
        """Not to be had: partitions are not read a record at a time."""
        raise DataError(
            "single steps of stochastic gradient descent do not work on data in partitions: use dp_sgd "
            "(Poisson samples) or noisy_gd (full batches)"
        )

    # -- calls -------------------------------------------------------------------------------------------

    def _each(self, call: Call) -> list[Any]:
        """One result per partition, in their order."""
        results: dict[int, Any] = {}
        for group, values in self._call(call, self._futures).items():
            results.update(zip(group, values, strict=True))
        return [results[number] for number in self._futures]

    def _call(self, call: Call, numbers: Iterable[int]) -> dict[tuple[int, ...], Any]:
        """Results by groups of partitions, each of them in one group; a group is on one worker."""
        todo, results, failures, answered_at = list(numbers), {}, 0, time.monotonic()
        while todo:
            self._locate(number for number in todo if self._futures[number].status != "finished")
            answers = self._ask(call, todo)
            results.update(answers)
            answered = {number for group in answers for number in group}
            todo = [number for number in todo if number not in answered]
            failures = 0 if answered else failures + 1
            answered_at = time.monotonic() if answered else answered_at
            if failures > _MAX_TRIES and time.monotonic() - answered_at > _PATIENCE:
                raise RuntimeError(
                    f"the workers that hold the records have not answered for {_PATIENCE:.0f} seconds. "
                    f"{_NOTHING_RELEASED}"
                )
            if todo:
                time.sleep(min(_FIRST_WAIT * 2.0**failures, _LONGEST_WAIT))
                self._locate(todo)
        return results

    def _ask(self, call: Call, numbers: Iterable[int]) -> dict[tuple[int, ...], Any]:
        """One call to each worker; the results of those that gave one."""
        shares: dict[str, Share] = defaultdict(dict)
        for number in numbers:
            shares[self._holders[number]][number] = self._states.get(number)
        replies = self._replies(call, dict(shares))
        results = {}
        for worker, share in shares.items():
            reply = replies.get(worker)
            if not isinstance(reply, Reply):
                _raise_unless_broken(reply)
            elif isinstance(reply.error, NotKept):
                self._keep(self._results[reply.error.args[0]], share)
            elif reply.error is not None:
                raise reply.error
            elif not reply.absent:
                results[tuple(share)] = reply.result
        return results

    def _replies(self, call: Call, shares: dict[str, Share]) -> dict[str, Any]:
        """What the workers answer; nothing at all if one of them has left the cluster.

        To a worker that died a while ago Dask would try to connect for half a minute: so the call is made by
        a thread, which is left alone when the scheduler says that the worker is gone.
        """
        replies: Future[dict[str, Any]] = Future()
        threading.Thread(target=self._ask_workers, args=(replies, call, shares), daemon=True).start()
        while True:
            try:
                return replies.result(timeout=_LOOK_AFTER)
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
            if isinstance(version, OSError):  # the worker is gone
                continue
            if version != dperm.__version__:
                found = repr(version) if isinstance(version, Exception) else version
                raise RuntimeError(
                    f"the workers need dperm {dperm.__version__}, as this process has it; {worker}: {found}"
                )

    def _hold(self, blocks: Blocks, settings: RowSettings) -> dict[int, Any]:
        """Have Dask make the partitions and keep them: their futures."""
        from dask import delayed
        from distributed import futures_of

        make = delayed(Partition, pure=False, traverse=False)
        made = [
            make(
                number, X, y, settings, blocks.dtype, blocks.placed, blocks.encode,
                dask_key_name=partition_key(self._name, number),
            )
            for number, (X, y) in enumerate(zip(blocks.X, blocks.y, strict=True))
        ]  # fmt: skip
        kept: dict[int, Any] = {}
        for worker, numbers in self._places(blocks):
            wished = self._placement.wish(worker)
            futures = self._client.persist([made[i] for i in numbers], optimize_graph=False, **wished)
            kept.update(zip(numbers, futures_of(futures), strict=True))
        return kept

    def _places(self, blocks: Blocks) -> list[tuple[str | None, Sequence[int]]]:
        """Partitions for each worker: those of its blocks, or neighbours. None: wherever Dask wants."""
        if not blocks.placed:
            return self._shares(len(blocks.X))
        # Dask would rather send a small block than wait for a worker that it thinks is busy.
        holders = self._client.who_has(blocks.held)
        places = defaultdict(list)
        for number, block in enumerate(blocks.X):
            places[next(iter(holders.get(block.key, ())), None)].append(number)
        return list(places.items())

    def _shares(self, n_partitions: int) -> list[tuple[str | None, Sequence[int]]]:
        """Neighbouring partitions for each worker, in proportion to its threads."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if not workers:  # any that comes
            return [(None, range(n_partitions))]
        threads = np.cumsum([0, *(worker["nthreads"] for worker in workers.values())])
        cuts = np.rint(threads * (n_partitions / threads[-1])).astype(int).tolist()
        shares = [range(start, stop) for start, stop in pairwise(cuts)]
        return [each for each in zip(workers, shares, strict=True) if each[1]]

    def _locate(self, numbers: Iterable[int]) -> None:
        """Find out who holds these partitions, when Dask has made them."""
        from distributed import wait

        wanted = {number: self._futures[number] for number in numbers}
        hoped_at, pause = time.monotonic(), _LOOK_AFTER
        while wanted:
            futures = list(wanted.values())
            with suppress(TimeoutError, CancelledError):
                wait(futures, timeout=pause)
            for number, holder in self._found(wanted).items():
                self._holders[number] = holder
                del wanted[number]
                hoped_at, pause = time.monotonic(), _LOOK_AFTER
            if wanted and self._may_come(wanted):
                hoped_at = time.monotonic()
            if time.monotonic() - hoped_at > _PATIENCE:
                self._raise_hopeless(wanted)
            if wanted:
                time.sleep(_FIRST_WAIT)
                pause = min(2.0 * pause, _LONGEST_WAIT)

    def _found(self, wanted: dict[int, Any]) -> dict[int, str]:
        """Holders of those of the partitions that are there."""
        for future in wanted.values():
            _raise_failed(future)
        ready = {number: future for number, future in wanted.items() if future.status == "finished"}
        places = self._client.who_has(list(ready.values())) if ready else {}
        holders = {number: places.get(partition_key(self._name, number)) for number in ready}
        return {number: each[0] for number, each in holders.items() if each}

    def _may_come(self, wanted: dict[int, Any]) -> bool:
        """Whether somebody can make the partitions that are missing; RuntimeError if nobody ever can."""
        lost = {partition_key(self._name, number) for number, each in wanted.items() if each.status == "lost"}
        prospects = self._placement.prospects(self._keys(wanted))
        if lost & prospects.forgotten:
            raise RuntimeError(_LOST)
        return prospects.n_workers > 0 and not prospects.n_stuck

    def _raise_hopeless(self, wanted: Iterable[int]) -> NoReturn:
        n_workers = self._placement.prospects(self._keys(wanted)).n_workers
        raise RuntimeError(
            f"the Dask cluster has had no worker that may make the records for {_PATIENCE:.0f} seconds (it "
            f"has {n_workers} now): start workers, for instance with client.cluster.scale(2), and fit again; "
            f"tasks that wish for certain workers wait for those. {_NOTHING_RELEASED}"
        )

    def _keys(self, numbers: Iterable[int]) -> list[str]:
        return [partition_key(self._name, number) for number in numbers]

    def _check(self, facts: Sequence[PartitionFacts]) -> None:
        """DataError for the first record that cannot be used."""
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


def compensated_sum(terms: Sequence[Array]) -> Array:
    """Sum of arrays, off by about one rounding whatever their number (Neumaier 1974)."""
    total, lost = terms[0], np.zeros_like(terms[0])
    for term in terms[1:]:
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow stay what they are
            higher = total + term
            part = higher - total
            lost = lost + ((total - (higher - part)) + (term - part))
        total = higher
    return np.where(np.isfinite(lost), total + lost, total)


def _client() -> Any:
    from distributed import Client

    try:
        client = Client.current()
    except ValueError:
        raise RuntimeError(
            "records in Dask collections need a cluster: start one before, for instance with "
            "client = dask.distributed.Client() for this machine"
        ) from None
    if client.asynchronous:
        raise RuntimeError("a fit needs a synchronous client: Client(..., asynchronous=False)")
    return client


def _raise_unless_broken(reply: Any) -> None:
    """A connection that broke gave no reply, and another one may; other errors are a worker's."""
    if isinstance(reply, Exception) and not isinstance(reply, OSError):
        raise reply


def _raise_failed(future: Any) -> None:
    """Errors of the tasks; what is lost with its worker may be made again."""
    if future.status == "error":
        raise future.exception()
    if future.status == "cancelled":
        raise RuntimeError(_LOST)
