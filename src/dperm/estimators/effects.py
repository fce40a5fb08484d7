"""Weights as effects: of levels relative to their mean or a reference, of numbers per unit, ranked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product, repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.encoding import encode_values, layout_of
from dperm.data.schema.interactions import Crossed
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
    for described in () if schema is None else schema.parts:
        own, weights = np.split(weights, [len(described.feature_names)])
        if isinstance(described, Crossed):
            scores = described.scores(own)
            width = np.ptp(scores, axis=0)
            found.append((described.name, None, "lowest to highest point", width, width))
            last = last + scores.mean(axis=0)
            continue
        if isinstance(described, Numeric) and described.bins is None:
            effects, at_low = _of_number(described, own)
            found += effects
            last = last + at_low
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


def _of_number(column: Numeric, own: NDArray[np.float64]) -> tuple[list[Effect], NDArray[np.float64]]:
    """The effects of a number or a curve, its atoms and a missing value; and its score at the lower bound."""
    low, high = column.shown(column.low), column.shown(column.high)
    change, effect, whole = f"{low} to {high}", own[0], own[0]
    if column.transform == "none":
        change, effect = f"+1 {column.unit or ''}".strip(), own[0] / (column.high - column.low)
    first, end = 1 + column.functions, 1 + column.functions + len(column.atoms)
    smooth, weights = replace(column, atoms=()), np.delete(own, np.s_[first:end], axis=0)
    if column.functions:
        points = curve_points(smooth)
        change, effect = "lowest to highest point", np.ptp(curve_rows(smooth, points) @ weights, axis=0)
        whole = effect
    found: list[Effect] = [(column.name, None, change, effect, whole)]
    if column.atoms:
        jumps = curve_rows(column, column.atoms) @ own - curve_rows(smooth, column.atoms) @ weights
        names = [name.removeprefix(f"{column.name}=") for name in column.feature_names[first:end]]
        found += [
            (column.name, name, "from the values around it", jump, jump)
            for name, jump in zip(names, jumps, strict=True)
        ]
    at_low = (curve_rows(column, [column.low]) @ own)[0]
    if column.missing == "column":
        missing = own[-1] - at_low
        found.append((column.name, "missing", f"instead of {low}", missing, missing))
    return found, at_low


#: Column, what kind of value it is, the value, that of an interaction's other column, what it adds to scores.
Point = tuple[str, str, float | str, float | str | None, NDArray[np.float64]]

_POINTS = 32  # of a line on a logarithmic scale


def shape_points(schema: Schema, weights: NDArray[np.float64]) -> list[Point]:
    """What every column adds to each score, at points between which it is a line, and each interaction."""
    found: list[Point] = []
    for column in schema.parts:
        own, weights = np.split(weights, [len(column.feature_names)])
        if isinstance(column, Crossed):
            pairs = product(column.first.levels, column.second.levels)
            found += [
                (column.name, "pair", *pair, each)
                for pair, each in zip(pairs, column.scores(own), strict=True)
            ]
        elif isinstance(column, Numeric):
            found += _points_of(column, own)
        else:
            levels = [*map(str, column.categories), *([] if has_a_level(column) else [OTHERS])]
            scores = np.vstack([own, np.zeros_like(own[:1])])
            found += [
                (column.name, "category", level, None, each)
                for level, each in zip(levels, scores, strict=False)
            ]
    return found


def _points_of(column: Numeric, own: NDArray[np.float64]) -> list[Point]:
    points = curve_points(column)
    if column.transform == "log1p" and not column.borders:
        steps = np.linspace(0.0, 1.0, _POINTS + 1) * np.log1p(column.high - column.low)
        points = np.union1d(points, np.clip(column.low + np.expm1(steps), column.low, column.high))
    points = points[~np.isin(points, column.atoms)]
    missing = [math.nan] * (column.missing in ("column", "zero"))
    values = [*points.tolist(), *column.atoms, *missing]
    kinds = ["number"] * len(points) + ["value"] * len(column.atoms) + ["missing"] * len(missing)
    scores = curve_rows(column, values) @ own
    return [(column.name, kind, *each) for kind, *each in zip(kinds, values, repeat(None), scores)]


def curve_points(column: Numeric) -> NDArray[np.float64]:
    """Ascending values between which a column's curve is a line: ends of bins, and atoms and their sides."""
    ends, atoms = np.array(column.borders, dtype=np.float64), np.array(column.atoms, dtype=np.float64)
    sides = [np.nextafter(ends, column.low), *(np.nextafter(atoms, end) for end in (column.low, column.high))]
    return np.unique(np.concatenate([[column.low, column.high], ends, atoms, *sides]))


def curve_rows(column: Numeric, values: ArrayLike) -> NDArray[np.float64]:
    """The rows that stand for values of a column, whose products with its weights are added to scores."""
    numbers = np.asarray(values, dtype=np.float64)
    layout = layout_of([column], "")
    return encode_values([column], layout, [numbers], len(numbers), np.dtype(np.float64)).to_dense()


def importances_of(
    schema: Schema | None, weights: NDArray[np.float64], moments: NDArray[np.float64] | None
) -> list[float] | None:
    """By column and interaction the standard deviation of what it adds to a score, from released moments."""
    if schema is None or moments is None:
        return None
    found, start = [], 0
    weights = weights[: len(moments)].reshape(len(moments), -1)
    if weights.shape[1] > 1:  # a constant added to the scores of all classes changes nothing
        weights = weights - weights.mean(axis=1, keepdims=True)
    for part in schema.parts:
        own = slice(start, start := start + len(part.feature_names))
        values, axes = np.linalg.eigh(moments[own, own])
        squares = np.square(axes.T @ weights[own]).mean(axis=1)
        found.append(math.sqrt(float(np.maximum(values, 0.0) @ squares)))  # noise may have left some below 0
    return found


def has_a_level(column: SchemaColumn) -> bool:
    """Whether one of the column's indicators is 1 in every record."""
    if isinstance(column, Categorical):
        return "zero" not in (column.unknown, column.missing)
    return column.bins is not None and column.missing != "zero"
