"""Weights as effects: of levels relative to their mean or a reference, of numbers per unit, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.schema import Schema

INTERCEPT = "(intercept)"
OTHERS = "(others)"


@dataclass(frozen=True)
class Effect:
    """A row of the table: what is changed, and what that does to the score of each class."""

    column: str
    category: str | None
    change: str
    effects: NDArray[np.float64]
    over_range: NDArray[np.float64]  # of the whole public range; the same for levels


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
    names = [] if schema is None else schema.column_names
    levels = {
        name: [each for at, each in zip(columns, categories, strict=True) if at == name] for name in names
    }
    for column, level in reference.items():
        if level not in levels.get(column, ()):
            raise ValueError(f"reference: {level!r} is no level of column {column!r}: {levels.get(column)}")
    intercept = weights[-1] if columns[-1] == INTERCEPT else np.zeros(weights.shape[1])
    found, place = [], 0
    for described in () if schema is None else schema.columns:
        own = weights[place : place + len(described.feature_names)]
        place += len(own)
        if described.n_numbers:
            found += _of_number(described, own)
        else:
            rows, base = _of_levels(described, levels[described.name], own, reference.get(described.name))
            found, intercept = found + rows, intercept + base
    if schema is None:
        rest = zip(columns, weights, strict=True)
        found = [Effect(name, None, "+1", each, each) for name, each in rest if name != INTERCEPT]
    found.sort(key=lambda each: (each.category == OTHERS, -np.abs(each.over_range).max()))
    last = Effect(INTERCEPT, None, "numbers at their lower bounds" if schema else "", intercept, intercept)
    return [*found, last] if columns[-1] == INTERCEPT else found


def _of_number(column: SchemaColumn, own: NDArray[np.float64]) -> list[Effect]:
    assert isinstance(column, Numeric)
    low, high = column.shown(column.low), column.shown(column.high)
    change, span = f"{low} to {high}", 1.0
    if column.transform == "none":
        change, span = f"+1 {column.unit or ''}".strip(), column.high - column.low
    rows = [Effect(column.name, None, change, own[0] / span, own[0])]
    return rows + [Effect(column.name, "missing", f"instead of {low}", each, each) for each in own[1:]]


def _of_levels(
    column: SchemaColumn, names: Sequence[str | None], own: NDArray[np.float64], reference: str | None
) -> tuple[list[Effect], NDArray[np.float64]]:
    """The effects of levels, and the weight of what they are relative to."""
    base = own.mean(axis=0) if reference is None else own[list(names).index(reference)]
    change = "from the mean of the levels" if reference is None else f"from {reference}"
    if not has_a_level(column):
        names, own = [*names, OTHERS], np.vstack([own, np.zeros_like(base)])
    pairs = zip(names, own - base, strict=True)
    return [Effect(column.name, level, change, each, each) for level, each in pairs], base


def has_a_level(column: SchemaColumn) -> bool:
    """Whether one of the column's indicators is 1 in every record."""
    if isinstance(column, Categorical):
        return "zero" not in (column.unknown, column.missing)
    return column.bins is not None and column.missing != "zero"
