"""Partitions as Dask's futures: which worker keeps which, and where they are after workers died.

A partition is made wherever Dask wants, and then handed to the worker that is to keep it, by a second task
that prefers this worker (``allow_other_workers``). Dask never offers a task with a preference to workers that
join the cluster later. That does no harm to this one: if all workers die, the tasks before it, which prefer
nobody, are run by new workers, and it is placed only when the partition is there again, and with it a worker.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NoReturn

import numpy as np

from dperm.data.dask.collections import Blocks
from dperm.data.dask.partition import Partition, partition_key
from dperm.data.rows import RowSettings

# Seconds after which a call, or a task, that has not come back is looked after.
LOOK_AFTER = 0.5

# Seconds between two looks: they double from the first to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.02, 2.0

# Seconds without any worker, or any answer of one, after which a pass is given up: machines may take minutes
# to come, and Dask takes five to notice that one has gone without closing its connections.
_PATIENCE = 600.0

NOTHING_RELEASED = "What was charged stays charged, and nothing was released from this pass."
_LOST = (
    "records are lost with their worker, and Dask cannot make them again: they were sent to the cluster by "
    "scatter, or the cluster was restarted. Build the collection from files or functions."
)


class PlacedPartitions:
    """Partitions that Dask makes, keeps on workers, and makes again when a worker dies.

    Parameters
    ----------
    client : distributed.Client
    name : str
        What the keys of the partitions begin with.
    blocks : Blocks
    settings : RowSettings
        Without threads of its own.

    Attributes
    ----------
    futures : dict of int to Future
        By the number of the partition.
    holders : dict of int to str
        Addresses of the workers that were found to hold the partitions.
    """

    def __init__(self, client: Any, name: str, blocks: Blocks, settings: RowSettings) -> None:
        self._client, self._name = client, name
        self.futures = self._made(blocks, settings)
        self.holders: dict[int, str] = {}
        self.locate(self.futures)
        if not blocks.placed:
            self.futures = self._handed_over()
            self.locate(self.futures)

    def keep(self, numbers: Iterable[int]) -> None:
        """Forget all partitions but these."""
        self.futures = {number: self.futures[number] for number in numbers}

    def locate(self, numbers: Iterable[int]) -> None:
        """Find out who holds these partitions, when Dask has made them."""
        from distributed import wait

        wanted = {number: self.futures[number] for number in numbers}
        hoped_at, pause = time.monotonic(), LOOK_AFTER
        while wanted:
            with suppress(TimeoutError, CancelledError):
                wait(list(wanted.values()), timeout=pause)
            for number, holder in self._found(wanted).items():
                self.holders[number] = holder
                del wanted[number]
                hoped_at, pause = time.monotonic(), LOOK_AFTER
            # A cluster that works on something may come to the partitions; one that rests will not.
            if wanted and any(self._client.processing().values()):
                hoped_at = time.monotonic()
            elif lost := [future for future in wanted.values() if future.status == "lost"]:
                self._ask_again(lost)
            if time.monotonic() - hoped_at > _PATIENCE:
                self._raise_hopeless()
            if wanted:
                time.sleep(FIRST_WAIT)
                pause = min(2.0 * pause, LONGEST_WAIT)

    def _made(self, blocks: Blocks, settings: RowSettings) -> dict[int, Any]:
        """Futures of the partitions; where workers hold the blocks, under their final names and there."""
        from dask import delayed

        make = delayed(Partition, pure=False, traverse=False)
        # Dask would rather send a small block than wait for a worker that it thinks is busy.
        places = self._client.who_has(blocks.held) if blocks.placed else {}
        made = []
        for number, (X, y) in enumerate(zip(blocks.X, blocks.y, strict=True)):
            key = partition_key(self._name if blocks.placed else f"{self._name}-made", number)
            with _preferably_on(next(iter(places.get(X.key, ())), None)):
                made.append(
                    make(
                        number, X, y, settings, blocks.dtype, blocks.placed, blocks.encode, dask_key_name=key
                    )
                )
        return self._persisted(made)

    def _handed_over(self) -> dict[int, Any]:
        """Futures of the same partitions on as many workers as there are, in proportion to their threads."""
        from dask import delayed

        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        threads = {worker: facts["nthreads"] for worker, facts in workers.items()}
        hand_over = delayed(_same, pure=False, traverse=False)
        handed = []
        targets = balanced([self.holders[number] for number in self.futures], threads)
        for (number, future), target in zip(self.futures.items(), targets, strict=True):
            with _preferably_on(target):
                handed.append(hand_over(future, dask_key_name=partition_key(self._name, number)))
        return self._persisted(handed)

    def _persisted(self, tasks: Sequence[Any]) -> dict[int, Any]:
        from distributed import futures_of

        # The annotations of the tasks would not survive an optimization.
        return dict(enumerate(futures_of(self._client.persist(tasks, optimize_graph=False))))

    def _found(self, wanted: Mapping[int, Any]) -> dict[int, str]:
        """Holders of those of the partitions that are there; errors of their tasks."""
        for future in wanted.values():
            if future.status == "error":
                raise future.exception()
            if future.status == "cancelled":
                raise RuntimeError(_LOST)
        ready = {number: future for number, future in wanted.items() if future.status == "finished"}
        places = self._client.who_has(list(ready.values())) if ready else {}
        holders = {number: places.get(future.key) for number, future in ready.items()}
        return {number: each[0] for number, each in holders.items() if each}

    def _ask_again(self, lost: Sequence[Any]) -> None:
        """Have Dask run the tasks of lost partitions again; RuntimeError if it has forgotten them."""
        try:
            self._client.retry(lost)
        except KeyError:
            raise RuntimeError(_LOST) from None

    def _raise_hopeless(self) -> NoReturn:
        n_workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        raise RuntimeError(
            f"the Dask cluster has had no worker that may make the records for {_PATIENCE:.0f} seconds (it "
            f"has {n_workers} now): start workers, for instance with client.cluster.scale(2), and fit again; "
            f"tasks that may run on certain workers only wait for those. {NOTHING_RELEASED}"
        )


def balanced(holders: Sequence[str], threads: Mapping[str, int]) -> list[str]:
    """A worker for each partition, so that each worker gets its share; as few as possible change workers.

    Parameters
    ----------
    holders : sequence of str
        Where the partitions are now.
    threads : mapping of str to int
        Threads of the workers; shares are in proportion to them.
    """
    if not threads:
        return list(holders)
    cuts = np.rint(np.cumsum(list(threads.values())) * (len(holders) / sum(threads.values()))).astype(int)
    free = Counter(dict(zip(threads, np.diff(cuts, prepend=0).tolist(), strict=True)))
    targets: list[str | None] = []
    for holder in holders:
        stays = free[holder] > 0
        free[holder] -= stays
        targets.append(holder if stays else None)
    others: Iterator[str] = free.elements()
    return [target or next(others) for target in targets]


def _same(partition: Partition) -> Partition:
    """A task of Dask's that has its argument moved to where it runs."""
    return partition


@contextmanager
def _preferably_on(worker: str | None) -> Iterator[None]:
    """Tasks that are written down in the block prefer this worker."""
    from dask import annotate

    with annotate(workers=[worker], allow_other_workers=True) if worker else nullcontext():
        yield
