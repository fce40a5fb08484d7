"""A read-only mapping that can be pickled (`types.MappingProxyType` cannot), and conversion to JSON types."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any


class ReadOnlyMapping(Mapping[str, Any]):
    """A deep copy of `items`, without methods to change it."""

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


def plain(value: Any) -> Any:
    """Convert `value` to JSON types; infinities, NaN and objects of unknown type become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return plain(value.tolist())
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
