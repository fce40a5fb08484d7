"""Tabular design matrices: a block of numbers and one code per categorical column, never one-hot encoded."""

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


@dataclass(frozen=True)
class TabularLayout:
    """How the parts of a tabular matrix map to columns of the dense matrix. Public.

    Parameters
    ----------
    numeric_columns : tuple of int
        Index of each numeric column in the dense matrix, ascending.
    first_columns : tuple of int
        Index of the first dense column of each categorical column, ascending.
    sizes : tuple of int
        Number of categories, and so of dense columns, of each categorical column; at least 1.
    step : float
        Value of one unit of an integer numeric block, such as 1/255. Positive and finite; only for integers.
    encoding : str
        Identifies the public description by which a schema encoded the columns; empty if it is not known.

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
        return len(self.numeric_columns) + sum(self.sizes)

    def _parts(self) -> list[tuple[int, int]]:
        """First dense column and width of every part, in the order of the dense columns."""
        numeric = [(column, 1) for column in self.numeric_columns]
        return sorted(numeric + list(zip(self.first_columns, self.sizes, strict=True)))


def _whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    entries = tuple(values)
    if not all(isinstance(value, Integral) for value in entries):
        raise ValueError(f"{name} must hold integers, got {entries}")
    return tuple(int(value) for value in entries)


class TabularMatrix:
    """A matrix of numbers and one-hot columns that stores a categorical column as one code per row.

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
        and zeros elsewhere; ``v == size`` (unknown or missing) means all zeros. ``c`` may be 0.
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
            self.numeric, self.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step
        )
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
        for j, (first, size) in enumerate(zip(layout.first_columns, layout.sizes, strict=True)):
            missing = np.zeros((1, *by_column.shape[1:]))
            of_codes = np.concatenate([by_column[first : first + size], missing])
            products += of_codes.take(self.codes[:, j], axis=0)
        return np.asarray(products, dtype=np.float64)

    def squared_norms(self) -> NDArray[np.float64]:
        """Squared Euclidean norms (n,) of the dense rows, up to rounding. Private, like the rows."""
        numbers = self._numbers()
        known = np.count_nonzero(self.codes < np.array(self.layout.sizes, dtype=np.int64), axis=1)
        return np.asarray(np.einsum("ij,ij->i", numbers, numbers) + known, dtype=np.float64)

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
        for j, (first, size) in enumerate(zip(self.layout.first_columns, self.layout.sizes, strict=True)):
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
