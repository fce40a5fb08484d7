"""Audit hook of private sums."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

Sum = TypeVar("Sum", bound=Callable[..., Any])
Value = TypeVar("Value")

#: Called instead of a sum, with ``(function, objective, *arguments)``; the algorithm receives what it
#: returns. ``function(objective, *arguments)`` computes the sum.
Watcher = Callable[..., Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def set_within(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Set a context variable inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def watch_sums(watcher: Watcher) -> AbstractContextManager[None]:
    """Call ``watcher`` for every private sum that this thread computes inside the block.

    For audits and tests. Sums are as opaque to the watcher as to anyone else. The watchers of outer blocks
    see the sums, too.
    """
    outer = _watcher.get()
    if outer is None:
        return set_within(_watcher, watcher)

    def both(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return watcher(functools.wraps(function)(functools.partial(outer, function)), *args, **kwargs)

    return set_within(_watcher, both)


def private_sum(function: Sum) -> Sum:
    """Decorate a function of an objective that returns private values: a watcher is called instead."""

    @functools.wraps(function)
    def summed(objective: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = _watcher.get()
        if watcher is None:
            return function(objective, *args, **kwargs)
        return watcher(function, objective, *args, **kwargs)

    return cast(Sum, summed)
