"""Tables encoded as design matrices, block by block."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.data.schema.columns import SchemaColumn
from dperm.data.schema.interactions import Crossed
from dperm.data.schema.table_columns import n_rows, read_columns
from dperm.data.tabular import TabularLayout, TabularMatrix

Part = SchemaColumn | Crossed

#: The integer that means 1 in a numeric block of each dtype; 0 for floats.
_LEVELS = {"float32": 0, "float64": 0, "uint8": 255, "uint16": 65_535}
_BLOCK_ROWS = 8192  # a block of the result stays in the cache while its columns are written


def layout_of(columns: Sequence[Part], encoding: str) -> TabularLayout:
    """Where numbers and codes are in the design matrix, whose meaning `encoding` identifies."""
    numeric, first, end = list[int](), list[int](), 0
    codes = [part for column in columns for part in column.codes]
    for column in columns:
        numeric += [end] * column.n_numbers
        end += column.n_numbers
        for size, mapped in column.codes:
            first.append(end)
            end += mapped.width if mapped else size
    sizes, maps = zip(*codes, strict=True) if codes else ((), ())
    return TabularLayout(tuple(numeric), tuple(first), sizes, encoding=encoding, maps=maps)


def encode_table(
    parts: Sequence[Part], layout: TabularLayout, table: Any, unused: Sequence[str], dtype: Any
) -> TabularMatrix:
    """The design matrix of a table that may have `unused` columns as well; see `Schema.encode`."""
    kind = np.dtype(dtype)
    if kind.name not in _LEVELS:
        raise ValueError(f"numeric_dtype must be one of {', '.join(_LEVELS)}, got {dtype!r}")
    columns = [part for part in parts if not isinstance(part, Crossed)]
    cells = read_columns(table, [column.name for column in columns], unused)
    read = {column.name: column.read(each) for column, each in zip(columns, cells, strict=True)}
    values = [part.read(read) if isinstance(part, Crossed) else read[part.name] for part in parts]
    return encode_values(parts, layout, values, n_rows(table), kind)


def encode_values(
    columns: Sequence[Part],
    layout: TabularLayout,
    values: Sequence[NDArray[Any]],
    n: int,
    kind: np.dtype[Any],
) -> TabularMatrix:
    """The design matrix of `n` records: for each column, what its `read` returned."""
    levels = _LEVELS[kind.name]
    numbers = np.empty((n, len(layout.numeric_columns)), kind)
    codes = np.empty((n, len(layout.sizes)), np.uint8 if max(layout.sizes, default=0) < 256 else np.uint16)
    for start in range(0, n, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        number, code = 0, 0
        for column, each in zip(columns, values, strict=True):
            ends = number + column.n_numbers, code + len(column.codes)
            column.encode(each[rows], numbers[rows, number : ends[0]], codes[rows, code : ends[1]], levels)
            number, code = ends
    return TabularMatrix(numbers, codes, dataclasses.replace(layout, step=1.0 / (levels or 1)))
