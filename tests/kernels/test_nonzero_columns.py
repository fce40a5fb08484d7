"""Passes by the nonzero columns of a table: still the integers of the dense one-hot matrix, bit for bit."""

import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dperm._kernels import row_kernels
from reference.kernel_calls import EXAMPLES, spec
from reference.tabular_data import LAYOUTS, NUMERIC_DTYPES, one_hot, random_table, spoil

CLIP, GRID, ROW_NORM = 0.5, 2.0**-33, 1.5
EVEN_STEPS = np.linspace(0.0, 2.0, 9)
UNEVEN_STEPS = np.array([0.0, 0.5, -1.0, 2.0, 1e-3])
dtypes = pytest.mark.parametrize("dtype", NUMERIC_DTYPES, ids=lambda dtype: dtype.__name__)


def runs(n_rows, parts, dtype=np.float32, seed=0):
    """Rows of a few kinds in runs, as logs have them: most columns hold one value, or 0, for a while.

    Two numbers differ in every row.
    """
    rng = np.random.default_rng([seed, n_rows])
    kinds = random_table(2 + n_rows // 40, parts, dtype, seed)
    which = np.repeat(rng.integers(0, len(kinds), n_rows), rng.geometric(1 / 20, n_rows))[:n_rows]
    table = kinds[which]
    numeric = np.array(table.numeric)
    numeric[:, rng.random(numeric.shape[1]) < 0.7] = 0
    own = rng.integers(0, max(1, numeric.shape[1]), 2 * min(1, numeric.shape[1]))
    numeric[:, own] = random_table(n_rows, parts, dtype, seed + 1).numeric[:, own]
    return table.with_rows(numeric, table.codes)


def targets(n_rows, seed=0):
    rng = np.random.default_rng([seed, n_rows])
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)
    y[rng.random(n_rows) < 0.02] = np.nan
    return y


def weights(table, intercept=True, seed=0, scale=1.0):
    return scale * np.random.default_rng([seed, 5]).normal(size=table.n_columns + intercept)


def bound(matrix, y, intercept=True, *, counts=None, row_norm=ROW_NORM):
    return row_kernels.DenseRows(matrix, y, intercept, row_norm, 1, counts)


def rows_by_nonzero_columns(table, y, intercept=True, **keywords):
    """Rows whose passes go by nonzero columns from the third on."""
    layout = table.layout
    source = row_kernels.TabularSource(
        table.numeric, table.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step
    )
    rows = bound(source, y, intercept, **keywords)
    for _ in range(2):
        assert source.nonzero_bytes == 0
        rows.predictions(weights(table, intercept), 1)
    return rows


def passes(rows, loss, w, direction, threads=1):
    kernel, n = spec(loss), len(rows.y)
    clip_norms = np.exp(np.random.default_rng(n).normal(size=n))
    batch = np.flatnonzero(np.random.default_rng(3).random(n) < 0.4)
    return {
        "gradient": rows.clipped_gradient_sum(kernel, w, CLIP, GRID, threads),
        "other lengths": rows.clipped_gradient_sum(kernel, w, CLIP, GRID, threads, clip_norms=clip_norms),
        "batch": rows.clipped_gradient_sum(kernel, w, CLIP, GRID, threads, batch),
        "even steps": rows.clipped_loss_sums(kernel, w, direction, EVEN_STEPS, CLIP, GRID, threads),
        "uneven steps": rows.clipped_loss_sums(kernel, w, direction, UNEVEN_STEPS, CLIP, GRID, threads),
        "predictions": rows.predictions(w, threads),
        "kept": rows.clipped_gradient_sum(kernel, w, CLIP, GRID, threads, keep_predictions=True),
        "from kept": rows.clipped_loss_sums(kernel, w, direction, EVEN_STEPS, CLIP, GRID, threads),
    }


def assert_same_passes(by_columns, dense, *arguments, **keywords):
    assert by_columns.x.nonzero_bytes > 0
    expected = passes(dense, *arguments, **keywords)
    for name, result in passes(by_columns, *arguments, **keywords).items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name, strict=True)


@pytest.mark.parametrize("layout", ["KDD", "numbers, groups of units", "mixed", "alternating"])
@dtypes
@pytest.mark.parametrize("n_rows", [77, 1600])
def test_every_pass_gives_the_integers_of_the_dense_matrix(instruction_set, layout, dtype, n_rows):
    table = spoil(runs(n_rows, LAYOUTS[layout], dtype))
    y = targets(n_rows)
    w, direction = weights(table), weights(table, seed=1)
    assert_same_passes(rows_by_nonzero_columns(table, y), bound(one_hot(table), y), "logistic", w, direction)


