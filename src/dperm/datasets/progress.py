"""Progress of long work, where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHOWN_FROM = 1 << 20  # less work is done before anybody looks


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal if rich is installed, else nothing.

    Parameters
    ----------
    title : str
    total : int
        Amount of work; little work is not shown.

    Yields
    ------
    callable
        To be called with the amount done so far.
    """
    if total < _SHOWN_FROM or not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """What is being waited for, and that it goes on, on a terminal if rich is installed, else nothing."""
    try:
        if not sys.stderr.isatty():
            raise ModuleNotFoundError
        from rich.console import Console
    except ModuleNotFoundError:
        yield
        return
    with Console(stderr=True).status(title):
        yield
