"""One-hot columns detected in a matrix: the table equals the matrix, and no sum changes."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from data.test_compact_rows import N, assert_same, compact_and_plain, is_compact, sums_of
from dperm import Objective
from dperm.data import one_hot
from dperm.data.one_hot import as_table
from dperm.data.passes import ClippedGradientSums
from dperm.data.tabular import TabularMatrix
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.moments import gram_sum
from reference.tabular_data import random_table

FORMATS = pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
SIZES = [0, 3, 0, 5, 40, 1, 300, 0]


def one_hot_matrix(n, sizes=SIZES):
    """Numbers (size 0) and one-hot columns, some rows of which are 0."""
    return random_table(n, sizes).to_dense()


@FORMATS
@pytest.mark.parametrize("n", [1, 3000])
def test_the_table_is_the_matrix(form, n):
    dense = one_hot_matrix(n)
    table = as_table(form(dense))
    assert isinstance(table, TabularMatrix)
    assert np.array_equal(table.to_dense(), dense)


@given(
    columns=st.lists(st.sampled_from(["number", "binary", "one-hot"]), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_any_table_that_is_found_is_the_matrix(columns, seed):
    rng = np.random.default_rng(seed)
    parts = {
        "number": lambda: rng.normal(size=(50, 1)),
        "binary": lambda: rng.integers(0, 2, (50, 1)).astype(float),
        "one-hot": lambda: np.eye(9)[rng.integers(0, 9, 50)],
    }
    dense = np.concatenate([parts[kind]() for kind in columns], axis=1)
    table = as_table(dense)
    assert table is None or np.array_equal(table.to_dense(), dense)


def test_as_many_code_columns_as_before():
    dense = np.concatenate([np.eye(size)[np.arange(5000) % size] for size in (7, 11, 13)], axis=1)
    assert as_table(dense).layout.sizes == (7, 11, 13)


def test_a_late_row_counts():
    """After the sampled rows, one row has two ones, and another a number among the codes."""
    dense = np.eye(20)[np.arange(40_000) % 20]
    dense[-1, 10], dense[-1, 19], dense[-2, 3] = 1.0, 1.0, 0.5
    table = as_table(dense)
    assert table.layout.numeric_columns == (3,)
    assert table.layout.sizes == (3, 15, 1)
    assert np.array_equal(table.to_dense(), dense)


def test_values_that_are_no_zeros_and_ones_stay_numbers():
    dense = np.eye(12)[np.arange(500) % 12]
    dense[5, 2], dense[6, 4], dense[7, 6] = np.nan, np.inf, -0.0
    table = as_table(dense)
    assert table.layout.numeric_columns == (2, 4)
    assert np.array_equal(table.to_dense(), dense, equal_nan=True)


@pytest.mark.parametrize(
    "matrix",
    [
        np.random.default_rng(0).normal(size=(100, 30)),
        one_hot_matrix(100).astype("f4"),
        random_table(100, SIZES),
        scipy.sparse.random_array((1000, 50), density=0.02, format="csr", rng=0),
    ],
    ids=["numbers", "float32", "a table", "sparse numbers"],
)
def test_what_is_left_as_it_is(matrix):
    assert as_table(matrix) is None


def test_large_tables_are_not_made(monkeypatch):
    monkeypatch.setattr(one_hot, "_MAX_BYTES", 1000)
    assert as_table(one_hot_matrix(100)) is None


@FORMATS
def test_every_sum_is_the_same(form):
    rng = np.random.default_rng(0)
    X, y = form(one_hot_matrix(N, [0, 3, 5, 40])), rng.choice([-1.0, 1.0], N)
    compact, plain = compact_and_plain("logistic", X, y, row_norm=1.5, fit_intercept=True)
    for name, sums in sums_of(plain).items():
        assert_same(compact, plain, sums)
        assert is_compact(compact), name
    assert compact._rows.compact._rows.n_stored == N


def compact_rows_for(X, n_models):
    """What a pass with so many models reads in place of all records, if it is the first one."""
    objective = Objective("logistic", X, np.ones(N), row_norm=1.5, fit_intercept=True)
    objective._expect_passes(1000)
    return objective, objective._rows.compact.rows_for(several(objective, n_models))


def several(objective, n_models):
    weights, one = np.zeros((n_models, *objective.shape)), np.zeros(1)
    return ClippedGradientSums(objective.loss.kernel, weights, one, one, None, one.astype(np.int32))


@pytest.mark.parametrize(("n_models", "codes"), [(2, False), (8, True), (9, False), (15, True), (16, True)])
def test_several_models_read_codes_where_they_fill_vectors(n_models, codes):
    assert (compact_rows_for(one_hot_matrix(N, [0, 3, 5, 40]), n_models)[1] is not None) == codes


def test_of_a_denser_matrix_only_many_models_read_codes():
    X = one_hot_matrix(N, [0, 3, 2, 2, 3, 0, 4, 2])  # a third of which is not 0
    assert 1.0 / 6.0 < one_hot.nonzero_share(X) < 0.5
    objective, rows = compact_rows_for(X, 16)
    assert rows is not None
    assert objective._rows.compact.rows_for(several(objective, 2)) is None
    assert compact_rows_for(X, 2)[1] is None
    mostly_ones = (np.random.default_rng(0).random((N, 30)) < 0.7).astype(float)
    assert compact_rows_for(mostly_ones, 16)[1] is None


def test_records_that_do_not_count_still_do_not():
    X = one_hot_matrix(N, [0, 3, 5, 40])
    X[::7, 0] = np.nan
    X[3::11] = np.inf
    y = np.where(np.arange(N) % 5 == 0, np.nan, 1.0)
    compact, plain = compact_and_plain("huber", X, y, row_norm=1.5, non_finite="zero")
    for sums in (lambda o: clipped_gradient_sum(o, np.ones(o.shape), 0.5), lambda o: gram_sum(o)):
        assert_same(compact, plain, sums)
