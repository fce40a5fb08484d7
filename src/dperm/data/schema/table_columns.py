"""Reading the columns of a table: any kind of data frame, a dictionary of arrays, or an array."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import repeat
from numbers import Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.checks import check_names, check_readable
from dperm.data.schema.dates import moment
from dperm.errors import DataError

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Category = str | int | bool

_OTHERS = "drop them, or list them as ignored in the schema"
_SURROGATES = re.compile("[\ud800-\udfff]")


class ArrayColumn:
    """A column that is a numpy array."""

    def __init__(self, name: str, cells: NDArray[Any]) -> None:
        self.name = name
        self._cells = cells

    def numbers(self) -> NDArray[Any]:
        """The cells as numbers, NaN where missing; without conversion if possible.

        Raises DataError if a cell is not a number.
        """
        kind = self._cells.dtype.kind
        if kind in "fiub":
            return self._cells
        if len(self._cells) == 0:
            return np.zeros(0)
        if kind != "O":
            raise _no_numbers(self.name, str(self._cells.dtype), 0, self._cells[:1].tolist())
        texts = np.fromiter(map(isinstance, self._cells, repeat((str, bytes))), np.bool_, len(self._cells))
        if texts.any():
            raise _no_numbers(self.name, "text", int(texts.argmax()), self._cells[texts][:1].tolist())
        try:
            return self._cells.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column {self.name!r} is numeric in the schema and holds other objects"
            ) from None

    def numbers_or_missing(self) -> NDArray[Any]:
        """The same with NaN for objects that are not numbers, so that a number depends on its cell alone."""
        if self._cells.dtype.kind != "O":
            return self.numbers()
        return np.fromiter(map(_as_double, self._cells), np.float64, len(self._cells))

    def moments(self) -> NDArray[Any]:
        """The cells as numpy's datetime64, NaT where missing; DataError for a cell that is no date."""
        if self._cells.dtype.kind == "M":
            return self._cells
        if self._cells.dtype.kind not in "OU" and not self.missing().all():
            raise DataError(f"column {self.name!r} holds {self._cells.dtype}, and dates in the schema")
        found = np.full(len(self._cells), "NaT", "datetime64[us]")
        for row in np.flatnonzero(~self.missing()).tolist():
            try:
                found[row] = moment(self._cells[row])
            except ValueError:
                raise DataError(
                    f"column {self.name!r} holds {self[row]!r} at row {row}: expected a date as in "
                    "2024-12-31, or one with a time"
                ) from None
        return found

    def occurrences(self, kind: type[Category]) -> dict[Category, int]:
        """How often each value of a kind occurs; missing cells and other kinds are not counted."""
        if self._cells.dtype.kind in "fiub":
            values, counts = np.unique(self._cells, return_counts=True)
            return _of_kind(zip(values.tolist(), counts.tolist(), strict=True), kind)
        return _of_kind(Counter(cell for cell in self._cells if isinstance(cell, kind)).items(), kind)

    def positions(self, categories: Sequence[Category]) -> Codes:
        """Position of each cell in the list of categories, -1 for any other cell."""
        kind = self._cells.dtype.kind
        numbers = not isinstance(categories[0], str)
        if kind in "fiub" and numbers:
            return _positions_of_numbers(self._cells, categories)
        if kind not in "OU" or (kind == "U" and numbers):
            if self.missing().all():
                return np.full(len(self._cells), -1, np.int32)
            raise _other_kind(self.name, str(self._cells.dtype), categories)
        places = {category: place for place, category in enumerate(categories)}
        try:
            # dict.get is called from C: a few hundredths of a microsecond per cell.
            codes = np.fromiter(map(places.get, self._cells, repeat(-1)), np.int32, len(self._cells))
        except TypeError:
            raise DataError(f"column {self.name!r} holds lists or other objects, not categories") from None
        if kind == "O":
            self._check_kind(codes < 0, categories)
        return codes

    def _check_kind(self, others: Mask, categories: Sequence[Category]) -> None:
        """Raise DataError if a cell that is not a category has a type that cannot be one."""
        rows = np.flatnonzero(others)
        kind = str if isinstance(categories[0], str) else (Number, np.bool_)
        wrong = np.array([not isinstance(cell, kind) for cell in self._cells[rows]], np.bool_)
        wrong[wrong] = [not _is_missing(cell) for cell in self._cells[rows[wrong]]]
        if wrong.any():
            row = int(rows[wrong.argmax()])
            found = f"{type(self[row]).__name__} ({self[row]!r} at row {row})"
            raise _other_kind(self.name, found, categories)

    def missing(self) -> Mask:
        """Which cells hold None or NaN."""
        kind = self._cells.dtype.kind
        if kind == "f":
            return np.asarray(np.isnan(self._cells))
        if kind != "O":
            return np.zeros(len(self._cells), np.bool_)
        return np.fromiter(map(_is_missing, self._cells), np.bool_, len(self._cells))

    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        if self._cells.dtype.kind != "O":
            return self._cells.dtype.kind in "fiu"
        return {type(cell) for cell in self._cells if cell is not None} <= {int, float}

    def distinct(self) -> list[Any]:
        """The distinct cells that are not missing."""
        return list(set(self._cells[~self.missing()].tolist()))

    def __getitem__(self, row: int) -> Any:
        return self._cells[row : row + 1].tolist()[0]  # 'x' rather than np.str_('x')


