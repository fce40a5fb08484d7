"""Passes over tabular rows: the integers of the dense one-hot matrix, bit for bit."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm._kernels import row_kernels
from reference.kernel_calls import (
    CLIP,
    EVEN_STEPS,
    GRIDS,
    ROW_NORM,
    STEPS,
    assert_same_passes,
    bind,
    coordinate_integers,
    descend,
    each_loss,
    exact_passes,
    gradient_integers,
    intercepts,
    loss_integers,
    plain_sums,
    predictions,
    run,
)
from reference.losses import EXAMPLES
from reference.tabular_data import (
    LAYOUTS,
    NUMERIC_DTYPES,
    both,
    one_hot,
    random_table,
    random_weights,
    source_of,
    spoil,
    targets,
)
from reference.tabular_data import numeric_dtypes as dtypes

GRID = GRIDS[np.dtype(np.float64)]
layouts = pytest.mark.parametrize("parts", LAYOUTS.values(), ids=LAYOUTS.keys())


def passes(rows, loss, w, direction, threads=1, batch=None):
    """Exact passes, including those for which a table is expanded to blocks of dense rows."""
    moments = {"inner_bound": ROW_NORM, "grid": 2.0**-18}
    return exact_passes(rows, loss, w, direction, threads, batch) | {
        "coordinates": coordinate_integers(rows, loss, w, 0.3, CLIP, GRID, threads),
        "moments": run(rows, "moment_sums", threads, clip=2.0**30, **moments),
        "gram": run(rows, "gram_sum", threads, loss=loss, w=None, rounding=(ROW_NORM, 2.0**-18)),
    }


def some_passes(rows, loss, w, direction, threads=1):
    """Sums over all rows: a gradient and line searches."""
    lines = (
        loss_integers(rows, loss, w, direction, CLIP, GRID, threads, steps) for steps in (EVEN_STEPS, STEPS)
    )
    names = ("gradient", "even line", "line")
    return dict(zip(names, (gradient_integers(rows, loss, w, CLIP, GRID, threads), *lines), strict=True))


def assert_same(left, right):
    """Equal bit for bit, except that all NaNs are equal."""
    np.testing.assert_array_equal(left, right, strict=True)


# -- the integers of the dense matrix ----------------------------------------------------------------


@layouts
@dtypes
@intercepts
def test_every_pass_gives_the_integers_of_the_dense_matrix(instruction_set, parts, dtype, intercept):
    table = spoil(random_table(75, parts, dtype))
    batch = np.flatnonzero(np.random.default_rng(3).random(75) < 0.4)
    rows = both(table, targets(75), intercept)
    weights = random_weights(table, intercept)
    assert_same_passes(*rows, "logistic", *weights, batch=batch, passes=passes)


@pytest.mark.parametrize("loss", sorted(EXAMPLES))
def test_every_loss(instruction_set, loss):
    table = spoil(random_table(75, LAYOUTS["mixed"]))
    assert_same_passes(*both(table, targets(75)), loss, *random_weights(table), passes=passes)


@given(
    parts=st.lists(
        st.sampled_from([0, 0, 0, 0, 1, 2, 3, 8, 9, 33, 270, (5, 3), (300, 21)]), min_size=1, max_size=40
    ),
    dtype=st.sampled_from(NUMERIC_DTYPES),
    n_rows=st.integers(1, 70),
    intercept=st.booleans(),
    row_norm=st.sampled_from([0.01, 1.0, 1e6]),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=150)
def test_random_layouts(parts, dtype, n_rows, intercept, row_norm, scale, seed):
    table = spoil(random_table(n_rows, parts, dtype, seed), seed)
    rows = both(table, targets(n_rows, seed), intercept, row_norm)
    weights = random_weights(table, intercept, scale, seed)
    batch = np.sort(np.random.default_rng(seed).integers(0, n_rows, n_rows // 2))
    for loss in ("logistic", "hinge"):
        assert_same_passes(*rows, loss, *weights, batch=batch)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_nothing(threads):
    table = spoil(random_table(9001, LAYOUTS["mixed"], np.float32))
    rows, weights = both(table, targets(9001), threads=threads), random_weights(table)
    batch = np.flatnonzero(np.random.default_rng(3).random(9001) < 0.5)
    assert_same_passes(*rows, "logistic", *weights, threads=threads, batch=batch, passes=passes)
    first, again = (plain_sums(rows[0], "logistic", weights[0], n) for n in (1, threads))
    assert_same(again[0], first[0])
    assert again[1] == first[1]


def test_many_rows_on_every_instruction_set(instruction_set):
    """More rows than in a flush, a block and a range."""
    table = random_table(9000, LAYOUTS["KDD"], np.uint8)
    assert_same_passes(*both(table, targets(9000)), "logistic", *random_weights(table), passes=passes)


@layouts
def test_plain_sums_are_those_of_the_dense_matrix_but_for_rounding(parts):
    table = random_table(3000, parts)
    rows, (w, _) = both(table, targets(3000)), random_weights(table)
    for precise, clip in itertools.product((False, True), (0.3, np.inf)):
        (gradient, loss), (expected, expected_loss) = (
            plain_sums(each, "huber", w, precise=precise, clip=clip) for each in rows
        )
        np.testing.assert_allclose(gradient, expected, rtol=1e-11, atol=1e-9)
        assert math.isclose(loss, expected_loss, rel_tol=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
def test_repeated_indices_in_a_batch_count_as_often(threads):
    table = random_table(500, LAYOUTS["mixed"])
    tabular, dense = both(table, targets(500))
    w, direction = random_weights(table)
    batch = np.sort(np.random.default_rng(0).integers(0, 500, 5000))
    assert_same_passes(tabular, dense, "logistic", w, direction, threads, batch)
    none = np.array([], dtype=np.int64)
    assert not gradient_integers(tabular, "logistic", w, CLIP, GRID, threads, batch=none).any()


@layouts
@dtypes
def test_rows_with_counts_are_rows_repeated(instruction_set, parts, dtype):
    table, y = spoil(random_table(75, parts, dtype)), targets(75)
    rng = np.random.default_rng(2)
    counts = np.where(rng.random(75) < 0.5, 1, rng.integers(2, 1000, 75))
    counts[40:] = 1  # whole blocks of single records
    merged = bind(source_of(table), y, True, ROW_NORM, 1, counts)
    repeated = bind(source_of(table[np.repeat(np.arange(75), counts)]), np.repeat(y, counts), True, ROW_NORM)
    w, direction = random_weights(table)
    for loss in ("logistic", "hinge"):
        assert_same_passes(merged, repeated, loss, w, direction, 2, passes=some_passes)
    assert_same(np.repeat(predictions(merged, w), counts), predictions(repeated, w))


# -- passes that only blocks of dense rows have ------------------------------------------------------


@layouts
def test_second_moments(instruction_set, parts):
    table = spoil(random_table(700, parts))
    w, _ = random_weights(table)
    n_out = -(-len(w) // 16) * 16
    matrix = np.random.default_rng(0).integers(-99, 99, (len(w), n_out)).astype(float)

    def moments(rows):
        common = {"inner_bound": ROW_NORM, "grid": 2.0**-18}
        rounding = ROW_NORM, 2.0**-18
        plain = {"w": None, "target": (0.5, 0.25, 0.75), "rounding": rounding}
        hessian = {"w": w, "upper": True, "rounding": rounding}
        return {
            "gram": run(rows, "gram_sum", 2, loss="logistic", **plain),
            "hessian": run(rows, "gram_sum", 2, loss="logistic", **hessian),
            "norms through a matrix": run(rows, "norms_through", 2, matrix=matrix, **common),
            "scaled norms": run(rows, "norms_scaled", 2, column_scales=np.arange(1.0, len(w) + 1.0)),
        }

    assert_same_passes(*both(table, targets(700)), passes=moments)


@layouts
@pytest.mark.parametrize("n_classes", [2, 7])
def test_softmax(instruction_set, parts, n_classes):
    table = spoil(random_table(75, parts))
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 75).astype(float)
    y[5] = np.inf
    tabular, dense = (
        row_kernels.SoftmaxRows(x, y, True, ROW_NORM, 1) for x in (source_of(table), one_hot(table))
    )
    w, direction = rng.normal(size=(2, table.n_columns + 1, n_classes))
    kernel = (row_kernels.LOSS_KINDS["softmax"], 0.0, math.inf)

    def softmax_passes(rows):
        batch = gradient_integers(rows, kernel, w, CLIP, GRID, 2, batch=np.arange(0, 75, 3))
        return some_passes(rows, kernel, w, direction, 2) | {
            "batch": batch,
            "scores": predictions(rows, w, 2),
        }

    assert_same_passes(tabular, dense, passes=softmax_passes)
    for mine, its in zip(plain_sums(tabular, kernel, w), plain_sums(dense, kernel, w), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-11, atol=1e-9)


def descent(rows, order, ends, *, noise=None, **settings):
    n_steps, dimension = len(ends), rows.x.shape[1] + 1
    start = 0.1 * np.random.default_rng(5).normal(size=dimension)
    settings = {
        "divisor": 2.0,
        "l2": 0.1,
        "n_penalized": dimension - 1,
        "radius": 0.9,
        "inner_clip": 0.4,
    } | settings
    sizes = np.linspace(0.2, 0.1, n_steps)
    return np.concatenate(descend(rows, "logistic", start, order, ends, sizes, noise, **settings))


@layouts
@pytest.mark.parametrize("sizes", [[1] * 900, [3] * 300, [0, 1, 0, 0, 7, 0], [700, 1, 900], [0, 0], [5000]])
def test_steps_are_those_on_the_dense_matrix(parts, sizes):
    """Batches of one record, of several, empty and longer than a block; some indices are out of range."""
    table = spoil(random_table(400, parts))
    tabular, dense = both(table, targets(400))
    rng = np.random.default_rng(1)
    ends = np.cumsum(sizes)
    order = rng.integers(-3, 403, ends[-1])
    shape = len(sizes), table.n_columns + 1
    for keywords in (
        {},
        {"noise": 0.1 * rng.normal(size=shape)},
        {"grid": 2.0**-20, "noise": rng.integers(-(2**20), 2**20, shape)},
        {"grid": 2.0**-20},
        {"inner_clip": math.inf},
    ):
        assert_same(descent(tabular, order, ends, **keywords), descent(dense, order, ends, **keywords))


def test_wide_rows_go_by_small_blocks():
    table = random_table(100, (5000, 0, 3000))
    rows, (w, _) = both(table, targets(100)), random_weights(table)
    assert_same(*(coordinate_integers(each, "huber", w, 0.3, CLIP, GRID) for each in rows))
    order, ends = np.arange(100)[::-1].copy(), np.array([50, 100])
    assert_same(*(descent(each, order, ends) for each in rows))


# -- rows that do not count ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@each_loss
def test_rows_that_are_not_finite_add_nothing(instruction_set, loss, value):
    table = random_table(40, LAYOUTS["mixed"])
    numeric = np.array(table.numeric)
    numeric[7, 2] = numeric[23, 0] = value
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    keep = np.delete(np.arange(40), [7, 23])
    spoilt = bind(source_of(table.with_rows(numeric, table.codes)), y, True, ROW_NORM)
    without = bind(source_of(table[keep]), y[keep], True, ROW_NORM)
    w, direction = random_weights(table)
    assert np.isnan(predictions(spoilt, w)[[7, 23]]).all()
    assert_same_passes(spoilt, without, loss, w, direction, passes=some_passes)


def test_the_order_of_rows_changes_nothing():
    table, y = spoil(random_table(1000, LAYOUTS["KDD"])), targets(1000)
    shuffled = np.random.default_rng(0).permutation(1000)
    w, direction = random_weights(table)
    first, second = (
        bind(source_of(table[order]), y[order], True, ROW_NORM) for order in (np.arange(1000), shuffled)
    )
    assert_same_passes(first, second, "logistic", w, direction, passes=some_passes)
    assert_same(predictions(first, w)[shuffled], predictions(second, w))
