"""Tabular design matrices: a block of numbers and small codes, whose dense columns are never stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dperm._kernels.row_kernels import TabularSource
from dperm.data.dense import DenseMatrixRows, matrix_rows, row_products
from dperm.data.rows import RowSettings
from dperm.errors import DataError

NUMERIC_DTYPES = ("float32", "float64", "uint8", "uint16")
CODE_DTYPES = ("uint8", "uint16")


class CodeMap:
    """What the codes of a column stand for, other than one-hot columns: a row of numbers each. Public.

    Parameters
    ----------
    numbers : (size, width) array_like
        Row v for code v; finite, and stored as float32. The code `size` stands for zeros.

    Examples
    --------
    >>> layout = TabularLayout((), (0,), (3,), maps=(CodeMap([[0.5, 0.25], [0.0, -0.5], [-0.5, 0.25]]),))
    >>> TabularMatrix(np.zeros((2, 0)), np.array([[1], [3]], dtype=np.uint8), layout).to_dense()
    array([[ 0. , -0.5],
           [ 0. ,  0. ]])
    """

    def __init__(self, numbers: ArrayLike) -> None:
        given = np.asarray(numbers, dtype=np.float32)
        if given.ndim != 2 or 0 in given.shape or not np.isfinite(given).all():
            raise ValueError(f"a map of codes must be a finite matrix, got shape {given.shape}")
        self.rows = _read_only(np.vstack([given, np.zeros_like(given[:1])]))  # the last is of no code
        self.size, self.width = given.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeMap) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.size, self.width))

    def __reduce__(self) -> tuple[Any, ...]:
        return CodeMap, (self.rows[:-1],)


@dataclass(frozen=True)
class TabularLayout:
    """How the parts of a tabular matrix map to columns of the dense matrix. Public.

    Parameters
    ----------
    numeric_columns : tuple of int
        Index of each numeric column in the dense matrix, ascending.
    first_columns : tuple of int
        Index of the first dense column of each column of codes, ascending.
    sizes : tuple of int
        Number of categories of each column of codes, at least 1: so many dense columns, unless it has a map.
    step : float
        Value of one unit of an integer numeric block, such as 1/255. Positive and finite; only for integers.
    encoding : str
        Identifies the public description by which a schema encoded the columns; empty if it is not known.
    maps : tuple of CodeMap or None
        For each column of codes what stands in place of 0/1 columns; empty if nothing does.

    Raises
    ------
    ValueError
        Unless every dense column from 0 on belongs to exactly one part.

    Examples
    --------
    A number in column 0, followed by three categories:

    >>> layout = TabularLayout(numeric_columns=(0,), first_columns=(1,), sizes=(3,))
    >>> layout.n_columns
    4
    """

    numeric_columns: tuple[int, ...]
    first_columns: tuple[int, ...]
    sizes: tuple[int, ...]
    step: float = 1.0
    encoding: str = ""
    maps: tuple[CodeMap | None, ...] = ()

    def __post_init__(self) -> None:
        for name in ("numeric_columns", "first_columns", "sizes"):
            object.__setattr__(self, name, _whole_numbers(name, getattr(self, name)))
        if len(self.first_columns) != len(self.sizes):
            raise ValueError(
                f"first_columns and sizes must have the same length, got {len(self.first_columns)} and "
                f"{len(self.sizes)}"
            )
        if any(size < 1 for size in self.sizes):
            raise ValueError(f"sizes must be at least 1, got {self.sizes}")
        object.__setattr__(self, "maps", tuple(self.maps) if any(self.maps) else ())
        sizes = [each.size if each else size for size, each in zip(self.sizes, self.maps, strict=False)]
        if self.maps and (len(self.maps) != len(self.sizes) or tuple(sizes) != self.sizes):
            raise ValueError("maps must have a map of its size, or None, for each column of codes")
        if not (0.0 < self.step < math.inf):
            raise ValueError(f"step must be positive and finite, got {self.step!r}")
        for name in ("numeric_columns", "first_columns"):
            if any(left >= right for left, right in pairwise(getattr(self, name))):
                raise ValueError(f"{name} must ascend, got {getattr(self, name)}")
        end = 0
        for first, size in self._parts():
            if first != end:
                what = "belongs to two parts" if first < end else "belongs to no part"
                raise ValueError(f"dense column {min(first, end)} {what} of the layout")
            end += size
        if end == 0:
            raise ValueError("a layout must have at least one column")

    @property
    def n_columns(self) -> int:
        """Number of dense columns."""
        return len(self.numeric_columns) + sum(self.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of dense columns of each column of codes."""
        if not self.maps:
            return self.sizes
        return tuple(
            size if each is None else each.width for size, each in zip(self.sizes, self.maps, strict=True)
        )

    def code_parts(self) -> Iterator[tuple[int, int, int, CodeMap | None]]:
        """Place, first dense column, size and map of each column of codes."""
        maps = self.maps or (None,) * len(self.sizes)
        for place, part in enumerate(zip(self.first_columns, self.sizes, maps, strict=True)):
            yield place, *part

    def _parts(self) -> list[tuple[int, int]]:
        """First dense column and width of every part, in the order of the dense columns."""
        numeric = [(column, 1) for column in self.numeric_columns]
        return sorted(numeric + list(zip(self.first_columns, self.widths, strict=True)))


