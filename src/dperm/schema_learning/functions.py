"""Bins of smooth functions and values of their own, from a noisy histogram of each numeric column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._cached import cached_property
from dperm.data.schema.columns import Numeric, SchemaColumn
from dperm.data.schema.schema import Schema
from dperm.data.schema.table_columns import TableColumn
from dperm.mechanisms.open_counts import release_open_counts
from dperm.mechanisms.release import Releaser
from dperm.private_values.open_counts import OpenCounts
from dperm.schema_learning.bounds import Histogram
from dperm.schema_learning.sources import Counting, Source

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Fraction of the budget, in mu^2, for the histograms: bins of a twentieth are as good as exact ones.
SHARE = 0.05
_CELLS = 1024  # of equal width on the transformed scale
_BINS = 32  # that a column gets at least where counts allow it
_LEVELS = (32, 8)  # groups of cells, and groups of these
_PER_SIGNAL, _PER_RECORD = 0.08, 1.0 / 200.0  # weights of functions over n mu / sqrt(dimension), and over n
MOST_FUNCTIONS = 16  # functions of a column
_RARE = 0.01  # fraction of the records whose values may be other than two
_PEAK, _GROUP = 3.0, 2.0  # deviations of the noise by which a value or a cell stands out, and a group


@dataclass(frozen=True)
class Cells(Histogram):
    """Cells of equal width of a numeric column on its transformed scale, and single values.

    The values are the bounds, to which all beyond are clamped, 0, and the one that stands for missing
    numbers: these are counted apart. Other missing values are not counted.
    """

    column: Numeric

    @cached_property
    def edges(self) -> Numbers:
        """Edges between the cells, in the unit of the column; dates have whole units only."""
        edges = np.array(replace(self.column, bins=_CELLS, missing="zero").borders)
        return edges if self.column.unit is None else np.unique(np.ceil(edges))

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The values that are counted apart, ascending."""
        column = self.column
        known = {float(column.low), float(column.high), 0.0}
        known |= set() if isinstance(column.missing, str) else {float(column.missing)}
        return tuple(sorted(each for each in known if column.low <= each <= column.high))

    @cached_property
    def levels(self) -> list[Integers]:
        """The first cells of larger and larger groups, which are counted, too: a sum has the noise of one."""
        n_cells = len(self.edges) + 1
        return [np.arange(0, n_cells, -(-n_cells // groups)) for groups in _LEVELS]

    @property
    def n_bins(self) -> int:
        """Number of counts: of the cells, of the groups, of the values."""
        return len(self.edges) + 1 + sum(map(len, self.levels)) + len(self.values)

    def read(self, column: TableColumn) -> NDArray[Any]:
        """The numbers of a column of a table, NaN where missing."""
        return column.numbers_or_missing() if self.column.unit is None else self.column.read(column)

    def counts(self, values: Numbers) -> Integers:
        """How many numbers are in each cell and at each value."""
        given = self.column
        clipped = np.clip(values, given.low, given.high)
        if not isinstance(given.missing, str):
            clipped[np.isnan(clipped)] = given.missing
        clipped = clipped[clipped == clipped]
        alone = np.array([np.count_nonzero(clipped == value) for value in self.values])
        clipped = clipped[~np.isin(clipped, self.values)]
        cells = np.bincount(np.searchsorted(self.edges, clipped, side="right"), minlength=len(self.edges) + 1)
        groups = [np.add.reduceat(cells, starts) for starts in self.levels]
        return np.concatenate([cells, *groups, alone]).astype(np.int64)

    def column_with(self, functions: int, counts: Numbers, sigma: float, n: float) -> Numeric:
        """The column with at most so many functions of bins that follow from noisy counts of n records.

        A cell that stands out is a bin of its own, and the records of groups that stand out are divided
        equally. A column in which nothing stands out keeps its line, and so does one of two values.
        """
        n_cells = len(self.edges) + 1
        parts = np.cumsum([n_cells, *map(len, self.levels)])
        cells, *groups, alone = np.split(counts, parts)
        pile = alone > max(_PEAK * sigma, (n - alone.max()) / _BINS)  # of the records that are elsewhere
        rest = max(n - float(alone[pile].sum()), 1.0)
        peaks = cells > max(_PEAK * sigma, rest / _BINS)
        peak_counts = np.where(peaks, cells, 0.0)
        others, known = np.zeros(n_cells), peaks.copy()  # counts that stand out, in cells that they describe
        noise = peaks.astype(float)  # its variance in what is known, in those of one count
        for starts, noisy in zip(self.levels, groups, strict=True):
            left = noisy - np.add.reduceat(peak_counts + others, starts)
            free = np.add.reduceat((~known).astype(float), starts)
            deviation = sigma * np.sqrt(1.0 + np.add.reduceat(noise, starts))
            found = (left > _GROUP * deviation) & (free > 0)
            sizes = np.diff([*starts, n_cells])
            here = np.repeat(found, sizes)
            others[here & ~known] = np.repeat(left / np.maximum(free, 1.0), sizes)[here & ~known]
            known |= here
            noise[here] = 0.0
            noise[starts[found]] = 1.0
        below = np.cumsum(peak_counts + others)
        levels = int(peaks.sum() + pile.sum())
        two = levels <= 2 and not others.any() and rest - float(peak_counts.sum()) <= _RARE * n
        if two or not (levels or below[-1]):
            return self.column
        at = np.searchsorted(below, below[-1] * np.arange(1, _BINS) / _BINS) + 1  # first cells of bins
        starts = np.unique([*at, *np.flatnonzero(peaks), *(np.flatnonzero(peaks) + 1)])
        inside, last = list[float](), 0.0
        for start in starts[(starts > 0) & (starts < n_cells)]:
            if last < below[start - 1] < below[-1]:  # there are records on both sides
                last = below[start - 1]
                inside.append(float(self.edges[start - 1]))
        atoms = np.array(self.values)[pile].tolist()
        if self.column.monotone:  # an atom on an edge is free to lie between both bins
            inside = sorted({*inside, *(each for each in atoms if self.column.low < each < self.column.high)})
        return replace(
            self.column,
            functions=min(functions, len(inside)),
            edges=_plain(inside, self.column) if inside else None,
            atoms=_plain(atoms, self.column),
        )


def _plain(numbers: Sequence[float], column: Numeric) -> tuple[float, ...]:
    return tuple(int(each) if column.unit else each for each in numbers)


def cells_for_functions(columns: Iterable[SchemaColumn]) -> dict[str, Cells]:
    """Cells of the numeric columns that have neither bins nor functions, as far as they can be divided."""
    numbers = [each for each in columns if isinstance(each, Numeric) and each.bins is None]
    plain = [Cells(each) for each in numbers if not each.functions and not each.atoms]
    return {each.column.name: each for each in plain if _is_divisible(each)}


def _is_divisible(cells: Cells) -> bool:
    try:
        return len(cells.edges) > 0
    except ValueError:  # bounds so close that doubles between them are too few
        return False


def functions_of_budget(n: float, mu: float, dimension: int, columns: int) -> int:
    """How many functions each numeric column gets, from public numbers; 0: none is worth its noise.

    So many weights in all that privacy's noise and that of sampling on them stay small against what the
    columns together usually gain: a fraction of the signal, and of the number of records.

    Parameters
    ----------
    n : float
        Public number of records.
    mu : float
        Gaussian differential privacy of the fit for a change of the sum by one record.
    dimension : int
        Number of weights of the linear model.
    columns : int
        Number of numeric columns that get functions.
    """
    weights = min(_PER_SIGNAL * n * mu / math.sqrt(dimension), _PER_RECORD * n)
    functions = int(min(weights / columns, MOST_FUNCTIONS)) if columns else 0
    return max(functions, 2) if functions else 0  # the first one rises or falls, as the line does


def counts_of_cells(
    source: Source, cells: Mapping[str, Cells], names: Sequence[str], repeats: Integers | None = None
) -> OpenCounts:
    """Exact counts of numbers in cells, in one pass; a record counts at most once in each column."""
    tally = source.total(Counting(cells, {}, tuple(names), repeats))
    return OpenCounts(tally.bins, (), columns=(1 + len(_LEVELS)) * len(cells))


def released_functions(
    release: Releaser,
    multiplier: float,
    private: OpenCounts,
    cells: Mapping[str, Cells],
    n: float,
    functions: int,
) -> dict[str, Numeric]:
    """Release the counts, and return the columns with functions that follow from them."""
    noisy, _ = release_open_counts(release, private, multiplier, 0.0)
    parts = np.split(noisy.astype(np.float64), np.cumsum([each.n_bins for each in cells.values()])[:-1])
    sigma = release.releases[-1].scale
    return {
        name: each.column_with(functions, part, sigma, n)
        for (name, each), part in zip(cells.items(), parts, strict=True)
    }


def with_columns(schema: Schema, columns: Mapping[str, Numeric]) -> Schema:
    """The schema with other descriptions of some of its columns."""
    changed = [columns.get(each.name, each) for each in schema.columns]
    return Schema._learned_as(
        schema._learned, changed, schema.name, schema.ignored, schema.label, draft=schema.draft,
        interactions=schema.interactions,
    )  # fmt: skip


def with_most_functions(schema: Schema) -> Schema:
    """The schema with as many functions and bins as can be learned, for the size of a model's file."""
    columns = {
        name: replace(each.column, functions=MOST_FUNCTIONS)
        for name, each in cells_for_functions(schema.columns).items()
    }
    return with_columns(schema, columns)
