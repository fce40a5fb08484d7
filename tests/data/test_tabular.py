"""The tabular matrix: the dense matrix it represents, what it refuses, and row indexing."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, train_test_split

from dperm.data import CodeMap, TabularLayout, TabularMatrix
from dperm.errors import DataError
from reference.tabular_data import NUMERIC_DTYPES, layout_of, one_hot, random_table

MIXED = (0, 3, 0, 0, 70, 1, 0)
SIMPLE = TabularLayout((0,), (1,), (3,))


@given(
    parts=st.lists(st.sampled_from([0, 0, 1, 2, 5, 9, 260, (4, 3), (270, 2)]), min_size=1, max_size=8),
    dtype=st.sampled_from(NUMERIC_DTYPES),
    n_rows=st.integers(0, 20),
    seed=st.integers(0, 2**20),
)
def test_dense_is_the_one_hot_matrix(parts, dtype, n_rows, seed):
    table = random_table(n_rows, parts, dtype, seed)
    dense = table.to_dense()
    assert dense.dtype == table.dtype == np.float64
    assert dense.shape == table.shape
    np.testing.assert_array_equal(dense, one_hot(table))


def test_dense_in_single_precision():
    table = random_table(30, MIXED, np.float64)
    dense = table.to_dense(np.float32)
    assert dense.dtype == np.float32
    np.testing.assert_array_equal(dense, one_hot(table).astype(np.float32))
    with pytest.raises(ValueError, match="floating-point"):
        table.to_dense(int)


@given(
    parts=st.lists(st.sampled_from([0, 0, 1, 2, 5, 9, 260, (4, 3), (270, 2)]), min_size=1, max_size=8),
    dtype=st.sampled_from(NUMERIC_DTYPES),
    n_rows=st.integers(0, 20),
    shape=st.sampled_from([(), (1,), (3,)]),
    seed=st.integers(0, 2**20),
)
def test_products_and_norms_are_those_of_the_one_hot_matrix(parts, dtype, n_rows, shape, seed):
    table = random_table(n_rows, parts, dtype, seed)
    dense = one_hot(table)
    weights = np.random.default_rng(seed).normal(size=(table.n_columns, *shape))
    sizes = np.abs(dense) @ np.abs(weights)
    assert np.all(np.abs(table @ weights - dense @ weights) <= 1e-14 * sizes)
    np.testing.assert_allclose(table.squared_norms(), (dense**2).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("shape", [(), (77,), (79, 2), (78, 2, 2)])
def test_products_with_weights_of_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"weights must have shape \(78,\) or \(78, K\), got"):
        random_table(10, MIXED) @ np.zeros(shape)


def test_size_and_memory():
    table = random_table(10, MIXED, np.uint8)
    assert table.shape == (10, 78)
    assert table.n_columns == table.layout.n_columns == 78
    assert len(table) == 10
    assert table.ndim == 2
    assert table.nbytes == 10 * (4 + 3)
    assert "10 rows, 78 columns" in repr(table)


@pytest.mark.parametrize(
    "rows",
    [
        slice(3, 9, 2),
        slice(0, 0),
        [5, 0, 5],
        [],
        np.array([2, -1]),
        np.arange(12) % 3 == 0,
        (slice(2, 4), slice(None)),
        ([1, 2], Ellipsis),
    ],
    ids=str,
)
def test_rows_are_taken_like_those_of_an_array(rows):
    table = random_table(12, MIXED)
    taken = table[rows]
    assert isinstance(taken, TabularMatrix)
    assert taken.layout is table.layout
    only = rows[0] if isinstance(rows, tuple) else rows
    expected = one_hot(table)[only if isinstance(only, slice) or len(only) else slice(0, 0)]
    np.testing.assert_array_equal(taken.to_dense(), expected)


def test_slices_do_not_copy():
    table = random_table(12, MIXED)
    taken = table[3:9]
    assert np.shares_memory(taken.numeric, table.numeric)
    assert np.shares_memory(taken.codes, table.codes)


@pytest.mark.parametrize("rows", [3, (0, 1), (slice(None), [0]), np.zeros((2, 2), int)], ids=repr)
def test_columns_and_single_rows_are_not_taken(rows):
    with pytest.raises(IndexError):
        random_table(12, MIXED)[rows]


def test_scikit_learn_splits_it():
    table = random_table(40, MIXED)
    y = np.arange(40)
    train, test, y_train, y_test = train_test_split(table, y, random_state=0)
    dense = one_hot(table)
    np.testing.assert_array_equal(train.to_dense(), dense[y_train])
    np.testing.assert_array_equal(test.to_dense(), dense[y_test])
    for _, fold in KFold(3).split(table, y):
        np.testing.assert_array_equal(table[fold].to_dense(), dense[fold])


def test_pickles():
    table = random_table(12, MIXED, np.uint16)
    back = pickle.loads(pickle.dumps(table))
    assert back.layout == table.layout
    np.testing.assert_array_equal(back.to_dense(), table.to_dense())
    assert not back.codes.flags.writeable


def test_is_immutable_and_leaves_the_arrays_alone():
    numeric, codes = np.zeros((2, 1), np.float32), np.zeros((2, 1), np.uint8)
    table = TabularMatrix(numeric, codes, SIMPLE)
    assert np.shares_memory(table.numeric, numeric)
    with pytest.raises(ValueError, match="read-only"):
        table.codes[0, 0] = 1
    assert codes.flags.writeable


def test_other_layouts_in_memory_are_copied():
    numeric = np.asfortranarray(np.arange(6, dtype=">f4").reshape(3, 2))
    codes = np.zeros((6, 1), np.uint8)[::2]
    table = TabularMatrix(numeric, codes, TabularLayout((0, 1), (2,), (2,)))
    assert table.numeric.flags.c_contiguous
    assert table.numeric.dtype.isnative
    np.testing.assert_array_equal(table.to_dense()[:, :2], np.arange(6).reshape(3, 2))


def test_is_never_expanded_by_accident():
    table = random_table(5, MIXED)
    with pytest.raises(TypeError, match="to_dense"):
        np.asarray(table)
    with pytest.raises(TypeError, match="to_dense"):
        list(table)


def test_with_rows_keeps_the_layout():
    table = random_table(5, MIXED)
    other = random_table(9, MIXED, seed=1)
    np.testing.assert_array_equal(table.with_rows(other.numeric, other.codes).to_dense(), other.to_dense())
    with pytest.raises(DataError):
        table.with_rows(other.numeric[:, 1:], other.codes)


@pytest.mark.parametrize(
    ("numeric", "codes", "message"),
    [
        (np.zeros((2, 2), np.float32), np.zeros((2, 1), np.uint8), r"numeric must be .* \(n, 1\)"),
        (np.zeros((2, 1), np.float32), np.zeros((2, 2), np.uint8), r"codes must be .* \(n, 1\)"),
        (np.zeros((2, 1), np.float32), np.zeros((3, 1), np.uint8), "same number of rows"),
        (np.zeros((2, 1), np.int64), np.zeros((2, 1), np.uint8), "numeric must have one of the dtypes"),
        (np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int8), "codes must have one of the dtypes"),
        ([[0.0]], np.zeros((1, 1), np.uint8), "got list"),
        (np.zeros((2, 1), np.float32), np.array([[3], [4]], np.uint8), "below 3, or 3 .* got 4 at row 1"),
    ],
)
def test_wrong_parts_are_refused(numeric, codes, message):
    with pytest.raises(DataError, match=message):
        TabularMatrix(numeric, codes, SIMPLE)


def test_a_step_belongs_to_integers():
    layout = TabularLayout((0,), (), (), step=0.5)
    none = np.zeros((1, 0), np.uint8)
    assert TabularMatrix(np.array([[3]], np.uint8), none, layout).to_dense() == 1.5
    with pytest.raises(DataError, match="step"):
        TabularMatrix(np.array([[3.0]]), none, layout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), ()), "at least one column"),
        (((0,), (1,), ()), "same length"),
        (((0,), (1,), (0,)), "at least 1"),
        (((1, 0), (), ()), "ascend"),
        (((), (2, 0), (2, 2)), "ascend"),
        (((0, 2), (), ()), "column 1 belongs to no part"),
        (((1,), (0,), (2,)), "column 1 belongs to two parts"),
        (((0.5,), (), ()), "integers"),
        (((0,), (), (), 0.0), "step"),
        (((0,), (), (), float("nan")), "step"),
    ],
)
def test_wrong_layouts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TabularLayout(*arguments)


def test_layouts_with_maps_compare_by_value():
    table = random_table(9, (0, (4, 3), 2))
    copy = pickle.loads(pickle.dumps(table))
    assert copy.layout == table.layout
    assert copy.layout != layout_of((0, 3, 2))
    assert copy.layout != TabularLayout((0,), (1, 4), (4, 2), maps=(CodeMap(np.ones((4, 3))), None))
    np.testing.assert_array_equal(copy.to_dense(), one_hot(table))
    for maps in [(CodeMap(np.ones((3, 3))), None), (CodeMap(np.ones((4, 3))),)]:
        with pytest.raises(ValueError, match="maps must have a map of its size"):
            TabularLayout((0,), (1, 4), (4, 2), maps=maps)
    with pytest.raises(ValueError, match="a map of codes must be a finite matrix"):
        CodeMap([[np.nan]])


def test_layouts_compare_by_value():
    assert layout_of(MIXED) == layout_of(list(MIXED))
    assert len({layout_of(MIXED), layout_of(MIXED), layout_of((0,))}) == 2
    assert TabularLayout([0], [1], [3]) == SIMPLE