class FrameColumn:
    """A column of a data frame supported by narwhals: pandas, polars, pyarrow and others."""

    def __init__(self, name: str, series: Any) -> None:
        self.name = name
        self._series = series

    def numbers(self) -> NDArray[Any]:
        """The cells as numbers, like `ArrayColumn.numbers`."""
        import narwhals as nw

        dtype = self._series.dtype
        if dtype == nw.Object:
            return self._as_array().numbers()
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            if self._series.null_count() == len(self._series):
                return np.full(len(self._series), np.nan)
            raise _no_numbers(self.name, str(dtype), 0, self._series.head(1).to_list())
        if dtype == nw.Boolean or dtype.is_decimal():
            return np.asarray(self._series.cast(nw.Float64).to_numpy())
        return np.asarray(self._series.to_numpy())

    def numbers_or_missing(self) -> NDArray[Any]:
        """The cells as numbers, like `ArrayColumn.numbers_or_missing`."""
        return self._as_array().numbers_or_missing() if self._holds_objects() else self.numbers()

    def moments(self) -> NDArray[Any]:
        """The cells as dates, like `ArrayColumn.moments`."""
        return self._as_array().moments()

    def occurrences(self, kind: type[Category]) -> dict[Category, int]:
        """How often each value of a kind occurs, like `ArrayColumn.occurrences`."""
        if self._holds_objects():
            return self._as_array().occurrences(kind)
        counts = self._series.alias("value").value_counts(name="count")
        return _of_kind(zip(counts["value"].to_list(), counts["count"].to_list(), strict=True), kind)

    def _holds_objects(self) -> bool:
        import narwhals as nw

        native = str(getattr(self._series.to_native(), "dtype", ""))
        return native == "object" or self._series.dtype == nw.Object

    def positions(self, categories: Sequence[Category]) -> Codes:
        """Position of each cell in the list of categories, -1 for any other cell."""
        import narwhals as nw

        series, dtype = self._series, self._series.dtype
        if isinstance(categories[0], str) and self._holds_texts():
            texts = series.cast(nw.String) if dtype == nw.Enum else series
            places = list(range(len(categories)))
            codes = texts.replace_strict(list(categories), places, default=-1, return_dtype=nw.Int32)
            return np.array(codes.to_numpy(), dtype=np.int32)  # a writable copy
        if dtype.is_integer() and series.null_count():  # to_numpy would make floats of them
            codes = ArrayColumn(self.name, np.asarray(series.fill_null(0).to_numpy())).positions(categories)
            return np.where(self.missing(), np.int32(-1), codes)
        return self._as_array().positions(categories)

    def _holds_texts(self) -> bool:
        import narwhals as nw

        dtype = self._series.dtype
        if self._holds_objects():
            return False  # not all cells need be texts
        if dtype == nw.Categorical:  # in pandas and pyarrow, categories may be anything
            return all(isinstance(value, str) for value in self.distinct())
        return dtype in (nw.String, nw.Enum)

    def missing(self) -> Mask:
        """Which cells hold null, None or NaN."""
        if self._series.dtype.is_float():
            return np.asarray(np.isnan(self._series.to_numpy()))
        return np.asarray(self._series.is_null().to_numpy(), dtype=np.bool_)

    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return bool(self._series.dtype.is_numeric())

    def distinct(self) -> list[Any]:
        """The distinct cells that are not missing."""
        return list(self._series.drop_nulls().unique().to_list())

    def __getitem__(self, row: int) -> Any:
        return self._series[row : row + 1].to_list()[0]

    def _as_array(self) -> ArrayColumn:
        import narwhals as nw

        if self._series.dtype == nw.Categorical:  # pyarrow's array would lose nulls
            cells = np.empty(len(self._series), dtype=object)
            cells[:] = self._series.to_list()
            return ArrayColumn(self.name, cells)
        return ArrayColumn(self.name, np.asarray(self._series.to_numpy()))


