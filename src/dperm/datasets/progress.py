"""Progress display on terminals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

_SHOWN_FROM = 1 << 20  # less work takes no time to speak of


def _rich() -> Any:
    """The rich package; None if it is not installed or standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        import rich.console
        import rich.progress
    except ModuleNotFoundError:
        return None
    return rich


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal if rich is installed, else nothing.

    Parameters
    ----------
    title : str
    total : int
        Amount of work; small amounts are not shown.

    Yields
    ------
    callable
        To be called with the amount done so far.
    """
    rich = None if total < _SHOWN_FROM else _rich()
    if rich is None:
        yield lambda _: None
        return
    with rich.progress.Progress(console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def waiting(title: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal if rich is installed, else nothing."""
    rich = _rich()
    return nullcontext() if rich is None else rich.console.Console(stderr=True).status(title)
