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
