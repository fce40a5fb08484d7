"""Sums over sparse rows: the integers of the dense matrix, bit for bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import awkward_arrays, numpy_kernels
from reference.kernel_calls import STEPS, bind, spec, weights
from reference.sparse_data import bind_sparse, random_csr

CLIP, GRID = 0.5, 0.5 * 2.0**-22
EVEN_STEPS = np.linspace(0.0, 2.0, 21)
dtypes = pytest.mark.parametrize("dtype", awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def problem(n_rows, width, density, dtype, index=np.int32, seed=0):
    """A matrix with its targets, weights and a direction."""
    rng = np.random.default_rng(seed)
    matrix = random_csr(n_rows, width, density, dtype, index=index, seed=seed)
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0).astype(dtype)
    return matrix, y, rng.normal(size=width + 1), rng.normal(size=width + 1)


def sums(rows, loss, w, direction, threads=1, batch=None):
    """Results of all passes that sparse rows have kernels for."""
    clip_norms = np.where(np.isfinite(rows.norms), rows.norms * 1.25 + 0.1, np.nan)
    order = np.array([3, 0, 10**9, -1, 1, 1, 2], dtype=np.int64)
    arguments = spec(loss), w, CLIP, GRID, threads
    result = {
        "norms": rows.norms,
        "gradient": rows.clipped_gradient_sum(*arguments),
        "gradient, other norms": rows.clipped_gradient_sum(*arguments, clip_norms=clip_norms),
        "line": rows.clipped_loss_sums(spec(loss), w, direction, STEPS, CLIP, GRID, threads),
        "even line": rows.clipped_loss_sums(spec(loss), w, direction, EVEN_STEPS, CLIP, GRID, threads),
        "predictions": rows.predictions(w, threads),
        "plain gradient": np.append(*rows.gradient_sum(spec(loss), w, threads)),
        "precise gradient": np.append(*rows.gradient_sum(spec(loss), w, threads, precise=True)),
    }
    if batch is not None:
        result["batch"] = rows.clipped_gradient_sum(*arguments, batch=batch)
        result["batch, other norms"] = rows.clipped_gradient_sum(
            *arguments, batch=batch, clip_norms=clip_norms
        )
    kept = rows.clipped_gradient_sum(*arguments, keep_predictions=True)
    result["kept gradient"] = kept
    result["line from kept"] = rows.clipped_loss_sums(spec(loss), w, direction, STEPS, CLIP, GRID, threads)
    for grid, ends in ((GRID, [2, 5, 6, 6, 7]), (0.0, [1, 2, 3, 4, 7])):
        at, total = w.copy(), np.zeros_like(w)
        noise = np.arange(5.0 * len(w)).reshape(5, -1) % 7
        noise = noise.astype(np.int64) if grid else noise / 64
        steps = (CLIP, grid, 3.0, 0.125, len(w) - 1, 5.0)
        rows.sgd_steps(spec(loss), steps, at, total, order, np.array(ends), np.full(5, 0.3), noise)
        result[f"steps on grid {grid}"] = np.concatenate([at, total])
    return result


def assert_equal_to_dense(matrix, y, w, direction, *, loss, intercept, threads=1, batch=None):
    dense = bind(np.ascontiguousarray(matrix.toarray()), y, intercept, 1.5)
    rows = bind_sparse(matrix, y, intercept, 1.5, threads)
    w, direction = weights(w, matrix, intercept), weights(direction, matrix, intercept)
    expected = sums(dense, loss, w, direction, batch=batch)
    for name, got in sums(rows, loss, w, direction, threads, batch).items():
        np.testing.assert_array_equal(got, expected[name], err_msg=name)


@dtypes
@intercepts
@pytest.mark.parametrize("width", [*awkward_arrays.WIDTHS, 5000, 20_000])
def test_every_width(instruction_set, dtype, intercept, width):
    index = (np.int32, np.int64)[width % 2]
    matrix, y, w, direction = problem(50, width, 0.3 if width < 200 else 0.005, dtype, index, seed=width)
    batch = np.flatnonzero(np.random.default_rng(width).random(50) < 0.5)
    assert_equal_to_dense(matrix, y, w, direction, loss="logistic", intercept=intercept, batch=batch)


@dtypes
@pytest.mark.parametrize("loss", numpy_kernels.LOSSES)
def test_every_loss(dtype, loss):
    matrix, y, w, direction = problem(100, 70, 0.2, dtype)
    assert_equal_to_dense(matrix, y, w, direction, loss=loss, intercept=True)


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
    assert_equal_to_dense(matrix, y, w, direction, loss="logistic", intercept=intercept, batch=batch)


@dtypes
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_and_long_data(dtype, threads):
    """More rows than a flush and a range hold, more entries than a task."""
    matrix, y, w, direction = problem(9000, 33, 0.4, dtype)
    batch = np.sort(np.random.default_rng(1).choice(9000, 5000, replace=False))
    assert_equal_to_dense(
        matrix, y, w, direction, loss="logistic", intercept=True, threads=threads, batch=batch
    )


@dtypes
def test_many_ranges(dtype):
    """So many rows that a range is longer than 512 rows."""
    matrix, y, w, _ = problem(600_000, 3, 0.3, dtype)
    dense, rows = bind(matrix.toarray(), y, True, 1.5, 2), bind_sparse(matrix, y, True, 1.5, 2)
    for precise in (False, True):
        arguments = spec("logistic"), weights(w, matrix, True), 2, True, precise
        for got, expected in zip(rows.gradient_sum(*arguments), dense.gradient_sum(*arguments), strict=True):
            np.testing.assert_array_equal(got, expected)


@dtypes
@pytest.mark.parametrize("width", [3, 9, 40, 200])
def test_special_rows(instruction_set, dtype, width):
    x, y, w, direction = awkward_arrays.awkward(width, dtype)
    x[20, 0], x[21, -1], y[22], x[23] = np.nan, np.inf, np.nan, np.nan
    assert_equal_to_dense(sp.csr_array(x), y, w, direction, loss="logistic", intercept=True)
    assert_equal_to_dense(sp.csr_array(x), y, w, direction, loss="huber", intercept=False)


def test_weights_beyond_float32_meet_zeros_that_are_not_stored():
    """0 times infinity is NaN in a dense row."""
    matrix, y, w, direction = problem(60, 20, 0.5, np.float32)
    matrix = sp.csr_array(np.vstack([matrix.toarray(), np.ones((4, 20), np.float32)]))
    y = np.append(y, np.ones(4, np.float32))
    w[[3, 7]] = 1e300, -1e39
    assert_equal_to_dense(matrix, y, w, direction, loss="logistic", intercept=True)
    assert_equal_to_dense(matrix, y, direction, w, loss="hinge", intercept=True)


def test_no_entries_at_all():
    matrix = sp.csr_array((7, 11))
    y = np.ones(7)
    for intercept in (False, True):
        w = np.ones(11 + intercept)
        assert_equal_to_dense(matrix, y, w, w, loss="logistic", intercept=intercept)


def test_the_test_data_are_sparse_and_uneven():
    matrix, *_ = problem(100, 70, 0.2, np.float64)
    counts = np.diff(matrix.indptr)
    assert counts.min() == 0 < counts.max()
    assert 0.1 < matrix.nnz / 7000 < 0.3
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    assert 0 < (norms > 1.5).sum() < 100


# -- column panels ----------------------------------------------------------------------------------

PASSES_BEFORE_STRIPS = 8


def wide_problem(n_rows, width, per_row, dtype, index=np.int32, law="uniform"):
    """Columns and entries enough for panels. By Zipf's law a few columns get most entries."""
    rng = np.random.default_rng([n_rows, width])
    size = (n_rows, per_row)
    columns = rng.integers(0, width, size) if law == "uniform" else (rng.zipf(1.3, size) - 1) % width
    starts = np.arange(0, n_rows * per_row + 1, per_row)
    matrix = sp.csr_array(
        (rng.normal(size=columns.size).astype(dtype), columns.ravel(), starts), (n_rows, width)
    )
    matrix.sum_duplicates()
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0).astype(dtype)
    return matrix, y, rng.normal(size=width + 1) / 4


