"""Partitions as Dask futures: which worker keeps which, and where they are after workers have died.

Dask makes a partition wherever it likes. A second task, which prefers a certain worker
(``allow_other_workers``), then moves it to the worker that is to keep it. Dask never offers a task with a
preference to workers that join the cluster later. That does no harm here: if all workers die, the first
tasks, which have no preference, run on new workers, and the second ones are scheduled only after them, when
there are workers again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from dperm.data.dask.collections import Blocks
from dperm.data.dask.partition import Partition, partition_key
from dperm.data.rows import RowSettings

# Seconds to wait for a call or a task before checking the cluster.
LOOK_AFTER = 0.5

# Seconds between retries: they double from the first to the longest.
FIRST_WAIT, LONGEST_WAIT = 0.02, 2.0

# Seconds without any worker, or any answer from one, before giving up: machines may take minutes to start,
# and Dask takes five to notice that one has gone without closing its connections.
PATIENCE = 600.0

NOTHING_RELEASED = "What was charged stays charged, and nothing was released from this pass."
_LOST = (
    "records are lost with their worker, and Dask cannot recompute them: they were sent to the cluster by "
    "scatter, or the cluster was restarted. Build the collection from files or functions."
)


class PlacedPartitions:
    """Partitions that Dask makes, keeps on workers, and recomputes when a worker dies.

    Parameters
    ----------
    client : distributed.Client
    name : str
        Prefix of the partitions' keys.
    blocks : Blocks
    settings : RowSettings
        For one thread.

    Attributes
    ----------
    futures : dict of int to Future
        By partition number.
    holders : dict of int to str
        Last known addresses of the workers that hold the partitions.
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
        """Forget all other partitions."""
        self.futures = {number: self.futures[number] for number in numbers}

    def locate(self, numbers: Iterable[int]) -> None:
        """Wait until Dask has made these partitions, and find out which workers hold them."""
        from distributed import wait

        wanted = {number: self.futures[number] for number in numbers}
        progress_at, pause = time.monotonic(), LOOK_AFTER
        while wanted:
            with suppress(TimeoutError, CancelledError):
                wait(list(wanted.values()), timeout=pause)
            for number, holder in self._found(wanted).items():
                self.holders[number] = holder
                del wanted[number]
                progress_at, pause = time.monotonic(), LOOK_AFTER
            # A busy cluster may still get to the partitions; an idle one will not.
            if wanted and any(self._client.processing().values()):
                progress_at = time.monotonic()
            elif lost := [future for future in wanted.values() if future.status == "lost"]:
                self._retry(lost)
            if time.monotonic() - progress_at > PATIENCE:
                n_workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
                raise RuntimeError(
                    f"for {PATIENCE:.0f} seconds the Dask cluster has had no worker that may make the "
                    f"records (it has {n_workers} now): start workers, for instance with "
                    "client.cluster.scale(2), and fit again. Tasks restricted to certain workers wait for "
                    f"those. {NOTHING_RELEASED}"
                )
            if wanted:
                time.sleep(FIRST_WAIT)
                pause = min(2.0 * pause, LONGEST_WAIT)

    def _made(self, blocks: Blocks, settings: RowSettings) -> dict[int, Any]:
        """Futures of the partitions; if workers hold the blocks, made there and under the final keys."""
        from dask import delayed

        make = delayed(Partition, pure=False, traverse=False)
        # Without a preference Dask might send a small block away from a worker that it considers busy.
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
        """Futures of the same partitions spread over all workers, in proportion to their threads."""
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

        # Optimizing the graph would drop the annotations of the tasks.
        return dict(enumerate(futures_of(self._client.persist(tasks, optimize_graph=False))))

    def _found(self, wanted: Mapping[int, Any]) -> dict[int, str]:
        """Holders of the partitions that are ready; raises the errors of their tasks."""
        for future in wanted.values():
            if future.status == "error":
                raise future.exception()
            if future.status == "cancelled":
                raise RuntimeError(_LOST)
        ready = {number: future for number, future in wanted.items() if future.status == "finished"}
        places = self._client.who_has(list(ready.values())) if ready else {}
        holders = {number: places.get(future.key) for number, future in ready.items()}
        return {number: each[0] for number, each in holders.items() if each}

    def _retry(self, lost: Sequence[Any]) -> None:
        """Have Dask run the tasks of lost partitions again; RuntimeError if it has forgotten them."""
        try:
            self._client.retry(lost)
        except KeyError:
            raise RuntimeError(_LOST) from None


def balanced(holders: Sequence[str], threads: Mapping[str, int]) -> list[str]:
    """A worker for each partition so that each worker gets its share, with as few moves as possible.

    Parameters
    ----------
    holders : sequence of str
        The workers that hold the partitions now.
    threads : mapping of str to int
        Threads of the workers; shares are proportional to them.
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
    """Dask task that moves its argument to the worker where it runs."""
    return partition


@contextmanager
def _preferably_on(worker: str | None) -> Iterator[None]:
    """Let tasks that are created in the block prefer this worker."""
    from dask import annotate

    with annotate(workers=[worker], allow_other_workers=True) if worker else nullcontext():
        yield