TableColumn = ArrayColumn | FrameColumn


def read_columns(table: Any, names: Sequence[str], ignored: Sequence[str] = ()) -> list[TableColumn]:
    """The columns of `table` called `names`, in this order.

    Parameters
    ----------
    table : data frame, mapping of str to array_like, or two-dimensional array
        A data frame of any library that narwhals supports. The columns of an array have no names and are
        taken to be in the order of `names`.
    names : sequence of str
    ignored : sequence of str
        Other columns that the table may have.

    Raises
    ------
    DataError
        If a column is missing, named twice, or in neither list, or the columns differ in length.
    TypeError
        If `table` is not a table.
    """
    check_readable(table=table if isinstance(table, np.ndarray) else None)
    if isinstance(table, np.ndarray):
        return _array_columns(table, names)
    if isinstance(table, Mapping):
        check_names(list(table), names, ignored, advice=_OTHERS)
        columns: list[TableColumn] = [ArrayColumn(name, as_cells(name, table[name])) for name in names]
        _check_lengths(columns, [len(table[name]) for name in names])
        return columns
    frame = as_frame(table)
    check_names(frame.columns, names, ignored, advice=_OTHERS)
    return [FrameColumn(name, _known_texts(frame.get_column(name))) for name in names]


def as_frame(table: Any) -> Any:
    """`table` as a data frame of narwhals."""
    import narwhals as nw

    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        hint = ": collect it first" if hasattr(table, "collect") else ""
        raise TypeError(
            "expected a data frame (pandas, polars, pyarrow, ...), a dictionary of arrays or an array of two "
            f"dimensions, got {type(table).__name__}{hint}"
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"two columns of the table have the same name: {error}") from None


def n_rows(table: Any) -> int:
    """Number of records of a table that `read_columns` accepts."""
    if isinstance(table, np.ndarray):
        return len(table)
    if isinstance(table, Mapping):
        return len(next(iter(table.values()), ()))
    return len(as_frame(table))


def _known_texts(series: Any) -> Any:
    """A string_view series of pyarrow cast to a type that its functions support; others as they are."""
    import narwhals as nw

    if series.implementation.is_pyarrow() and str(series.to_native().type) == "string_view":
        return series.cast(nw.String)
    return series


def _array_columns(array: NDArray[Any], names: Sequence[str]) -> list[TableColumn]:
    if array.ndim != 2 or array.shape[1] != len(names):
        raise DataError(
            f"an array must have exactly the schema's columns, shape (n, {len(names)}), got shape "
            f"{array.shape}; pass a data frame if their order or number differs"
        )
    return [ArrayColumn(name, array[:, j]) for j, name in enumerate(names)]


