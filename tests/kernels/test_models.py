"""Clipped gradient sums at several weight vectors: the integers of single passes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.data.tabular import TabularMatrix
from reference import awkward_arrays, numpy_kernels
from reference.kernel_calls import (
    bind,
    dtypes,
    each_loss,
    gradient_integers,
    intercepts,
    on_each_instruction_set,
    run,
    weights,
)
from reference.tabular_data import LAYOUTS, both, numeric_dtypes, random_table, runs, spoil, targets

GRID = 2.0**-23


def several(w, k):
    """k multiples of w of different size and sign, the first of them w."""
    return np.ascontiguousarray(np.outer(np.array([1, -0.5, 3, 0, 100, 1e-3, -2, 0.1, 7])[:k], w))


def clips(k):
    return 0.5 / np.arange(1.0, k + 1)


def grids(k):
    return GRID * 2.0 ** -(np.arange(k) % 2)


def together(rows, loss, w, threads=1, folds=None, left_out=None):
    if folds is not None and left_out is None:
        left_out = np.arange(len(w), dtype=np.int32)
    arguments = {"inner_clips": clips(len(w)), "grids": grids(len(w)), "folds": folds, "left_out": left_out}
    return run(rows, "clipped_gradient_sums", threads, loss=loss, w=w, **arguments).tolist()


def one_by_one(rows, loss, w):
    return [
        gradient_integers(rows, loss, own, clip, grid).tolist()
        for own, clip, grid in zip(w, clips(len(w)), grids(len(w)), strict=True)
    ]


@dtypes
@intercepts
@pytest.mark.parametrize("width", [1, 5, 8, 16, 17, 33, 64, 100, 131])
def test_integers_are_those_of_single_passes(instruction_set, dtype, intercept, width):
    x, y, w, _ = awkward_arrays.awkward(width, dtype)
    rows = bind(x, y, intercept, 1.5)
    for k in (1, 2, 3, 4, 5, 9):
        models = several(weights(w, x, intercept), k)
        assert together(rows, "logistic", models) == one_by_one(rows, "logistic", models)


@dtypes
@each_loss
def test_every_loss(dtype, loss):
    x, y, w, _ = awkward_arrays.awkward(21, dtype)
    rows = bind(x, y, True, 1.5)
    models = several(weights(w, x, True), 6)
    assert together(rows, loss, models) == one_by_one(rows, loss, models)


@dtypes
@pytest.mark.parametrize("n_rows", [1, 15, 17, 511, 513, 9001])
def test_threads_and_instruction_sets_do_not_change_a_bit(keep_instruction_set, dtype, n_rows):
    x, y, w, _ = awkward_arrays.ordinary(n_rows, 19, dtype)
    folds = np.random.default_rng(n_rows).integers(-1, 5, n_rows).astype(np.int32)
    models = several(weights(w, x, True), 5)

    def in_threads():
        rows = bind(x, y, True, 1.5)
        return [together(rows, "logistic", models, threads, folds) for threads in (1, 2, 3)]

    results = on_each_instruction_set(in_threads)
    assert all(result == results[0][0] for on_one in results for result in on_one)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 40), st.booleans(), st.integers(0, 2**32))
def test_a_model_does_not_see_its_fold(n_rows, k, width, single, seed):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if single else np.float64
    x = rng.standard_normal((n_rows, width)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n_rows).astype(dtype)
    models = rng.standard_normal((k, width))
    folds = rng.integers(-1, k + 1, n_rows).astype(np.int32)
    left_out = rng.integers(0, k, k).astype(np.int32)
    made = together(bind(x, y), "logistic", models, folds=folds, left_out=left_out)
    for own in range(k):
        seen = folds != left_out[own]
        expected = [0] * width
        if seen.any():
            rows = bind(x[seen], y[seen])
            expected = gradient_integers(rows, "logistic", models[own], clips(k)[own], grids(k)[own]).tolist()
        assert made[own] == expected


@dtypes
def test_rows_that_count_more_than_once(dtype):
    x, y, w, _ = awkward_arrays.ordinary(200, 11, dtype)
    counts = np.random.default_rng(0).integers(1, 4, 200)
    merged = bind(x, y, True, 1.5, 1, counts)
    repeated = bind(np.repeat(x, counts, axis=0), np.repeat(y, counts), True, 1.5)
    models = several(weights(w, x, True), 5)
    assert together(merged, "logistic", models) == together(repeated, "logistic", models)


@dtypes
def test_against_exact_arithmetic(dtype):
    x, y, w, _ = awkward_arrays.ordinary(300, 7, dtype)
    models = several(weights(w, x, True), 5)
    made = np.array(together(bind(x, y, True, 1.5), "logistic", models)) * grids(5)[:, None]
    for own, clip, total in zip(models, clips(5), made, strict=True):
        exact = numpy_kernels.clipped_gradient_sum("logistic", x, y, own, clip, intercept=True, row_norm=1.5)
        slack = 300 * (GRID + (1e-5 if dtype == np.float32 else 1e-13))
        assert np.abs(total - exact.astype(float)).max() < slack


TABLE_LAYOUTS = {
    "numbers": (0,) * 11,
    "categories": (3, 9, 1, 40),
    "both": (0, 3, 0, 0, 4, 1, 0, 70, 0),
}


def assert_tables_agree(table, y, k, threads=1, counts=None, folds=None, loss="logistic"):
    """Sums over a table against single passes over it, and against its dense rows."""
    rows, dense = both(table, y, counts=counts)
    models = several(np.random.default_rng(k).normal(size=table.n_columns + 1), k)
    left_out = (np.arange(k, dtype=np.int32) * 2 + 1) % 4
    expected = together(dense, loss, models, threads, folds, left_out)
    for _ in range(3):  # the second pass lists the additions of each row, the third finds them
        assert together(rows, loss, models, threads, folds, left_out) == expected
    if folds is None:
        assert one_by_one(rows, loss, models) == expected
    return rows.x


@numeric_dtypes
@pytest.mark.parametrize("parts", TABLE_LAYOUTS.values(), ids=TABLE_LAYOUTS)
def test_tables(instruction_set, dtype, parts):
    table = random_table(133, parts, dtype)
    y = np.random.default_rng(1).choice([-1.0, 1.0, np.nan], 133, p=[0.5, 0.4, 0.1])
    for k in (1, 2, 8, 9):
        listed = assert_tables_agree(table, y, k).addition_bytes
        assert (listed > 0) == (parts != TABLE_LAYOUTS["numbers"])  # with no zeros to leave out


@on_each_instruction_set
@settings(max_examples=60)
@given(
    parts=st.lists(st.sampled_from([0, 0, 1, 2, 7, 33, 100]), min_size=1, max_size=24),
    n_rows=st.integers(1, 70),
    k=st.integers(1, 9),
)
def test_additions_are_those_of_dense_rows(parts, n_rows, k):
    table, y = random_table(n_rows, parts, np.float64), np.ones(n_rows)
    read = assert_tables_agree(table, y, k)
    bytes_of_a_row = 2 * parts.count(0) + 4 * (len(parts) - 1)
    worth_listing = len(parts) > 1 and 4 * bytes_of_a_row <= 8 * table.n_columns
    if read.addition_bytes or not read.nonzero_bytes:
        assert (read.addition_bytes > 0) == worth_listing


@numeric_dtypes
def test_products_and_sums_that_many_rows_share(instruction_set, dtype):
    layout = random_table(1, (0, 3, 0, 0, 4, 1, 0, 70, 0), dtype).layout
    rng = np.random.default_rng(3)
    n_rows = 9001  # more than are sampled, and no multiple of a block
    values = np.array([0, 1, 2, 7, 200]) if np.issubdtype(dtype, np.integer) else [0, -0.0, 0.5, 1e30, 0.1]
    numeric = rng.choice(values, (n_rows, len(layout.numeric_columns))).astype(dtype)
    numeric[::7, 1] = rng.integers(0, 256, len(numeric[::7])).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        numeric[::11, 0] = rng.choice([np.nan, np.inf], len(numeric[::11]))  # frequent, and yet not shared
    codes = np.stack([rng.binomial(size, 0.3, n_rows) for size in layout.sizes], axis=1).astype(np.uint8)
    y = rng.choice([-1.0, 1.0], n_rows)
    for threads in (1, 2):
        assert assert_tables_agree(TabularMatrix(numeric, codes, layout), y, 9, threads).addition_bytes > 0


def test_rows_with_too_many_terms_have_no_lists():
    for parts, listed in (((40,) * 64, True), ((40,) * 65, False), ((6000, 2), True), ((6200, 2), False)):
        table = random_table(20, parts)
        assert (assert_tables_agree(table, np.ones(20), 2).addition_bytes > 0) == listed


def test_a_product_of_minus_zero_is_that_of_dense_rows():
    """A kink at the target 0, which a prediction of -0.0 must not take for its other side."""
    table = random_table(50, (0, 3, 4, 2))
    rows, dense = both(table, np.zeros(50))
    models = np.full((2, table.n_columns + 1), -0.0)
    for loss in ("absolute", "pinball", "power"):
        for _ in range(3):
            assert together(rows, loss, models) == together(dense, loss, models)


@each_loss
def test_tables_with_counts_and_folds(loss):
    rng = np.random.default_rng(2)
    table, y = random_table(200, TABLE_LAYOUTS["both"]), rng.choice([-1.0, 1.0], 200)
    folds = rng.integers(-1, 4, 200).astype(np.int32)
    assert_tables_agree(table, y, 9, counts=rng.integers(1, 5, 200), folds=folds, loss=loss)


def test_tables_in_threads():
    table, y = random_table(9001, TABLE_LAYOUTS["both"], np.uint8), np.ones(9001)
    folds = np.random.default_rng(3).integers(-1, 4, 9001).astype(np.int32)
    for threads in (1, 2, 3):
        assert_tables_agree(table, y, 5, threads=threads, folds=folds)


@numeric_dtypes
@pytest.mark.parametrize("k", [1, 3, 4, 9])
def test_tables_by_nonzero_columns(instruction_set, dtype, k):
    n_rows = 333
    table, y = spoil(runs(n_rows, LAYOUTS["KDD"], dtype)), targets(n_rows)
    rng = np.random.default_rng(k)
    counts = np.where(rng.random(n_rows) < 0.5, 1, rng.integers(2, 2**30, n_rows))
    counts[100:150] = 1  # whole blocks of single records
    folds = rng.integers(-1, 4, n_rows).astype(np.int32)
    for arguments in ({}, {"counts": counts}, {"folds": folds, "threads": 2}):
        read = assert_tables_agree(table, y, k, **arguments)
        assert read.nonzero_bytes > 0 == read.addition_bytes


@each_loss
def test_every_loss_by_nonzero_columns(loss):
    table = runs(200, LAYOUTS["KDD"])
    folds = np.random.default_rng(2).integers(-1, 4, 200).astype(np.int32)
    assert assert_tables_agree(table, targets(200), 6, folds=folds, loss=loss).nonzero_bytes > 0
