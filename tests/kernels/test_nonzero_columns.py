"""Passes by the nonzero columns of a table: the integers of the dense one-hot matrix, bit for bit."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reference.kernel_calls import (
    CLIP,
    EVEN_STEPS,
    assert_same_passes,
    bind,
    gradient_integers,
    loss_integers,
    predictions,
)
from reference.losses import EXAMPLES
from reference.tabular_data import (
    LAYOUTS,
    NUMERIC_DTYPES,
    both,
    random_table,
    random_weights,
    runs,
    source_of,
    spoil,
    targets,
)
from reference.tabular_data import numeric_dtypes as dtypes
from reference.threads import in_threads

GRID = 2.0**-33


def both_after_two_passes(table, y, *arguments, **keywords):
    """Rows whose passes use nonzero columns from the third on, and the dense rows."""
    rows, dense = both(table, y, *arguments, **keywords)
    for _ in range(2):
        assert rows.x.nonzero_bytes == 0
        predictions(rows, np.ones(rows.x.shape[1] + 1))
    return rows, dense


def assert_passes_by_columns_agree(table, y, loss="logistic", **keywords):
    rows, dense = both_after_two_passes(table, y)
    can_hold_maps = table.numeric.dtype.kind == "f"
    assert (rows.x.nonzero_bytes > 0) == (can_hold_maps or not table.layout.maps)
    assert_same_passes(rows, dense, loss, *random_weights(table), **keywords)


@pytest.mark.parametrize("layout", ["KDD", "curves, KDD", "numbers, groups of units", "mixed", "alternating"])
@dtypes
@pytest.mark.parametrize("n_rows", [77, 1600])
def test_every_pass_gives_the_integers_of_the_dense_matrix(instruction_set, layout, dtype, n_rows):
    table = spoil(runs(n_rows, LAYOUTS[layout], dtype))
    batch = np.flatnonzero(np.random.default_rng(3).random(n_rows) < 0.4)
    assert_passes_by_columns_agree(table, targets(n_rows), batch=batch)


@pytest.mark.parametrize("loss", sorted(EXAMPLES))
def test_every_loss(instruction_set, loss):
    assert_passes_by_columns_agree(spoil(runs(300, LAYOUTS["KDD"])), targets(300), loss)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    assert_passes_by_columns_agree(runs(9001, LAYOUTS["KDD"]), targets(9001), threads=threads)


@given(
    parts=st.lists(
        st.sampled_from([0, 0, 0, 0, 1, 2, 3, 8, 33, 270, (5, 3), (300, 9)]), min_size=3, max_size=40
    ),
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
    rows, dense = both_after_two_passes(table, targets(n_rows, seed), intercept, row_norm)
    assume(rows.x.nonzero_bytes > 0)
    assert_same_passes(rows, dense, "logistic", *random_weights(table, intercept, scale, seed))


@dtypes
@pytest.mark.parametrize("most", [3, 2**40])
def test_rows_with_counts_are_rows_repeated(instruction_set, dtype, most):
    table = spoil(runs(200, LAYOUTS["KDD"], dtype))
    rng = np.random.default_rng(2)
    counts = np.where(rng.random(200) < 0.5, 1, rng.integers(2, most, 200))
    counts[100:150] = 1  # whole blocks of single records
    w, direction = random_weights(table)
    by_columns, dense = both_after_two_passes(table, targets(200), counts=counts)
    for sums in (
        lambda rows: gradient_integers(rows, "logistic", w, CLIP, 2.0**-10, 2),
        lambda rows: loss_integers(rows, "logistic", w, direction, CLIP, 2.0**-10, 2, EVEN_STEPS),
    ):
        np.testing.assert_array_equal(sums(by_columns), sums(dense), strict=True)


def test_a_table_with_many_nonzero_columns_is_read_directly():
    for parts in [(0,) * 38, (300, 5, 300), (0,) * 10 + (70, 11), (5000,)]:
        table = random_table(2000, parts)
        rows, dense = both_after_two_passes(table, targets(2000))
        w, _ = random_weights(table)
        expected = gradient_integers(dense, "huber", w, CLIP, GRID)
        for _ in range(3):
            np.testing.assert_array_equal(gradient_integers(rows, "huber", w, CLIP, GRID, 2), expected)
        assert rows.x.nonzero_bytes == 0


def test_batches_alone_make_no_nonzero_columns():
    table = runs(400, LAYOUTS["KDD"])
    rows, (w, _) = bind(source_of(table), targets(400), True), random_weights(table)
    for _ in range(5):
        gradient_integers(rows, "logistic", w, CLIP, GRID, batch=np.arange(0, 400, 3))
    assert rows.x.nonzero_bytes == 0


def test_memory_is_less_than_an_eighth_of_the_dense_matrix():
    table = runs(20_000, LAYOUTS["KDD"])
    rows, _ = both_after_two_passes(table, targets(20_000))
    assert (
        0 < rows.x.nonzero_bytes < 20_000 * table.n_columns * 8 / 7
    )  # an eighth, plus the overhead of groups


def test_passes_of_several_threads_at_once_agree():
    """The second one finds the nonzero columns while others read the table."""
    table = runs(6000, LAYOUTS["KDD"])
    (rows, dense), (w, _) = both(table, targets(6000)), random_weights(table)
    results = []
    in_threads(
        lambda _: results.extend(gradient_integers(rows, "logistic", w, CLIP, GRID, 2) for _ in range(4)), 6
    )
    expected = gradient_integers(dense, "logistic", w, CLIP, GRID)
    assert len(results) == 24
    for result in results:
        np.testing.assert_array_equal(result, expected)
    assert rows.x.nonzero_bytes > 0
