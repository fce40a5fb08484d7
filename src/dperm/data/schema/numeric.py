"""Numeric columns: scaled to [0, 1], with functions of the value if asked for, or assigned to bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.cells import MAX_CATEGORIES, check_name, missing_cell, set_numbers, set_real
from dperm.data.schema.dates import UNITS, date_text, moment, units_of
from dperm.data.schema.table_columns import TableColumn
from dperm.data.tabular import CodeMap

Numbers = NDArray[np.float64]

TRANSFORMS = ("none", "log1p")
_RULES = ("error", "zero", "column")  # for missing numbers
#: Functions are multiples of this: squares and their sums are exact in doubles, and float32 stores them.
GRID = 2.0**-24
_EQUAL_BINS = 255  # of functions without edges: a code takes 8 bits
_MAX_ATOMS = 100  # more values are categories


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds: scaled to [0, 1], with smooth functions if asked for, or in public bins.

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
    functions : int
        So many smooth functions of the value besides the number, for a curve in place of a straight line:
        ``cos(pi k (b + 1/2) / B)`` for the value's bin b out of B and k = 1, 2, ..., times a public number so
        that their squares sum to at most 1 in every bin. Below B; not with `bins`.
    edges : sequence of float, optional
        What lies between these B bins, as for `bins`: best quantiles, from public knowledge or learned. By
        default 255 bins of equal width on the transformed scale.
    atoms : sequence of float
        Values at which records pile up, such as 0 of an amount that most do not have: for each a 0/1 column
        of exactly this value. The number stays, the functions are 0 there: they are for the other values, and
        an atom has a weight of its own. Not with `bins`.
    missing : {"error", "zero", "column"} or float
        How a missing value (null, None or NaN) is treated: as an error; as zeros; as a 1 in a 0/1 column of
        its own, with zeros in the others; or as this number, which must be within the bounds.
    monotone : {0, 1, -1}
        1 or -1: the curve may only rise, or only fall, with the value; of two classes that of the score of
        the second. Fits move the released weights to the nearest such curve, which costs no privacy. An atom
        within a bin then lies on the curve, and a missing value stays free.

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
    >>> gain = Numeric("gain", 0, 100, functions=2, edges=[1, 10, 50], atoms=[0])
    >>> gain.feature_names
    ('gain', 'gain~1', 'gain~2', 'gain=0')
    >>> Schema([gain]).encode({"gain": [0, 5, 100]}).to_dense().round(3).tolist()
    [[0.0, 0.0, 0.0, 1.0], [0.05, 0.329, -0.608, 0.0], [1.0, -0.794, 0.608, 0.0]]
    """

    name: str
    low: float
    high: float
    transform: str = "none"
    bins: int | Sequence[float] | None = None
    missing: str | float = "error"
    unit: str | None = None
    functions: int = 0
    edges: Sequence[float] | None = None
    atoms: Sequence[float] = ()
    monotone: int = 0

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.unit is not None:
            self._count_units()
        for bound in ("low", "high"):
            set_real(self, bound, getattr(self, bound))
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
        self._check_functions()
        self._check_missing()

    def _count_units(self) -> None:
        """Replace dates by numbers of units."""
        if self.unit not in UNITS:
            raise ValueError(
                f"column {self.name!r}: unit must be one of {', '.join(UNITS)}, got {self.unit!r}"
            )
        for each in ("low", "high", "missing", "bins", "edges", "atoms"):
            value = getattr(self, each)
            if isinstance(value, list | tuple):
                object.__setattr__(self, each, [self._units(each, one) for one in value])
            elif each in ("low", "high", "missing") and not (isinstance(value, str) and value in _RULES):
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
            set_numbers(self, "bins", bins, "an integer or a list of borders between bins")
        self._check_borders(bins)

    def _check_borders(self, given: Any) -> None:
        borders = self.borders
        inside = all(self.low < border < self.high for border in borders)
        if not inside or any(left >= right for left, right in pairwise(borders)):
            raise ValueError(
                f"column {self.name!r}: the borders between bins must ascend strictly between {self.low:g} "
                f"and {self.high:g}, got {given}"
            )
        if len(borders) >= MAX_CATEGORIES - 1:
            raise ValueError(f"column {self.name!r} must have fewer than {MAX_CATEGORIES} bins")

    def _check_functions(self) -> None:
        functions = self.functions
        if not isinstance(functions, Integral) or isinstance(functions, bool) or functions < 0:
            raise ValueError(
                f"column {self.name!r}: functions must be an integer of at least 0, got {functions!r}"
            )
        object.__setattr__(self, "functions", int(functions))
        set_numbers(self, "atoms", self.atoms, "a list of numbers", empty=True)
        if self.bins is not None and (functions or self.atoms or self.edges is not None):
            raise ValueError(
                f"column {self.name!r}: bins stand in place of the number, so that functions, edges and "
                "atoms cannot be given with them"
            )
        if self.edges is not None:
            if not functions:
                raise ValueError(
                    f"column {self.name!r}: edges are those of functions: give functions as well"
                )
            set_numbers(self, "edges", self.edges, "a list of edges between bins")
        if functions:
            self._check_borders(self.edges or f"{_EQUAL_BINS} bins of equal width: the bounds are too close")
        if functions > len(self.borders):
            raise ValueError(
                f"column {self.name!r}: functions must be fewer than its {len(self.borders) + 1} bins, got "
                f"{functions}"
            )
        outside = [atom for atom in self.atoms if not self.low <= atom <= self.high]
        if outside or len(set(self.atoms)) < len(self.atoms) or len(self.atoms) > _MAX_ATOMS:
            raise ValueError(
                f"column {self.name!r}: atoms must be at most {_MAX_ATOMS} different values between the "
                f"bounds, got {self.atoms}"
            )
        if self.monotone not in (0, 1, -1) or isinstance(self.monotone, bool):
            raise ValueError(f"column {self.name!r}: monotone must be 1, -1 or 0, got {self.monotone!r}")
        object.__setattr__(self, "monotone", int(self.monotone))

    def _check_missing(self) -> None:
        if isinstance(self.missing, str):
            if self.missing not in _RULES:
                raise ValueError(
                    f"column {self.name!r}: missing must be 'error', 'zero', 'column' or a number, got "
                    f"{self.missing!r}"
                )
            return
        set_real(self, "missing", self.missing)
        if not self.low <= self.missing <= self.high:
            raise ValueError(
                f"column {self.name!r}: missing = {self.missing} must lie between the bounds {self.low} and "
                f"{self.high}"
            )

    @property
    def borders(self) -> tuple[float, ...]:
        """Edges between bins, in the unit of the column; empty without bins and functions."""
        given = self.bins if not self.functions else self.edges or _EQUAL_BINS
        if isinstance(given, int):
            shares = [i / given for i in range(1, given)]
            return tuple(self.low + self._unscaled(share) for share in shares)
        return tuple(given or ())

    def middles(self, borders: Sequence[float]) -> list[float]:
        """Middles of the bins between borders, on the transformed scale, in the unit of the column."""
        ends = self._scaled(np.array([self.low, *borders, self.high], dtype=np.float64))
        return [self.low + self._unscaled(share) for share in (0.5 * (ends[1:] + ends[:-1])).tolist()]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix that this column fills."""
        own = (f"{self.name}=missing",) if self.missing == "column" else ()
        if self.bins is None:
            functions = (f"{self.name}~{k}" for k in range(1, self.functions + 1))
            atoms = [*map(self.shown, self.atoms)] if self.unit else _short(self.atoms)
            return (self.name, *functions, *(f"{self.name}={atom}" for atom in atoms), *own)
        borders = [*map(self.shown, self.borders)] if self.unit else _short(self.borders)
        between = [f"{left}<={self.name}<{right}" for left, right in pairwise(borders)]
        return (f"{self.name}<{borders[0]}", *between, f"{self.name}>={borders[-1]}", *own)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What determines the encoding of a number between the bounds, and the columns."""
        scale = (float(self.low), float(self.high), self.transform)
        unit = () if self.unit is None else (self.unit,)
        extra = (self.functions, *map(float, self.atoms)) if self.functions or self.atoms else ()
        return self.name, *scale, *map(float, self.borders), self.missing == "column", *unit, *extra

    @property
    def squared_norm(self) -> int:
        """Bound on the sum of the squares of the numbers that stand for a value.

        A number in [0, 1], and with it the functions or an atom; or a single 1.
        """
        return 2 if self.functions or self.atoms else 1

    @property
    def n_numbers(self) -> int:
        """Numbers that a row stores: 1, or 0 with bins."""
        return int(self.bins is None)

    @property
    def codes(self) -> tuple[tuple[int, CodeMap | None], ...]:
        """Size and map of each column of codes: for the functions, and for bins, atoms and missing values."""
        functions = function_map(len(self.borders) + 1, self.functions) if self.functions else None
        mapped = ((functions.size, functions),) if functions else ()
        size = len(self.feature_names) - self.n_numbers - self.functions
        return (*mapped, (size, None)) if size else mapped

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
                raise missing_cell(self.name, int(missing.argmax()), "a number, 'zero' or 'column'")
        return values

    def encode(self, values: NDArray[Any], numbers: NDArray[Any], codes: NDArray[Any], levels: int) -> None:
        """Encode what `read` returned for some rows.

        Parameters
        ----------
        values : (n,) ndarray
        numbers : (n, n_numbers) ndarray
            In [0, 1]; integers ``0 .. levels`` for an integer type.
        codes : (n, len(self.codes)) ndarray
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
        clipped, missing = self.clipped(values)
        if self.bins is None:
            self._encode_number(clipped, missing, numbers, codes, levels)
        else:
            codes[:, 0] = np.searchsorted(self.borders, clipped, side="right")
        for place, (size, mapped) in enumerate(self.codes):
            codes[missing, place] = size - (self.missing == "column" and mapped is None)

    def clipped(self, values: NDArray[Any]) -> tuple[Numbers, NDArray[np.bool_]]:
        """A copy of numbers, moved onto the bounds, and which of them are missing and have no number."""
        clipped = values.astype(np.float64)
        np.clip(clipped, self.low, self.high, out=clipped)
        missing = np.isnan(clipped)  # none if that is an error
        if not isinstance(self.missing, str):
            clipped[missing] = self.missing
            missing[:] = False
        return clipped, missing

    def _encode_number(
        self,
        clipped: Numbers,
        missing: NDArray[np.bool_],
        numbers: NDArray[Any],
        codes: NDArray[Any],
        levels: int,
    ) -> None:
        atoms = [clipped == atom for atom in self.atoms]
        for place, (size, _) in enumerate(self.codes):
            codes[:, place] = size
        if self.functions:
            codes[:, 0] = np.searchsorted(self.borders, clipped, side="right")
        for place, at in enumerate(atoms):
            codes[at, 0] = self.codes[0][0]  # no functions
            codes[at, -1] = place
        scaled = self._scaled(clipped)
        scaled[missing] = 0.0
        if levels:
            scaled *= levels
            np.rint(scaled, out=scaled)
        numbers[:, 0] = scaled

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


@lru_cache
def function_map(n_bins: int, n_functions: int) -> CodeMap:
    """The functions of each bin: at most 1 in norm, exactly.

    Examples
    --------
    >>> function_map(4, 2).rows.astype(float).round(3).tolist()[:2]
    [[0.794, 0.608], [0.329, -0.608]]
    """
    angles = np.outer(np.arange(n_bins) + 0.5, np.arange(1, n_functions + 1)) * (math.pi / n_bins)
    table = np.cos(angles)
    # Slightly below 1, so that rounding towards zero stays there.
    table *= (1.0 - 2.0**-26) / math.sqrt(np.square(table).sum(axis=1).max())
    return CodeMap(np.trunc(table / GRID) * GRID)


def _short(numbers: Sequence[float]) -> list[str]:
    """Numbers as strings of six digits, or in full if six digits do not distinguish them."""
    short = [f"{number:g}" for number in numbers]
    return short if len(set(short)) == len(short) else [repr(number) for number in numbers]
