"""Weights as effects: of levels relative to their mean or a reference, of numbers per unit, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.schema import Schema

INTERCEPT = "(intercept)"
OTHERS = "(others)"


#: Column, category, what is changed, the effect of that and of the whole public range on each score.
Effect = tuple[str, str | None, str, NDArray[np.float64], NDArray[np.float64]]


def effects_of(
    columns: Sequence[str],
    categories: Sequence[str | None],
    weights: NDArray[np.float64],
    schema: Schema | None,
    reference: Mapping[str, str],
) -> list[Effect]:
    """The effects of weights, of shape (n_weights, n_scores), the largest first and the intercept last.

    Raises
    ------
    ValueError
        For a reference that is no level of a column.
    """
    levels: dict[str, list[str | None]] = {}
    for column, category in zip(columns, categories, strict=True):
        levels.setdefault(column, []).append(category)
    for column, level in reference.items():
        if level not in levels.get(column, ()):
            raise ValueError(f"reference: {level!r} is no level of column {column!r}: {levels.get(column)}")
    last = weights[-1]  # the intercept, if there is one
    found: list[Effect] = []
    for described in () if schema is None else schema.columns:
        own, weights = np.split(weights, [len(described.feature_names)])
        if described.n_numbers:
            found += _of_number(described, own)
            continue
        base, change = own.mean(axis=0), "from the mean of the levels"
        names, chosen = levels[described.name], reference.get(described.name)
        if chosen is not None:
            base, change = own[names.index(chosen)], f"from {chosen}"
        last = last + base
        if not has_a_level(described):
            names, own = [*names, OTHERS], np.vstack([own, np.zeros_like(base)])
        found += [
            (described.name, level, change, each, each) for level, each in zip(names, own - base, strict=True)
        ]
    if schema is None:
        found = [
            (name, None, "+1", each, each)
            for name, each in zip(columns, weights, strict=True)
            if name != INTERCEPT
        ]
    found.sort(key=lambda each: (each[1] == OTHERS, -np.abs(each[4]).max()))
    if columns[-1] == INTERCEPT:
        found.append((INTERCEPT, None, "numbers at their lower bounds" if schema else "", last, last))
    return found


def _of_number(column: SchemaColumn, own: NDArray[np.float64]) -> list[Effect]:
    assert isinstance(column, Numeric)
    low, high = column.shown(column.low), column.shown(column.high)
    change, span = f"{low} to {high}", 1.0
    if column.transform == "none":
        change, span = f"+1 {column.unit or ''}".strip(), column.high - column.low
    missing: list[Effect] = [(column.name, "missing", f"instead of {low}", each, each) for each in own[1:]]
    return [(column.name, None, change, own[0] / span, own[0]), *missing]


def has_a_level(column: SchemaColumn) -> bool:
    """Whether one of the column's indicators is 1 in every record."""
    if isinstance(column, Categorical):
        return "zero" not in (column.unknown, column.missing)
    return column.bins is not None and column.missing != "zero"
