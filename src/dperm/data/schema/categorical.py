"""Categorical columns: a public list of categories, or texts in public buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.cells import MAX_CATEGORIES, check_name, missing_cell
from dperm.data.schema.dates import bucket
from dperm.data.schema.table_columns import Category, Codes, TableColumn
from dperm.data.tabular import CodeMap
from dperm.errors import DataError


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories, or texts in public buckets: one 0/1 column per category or bucket.

    Parameters
    ----------
    name : str
    categories : sequence of str, of int or of bool
        Every value that the column may hold, whether or not it occurs in the data. Not with `buckets`.
    unknown : str, int or bool
        How a value outside the list is treated: "error"; "zero" (all columns are 0); or as the given category
        (which cannot be one with these two names).
    missing : str, int or bool
        The same for a missing value (null, None or NaN).
    buckets : int, optional
        Instead of a list: this many buckets, into which texts, and whole numbers as their digits, are hashed
        (SHA-256). For columns with many values, or values that are not publicly known; those that share a
        bucket cannot be told apart.

    Raises
    ------
    ValueError
        If the description is invalid.

    Examples
    --------
    >>> from dperm import Schema
    >>> colour = Categorical("colour", ["red", "green"], unknown="zero")
    >>> colour.feature_names
    ('colour=red', 'colour=green')
    >>> Schema([colour]).encode({"colour": ["green", "blue"]}).to_dense().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    >>> Schema([Categorical("town", buckets=3)]).encode({"town": ["Ulm", "Ulm", "Bern"]}).to_dense().tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    name: str
    categories: Sequence[Category] = ()
    unknown: Category = "error"
    missing: Category = "error"
    buckets: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.buckets is not None:
            self._name_buckets()
        if isinstance(self.categories, str) or not isinstance(self.categories, Iterable):
            raise ValueError(f"column {self.name!r}: categories must be a list, got {self.categories!r}")
        object.__setattr__(self, "categories", tuple(self.categories))
        if not 1 <= len(self.categories) <= MAX_CATEGORIES:
            raise ValueError(
                f"column {self.name!r} must have between 1 and {MAX_CATEGORIES} categories, got "
                f"{len(self.categories)}"
            )
        kinds = {type(category) for category in self.categories}
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            raise ValueError(
                f"column {self.name!r}: categories must be all str, all int or all bool, got "
                f"{sorted(kind.__name__ for kind in kinds)}"
            )
        if len(set(self.categories)) != len(self.categories):
            raise ValueError(f"column {self.name!r} lists a category twice")
        for rule in ("unknown", "missing"):
            value = getattr(self, rule)
            if value not in ("error", "zero") and value not in self.categories:
                raise ValueError(
                    f"column {self.name!r}: {rule} = {value!r} must be 'error', 'zero' or one of its "
                    "categories"
                )

    def _name_buckets(self) -> None:
        number = self.buckets
        if not isinstance(number, Integral) or isinstance(number, bool) or not 2 <= number <= MAX_CATEGORIES:
            raise ValueError(
                f"column {self.name!r}: buckets must be an integer from 2 to {MAX_CATEGORIES}, got {number!r}"
            )
        names = tuple(f"bucket {place}" for place in range(number))
        if tuple(self.categories) not in ((), names):
            raise ValueError(f"column {self.name!r} has categories and buckets: give one of them")
        object.__setattr__(self, "categories", names)
        object.__setattr__(self, "buckets", int(number))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix that this column fills."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What determines the encoding of a category, and the columns."""
        return self.name, *self.categories, *(() if self.buckets is None else ("SHA-256",))

    @property
    def squared_norm(self) -> int:
        """Bound on the sum of squares of the columns of the design matrix: a single 1."""
        return 1

    @property
    def n_numbers(self) -> int:
        """Numeric columns of the design matrix: none."""
        return 0

    @property
    def codes(self) -> tuple[tuple[int, CodeMap | None], ...]:
        """Number of categories of its one column of codes, each a 0/1 column."""
        return ((len(self.categories), None),)

    def read(self, column: TableColumn) -> Codes:
        """Codes of the cells: positions in the list of categories, or its length for none of them.

        Raises
        ------
        DataError
            If a cell is missing or not a category, and that is an error.
        """
        codes = column.positions(self.categories) if self.buckets is None else self._hashed(column)
        others = codes < 0
        if not others.any():
            return codes
        missing = column.missing()
        unknown = others & ~missing
        if self.missing == "error" and missing.any():
            raise missing_cell(self.name, int(missing.argmax()), "'zero' or a category")
        if self.unknown == "error" and unknown.any():
            row = int(unknown.argmax())
            raise DataError(
                f"column {self.name!r} holds {column[row]!r} at row {row}, which is not one of its "
                f"{len(self.categories)} public categories: add it if it is public knowledge that it may "
                "occur, or cover such values by unknown='zero' or unknown=<a category>"
            )
        for cells, rule in ((unknown, self.unknown), (missing, self.missing)):
            if cells.any():
                codes[cells] = self._code(rule)
        return codes

    def encode(self, values: Codes, numbers: NDArray[Any], codes: NDArray[Any], levels: int) -> None:
        """Write what `read` returned for some rows into ``codes[:, 0]``.

        Examples
        --------
        >>> import numpy as np
        >>> numbers, codes = np.zeros((3, 0)), np.zeros((3, 1), dtype=np.uint8)
        >>> Categorical("colour", ["red", "green"]).encode(np.array([1, 0, 1]), numbers, codes, levels=0)
        >>> codes.ravel()
        array([1, 0, 1], dtype=uint8)
        """
        codes[:, 0] = values

    def _hashed(self, column: TableColumn) -> Codes:
        """The buckets of the cells, -1 where missing."""
        values = [each for each in column.distinct() if each == each]
        if not values:
            return np.full(len(column.missing()), -1, np.int32)
        try:
            found = np.array([bucket(each, len(self.categories)) for each in values], np.int32)
        except DataError as error:
            raise DataError(f"column {self.name!r} holds {error}") from None
        places = column.positions([int(each) if isinstance(each, float) else each for each in values])
        return np.where(places < 0, np.int32(-1), found[places])

    def _code(self, rule: Category) -> int:
        return len(self.categories) if rule == "zero" else self.categories.index(rule)
