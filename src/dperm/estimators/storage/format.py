"""The format of model files, defined by ``model.schema.json`` in this folder, and validation against it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from types import NoneType
from typing import Any

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
