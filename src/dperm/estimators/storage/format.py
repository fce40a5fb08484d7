"""The format of model files, defined by ``model.schema.json`` in this folder, and validation against it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import resources
from types import NoneType
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


NAME, VERSION = "dperm model", 1

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": NoneType,
}
_NUMBERS = {int, float}

Rule = Mapping[str, Any]


@functools.cache
def model_schema() -> dict[str, Any]:
    """The JSON Schema of a model file."""
    text = resources.files(__package__).joinpath("model.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def checksum(entries: Mapping[str, Any]) -> str:
    """SHA-256 of the entries other than the checksum itself."""
    others = {name: value for name, value in entries.items() if name != "checksum"}
    text = json.dumps(others, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_entries(entries: Any) -> None:
    """Raise ValueError unless the entries are valid under the JSON Schema of a model file."""
    if not isinstance(entries, dict) or entries.get("format") != NAME:
        raise ValueError(f'it does not say "format": "{NAME}"')
    version = entries.get("format_version")
    if isinstance(version, int) and version > VERSION:
        raise ValueError(
            f"a later version of dperm wrote it, in format {_shown(version)}; this version reads {VERSION}"
        )
    _check(entries, model_schema(), "")


def _check(value: Any, rule: Rule, where: str) -> None:
    """Check the JSON Schema keywords that ``model.schema.json`` uses."""
    if "$ref" in rule:
        _check(value, model_schema()["$defs"][rule["$ref"].rpartition("/")[2]], where)
    if "anyOf" in rule:
        _check_any(value, rule, where)
    if "const" in rule and value != rule["const"]:
        raise ValueError(f"{where} must be {rule['const']!r}, and is {_shown(value)}")
    if "enum" in rule and not any(value == each and type(value) is type(each) for each in rule["enum"]):
        raise ValueError(f"{where} must be one of {rule['enum']}, and is {_shown(value)}")
    if "type" in rule:
        _check_type(value, rule, where)
    if isinstance(value, dict) and "properties" in rule:
        _check_keys(value, rule, where)
    elif isinstance(value, list):
        _check_items(value, rule, where)


def _check_any(value: Any, rule: Rule, where: str) -> None:
    """Check alternatives: the error is that of the last one, or the rule's description if that is an enum."""
    *others, last = rule["anyOf"]
    for each in others:
        try:
            return _check(value, each, where)
        except ValueError:
            continue
    try:
        _check(value, last, where)
    except ValueError:
        if "enum" not in last:
            raise
        raise ValueError(f"{where} must be {rule['description']}, and is {_shown(value)}") from None


def _check_type(value: Any, rule: Rule, where: str) -> None:
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if not any(_is(value, name) for name in names):
        raise ValueError(f"{where} must be of type {' or '.join(names)}, and is {_shown(value)}")
    if _is(value, "integer") and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        raise ValueError(f"{where} must be between {rule['minimum']} and {rule['maximum']}")


def _check_keys(value: dict[str, Any], rule: Rule, where: str) -> None:
    missing = [name for name in rule.get("required", ()) if name not in value]
    unknown = [name for name in value if name not in rule["properties"]]
    if missing or unknown:
        what = f"there is no {missing[0]!r}" if missing else f"there is an unknown {_shown(unknown[0])}"
        raise ValueError(f"{what} in {where or 'it'}")
    for name, each in value.items():
        _check(each, rule["properties"][name], f"{where}.{name}" if where else name)


def _check_items(value: list[Any], rule: Rule, where: str) -> None:
    if len(value) < rule.get("minItems", 0):
        raise ValueError(f"{where} must have at least {rule['minItems']} items, and has {len(value)}")
    items = rule.get("items")
    if items is None or (items == {"type": "number"} and set(map(type, value)) <= _NUMBERS):
        return
    for place, each in enumerate(value):
        _check(each, items, f"{where}[{place}]")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _shown(value: Any) -> str:
    """A short form of any value, for error messages."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} items"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:36]}..."
