"""Schemas as TOML, to be read and edited by hand, and as a table for display."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from dperm._document import Block, Table, Text
from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.interactions import Interaction

_TYPES: dict[str, type[Numeric] | type[Categorical]] = {"numeric": Numeric, "categorical": Categorical}
_WIDTH = 100
_MAX_REPEAT = 1_000_000
#: Start of a line by which a draft is known, and the heading of a schema that was read from data.
DRAFT_MARK = "# DRAFT, read from the data"
DRAFT = f"""\
{DRAFT_MARK}: NOT private until it was checked. Replace every bound and every list of
# categories by what is publicly known of the column, whether or not it occurs in the data.
# Until these lines are deleted, every fit with this schema says that nothing is guaranteed.
"""


def table_of(text: str) -> dict[str, Any]:
    """The entries of a TOML document; ValueError if it is not TOML."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # not TOML, or a number with thousands of digits
        raise ValueError(f"the schema is not TOML: {str(error).partition('; use sys.')[0]}") from None
    except RecursionError:
        raise ValueError("the schema cannot be read as TOML: it is nested too deeply") from None


def columns_from_entries(schema_name: str, entries: Any) -> list[SchemaColumn]:
    """Columns of a TOML document's array ``columns``, see `Schema.from_toml`.

    Raises ValueError if an entry is missing or unknown, or a value is invalid.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"schema {schema_name!r} must have an array of tables [[columns]]")
    return [column for entry in entries for column in _columns(schema_name, dict(entry))]


def _columns(schema_name: str, entry: dict[str, Any]) -> list[SchemaColumn]:
    label = f"schema {schema_name!r}, column {entry.get('name', '?')!r}"
    kind = entry.pop("type", _type_by_keys(entry))
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ValueError(f"{label}: type must be 'numeric' or 'categorical', got {kind!r}")
    repeat = entry.pop("repeat", None)
    known = fields(_TYPES[kind])
    missing = [each.name for each in known if each.default is MISSING and each.name not in entry]
    unknown = sorted(set(entry) - {each.name for each in known})
    if missing or unknown:
        found = {"missing": missing, "unknown": unknown}
        problem = "; ".join(f"entries {how}: {each}" for how, each in found.items() if each)
        raise ValueError(f"{label}: {problem}")
    if repeat is None:
        return [_TYPES[kind](**entry)]
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= _MAX_REPEAT:
        raise ValueError(f"{label}: repeat must be an integer from 1 to {_MAX_REPEAT:,}, got {repeat!r}")
    stem = entry.pop("name")
    return [_TYPES[kind](name=f"{stem}{i}", **entry) for i in range(repeat)]


def interactions_from_entries(schema_name: str, entries: Any) -> list[Interaction]:
    """The interactions of a TOML document: an array of tables with ``columns`` and perhaps ``functions``."""
    found = []
    for entry in entries if isinstance(entries, list) else [None]:
        own = dict(entry) if isinstance(entry, dict) else {}
        names = own.pop("columns", None)
        if not isinstance(names, list) or len(names) != 2 or not own.keys() <= {"functions"}:
            raise ValueError(
                f"schema {schema_name!r}: interactions must be an array of tables with columns = [two names] "
                f"and perhaps functions, got {entry!r}"
            )
        found.append(Interaction(*names, **own))
    return found


def _type_by_keys(entry: dict[str, Any]) -> str | None:
    if "categories" in entry or "buckets" in entry:
        return "categorical"
    return "numeric" if "low" in entry or "high" in entry else None


def toml_text(
    head: Mapping[str, Any],
    columns: Sequence[SchemaColumn],
    remarks: Mapping[str, str],
    interactions: Sequence[Interaction] = (),
) -> str:
    """A schema as TOML, without settings that have their default; remarks on columns become comments."""
    lines = [f"{key} = {_value(value)}" for key, value in head.items() if value]
    for column in columns:
        kind = "numeric" if isinstance(column, Numeric) else "categorical"
        lines += ["", "[[columns]]", f"name = {_text(column.name)}", f'type = "{kind}"']
        if column.name in remarks:
            lines[-2] += f"  # {remarks[column.name]}"
        for setting, value in _settings(column).items():
            lines.append(f"{setting} = {_value(value)}")
    for each in interactions:
        lines += ["", "[[interactions]]", f"columns = {_value([each.first, each.second])}"]
        lines += [f"functions = {each.functions}"] if each.functions != Interaction.functions else []
    return "\n".join(lines).lstrip("\n") + "\n"


def _settings(column: SchemaColumn) -> dict[str, Any]:
    """The settings of a column other than defaults."""
    hashed = isinstance(column, Categorical) and column.buckets is not None
    named = ((each, getattr(column, each.name)) for each in fields(column)[1:])
    return {
        each.name: _dates(column, each.name, value)
        for each, value in named
        if value != each.default and not (hashed and each.name == "categories")
    }


def _dates(column: SchemaColumn, setting: str, value: Any) -> Any:
    """A setting with dates as texts, if the column holds dates."""
    if isinstance(column, Categorical) or column.unit is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [*map(column.shown, value)]
    return column.shown(value) if setting in ("low", "high", "missing") else value


def toml_table(name: str, entries: Mapping[str, Any]) -> str:
    """A table of JSON types other than null; nested tables follow the other entries."""
    inner = {key: value for key, value in entries.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in entries.items() if _is_list_of_tables(value)}
    plain = (key for key in entries if key not in inner and key not in lists)
    lines = [f"[{name}]", *(f"{_key(key)} = {_value(entries[key])}" for key in plain)]
    parts = ["\n".join(lines) + "\n"]
    parts += [toml_table(f"{name}.{_key(key)}", each) for key, each in inner.items()]
    for key, tables in lists.items():
        path = f"{name}.{_key(key)}"
        parts += [toml_table(path, each).replace(f"[{path}]", f"[[{path}]]", 1) for each in tables]
    return "\n".join(parts)


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, tuple | list):
        return _list([_value(each) for each in value])
    return repr(value)  # an int or a finite float, which TOML writes as Python does


def _list(values: list[str]) -> str:
    line = f"[{', '.join(values)}]"
    if len(line) <= _WIDTH:
        return line
    lines = [""]
    for value in values:
        if len(lines[-1]) + len(value) > _WIDTH:
            lines.append("")
        lines[-1] += f"    {value}," if not lines[-1] else f" {value},"
    return "\n".join(["[", *lines, "]"])


def _text(text: str) -> str:
    """A basic string of TOML, which escapes the characters that JSON escapes, and one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


