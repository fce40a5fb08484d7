"""Interactions: what two columns of a table say together, beyond what each says alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.cells import MAX_CATEGORIES
from dperm.data.schema.columns import Categorical, SchemaColumn
from dperm.data.schema.numeric import GRID, function_map
from dperm.data.schema.table_columns import Codes
from dperm.data.tabular import CodeMap

_MAX_BINS = 32  # of a number: more make no difference to a few functions
_MAX_MAP = 1 << 22  # entries, 16 MiB
_MAX_FEATURES = 1_000_000  # of all interactions of a schema


@dataclass(frozen=True)
class Interaction:
    """What two columns say together: added to a model besides what each of them says alone.

    Two categorical columns, or numeric ones in `bins`, have a 0/1 column for each pair of levels; a number
    and a category have functions of the number for each category; two numbers have products of functions.
    The bins of a number are those of its own functions, joined to at most 32; 32 of equal width if it has
    none. A pair with a missing value, or one that is no category, is all zeros. The squares of an
    interaction sum to at most 1.

    Parameters
    ----------
    first, second : str
        Names of two columns of the schema.
    functions : int
        How many functions of a number take part.

    Raises
    ------
    ValueError
        If the description is invalid.

    Examples
    --------
    >>> from dperm import Numeric, Schema
    >>> columns = [Categorical("day", ["Mon", "Sun"]), Numeric("hour", 0, 24)]
    >>> Schema([*columns, Interaction("hour", "day", functions=2)]).feature_names[3:]
    ('hour~1 & day=Mon', 'hour~1 & day=Sun', 'hour~2 & day=Mon', 'hour~2 & day=Sun')
    """

    first: str
    second: str
    functions: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.first, str) or not isinstance(self.second, str) or self.first == self.second:
            raise ValueError(
                f"an interaction is of two columns, by their names; got {self.first!r} and {self.second!r}"
            )
        functions = self.functions
        if not isinstance(functions, Integral) or isinstance(functions, bool) or functions < 1:
            raise ValueError(f"{self.name!r}: functions must be an integer of at least 1, got {functions!r}")

    @property
    def name(self) -> str:
        """The names of both columns."""
        return f"{self.first} & {self.second}"


def crossed_columns(
    interactions: Sequence[Interaction], columns: Sequence[SchemaColumn]
) -> tuple[Crossed, ...]:
    """The interactions of these columns; ValueError if one is not there, or features are too many."""
    known, found, width = {column.name: column for column in columns}, dict[frozenset[str], Crossed](), 0
    for each in interactions:
        unknown = [name for name in (each.first, each.second) if name not in known]
        if unknown:
            raise ValueError(f"interaction {each.name!r}: the schema describes no column {unknown[0]!r}")
        if monotone := [name for name in (each.first, each.second) if getattr(known[name], "monotone", 0)]:
            raise ValueError(
                f"interaction {each.name!r}: {monotone[0]!r} is monotone, which an interaction could undo"
            )
        if frozenset((each.first, each.second)) in found:
            raise ValueError(f"interaction {each.name!r} is given twice")
        crossed = Crossed(each, _basis(known[each.first], each), _basis(known[each.second], each))
        found[frozenset((each.first, each.second))] = crossed
        width += crossed.width
        if width > _MAX_FEATURES:
            raise ValueError(
                f"the interactions up to {each.name!r} have more than {_MAX_FEATURES:,} features"
            )
    return tuple(found.values())


@dataclass(frozen=True)
class _Basis:
    """A column as one of finitely many levels, or as functions of so many bins."""

    column: SchemaColumn
    names: tuple[str, ...]
    edges: tuple[float, ...]  # of the bins; empty for levels
    rows: NDArray[np.float64] | None  # a row of functions for each bin; None for levels

    @property
    def size(self) -> int:
        return len(self.names if self.rows is None else self.rows)

    @property
    def is_in_columns(self) -> bool:
        """Whether these are features of the column itself."""
        if isinstance(self.column, Categorical) or self.rows is None:
            return True
        own = self.column
        return own.functions >= len(self.names) and own.borders == self.edges and not own.atoms

    @property
    def levels(self) -> list[Any]:
        """What each code stands for: a category, the middle of a bin, NaN for a missing number."""
        own = self.column
        if isinstance(own, Categorical):
            return [*map(str, own.categories)]
        middles = own.middles(self.edges or own.borders)
        return [*middles, math.nan] if self.rows is None and own.missing == "column" else middles

    def codes(self, values: NDArray[Any]) -> Codes:
        """The levels or bins of what the column's `read` returned, `size` for none."""
        if isinstance(self.column, Categorical):
            return np.asarray(values, np.int32)
        clipped, missing = self.column.clipped(values)
        borders = self.edges or self.column.borders
        codes = np.searchsorted(borders, clipped, side="right").astype(np.int32)
        has_own = self.rows is None and self.column.missing == "column"  # the last level
        codes[missing] = self.size - has_own
        return codes


