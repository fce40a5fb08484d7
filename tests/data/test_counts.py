"""Multiplicities: the row of a record, sums by binary digits, and valid counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dperm import Objective
from dperm.data.targets import Multiplicity
from dperm.errors import DataError

some_counts = st.lists(st.integers(1, 9) | st.sampled_from([1, 1, 1, 1000]), min_size=1, max_size=60)


@given(counts=some_counts, seed=st.integers(0, 99))
def test_records_are_those_of_repeated_rows(counts, seed):
    known = Multiplicity(counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    assert known.n_records == rows.size
    everything = np.arange(rows.size)
    np.testing.assert_array_equal(known.rows_of(everything), rows)
    some = np.random.default_rng(seed).permutation(rows.size)[: 1 + rows.size // 3]
    np.testing.assert_array_equal(known.rows_of(some), rows[some])


def test_records_that_do_not_exist_have_no_row():
    known = Multiplicity([2, 3])
    assert known.rows_of(np.array([-1, 4, 5, 2**62])).tolist() == [2, 1, 2, 2]
    assert known.rows_of(np.empty(0, dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(
    "counts", [[2**50], [2**49, 1, 1, 2**48], [1] * 1000 + [2**40], [2**40] + [1] * 1000]
)
def test_counts_of_very_different_size(counts):
    known = Multiplicity(counts)
    ends = np.cumsum(counts)
    rng = np.random.default_rng(0)
    records = np.unique(np.concatenate([[0], ends[:-1], ends - 1, rng.integers(0, ends[-1], 500)]))
    expected = np.searchsorted(ends, records, side="right")
    np.testing.assert_array_equal(known.rows_of(records), expected)


@given(counts=some_counts)
def test_sums_by_digits(counts):
    values = np.arange(len(counts)) ** 2 - 7

    def sum_over_rows(rows):
        assert (np.diff(rows) > 0).all()
        return np.array([values[rows].sum(), rows.size])

    total = Multiplicity(counts).sum_over_records(sum_over_rows)
    assert total.tolist() == [int(values @ counts), sum(counts)]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], "one number per row"),
        ([[1, 2, 3]], "one number per row"),
        ([], "one number per row"),
        (3, "one number per row"),
        ([1, -1, 3], "-1 at row 1"),
        ([1.0, 0.5, 3.0], "0.5 at row 1"),
        ([1.0, 2.0, np.nan], "nan at row 2"),
        ([1.0, 2.0, np.inf], "inf at row 2"),
        ([2**51, 1, 1], "at row 0"),
        ([2**50, 1, 1], "in all"),
        ([0, 0, 0], "at least 1"),
        (["a", "b", "c"], "whole numbers"),
        ([True, False, True], "whole numbers"),
    ],
)
def test_invalid_counts(counts, message):
    with pytest.raises(DataError, match=message):
        Objective("logistic", np.eye(3), np.ones(3), counts=counts)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint64, np.float32])
def test_whole_numbers_of_any_type(dtype):
    objective = Objective("logistic", np.eye(3), np.ones(3), counts=np.array([1, 2, 3], dtype))
    assert objective.n_public == 6


def test_counts_have_the_length_of_the_data_even_where_rows_stand_for_none():
    for x, y in [(np.eye(4), np.ones(4)), (np.eye(3), np.ones(4)), (np.eye(4), np.ones(3))]:
        with pytest.raises(DataError, match="one entry per row"):
            Objective("logistic", x, y, counts=[1, 0, 2])
