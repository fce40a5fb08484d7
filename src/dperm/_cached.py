"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """As `functools.cached_property`, without the lock of Python 3.11.

    A child that is forked while another thread has that lock would wait for it forever. Two threads may
    compute the same value at once.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