def gradient_before_and_after(matrix, y, w, *, intercept=True, threads=2, loss="logistic", **options):
    """The same sum from the first pass and from one by panels, and how many panels there are."""
    rows = bind_sparse(matrix, y, intercept, 1.5, threads)
    arguments = spec(loss), weights(w, matrix, intercept), CLIP, GRID, threads
    passes = [rows.clipped_gradient_sum(*arguments, **options) for _ in range(PASSES_BEFORE_STRIPS + 2)]
    for later in passes[1:PASSES_BEFORE_STRIPS]:
        np.testing.assert_array_equal(later, passes[0])
    return passes[0], passes[-1], rows.x.n_panels


@dtypes
@intercepts
@pytest.mark.parametrize("law", ["uniform", "Zipf"])
@pytest.mark.parametrize("width", [20_000, 65_537, 200_003])
def test_sums_by_panels_are_those_of_rows(instruction_set, dtype, intercept, law, width):
    index = (np.int32, np.int64)[width % 2]
    matrix, y, w = wide_problem(2000, width, 60, dtype, index, law)
    first, last, n_panels = gradient_before_and_after(matrix, y, w, intercept=intercept)
    assert n_panels >= max(4, width / 2**15)
    assert np.count_nonzero(first) > 1000
    np.testing.assert_array_equal(last, first)


@dtypes
@pytest.mark.parametrize("beyond", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 71, 95, 127, 511])
def test_panels_know_the_last_columns(dtype, beyond):
    """Which partial sum a column belongs to depends on how the width is cut into units of lanes."""
    width = 2**14 + beyond
    matrix, y, w = wide_problem(1500, width, 40, dtype)
    matrix = matrix.tolil()
    matrix[:, width - 100 :] = np.linspace(-1, 1, 150_000).reshape(1500, 100)
    first, last, n_panels = gradient_before_and_after(matrix.tocsr(), y, w)
    assert n_panels > 0
    np.testing.assert_array_equal(last, first)