def _basis(column: SchemaColumn, interaction: Interaction) -> _Basis:
    if isinstance(column, Categorical) or column.bins is not None:
        return _Basis(column, column.feature_names, (), None)
    borders = column.borders or replace(column, bins=_MAX_BINS, atoms=()).borders
    step = -(-(len(borders) + 1) // _MAX_BINS)
    edges = borders[step - 1 :: step]
    count = min(interaction.functions, len(edges))
    rows = function_map(len(edges) + 1, count).rows[:-1].astype(np.float64)
    return _Basis(column, tuple(f"{column.name}~{k}" for k in range(1, count + 1)), edges, rows)


@dataclass(frozen=True)
class Crossed:
    """An interaction of columns that are known: it encodes like a column of codes."""

    interaction: Interaction
    first: _Basis
    second: _Basis

    def __post_init__(self) -> None:
        size, width = self.first.size * self.second.size, self.width
        is_mapped = self.first.rows is not None or self.second.rows is not None
        if size > MAX_CATEGORIES or (is_mapped and size * width > _MAX_MAP):
            raise ValueError(
                f"interaction {self.name!r} has {self.first.size:,} x {self.second.size:,} levels and "
                f"{width:,} features, which is too many: give the columns fewer bins, buckets or categories"
            )

    @property
    def name(self) -> str:
        """The names of both columns."""
        return self.interaction.name

    @property
    def width(self) -> int:
        """Number of columns of the design matrix that the interaction fills."""
        return len(self.first.names) * len(self.second.names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of these columns."""
        return tuple(f"{one} & {other}" for one in self.first.names for other in self.second.names)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What determines the encoding, given that of the columns."""
        own = self.interaction
        return "interaction", own.first, own.second, int(own.functions)

    squared_norm, n_numbers = 1, 0

    @cached_property
    def codes(self) -> tuple[tuple[int, CodeMap | None], ...]:
        """The number of pairs, and what they stand for: products of the functions of both."""
        one, other = self.first, self.second
        if one.rows is None and other.rows is None:
            return ((one.size * other.size, None),)
        rows = np.kron(*(np.eye(each.size) if each.rows is None else each.rows for each in (one, other)))
        # Towards zero, so that the products of two norms of at most 1 stay there.
        table = CodeMap(np.trunc(rows / GRID) * GRID)
        return ((table.size, table),)

    def read(self, values: Mapping[str, NDArray[Any]]) -> Codes:
        """The codes of the pairs, from what `read` of the columns returned."""
        one, other = (each.codes(values[each.column.name]) for each in (self.first, self.second))
        pairs = one * self.second.size + other
        pairs[(one == self.first.size) | (other == self.second.size)] = self.codes[0][0]
        return pairs

    def encode(self, values: Codes, numbers: NDArray[Any], codes: NDArray[Any], levels: int) -> None:
        """Write what `read` returned for some rows into ``codes[:, 0]``."""
        codes[:, 0] = values

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each pair adds to a score, from weights of the features."""
        ((_, table),) = self.codes
        return weights if table is None else table.rows[:-1].astype(np.float64) @ weights

    def redundant(self, always: tuple[bool, bool]) -> list[int]:
        """Features that follow from those of one column, if the other always has one of its levels."""
        shape = len(self.first.names), len(self.second.names)
        places = np.zeros(shape, dtype=bool)
        one, other = self.first, self.second
        places[0] |= always[0] and one.rows is None and other.is_in_columns
        places[:, 0] |= always[1] and other.rows is None and one.is_in_columns
        return np.flatnonzero(places).tolist()