MAX_ROWS = 60  # beyond that a table is not an overview
_MAX_CATEGORIES = 12
_RULES = {"error": "an error", "zero": "zeros", "column": "a column of its own"}


def schema_blocks(
    columns: Sequence[SchemaColumn], ignored: Sequence[str], interactions: Sequence[Interaction] = ()
) -> list[Block]:
    """A table of the columns, and the names of interactions and of ignored columns."""
    heads = ["column", "kind", "values", "if missing", "if not listed", "features"]
    found: list[Block] = [Table(heads, [_row(each) for each in columns[:MAX_ROWS]])]
    if len(columns) > MAX_ROWS:
        found.append(Text(f"And {len(columns) - MAX_ROWS:,} further columns.", "small"))
    if interactions:
        found.append(Text(f"Interactions: {', '.join(each.name for each in interactions)}.", "small"))
    if ignored:
        found.append(Text(f"Not used: {', '.join(ignored)}.", "small"))
    return found


def _row(column: SchemaColumn) -> list[str | int]:
    if isinstance(column, Categorical):
        rules = [_rule(column.missing), _rule(column.unknown)]
        hashed = "any text, hashed" if column.buckets else _listed(column.categories)
        return [column.name, "category", hashed, *rules, len(column.categories)]
    return [column.name, "number", _range(column), _rule(column.missing), "", len(column.feature_names)]


def _range(column: Numeric) -> str:
    words = f"{column.shown(column.low)} to {column.shown(column.high)}"
    if column.unit is not None:
        words += f", by {column.unit}"
    if column.transform != "none":
        words += ", on a logarithmic scale"
    if column.functions:
        words += f", with {column.functions} functions of {len(column.borders) + 1} bins"
    if column.atoms:
        words += f", values of their own: {', '.join(map(column.shown, column.atoms))}"
    if column.monotone:
        words += ", rising" if column.monotone > 0 else ", falling"
    return words if column.bins is None else f"{words}, in {len(column.borders) + 1} bins"


def _listed(categories: Sequence[object]) -> str:
    shown = ", ".join(map(str, categories[:_MAX_CATEGORIES]))
    more = len(categories) - _MAX_CATEGORIES
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _rule(rule: object) -> str:
    return _RULES.get(rule, rule) if isinstance(rule, str) else str(rule)
