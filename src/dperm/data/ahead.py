"""Prefetching with a second thread."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