def _whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    entries = tuple(values)
    if not all(isinstance(value, Integral) for value in entries):
        raise ValueError(f"{name} must hold integers, got {entries}")
    return tuple(int(value) for value in entries)


class TabularMatrix:
    """A matrix of numbers and one-hot columns that stores a categorical column as one code per row.

    So it does several numbers that are a public function of a code (`CodeMap`).

    It represents the dense matrix `to_dense` in a fraction of its memory. Passes over it give the integers of
    the dense float64 matrix, bit for bit. Immutable; rows are taken by indexing.

    In the second pass over all rows an objective checks which columns are 0 in neighbouring rows and, if most
    are, stores the others in a compact form of at most an eighth of the dense matrix's memory, which this
    and later passes read.

    Parameters
    ----------
    numeric : (n, k) ndarray of float32, float64, uint8 or uint16
        The numeric columns, in C order (anything else is copied once); an integer v means ``v * step``.
        ``k`` may be 0.
    codes : (n, c) ndarray of uint8 or uint16
        Code ``v`` of a categorical column with ``size`` categories means a 1 in dense column ``first + v``
        and zeros elsewhere, or row v of its map; ``v == size`` (unknown or missing) means all zeros. ``c``
        may be 0.
    layout : TabularLayout
        The positions of the columns in the dense matrix.

    Raises
    ------
    DataError
        For arrays of other dtypes or shapes, or a code out of range.

    Examples
    --------
    >>> import numpy as np
    >>> layout = TabularLayout(numeric_columns=(0,), first_columns=(1,), sizes=(3,))
    >>> X = TabularMatrix(np.array([[0.5], [1.0]]), np.array([[2], [0]], dtype=np.uint8), layout)
    >>> X.to_dense()
    array([[0.5, 0. , 0. , 1. ],
           [1. , 1. , 0. , 0. ]])
    >>> X.nbytes, X[:1].shape
    (18, (1, 4))
    """

    ndim = 2

    def __init__(self, numeric: NDArray[Any], codes: NDArray[Any], layout: TabularLayout) -> None:
        if not isinstance(layout, TabularLayout):
            raise TypeError(f"layout must be a TabularLayout, got {type(layout).__name__}")
        self.layout = layout
        self.numeric = _part("numeric", numeric, len(layout.numeric_columns), NUMERIC_DTYPES)
        self.codes = _part("codes", codes, len(layout.sizes), CODE_DTYPES)
        if len(self.numeric) != len(self.codes):
            raise DataError(
                f"numeric and codes must have the same number of rows, got {len(self.numeric)} and "
                f"{len(self.codes)}"
            )
        if layout.step != 1.0 and self.numeric.dtype.kind == "f":
            raise DataError(
                f"step = {layout.step!r} needs integers, but numeric has dtype {self.numeric.dtype}"
            )
        self._check_codes()

    def _check_codes(self) -> None:
        if self.codes.size == 0:
            return
        largest = self.codes.max(axis=0)
        for j in np.flatnonzero(largest > np.array(self.layout.sizes)):
            size = self.layout.sizes[j]
            row = int(np.argmax(self.codes[:, j] > size))
            raise DataError(
                f"codes of categorical column {j} must be below {size}, or {size} if missing; got "
                f"{self.codes[row, j]} at row {row}"
            )

    @property
    def n_columns(self) -> int:
        """Number of columns of the dense matrix."""
        return self.layout.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the dense matrix."""
        return len(self), self.n_columns

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Dtype of the arithmetic: float64, whatever the storage."""
        return np.dtype(np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of the records as stored."""
        return int(self.numeric.nbytes + self.codes.nbytes)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return (
            f"TabularMatrix({len(self)} rows, {self.n_columns} columns: {self.numeric.shape[1]} numeric "
            f"({self.numeric.dtype}), {self.codes.shape[1]} categorical ({self.codes.dtype}))"
        )

    def __getitem__(self, rows: Any) -> TabularMatrix:
        """The rows of a slice, an array of indices or a mask, as a matrix of the same layout."""
        if isinstance(rows, tuple):  # X[rows, :] and X[rows, ...] are X[rows]
            all_columns = len(rows) == 2 and (
                rows[1] is Ellipsis or (isinstance(rows[1], slice) and rows[1] == slice(None))
            )
            if not all_columns:
                raise IndexError("a TabularMatrix can only be indexed by rows, X[rows]")
            rows = rows[0]
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            if rows.ndim != 1:
                raise IndexError("index a TabularMatrix with a slice, an array of row numbers or a mask")
            rows = rows if rows.size else rows.astype(np.intp)
        return self._same_layout(self.numeric[rows], self.codes[rows])

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a TabularMatrix is not a sequence of rows; see its to_dense()")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(
            "a TabularMatrix is not converted to an array implicitly, as that takes many times its memory; "
            "call to_dense()"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"numeric": self.numeric, "codes": self.codes, "layout": self.layout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _same_layout(self, numeric: NDArray[Any], codes: NDArray[Any]) -> TabularMatrix:
        """Rows taken from this matrix: their codes need no check."""
        matrix = object.__new__(type(self))
        matrix.layout = self.layout
        matrix.numeric, matrix.codes = _read_only(numeric), _read_only(codes)
        return matrix

    def with_rows(self, numeric: NDArray[Any], codes: NDArray[Any]) -> TabularMatrix:
        """Other rows in the same layout; checked as at construction."""
        return TabularMatrix(numeric, codes, self.layout)

    def rows(self, y: ArrayLike | None, settings: RowSettings) -> DenseMatrixRows:
        """The records with targets `y`, as an objective reads them."""
        if len(self) == 0:
            raise DataError(f"X must have at least one record, got shape {self.shape}")
        layout = self.layout
        source = TabularSource(
            self.numeric, self.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step,
            [None if each is None else each.rows for each in layout.maps],
        )  # fmt: skip
        rows = matrix_rows(source, y, settings, lambda row: self[row : row + 1].to_dense()[0])
        rows.stored = self
        return rows

    def __matmul__(self, weights: ArrayLike) -> NDArray[np.float64]:
        """``to_dense() @ weights`` up to rounding, without making the dense matrix.

        Parameters
        ----------
        weights : (n_columns,) or (n_columns, K) array_like

        Returns
        -------
        ndarray of shape ``(n,)`` or ``(n, K)``

        Raises
        ------
        ValueError
            For weights of another shape.
        """
        by_column = np.asarray(weights, dtype=np.float64)
        if by_column.ndim not in (1, 2) or len(by_column) != self.n_columns:
            raise ValueError(
                f"weights must have shape ({self.n_columns},) or ({self.n_columns}, K), got {by_column.shape}"
            )
        layout = self.layout
        products = row_products(self._numbers(), by_column[list(layout.numeric_columns)])
        for j, first, size, numbers in layout.code_parts():
            if numbers is not None:
                of_codes = numbers.rows @ by_column[first : first + numbers.width]
            else:
                missing = np.zeros((1, *by_column.shape[1:]))
                of_codes = np.concatenate([by_column[first : first + size], missing])
            products += of_codes.take(self.codes[:, j], axis=0)
        return np.asarray(products, dtype=np.float64)

    def squared_norms(self) -> NDArray[np.float64]:
        """Squared Euclidean norms (n,) of the dense rows, up to rounding. Private, like the rows."""
        numbers = self._numbers()
        squares = np.einsum("ij,ij->i", numbers, numbers)
        for j, _, size, mapped in self.layout.code_parts():
            rows = np.append(np.ones(size), 0.0)[:, None] if mapped is None else mapped.rows
            squares += np.square(rows, dtype=np.float64).sum(axis=1).take(self.codes[:, j])
        return np.asarray(squares, dtype=np.float64)

    def _numbers(self) -> NDArray[np.float64]:
        """The values of the numeric block."""
        numbers = self.numeric.astype(np.float64)
        return numbers if self.numeric.dtype.kind == "f" else numbers * self.layout.step

    def to_dense(self, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """The dense matrix in C order, with floating-point `dtype`.

        Passes over this matrix give the integers of ``to_dense(np.float64)``.
        """
        dense = np.zeros(self.shape, dtype=dtype)
        if dense.dtype.kind != "f":
            raise ValueError(f"dtype must be a floating-point type, got {dense.dtype}")
        numbers = self.numeric if self.numeric.dtype.kind == "f" else self.numeric * self.layout.step
        dense[:, list(self.layout.numeric_columns)] = numbers
        for j, first, size, mapped in self.layout.code_parts():
            if mapped is not None:
                dense[:, first : first + mapped.width] = mapped.rows[self.codes[:, j]]
                continue
            known = np.flatnonzero(self.codes[:, j] < size)
            dense[known, first + self.codes[known, j].astype(np.intp)] = 1.0
        return dense


def stacked_tables(tables: Sequence[TabularMatrix]) -> TabularMatrix:
    """Tables of the same layout, stacked vertically."""
    numeric = np.concatenate([table.numeric for table in tables])
    return tables[0].with_rows(numeric, np.concatenate([table.codes for table in tables]))


def _part(name: str, array: Any, width: int, dtypes: tuple[str, ...]) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.shape[1] != width:
        got = f"shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise DataError(f"{name} must be an array of shape (n, {width}) for this layout; got {got}")
    if array.dtype.name not in dtypes:
        raise DataError(f"{name} must have one of the dtypes {', '.join(dtypes)}; got {array.dtype}")
    return _read_only(np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "ALIGNED"]))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = np.require(array, requirements=["C", "ALIGNED"]).view(np.ndarray)
    view.flags.writeable = False
    return view
