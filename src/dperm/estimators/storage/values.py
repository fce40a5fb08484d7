"""Conversion of constructor arguments to JSON and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dperm import losses
from dperm.losses import Loss

_NOT_FINITE = ("inf", "-inf", "nan")
_LOSS, _PAIRS = "$loss", "$pairs"


def to_json(value: Any) -> Any:
    """A value as JSON types, in the form that ``model.schema.json`` describes for parameters.

    Raises
    ------
    TypeError
        For a value that JSON cannot represent.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: to_json(each) for key, each in value.items()}
        return {_PAIRS: [[to_json(key), to_json(each)] for key, each in value.items()]}
    if isinstance(value, Loss) and _loss_class(type(value).__name__) is type(value):
        own = {each.name: to_json(getattr(value, each.name)) for each in fields(value)}  # type: ignore[arg-type]
        return {_LOSS: type(value).__name__, **own}
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def from_json(value: Any) -> Any:
    """The inverse of `to_json`, with lists for sequences; raises ValueError or TypeError for other input."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    if _LOSS in value:
        own = {key: from_json(each) for key, each in value.items() if key != _LOSS}
        kind = _loss_class(value[_LOSS])
        if kind is None or not all(type(each) in (int, float) for each in own.values()):
            raise ValueError("a loss must be one of dperm.losses, with numbers as arguments")
        return kind(**own)
    if _PAIRS in value:
        return {from_json(key): from_json(each) for key, each in value[_PAIRS]}
    return {key: from_json(each) for key, each in value.items()}


def _loss_class(name: Any) -> type[Loss] | None:
    kind = getattr(losses, name, None) if name in losses.__all__ else None
    return kind if isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, Loss) else None
