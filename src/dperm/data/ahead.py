"""Work that a second thread does in advance."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item], *, threaded: bool) -> Generator[Item, None, None]:
    """The items in order, each made by a second thread while the one before it is used.

    An error in making one is raised where it is asked for. The thread has ended when this iterator has, or
    is closed.
    """
    if not threaded:
        yield from items
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        pending = worker.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = worker.submit(next, items, None)
            yield item
            del item  # not kept while the next one is waited for


class ThreadsBesideReader:
    """How many threads work on an item while the next one is made: about as few as keep up.

    More would take cores from the reader, and wait at the end of each item for those that it holds. How many
    there are depends on the clock; what they compute must not depend on how many there are.
    """

    def __init__(self) -> None:
        self._now = self._most = 1
        self._waited = self._worked = 0.0

    def of(self, most: int) -> int:
        """Threads for the next item, at most so many."""
        self._most = most
        return min(self._now, most)

    def heed(self, waited: float, worked: float) -> None:
        """Learn from the seconds that an item was waited for, and worked on.

        Averages decide: a reader that is late once is not slow.
        """
        self._waited = 0.8 * self._waited + 0.2 * waited
        self._worked = 0.8 * self._worked + 0.2 * worked
        now = self._now
        if self._waited > self._worked:
            self._now = max(min(now, self._most) // 2, 1)
        elif self._waited < 0.1 * self._worked:
            self._now = min(2 * now, self._most)
        self._worked *= now / self._now  # what it would have been
