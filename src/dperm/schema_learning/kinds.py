"""Which columns are numeric and which are categorical: public, given by their types and by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.data.schema.table_columns import Category
from dperm.errors import DataError

NUMERIC, CATEGORICAL, IGNORED = "numeric", "categorical", "ignored"

#: Possible kinds of a column of each type, the default first; and the type of its categories.
_CHOICES: dict[str, tuple[tuple[str, ...], type[Category]]] = {
    "numbers": ((NUMERIC, CATEGORICAL), int),
    "truth values": ((CATEGORICAL, NUMERIC), bool),
    "texts": ((CATEGORICAL,), str),
    "objects": ((CATEGORICAL, NUMERIC), str),
}


@dataclass(frozen=True)
class Kinds:
    """What is publicly known about the columns of a table before anything is counted."""

    numeric: tuple[str, ...]
    #: Categorical columns, and the type of their categories: str, int or bool.
    categorical: Mapping[str, type[Category]]
    ignored: tuple[str, ...]
    label: str | None  # the column to predict
    names: tuple[str, ...]  # all columns, in the order of the table

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns that are counted, in each of which a record counts at most once."""
        return (*self.numeric, *self.categorical)

    def words(self) -> dict[str, str]:
        """The kind of each counted column as text."""
        values = {str: "text", int: "whole numbers", bool: "truth values"}
        categories = {name: f"{CATEGORICAL} ({values[kind]})" for name, kind in self.categorical.items()}
        return {name: categories.get(name, NUMERIC) for name in self.names if name in self.counted}


def kinds_of(types: Mapping[str, str], kinds: Mapping[str, str] | None, label: str | None) -> Kinds:
    """The kind of every column: the given one, or else the default for its type; a label is categorical.

    Parameters
    ----------
    types : mapping of str to str
        What each column holds: a key of `_CHOICES`, or anything else.
    kinds : mapping of str to {"numeric", "categorical", "ignored"}, optional
    label : str, optional

    Raises
    ------
    ValueError
        For columns that do not exist or cannot be of the given kind.
    """
    if kinds is not None and not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must be a mapping from columns to kinds, got {type(kinds).__name__}")
    given = dict(kinds or {})
    for name in (*given, *([] if label is None else [label])):
        if name not in types:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(map(repr, types))}")
    if label is not None:
        given.setdefault(label, CATEGORICAL)
        if given[label] == IGNORED:
            raise ValueError(f"the label {label!r} cannot be ignored: leave out label=")
    chosen = {name: _kind(name, what, given.get(name)) for name, what in types.items()}
    numeric = tuple(name for name, kind in chosen.items() if kind == NUMERIC)
    categorical = {name: _CHOICES[types[name]][1] for name, kind in chosen.items() if kind == CATEGORICAL}
    if not {*numeric, *categorical} - {label}:
        raise ValueError("there is no column to describe besides the label and ignored columns")
    ignored = tuple(name for name, kind in chosen.items() if kind == IGNORED)
    return Kinds(numeric, categorical, ignored, label, tuple(types))


def _kind(name: Any, what: str, given: str | None) -> str:
    if not isinstance(name, str) or not name:
        raise DataError(f"the name of a column must be a text that is not empty, got {name!r}")
    possible, _ = _CHOICES.get(what, ((), str))
    if given == IGNORED or given in possible:
        return str(given)
    if given is None and possible:
        return possible[0]
    if given not in (None, NUMERIC, CATEGORICAL):
        raise ValueError(f"kinds[{name!r}] must be 'numeric', 'categorical' or 'ignored', got {given!r}")
    wanted = "neither a numeric nor a categorical column" if given is None else f"no {given} column"
    raise ValueError(
        f"column {name!r} holds {what}, which is {wanted}: convert it, or leave it out with "
        f"kinds={{{name!r}: 'ignored'}}"
    )
