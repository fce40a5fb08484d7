"""Columns of a public description: how one column of cells becomes columns of the design matrix.

A column turns every cell into numbers that depend on that cell and on the description alone, never on
the other records. Numeric columns land in [0, 1]; a categorical column becomes a group of 0/1 columns
that sum to 1. The norm of a row is therefore bounded before any data are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DataError

Cells = Sequence[Any] | NDArray[Any]
Matrix = NDArray[np.floating[Any]]

TRANSFORMS = ("none", "log1p")


@dataclass(frozen=True)
class NumericColumn:
    """A number with public bounds, scaled to [0, 1].

    Parameters
    ----------
    name : str
    low, high : float
        Public bounds. Values outside are moved onto the nearer bound.
    transform : {"none", "log1p"}
        With ``z = value - low``: ``z / (high - low)``, or ``log1p(z) / log1p(high - low)`` for
        columns whose range spans several powers of ten.
    """

    name: str
    low: float
    high: float
    transform: str = "none"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"column {self.name!r}: bounds must be finite with low < high, got {self.low}, {self.high}"
            )
        if self.transform not in TRANSFORMS:
            raise ValueError(
                f"column {self.name!r}: transform must be one of {TRANSFORMS}, got {self.transform!r}"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix that this column fills."""
        return (self.name,)

    def encode(self, cells: Cells, out: Matrix) -> None:
        """Write the scaled values of `cells` into `out`, shape (n_cells, 1)."""
        values = self._numbers(cells)
        np.clip(values, self.low, self.high, out=values)
        values -= self.low
        if self.transform == "log1p":
            np.log1p(values, out=values)
            values /= math.log1p(self.high - self.low)
            # Two implementations of log1p may differ in the last bit; the bound must hold exactly.
            np.minimum(values, 1.0, out=values)
        else:
            values /= self.high - self.low
        out[:, 0] = values

    def _numbers(self, cells: Cells) -> NDArray[np.float64]:
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
            values = cells.astype(np.float64)
        else:
            try:
                values = np.fromiter(map(float, cells), np.float64, count=len(cells))
            except (TypeError, ValueError):
                bad = next(cell for cell in cells if not _is_number(cell))
                raise DataError(f"column {self.name!r} must hold numbers, got {bad!r}") from None
        if not np.isfinite(values).all():
            raise DataError(f"column {self.name!r} contains NaN or infinity")
        return values


@dataclass(frozen=True)
class CategoricalColumn:
    """One of a public list of categories, encoded as one 0/1 column per category.

    Parameters
    ----------
    name : str
    categories : tuple of str
        Every value that the column may hold, whether or not it occurs in the data.
    unknown : str, optional
        The category that stands for any value outside the list. Without it such a value is an error.
    """

    name: str
    categories: tuple[str, ...]
    unknown: str | None = None

    def __post_init__(self) -> None:
        if not self.categories:
            raise ValueError(f"column {self.name!r} must have at least one category")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError(f"column {self.name!r} lists a category twice")
        if self.unknown is not None and self.unknown not in self.categories:
            raise ValueError(
                f"column {self.name!r}: unknown = {self.unknown!r} must be one of its categories"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix that this column fills."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def codes(self, cells: Cells) -> NDArray[np.intp]:
        """Position of every cell in the list of categories.

        Raises
        ------
        DataError
            When a cell is not a category and the column names none for unknown values.
        """
        index = {category: code for code, category in enumerate(self.categories)}
        fallback = None if self.unknown is None else index[self.unknown]
        codes = [index.get(cell, fallback) for cell in cells]
        if fallback is None and None in codes:
            bad = cells[codes.index(None)]
            raise DataError(
                f"column {self.name!r} holds {bad!r}, which is not one of its {len(self.categories)} "
                "public categories"
            )
        return np.array(codes, dtype=np.intp)

    def encode(self, cells: Cells, out: Matrix) -> None:
        """Write the 0/1 columns of `cells` into `out`, shape (n_cells, n_categories)."""
        out[...] = 0
        out[np.arange(len(cells)), self.codes(cells)] = 1


@dataclass(frozen=True)
class BinaryLabel:
    """A label with two public groups of values: `positive` becomes +1, `negative` becomes -1."""

    name: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.positive or not self.negative:
            raise ValueError(f"label {self.name!r} must list positive and negative values")
        if set(self.positive) & set(self.negative):
            raise ValueError(f"label {self.name!r} lists a value as positive and as negative")

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """Labels of `cells` as -1.0 and +1.0."""
        codes = CategoricalColumn(self.name, self.positive + self.negative).codes(cells)
        return np.where(codes < len(self.positive), 1.0, -1.0)


@dataclass(frozen=True)
class ClassLabel:
    """A label with a public list of classes: a value becomes its position in the list."""

    name: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"label {self.name!r} must list at least two different classes")

    def encode(self, cells: Cells) -> NDArray[np.int64]:
        """Class codes of `cells`."""
        return CategoricalColumn(self.name, self.classes).codes(cells).astype(np.int64)


Column = NumericColumn | CategoricalColumn
Label = BinaryLabel | ClassLabel


def _is_number(cell: object) -> bool:
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
