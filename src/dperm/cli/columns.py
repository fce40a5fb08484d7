"""Kinds of the columns of a file, from options or the types of a Parquet file, but never from the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dperm.cli.inputs import Inputs
from dperm.data.files.arrow_tables import pyarrow


def kinds_of_options(
    inputs: Inputs, patterns: Mapping[str, Sequence[str]], label: str | None
) -> dict[str, str]:
    """The kinds that patterns give to the columns of the files.

    Raises
    ------
    ValueError
        For a column with two kinds, a pattern without a column, and a column of a CSV file without a kind.
    """
    names = inputs.names
    for pattern in (one for each in patterns.values() for one in each):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"there is no column {pattern!r}; the columns are {', '.join(map(repr, names))}")
    kinds = {name: kind for name in names if (kind := _kind_of(name, patterns)) is not None}
    if inputs.separator is None:
        return kinds
    if label in names:
        kinds.setdefault(str(label), "categorical")
    unknown = [repr(name) for name in names if name not in kinds]
    if unknown:
        raise ValueError(
            "say what the columns of a CSV file are, as its cells must not decide: --numeric, --categorical "
            f"or --ignore for {', '.join(unknown)} ('*' stands for all others)"
        )
    return kinds


def _kind_of(name: str, patterns: Mapping[str, Sequence[str]]) -> str | None:
    """The kind by the column's exact name, else by the longest pattern that matches."""
    fitting = [(one == name, len(one), kind) for kind, each in patterns.items() for one in each
               if fnmatchcase(name, one)]  # fmt: skip
    closest = {kind for *fit, kind in fitting if fit == list(max(fitting)[:2])}
    if len(closest) > 1:
        raise ValueError(f"column {name!r} is given two kinds: {' and '.join(sorted(closest))}")
    return closest.pop() if closest else None


def types_of_kinds(inputs: Inputs, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Arrow types of the columns of CSV files; Parquet files know their own."""
    if inputs.separator is None:
        return dict.fromkeys(inputs.names)
    arrow = pyarrow()
    return {name: arrow.float64() if kind == "numeric" else arrow.string() for name, kind in kinds.items()}
