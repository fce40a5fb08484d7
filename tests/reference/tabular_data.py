"""Random tabular matrices, and the one-hot matrices that they represent."""

import numpy as np
import pytest

from dperm._kernels import row_kernels
from dperm.data import CodeMap, TabularLayout, TabularMatrix
from reference.kernel_calls import ROW_NORM, bind

NUMERIC_DTYPES = [np.float32, np.float64, np.uint8, np.uint16]
numeric_dtypes = pytest.mark.parametrize("dtype", NUMERIC_DTYPES, ids=lambda dtype: dtype.__name__)


def layout_of(parts, step=1.0):
    """Layout of parts in dense order: 0 for a numeric column, otherwise the size of a categorical one.

    A pair is the size and the width of a column of codes with a map, of random numbers.
    """
    numeric, first, sizes, maps = [], [], [], []
    at = 0
    for part in parts:
        size, width = part if isinstance(part, tuple) else (part, max(part, 1))
        if part == 0:
            numeric.append(at)
        else:
            first.append(at)
            sizes.append(size)
            random = np.random.default_rng([size, width]).normal(size=(size, width))
            maps.append(CodeMap(random) if isinstance(part, tuple) else None)
        at += width
    return TabularLayout(tuple(numeric), tuple(first), tuple(sizes), step, maps=tuple(maps))


def random_table(n_rows, parts, numeric_dtype=np.float32, seed=0, step=None):
    """Rows of random numbers and codes, some of them missing."""
    rng = np.random.default_rng([seed, n_rows, len(parts)])
    integers = np.issubdtype(numeric_dtype, np.integer)
    if step is None:
        step = 1.0 / 255 if integers else 1.0
    layout = layout_of(parts, step)
    shape = n_rows, len(layout.numeric_columns)
    if integers:
        numeric = rng.integers(0, np.iinfo(numeric_dtype).max, shape, numeric_dtype, endpoint=True)
    else:
        numeric = rng.normal(size=shape) * np.exp(rng.normal(size=(n_rows, 1)))
        numeric[rng.random(shape) < 0.3] = 0.0
        numeric = numeric.astype(numeric_dtype)
    code_dtype = np.uint8 if max([0, *layout.sizes]) <= 255 else np.uint16
    codes = np.empty((n_rows, len(layout.sizes)), code_dtype)
    for j, size in enumerate(layout.sizes):
        codes[:, j] = rng.integers(0, size, n_rows, endpoint=True)
    return TabularMatrix(numeric, codes, layout)


def one_hot(table):
    """The dense float64 matrix by definition, column by column."""
    layout = table.layout
    maps = layout.maps or [None] * len(layout.sizes)
    widths = [each.width if each else size for size, each in zip(layout.sizes, maps, strict=True)]
    dense = np.zeros((len(table.codes), len(layout.numeric_columns) + sum(widths)))
    scale = layout.step if table.numeric.dtype.kind == "u" else 1.0
    for j, column in enumerate(layout.numeric_columns):
        dense[:, column] = table.numeric[:, j].astype(float) * scale
    for j, (first, size) in enumerate(zip(layout.first_columns, layout.sizes, strict=True)):
        for category in range(size):
            is_there = table.codes[:, j] == category
            if maps[j] is None:
                dense[:, first + category] = is_there
            else:
                dense[is_there, first : first + widths[j]] = maps[j].rows[category]
    return dense


# Layouts for every way in which columns are split into a kernel's units of eight and groups of four units.
LAYOUTS = {
    "one number": (0,),
    "one category": (1,),
    "one column of categories": (5,),
    "numbers below a unit": (0,) * 5,
    "a unit of numbers": (0,) * 8,
    "numbers beyond a unit": (0,) * 9,
    "numbers, groups of units": (0,) * 67,
    "categories only": (3, 9, 31, 2),
    "alternating": (0, 2) * 11,
    "mixed": (0, 0, 3, 0, 14, 0, 0, 0, 1, 0),
    "many categories": (0, 300, 0),
    "numbers, categories, numbers": (0,) * 13 + (20, 7) + (0,) * 21,
    "categories, numbers": (4, 29) + (0,) * 10,
    "curves": (0, (5, 2), 0, (70, 8), 3, 0, (300, 17), (9, 1), 0),
    "only curves": ((5, 3), (4, 40)),
    "curves, KDD": ((9, 4), 3, 0, 70, 0, (300, 17)) + (0, (6, 3), 2) * 20,
    "KDD": (0, 3, 70, 11) + (0,) * 37,
}


def runs(n_rows, parts, dtype=np.float32, seed=0):
    """Runs of rows of a few kinds, as in logs: most columns are constant or 0 within a run.

    Two numeric columns vary from row to row.
    """
    rng = np.random.default_rng([seed, n_rows])
    kinds = random_table(2 + n_rows // 40, parts, dtype, seed)
    which = np.repeat(rng.integers(0, len(kinds), n_rows), rng.geometric(1 / 20, n_rows))[:n_rows]
    table = kinds[which]
    codes = np.array(table.codes)
    for j, each in enumerate(table.layout.maps):  # at most values they stand for nothing
        if each is not None and rng.random() < 0.7:
            codes[:, j] = table.layout.sizes[j]
    numeric = np.array(table.numeric)
    numeric[:, rng.random(numeric.shape[1]) < 0.7] = 0
    own = rng.integers(0, max(1, numeric.shape[1]), 2 * min(1, numeric.shape[1]))
    numeric[:, own] = random_table(n_rows, parts, dtype, seed + 1).numeric[:, own]
    return table.with_rows(numeric, codes)


def spoil(table, seed=0):
    """The same rows, including huge, tiny, zero, NaN and infinite ones if numbers are floats."""
    numeric = np.array(table.numeric)
    if numeric.size and numeric.dtype.kind == "f":
        rng = np.random.default_rng([seed, len(numeric)])
        rows = rng.permutation(len(numeric))[:7]
        values = [0.0, -0.0, np.finfo(numeric.dtype).max, np.finfo(numeric.dtype).tiny, np.nan, np.inf, -1e3]
        for row, value in zip(rows, values, strict=False):
            numeric[row, rng.integers(numeric.shape[1])] = value
    return table.with_rows(numeric, table.codes)


def targets(n_rows, seed=0):
    """Labels -1 and 1, some of them NaN."""
    rng = np.random.default_rng([seed, n_rows])
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)
    y[rng.random(n_rows) < 0.02] = np.nan
    return y


def random_weights(table, intercept=True, scale=1.0, seed=0):
    """Weights and a direction for the columns of a table."""
    width = table.n_columns + intercept
    return [scale * np.random.default_rng([seed + k, 5]).normal(size=width) for k in (0, 1)]


def source_of(table):
    """A table as a source for the kernels."""
    layout = table.layout
    return row_kernels.TabularSource(
        table.numeric, table.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step,
        [each and each.rows for each in layout.maps],
    )  # fmt: skip


def both(table, y, intercept=True, row_norm=ROW_NORM, threads=1, counts=None):
    """The rows of a table, and those of the dense matrix that it represents."""
    return [bind(x, y, intercept, row_norm, threads, counts) for x in (source_of(table), one_hot(table))]
