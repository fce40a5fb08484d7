"""Public descriptions of columns: how a cell is encoded as numbers within known bounds.

The encoding of a cell depends on that cell and on the description alone, never on other records, and its
squares sum to at most 1. So the norm of a row is bounded before any data are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.dates import UNITS, bucket, date_text, moment, units_of
from dperm.data.schema.table_columns import Category, Codes, TableColumn
from dperm.errors import DataError

Numbers = NDArray[np.float64]

TRANSFORMS = ("none", "log1p")
_RULES = ("error", "zero", "column")  # for missing numbers
MAX_CATEGORIES = 65_535  # codes have 16 bits, and one of them means "no category"


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds, scaled to [0, 1] or assigned to public bins.

    Parameters
    ----------
    name : str
    low, high : float
        Public bounds, from public knowledge and not from the data. Values outside, including infinite ones,
        are clamped to them.
    transform : {"none", "log1p"}
        With ``z = value - low``: ``z / (high - low)``, or ``log1p(z) / log1p(high - low)`` for columns whose
        range spans several powers of ten.
    bins : int or sequence of float, optional
        One 0/1 column per bin instead of the number. A sequence holds the edges between bins, ascending and
        strictly between the bounds, in the unit of the column; a value on an edge belongs to the bin above
        it. An integer is the number of bins, of equal width on the transformed scale.
    missing : {"error", "zero", "column"} or float
        How a missing value (null, None or NaN) is treated: as an error; as zeros; as a 1 in a 0/1 column of
        its own, with zeros in the others; or as this number, which must be within the bounds.

    Raises
    ------
    ValueError
        If the description is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import Schema
    >>> Schema([Numeric("age", 0, 100)]).encode({"age": np.array([25, 130])}).to_dense().tolist()
    [[0.25], [1.0]]
    >>> Numeric("income", 0, 1e6, transform="log1p", bins=3).feature_names
    ('income<99', '99<=income<9999.01', 'income>=9999.01')
    >>> since = Numeric("since", "2000-01-01", "2010-01-01", unit="day")
    >>> Schema([since]).encode({"since": ["2005-01-01", "2030-12-31"]}).to_dense().round(4).tolist()
    [[0.5001], [1.0]]
    """

    name: str
    low: float
    high: float
    transform: str = "none"
    bins: int | Sequence[float] | None = None
    missing: str | float = "error"
    unit: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.unit is not None:
            self._count_units()
        for bound in ("low", "high"):
            _set_real(self, bound, getattr(self, bound))
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise ValueError(
                f"column {self.name!r}: the bounds must have low < high, a finite distance apart, got "
                f"{self.low}, {self.high}"
            )
        if self.transform not in TRANSFORMS:
            raise ValueError(
                f"column {self.name!r}: transform must be one of {TRANSFORMS}, got {self.transform!r}"
            )
        self._check_bins()
        self._check_missing()

    def _count_units(self) -> None:
        """Replace dates by numbers of units."""
        if self.unit not in UNITS:
            raise ValueError(
                f"column {self.name!r}: unit must be one of {', '.join(UNITS)}, got {self.unit!r}"
            )
        for each in ("low", "high", "missing", "bins"):
            value = getattr(self, each)
            if each == "bins" and isinstance(value, list | tuple):
                object.__setattr__(self, each, [self._units(each, edge) for edge in value])
            elif each != "bins" and not (isinstance(value, str) and value in _RULES):
                object.__setattr__(self, each, self._units(each, value))

    def _units(self, setting: str, value: Any) -> int:
        if isinstance(value, Integral) and not isinstance(value, bool):
            return int(value)
        try:
            return int(units_of(np.array([moment(value)]), str(self.unit))[0])
        except ValueError:
            raise ValueError(
                f"column {self.name!r}: {setting} must be a date such as '2024-12-31', got {value!r}"
            ) from None

    def shown(self, number: float) -> str:
        """A bound or an edge of a bin as text: with a unit, a date."""
        return f"{number:g}" if self.unit is None else date_text(number, self.unit)

    def _check_bins(self) -> None:
        bins = self.bins
        if bins is None:
            return
        if isinstance(bins, Integral) and not isinstance(bins, bool):
            object.__setattr__(self, "bins", int(bins))
            if not 2 <= int(bins) < MAX_CATEGORIES:
                raise ValueError(f"column {self.name!r}: bins must be at least 2 and below {MAX_CATEGORIES}")
        else:
            _set_borders(self, bins)
        borders = self.borders
        inside = all(self.low < border < self.high for border in borders)
        if not inside or any(left >= right for left, right in pairwise(borders)):
            raise ValueError(
                f"column {self.name!r}: the borders between bins must ascend strictly between {self.low:g} "
                f"and {self.high:g}, got {bins}"
            )

    def _check_missing(self) -> None:
        if isinstance(self.missing, str):
            if self.missing not in _RULES:
                raise ValueError(
                    f"column {self.name!r}: missing must be 'error', 'zero', 'column' or a number, got "
                    f"{self.missing!r}"
                )
            return
        _set_real(self, "missing", self.missing)
        if not self.low <= self.missing <= self.high:
            raise ValueError(
                f"column {self.name!r}: missing = {self.missing} must lie between the bounds {self.low} and "
                f"{self.high}"
            )

    @property
    def borders(self) -> tuple[float, ...]:
        """Edges between bins, in the unit of the column; empty without bins."""
        if isinstance(self.bins, int):
            shares = [i / self.bins for i in range(1, self.bins)]
            return tuple(self.low + self._unscaled(share) for share in shares)
        return tuple(self.bins or ())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix that this column fills."""
        own = (f"{self.name}=missing",) if self.missing == "column" else ()
        if self.bins is None:
            return (self.name, *own)
        borders = [*map(self.shown, self.borders)] if self.unit else _short(self.borders)
        between = [f"{left}<={self.name}<{right}" for left, right in pairwise(borders)]
        return (f"{self.name}<{borders[0]}", *between, f"{self.name}>={borders[-1]}", *own)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What determines the encoding of a number between the bounds, and the columns."""
        scale = (float(self.low), float(self.high), self.transform)
        unit = () if self.unit is None else (self.unit,)
        return self.name, *scale, *map(float, self.borders), self.missing == "column", *unit

    @property
    def n_numbers(self) -> int:
        """Numeric columns of the design matrix: 1, or 0 with bins."""
        return int(self.bins is None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of 0/1 columns that each code stands for."""
        size = len(self.feature_names) - self.n_numbers
        return (size,) if size else ()

    def read(self, column: TableColumn) -> NDArray[Any]:
        """The cells as numbers, NaN where missing.

        Raises
        ------
        DataError
            If a cell is not a number or date, or is missing and that is an error.
        """
        values = column.numbers() if self.unit is None else units_of(column.moments(), self.unit)
        if self.missing == "error" and values.dtype.kind == "f":
            missing = np.isnan(values)
            if missing.any():
                raise _missing_cell(self.name, int(missing.argmax()), "a number, 'zero' or 'column'")
        return values

    def encode(self, values: NDArray[Any], numbers: NDArray[Any], codes: NDArray[Any], levels: int) -> None:
        """Encode what `read` returned for some rows.

        Parameters
        ----------
        values : (n,) ndarray
        numbers : (n, n_numbers) ndarray
            In [0, 1]; integers ``0 .. levels`` for an integer type.
        codes : (n, len(sizes)) ndarray
        levels : int
            Largest integer of the dtype of `numbers`, which means 1; 0 for a floating-point dtype.

        Examples
        --------
        >>> import numpy as np
        >>> numbers, codes = np.zeros((2, 1)), np.zeros((2, 0), dtype=np.uint8)
        >>> Numeric("age", 0, 100).encode(np.array([25.0, 130.0]), numbers, codes, levels=0)
        >>> numbers.ravel()
        array([0.25, 1.  ])
        """
        clipped = values.astype(np.float64)
        np.clip(clipped, self.low, self.high, out=clipped)
        missing = None if self.missing == "error" else np.isnan(clipped)
        if missing is not None and not isinstance(self.missing, str):
            clipped[missing] = self.missing
        if self.sizes:
            self._encode_bins(clipped, missing, codes[:, 0])
        if self.n_numbers:
            scaled = self._scaled(clipped)
            if missing is not None and isinstance(self.missing, str):
                scaled[missing] = 0.0
            if levels:
                scaled *= levels
                np.rint(scaled, out=scaled)
            numbers[:, 0] = scaled

    def _encode_bins(self, clipped: Numbers, missing: NDArray[np.bool_] | None, codes: NDArray[Any]) -> None:
        """Write the codes of the bins. A missing value gets the code of its column, or the code for none."""
        (size,) = self.sizes
        if self.bins is None:
            codes[:] = size
        else:
            codes[:] = np.searchsorted(self.borders, clipped, side="right")
        if missing is not None and isinstance(self.missing, str):
            codes[missing] = size - 1 if self.missing == "column" else size

    def _scaled(self, clipped: Numbers) -> Numbers:
        """Values between the bounds, scaled to [0, 1] in place."""
        clipped -= self.low
        if self.transform == "log1p":
            np.log1p(clipped, out=clipped)
            clipped /= math.log1p(self.high - self.low)
            # The log1p of numpy and that of math may differ in the last bit; the bound must hold exactly.
            return np.minimum(clipped, 1.0, out=clipped)
        clipped /= self.high - self.low
        return clipped

    def _unscaled(self, share: float) -> float:
        """Distance from `low` of the value that scales to `share`."""
        span = self.high - self.low
        return math.expm1(share * math.log1p(span)) if self.transform == "log1p" else share * span


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
        _check_name(self.name)
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
    def n_numbers(self) -> int:
        """Numeric columns of the design matrix: none."""
        return 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories."""
        return (len(self.categories),)

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
            raise _missing_cell(self.name, int(missing.argmax()), "'zero' or a category")
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


SchemaColumn = Numeric | Categorical


def check_label(label: Any) -> None:
    """Raise ValueError unless `label` is a name, or a column without rules for cells that are no labels."""
    if isinstance(label, str):
        return
    if not isinstance(label, Numeric | Categorical):
        raise ValueError(f"label must be the name of a column, Numeric or Categorical, got {label!r}")
    if label.missing != "error" or getattr(label, "unknown", "error") != "error":
        raise ValueError(
            f"column {label.name!r} is the label, for which missing and unknown must be 'error': there is no "
            "record to learn from where the label is not known (drop_missing_labels=True leaves such out)"
        )


def _missing_cell(name: str, row: int, choices: str) -> DataError:
    return DataError(
        f"column {name!r} has a missing value at row {row}: fill it, or say in the schema how missing values "
        f"are treated (missing = {choices})"
    )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of a column must be a nonempty string, got {name!r}")


def _set_real(column: Numeric, attribute: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        advice = "; for dates give the unit, such as 'day'" if isinstance(value, str | date) else ""
        raise ValueError(f"column {column.name!r}: {attribute} must be a real number, got {value!r}{advice}")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer too large for a double
        finite = False
    if not finite:
        raise ValueError(f"column {column.name!r}: {attribute} must be finite, got {value!r}")
    plain: int | float = int(value) if isinstance(value, Integral) else float(value)
    object.__setattr__(column, attribute, plain)


def _set_borders(column: Numeric, bins: Any) -> None:
    borders = None if isinstance(bins, str | bool) or not hasattr(bins, "__iter__") else list(bins)
    if not borders or not all(isinstance(each, Real) and not isinstance(each, bool) for each in borders):
        raise ValueError(
            f"column {column.name!r}: bins must be an integer or a list of borders between bins, got {bins!r}"
        )
    plain = tuple(int(each) if isinstance(each, Integral) else float(each) for each in borders)
    object.__setattr__(column, "bins", plain)


def _short(numbers: tuple[float, ...]) -> list[str]:
    """Numbers as strings of six digits, or in full if six digits do not distinguish them."""
    short = [f"{number:g}" for number in numbers]
    return short if len(set(short)) == len(short) else [repr(number) for number in numbers]
