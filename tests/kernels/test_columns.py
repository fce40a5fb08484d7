"""Matrices stored column by column: the bits of the same rows in C order."""

import numpy as np
import pytest

from dperm._kernels import row_kernels
from reference import awkward_arrays
from reference.kernel_calls import (
    assert_same_passes,
    bind,
    dtypes,
    each_loss,
    gradient_integers,
    weights,
)

pytestmark = pytest.mark.usefixtures("instruction_set")
CLIP, GRID = 0.5, 2.0**-21


def in_columns(x, y, intercept=False, row_norm=1.0, threads=1, *, keep_norms=False):
    """Rows of the matrix by columns, at addresses of any alignment."""
    columns = []
    for j in range(x.shape[1]):
        room = np.empty(len(x) + j % 5 + 1, x.dtype)
        room[j % 5 : -1] = x[:, j]
        columns.append(room[j % 5 : -1])
    source = row_kernels.ColumnsSource(columns)
    return row_kernels.DenseRows(source, y, intercept, row_norm, threads, keep_norms=keep_norms)


def both(x, y, w, loss="logistic", intercept=True, keep_norms=False, threads=1):
    own = weights(w, x, intercept)
    rows = in_columns(x, y, intercept, keep_norms=keep_norms)
    columns = gradient_integers(rows, loss, own, CLIP, GRID, threads)
    return columns, gradient_integers(bind(x, y, intercept), loss, own, CLIP, GRID)


@dtypes
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("width", awkward_arrays.WIDTHS)
def test_widths(dtype, width, intercept):
    x, y, w, _ = awkward_arrays.awkward(width, dtype)
    for keep_norms in (False, True):
        columns, dense = both(x, y, w, intercept=intercept, keep_norms=keep_norms)
        assert np.array_equal(columns, dense)
    assert dense.any()


@dtypes
@pytest.mark.parametrize("n_rows", [*awkward_arrays.ROW_COUNTS, 511, 513, 20_001])
@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_of_rows(dtype, n_rows, threads):
    x, y, w, _ = awkward_arrays.ordinary(n_rows, 7, dtype)
    assert np.array_equal(*both(x, y, w, threads=threads))


@dtypes
def test_matrices_wider_than_the_cache(dtype):
    x, y, w, _ = awkward_arrays.ordinary(70, 3001, dtype)
    assert np.array_equal(*both(x, y, w))


@dtypes
@each_loss
def test_losses(dtype, loss):
    x, y, w, _ = awkward_arrays.ordinary(100, 5, dtype)
    assert np.array_equal(*both(x, y, w, loss))


@dtypes
@pytest.mark.parametrize("bad", awkward_arrays.NON_FINITE)
@pytest.mark.parametrize("row", [0, 31])
def test_rows_that_must_not_count(dtype, bad, row):
    x, y, w, _ = awkward_arrays.ordinary(40, 17, dtype)
    without = both(np.delete(x, row, axis=0), np.delete(y, row), w)[1]
    for records in awkward_arrays.spoilt(x, y, row, bad, columns=(0, 8, 16)):
        assert np.array_equal(both(*records, w)[0], without)


@dtypes
def test_all_rows_at_the_largest_sums(dtype):
    """No accumulator overflows when every entry is rounded to the same large integer."""
    n_rows, grid = (20_000, 2.0**-22) if dtype == np.float32 else (8_000, 2.0**-50)
    x, y, w = np.ones((n_rows, 1), dtype), -np.ones(n_rows, dtype), np.array([50.0])
    got = gradient_integers(in_columns(x, y), "logistic", w, 1.0, grid)
    assert got[0] == len(x) * round(1.0 / grid)


@dtypes
@pytest.mark.parametrize("intercept", [False, True])
def test_passes_that_make_the_rows(dtype, intercept):
    x, y, w, direction = awkward_arrays.ordinary(1500, 19, dtype)
    w, direction = weights(w, x, intercept), weights(direction, x, intercept)
    columns, dense = in_columns(x, y, intercept, keep_norms=True), bind(x, y, intercept)
    assert_same_passes(columns, dense, "logistic", w, direction, threads=2, batch=np.arange(0, 1500, 7))
