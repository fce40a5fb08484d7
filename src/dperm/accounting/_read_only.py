"""A mapping that cannot be changed, and that can be pickled (`types.MappingProxyType` cannot)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any


class ReadOnlyMapping(Mapping[str, Any]):
    """A deep copy of `items`, without methods to change it."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = copy.deepcopy(dict(items))

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)