@pytest.mark.parametrize("loss", sorted(EXAMPLES))
def test_every_loss(instruction_set, loss):
    table = spoil(runs(300, LAYOUTS["KDD"]))
    y = targets(300)
    w, direction = weights(table), weights(table, seed=1)
    assert_same_passes(rows_by_nonzero_columns(table, y), bound(one_hot(table), y), loss, w, direction)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    table = runs(9001, LAYOUTS["KDD"])
    y = targets(9001)
    w, direction = weights(table), weights(table, seed=1)
    rows = rows_by_nonzero_columns(table, y)
    assert_same_passes(rows, bound(one_hot(table), y), "logistic", w, direction, threads=threads)


@given(
    parts=st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 8, 33, 270]), min_size=3, max_size=40),
    dtype=st.sampled_from(NUMERIC_DTYPES),
    n_rows=st.integers(1, 90),
    intercept=st.booleans(),
    row_norm=st.sampled_from([0.01, 1.0, 1e6]),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=100)
def test_random_layouts(parts, dtype, n_rows, intercept, row_norm, scale, seed):
    table = spoil(runs(n_rows, parts, dtype, seed), seed)
    y = targets(n_rows, seed)
    by_columns = rows_by_nonzero_columns(table, y, intercept, row_norm=row_norm)
    assume(by_columns.x.nonzero_bytes > 0)
    w, direction = (weights(table, intercept, seed + k, scale) for k in (0, 1))
    dense = bound(one_hot(table), y, intercept, row_norm=row_norm)
    assert_same_passes(by_columns, dense, "logistic", w, direction)


@dtypes
@pytest.mark.parametrize("most", [3, 2**40])
def test_rows_with_counts_are_rows_repeated(instruction_set, dtype, most):
    table = spoil(runs(200, LAYOUTS["KDD"], dtype))
    y = targets(200)
    rng = np.random.default_rng(2)
    counts = np.where(rng.random(200) < 0.5, 1, rng.integers(2, most, 200))
    counts[100:150] = 1  # whole blocks of single records
    w, direction = weights(table), weights(table, seed=1)
    by_columns = rows_by_nonzero_columns(table, y, counts=counts)
    dense = bound(one_hot(table), y, counts=counts)
    for call in (
        lambda rows: rows.clipped_gradient_sum(spec("logistic"), w, CLIP, 2.0**-10, 2),
        lambda rows: rows.clipped_loss_sums(spec("logistic"), w, direction, EVEN_STEPS, CLIP, 2.0**-10, 2),
    ):
        np.testing.assert_array_equal(call(by_columns), call(dense), strict=True)


def test_a_table_that_is_not_short_by_nonzero_columns_is_read_as_it_is():
    for parts in [(0,) * 38, (300, 5, 300), (0,) * 10 + (70, 11), (5000,)]:
        table = random_table(2000, parts)
        rows = rows_by_nonzero_columns(table, targets(2000))
        w = weights(table)
        expected = bound(one_hot(table), rows.y).clipped_gradient_sum(spec("huber"), w, CLIP, GRID, 1)
        for _ in range(3):
            sums = rows.clipped_gradient_sum(spec("huber"), w, CLIP, GRID, 2)
            np.testing.assert_array_equal(sums, expected)
        assert rows.x.nonzero_bytes == 0


def test_batches_alone_make_no_nonzero_columns():
    table = runs(400, LAYOUTS["KDD"])
    layout = table.layout
    source = row_kernels.TabularSource(
        table.numeric, table.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step
    )
    rows = bound(source, targets(400))
    for _ in range(5):
        rows.clipped_gradient_sum(spec("logistic"), weights(table), CLIP, GRID, 1, np.arange(0, 400, 3))
    assert source.nonzero_bytes == 0


def test_memory_is_less_than_an_eighth_of_the_dense_matrix():
    table = runs(20_000, LAYOUTS["KDD"])
    rows = rows_by_nonzero_columns(table, targets(20_000))
    assert 0 < rows.x.nonzero_bytes < 20_000 * table.n_columns * 8 / 7  # an eighth, and what groups take


def test_passes_of_several_threads_at_once_agree():
    """The second of them makes the nonzero columns while others read the table."""
    table = runs(6000, LAYOUTS["KDD"])
    layout, y, w = table.layout, targets(6000), weights(table)
    source = row_kernels.TabularSource(
        table.numeric, table.codes, layout.numeric_columns, layout.first_columns, layout.sizes, layout.step
    )
    rows = bound(source, y)
    results = []
    start = threading.Barrier(6)

    def work():
        start.wait()
        results.extend(rows.clipped_gradient_sum(spec("logistic"), w, CLIP, GRID, 2) for _ in range(4))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = bound(one_hot(table), y).clipped_gradient_sum(spec("logistic"), w, CLIP, GRID, 1)
    assert len(results) == 24
    for result in results:
        np.testing.assert_array_equal(result, expected)
    assert source.nonzero_bytes > 0