def as_cells(name: str, values: Any) -> NDArray[Any]:
    """A column as an array of one dimension; numbers beside texts stay numbers."""
    if isinstance(values, np.ma.MaskedArray):
        check_readable(**{name: values})
    cells = np.asarray(values)
    if cells.dtype.kind in "US" and not isinstance(values, np.ndarray):  # numbers must not become text
        cells = np.empty(len(values), dtype=object)
        cells[:] = list(values)
    if cells.ndim != 1:
        raise DataError(f"column {name!r} must have one dimension, got shape {cells.shape}")
    return cells


def _check_lengths(columns: Sequence[TableColumn], lengths: Sequence[int]) -> None:
    for column, length in zip(columns, lengths, strict=True):
        if length != lengths[0]:
            raise DataError(
                f"column {column.name!r} has {length} cells, column {columns[0].name!r} has {lengths[0]}"
            )


def _is_missing(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell)  # only NaN differs from itself
    except TypeError:  # the comparison of pandas.NA is neither true nor false
        return True


def _as_double(cell: Any) -> float:
    """An object as a number, NaN if it is not one."""
    try:
        return float(cell) if isinstance(cell, Real | Decimal | np.bool_) else np.nan
    except OverflowError:
        return np.inf if str(cell)[0] != "-" else -np.inf
    except ValueError:  # a signalling NaN
        return np.nan


def _of_kind(counts: Iterable[tuple[Any, int]], kind: type[Category]) -> dict[Category, int]:
    found: Counter[Category] = Counter()
    for value, count in counts:
        category = _as_category(value, kind)
        if count and category is not None:  # dictionary encodings list values that do not occur
            found[category] += count
    return dict(found)


def _as_category(value: Any, kind: type[Category]) -> Category | None:
    """A cell as a category: a text that UTF-8 can encode, an integer below 2^63, or a truth value."""
    if kind is str:
        return str(value) if isinstance(value, str) and not _SURROGATES.search(value) else None
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    number = float(value) if isinstance(value, Real | Decimal) else np.nan
    return int(value) if abs(number) < 2.0**63 and value == int(value) else None


def _positions_of_numbers(cells: NDArray[Any], categories: Sequence[Category]) -> Codes:
    """Positions found by exact comparison in the cells' dtype: no cell equals a number it cannot hold."""
    if cells.dtype.kind == "b":
        cells = cells.astype(np.uint8)
    possible = [place for place, category in enumerate(categories) if _is_exact(int(category), cells.dtype)]
    if not possible:
        return np.full(len(cells), -1, np.int32)
    values = np.array([int(categories[place]) for place in possible], cells.dtype)
    order = np.argsort(values)
    ordered = values[order]
    places = np.minimum(np.searchsorted(ordered, cells), len(ordered) - 1)
    return np.where(ordered[places] == cells, np.array(possible)[order[places]], -1).astype(np.int32)


def _is_exact(number: int, dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "f":
        return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)
    try:
        with np.errstate(over="ignore"):
            value = dtype.type(number)
    except OverflowError:
        return False
    return bool(np.isfinite(value)) and int(value) == number


def _no_numbers(name: str, dtype: str, row: int, cells: Sequence[Any]) -> DataError:
    example = f" (row {row}: {cells[0]!r})" if len(cells) else ""
    return DataError(
        f"column {name!r} is numeric in the schema and holds {dtype}{example}: convert it to numbers, with "
        "null for missing ones, describe it as categorical, or dates by unit='day'"
    )


def _other_kind(name: str, dtype: str, categories: Sequence[Category]) -> DataError:
    kind = type(categories[0]).__name__
    return DataError(
        f"column {name!r} holds {dtype}, but its categories in the schema are of type {kind} "
        f"({categories[0]!r}, ...): convert the column, or change the schema"
    )