@dtypes
def test_infinite_weights_are_known_to_panels(dtype):
    """A weight beyond the largest float makes predictions of every record that does not store 0 there NaN."""
    matrix, y, w = wide_problem(2000, 20_000, 60, dtype)
    w[matrix.indices[5]] = 1e300
    first, last, n_panels = gradient_before_and_after(matrix, y, w)
    assert n_panels > 0
    np.testing.assert_array_equal(last, first)


@dtypes
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_panels_of_several_row_panels(dtype, threads):
    """Threads make them and read them, a row panel and a column panel each; their number does not matter."""
    matrix, y, w = wide_problem(150_000, 20_000, 3, dtype)
    first, last, n_panels = gradient_before_and_after(matrix, y, w, threads=threads)
    assert n_panels > 1
    np.testing.assert_array_equal(last, first)


@dtypes
def test_panels_leave_out_rows_that_do_not_count(dtype):
    matrix, y, w = wide_problem(2000, 20_000, 60, dtype)
    matrix.data[matrix.indptr[3]] = np.nan
    matrix.data[matrix.indptr[5]] = np.inf
    matrix.data[matrix.indptr[7] : matrix.indptr[8]] = np.finfo(
        dtype
    ).max  # its norm is no number of the type
    y[11] = np.nan
    first, last, n_panels = gradient_before_and_after(matrix, y, w)
    assert n_panels > 0
    np.testing.assert_array_equal(last, first)
    keep = np.setdiff1d(np.arange(2000), [3, 5, 11])
    alone, _, _ = gradient_before_and_after(matrix[keep], y[keep], w)
    np.testing.assert_array_equal(last, alone)


@dtypes
def test_panels_heed_norms_given_for_clipping_and_keep_predictions(dtype):
    matrix, y, w = wide_problem(2000, 20_000, 60, dtype)
    norms = bind_sparse(matrix, y, True, 1.5).norms * 1.25 + 0.1
    first, last, n_panels = gradient_before_and_after(matrix, y, w, clip_norms=norms)
    assert n_panels > 0
    np.testing.assert_array_equal(last, first)
    rows = bind_sparse(matrix, y, True, 1.5)
    at, direction = weights(w, matrix, True), weights(w[::-1].copy(), matrix, True)
    lines = []
    for _ in range(PASSES_BEFORE_STRIPS + 2):
        rows.clipped_gradient_sum(spec("logistic"), at, CLIP, GRID, 2, keep_predictions=True)
        lines.append(rows.clipped_loss_sums(spec("logistic"), at, direction, STEPS, CLIP, GRID, 2))
    assert rows.x.n_panels > 0
    np.testing.assert_array_equal(lines[-1], lines[0])


def test_batches_and_counts_stay_with_rows():
    """They neither use nor cause panels; with panels for whole passes, they give what they gave before."""
    matrix, y, w = wide_problem(2000, 20_000, 60, np.float64)
    batch = np.arange(0, 2000, 3)
    rows = bind_sparse(matrix, y, True, 1.5, 2)
    arguments = spec("logistic"), weights(w, matrix, True), CLIP, GRID, 2
    before = [rows.clipped_gradient_sum(*arguments, batch=batch) for _ in range(PASSES_BEFORE_STRIPS + 2)][-1]
    assert rows.x.n_panels == 0
    for _ in range(PASSES_BEFORE_STRIPS + 2):
        rows.clipped_gradient_sum(*arguments)
    assert rows.x.n_panels > 0
    np.testing.assert_array_equal(rows.clipped_gradient_sum(*arguments, batch=batch), before)
    counted = bind_sparse(matrix, y, True, 1.5, 2, counts=np.full(2000, 3))
    for _ in range(PASSES_BEFORE_STRIPS + 2):
        thrice = counted.clipped_gradient_sum(*arguments)
    assert counted.x.n_panels == 0
    np.testing.assert_array_equal(thrice, 3 * rows.clipped_gradient_sum(*arguments))


@pytest.mark.parametrize(("n_rows", "width", "per_row"), [(4000, 16_000, 60), (5, 10**6, 2)])
def test_matrices_that_panels_would_not_help_have_none(n_rows, width, per_row):
    """Few columns, or hardly more entries than panels."""
    matrix, y, w = wide_problem(n_rows, width, per_row, np.float64)
    first, last, n_panels = gradient_before_and_after(matrix, y, w)
    assert n_panels == 0
    np.testing.assert_array_equal(last, first)


def test_threads_that_pass_together_make_panels_once():
    matrix, y, w = wide_problem(2000, 20_000, 60, np.float64)
    rows = bind_sparse(matrix, y, True, 1.5)
    arguments = spec("logistic"), weights(w, matrix, True), CLIP, GRID, 1
    with ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda _: rows.clipped_gradient_sum(*arguments), range(64)))
    assert rows.x.n_panels > 0
    for each in sums[1:]:
        np.testing.assert_array_equal(each, sums[0])
