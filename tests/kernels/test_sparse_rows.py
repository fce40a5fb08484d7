"""Sums over sparse rows: the integers of the dense matrix, bit for bit."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import awkward_arrays
from reference.kernel_calls import (
    CLIP,
    GRIDS,
    assert_same_passes,
    bind,
    dtypes,
    each_loss,
    exact_passes,
    gradient_integers,
    intercepts,
    plain_sums,
    weights,
)
from reference.sparse_data import bind_sparse, random_csr


def problem(n_rows, width, density, dtype, index=np.int32, seed=0):
    """A matrix with its targets, weights and a direction."""
    rng = np.random.default_rng(seed)
    matrix = random_csr(n_rows, width, density, dtype, index=index, seed=seed)
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0).astype(dtype)
    return matrix, y, rng.normal(size=width + 1), rng.normal(size=width + 1)


def passes(rows, loss, w, direction, threads, batch):
    """Sparse rows also add floating-point sums in the order of dense ones."""
    result = exact_passes(rows, loss, w, direction, threads, batch)
    for precise, clip in itertools.product((False, True), (0.3, np.inf)):
        gradient, total = plain_sums(rows, loss, w, threads, precise, clip)
        result |= {f"gradient, {precise=}, {clip=}": gradient, f"loss, {precise=}, {clip=}": total}
    return result


def assert_equal_to_dense(matrix, y, w, direction, *, loss="logistic", intercept=True, threads=1, batch=None):
    dense = bind(np.ascontiguousarray(matrix.toarray()), y, intercept, 1.5, threads)
    rows = bind_sparse(matrix, y, intercept, 1.5, threads)
    w, direction = weights(w, matrix, intercept), weights(direction, matrix, intercept)
    assert_same_passes(rows, dense, loss, w, direction, threads, batch, passes=passes)


@dtypes
@intercepts
@pytest.mark.parametrize("width", [*awkward_arrays.WIDTHS, 5000, 20_000])
def test_every_width(instruction_set, dtype, intercept, width):
    index = (np.int32, np.int64)[width % 2]
    matrix, y, w, direction = problem(50, width, 0.3 if width < 200 else 0.005, dtype, index, seed=width)
    batch = np.flatnonzero(np.random.default_rng(width).random(50) < 0.5)
    assert_equal_to_dense(matrix, y, w, direction, intercept=intercept, batch=batch)


@dtypes
@each_loss
def test_every_loss(dtype, loss):
    matrix, y, w, direction = problem(100, 70, 0.2, dtype)
    assert_equal_to_dense(matrix, y, w, direction, loss=loss)


@settings(max_examples=150)
@given(
    n_rows=st.integers(4, 80),
    width=st.integers(1, 300),
    density=st.floats(0.0, 1.0),
    wide_floats=st.booleans(),
    wide_indices=st.booleans(),
    intercept=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_random_matrices(n_rows, width, density, wide_floats, wide_indices, intercept, seed):
    dtype, index = (np.float32, np.float64)[wide_floats], (np.int32, np.int64)[wide_indices]
    matrix, y, w, direction = problem(n_rows, width, density, dtype, index, seed)
    matrix.data[np.random.default_rng(seed).random(matrix.nnz) < 0.1] = 0.0  # stored zeros
    batch = np.flatnonzero(np.random.default_rng(seed).random(n_rows) < density)
    assert_equal_to_dense(matrix, y, w, direction, intercept=intercept, batch=batch)


@dtypes
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_and_long_data(dtype, threads):
    """More rows than a flush and a range, more entries than a task."""
    matrix, y, w, direction = problem(9000, 33, 0.4, dtype)
    batch = np.sort(np.random.default_rng(1).choice(9000, 5000, replace=False))
    assert_equal_to_dense(matrix, y, w, direction, threads=threads, batch=batch)


@dtypes
def test_many_ranges(dtype):
    """So many rows that a range is longer than 512 rows."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(600_000, 3)) * (rng.random((600_000, 3)) < 0.3)).astype(dtype)
    y, w = np.where(rng.random(600_000) < 0.5, -1.0, 1.0).astype(dtype), rng.normal(size=4)
    both = bind(x, y, True, 1.5, 2), bind_sparse(sp.csr_array(x), y, True, 1.5, 2)
    for precise in (False, True):
        dense, sparse = (plain_sums(rows, "logistic", w, 2, precise) for rows in both)
        np.testing.assert_array_equal(sparse[0], dense[0])
        assert sparse[1] == dense[1]


@dtypes
@pytest.mark.parametrize("width", [3, 9, 40, 200])
def test_special_rows(instruction_set, dtype, width):
    x, y, w, direction = awkward_arrays.awkward(width, dtype)
    x[20, 0], x[21, -1], y[22], x[23] = np.nan, np.inf, np.nan, np.nan
    assert_equal_to_dense(sp.csr_array(x), y, w, direction)
    assert_equal_to_dense(sp.csr_array(x), y, w, direction, loss="huber", intercept=False)


def test_weights_beyond_float32_meet_zeros_that_are_not_stored():
    """0 times infinity is NaN in a dense row."""
    matrix, y, w, direction = problem(60, 20, 0.5, np.float32)
    matrix = sp.csr_array(np.vstack([matrix.toarray(), np.ones((4, 20), np.float32)]))
    y = np.append(y, np.ones(4, np.float32))
    w[[3, 7]] = 1e300, -1e39
    assert_equal_to_dense(matrix, y, w, direction)
    assert_equal_to_dense(matrix, y, direction, w, loss="hinge")


def test_no_entries_at_all():
    matrix = sp.csr_array((7, 11))
    y = np.ones(7)
    for intercept in (False, True):
        w = np.ones(11 + intercept)
        assert_equal_to_dense(matrix, y, w, w, intercept=intercept)


def test_the_test_data_are_sparse_and_uneven():
    matrix, *_ = problem(100, 70, 0.2, np.float64)
    counts = np.diff(matrix.indptr)
    assert counts.min() == 0 < counts.max()
    assert 0.1 < matrix.nnz / 7000 < 0.3
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    assert 0 < (norms > 1.5).sum() < 100


# -- wide rows --------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("beyond", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 71, 95, 127, 511])
def test_the_last_columns_of_wide_rows(dtype, beyond):
    """The partial sum of a column depends on how the width is split into units of lanes."""
    width = 2**14 + beyond
    matrix, y, w, direction = problem(50, width - 100, 0.005, dtype, seed=beyond)
    last = sp.csr_array(np.linspace(-1, 1, 5000, dtype=dtype).reshape(50, 100))
    both = sp.hstack([matrix, last], format="csr")
    assert_equal_to_dense(both, y, np.append(w, w[:100]), np.append(direction, w[:100]))


def test_threads_share_wide_sums():
    matrix, y, w, _ = problem(20_000, 20_000, 0.0005, np.float64)
    rows = bind_sparse(matrix, y, True, 1.5)
    sums = [gradient_integers(rows, "logistic", w, CLIP, GRIDS[matrix.dtype], k) for k in (1, 2, 3, 7)]
    for each in sums[1:]:
        np.testing.assert_array_equal(each, sums[0])
