"""A record's integers do not depend on order, neighbours, chunks, threads or the instruction set."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Objective
from dperm.errors import DataError
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import awkward_arrays
from reference.kernel_calls import (
    all_integers,
    assert_chunks_add_up,
    assert_same_on_each_instruction_set,
    assert_sum_of_records,
    bind,
    dtypes,
    each_loss_and,
    gradient_integers,
    intercepts,
    loss_integers,
    per_record,
    plain_sums,
    predictions,
    weights,
)
from reference.losses import LOSSES


@functools.cache
def large_problem(dtype):
    """Three ranges of rows, the last one short; enough entries for several threads."""
    return awkward_arrays.ordinary(2 * 4096 + 531, 9, dtype)


@dtypes
@intercepts
@pytest.mark.parametrize(("loss", "threads"), each_loss_and([2, 7], few=[2]))
def test_threads_do_not_change_a_bit(instruction_set, dtype, loss, intercept, threads):
    one, many = (
        all_integers(*large_problem(dtype), loss=loss, intercept=intercept, threads=n) for n in (1, threads)
    )
    assert np.array_equal(one, many)


@dtypes
def test_threads_do_not_change_floating_point_results(instruction_set, dtype):
    x, y, w, _ = large_problem(dtype)
    results = []
    for threads in (1, 2, 3, 7):
        rows = bind(x, y, True, 1.5, threads)
        gradient, loss = plain_sums(rows, "logistic", w, threads)
        results.append(np.concatenate([rows.norms, gradient, [loss], predictions(rows, w, threads)]))
    assert all(np.array_equal(results[0], other) for other in results[1:])


@dtypes
@intercepts
@pytest.mark.parametrize(("loss", "width"), each_loss_and([*awkward_arrays.WIDTHS, 300], few=[9]))
def test_instruction_sets_agree_in_every_bit(keep_instruction_set, dtype, loss, intercept, width):
    x, y, w, direction = awkward_arrays.awkward(width, dtype)

    def compute():
        rows, exact = bind(x, y, intercept), all_integers(x, y, w, direction, loss=loss, intercept=intercept)
        return exact, rows.norms, predictions(rows, weights(w, x, intercept))

    assert_same_on_each_instruction_set(compute)


@dtypes
@intercepts
@pytest.mark.parametrize(("loss", "width"), each_loss_and(awkward_arrays.WIDTHS, few=[17]))
def test_sum_of_one_row_data_sets(instruction_set, dtype, loss, intercept, width):
    assert_sum_of_records(*awkward_arrays.awkward(width, dtype), loss=loss, intercept=intercept)


@dtypes
@pytest.mark.parametrize("n_rows", awkward_arrays.ROW_COUNTS)
def test_sum_of_one_row_data_sets_at_block_sizes(instruction_set, dtype, n_rows):
    assert_sum_of_records(*awkward_arrays.ordinary(n_rows, 2, dtype), loss="logistic", intercept=True)


@dtypes
@settings(max_examples=120)
@given(loss=st.sampled_from(LOSSES), data=st.data())
def test_deletion_order_and_chunks(dtype, loss, data):
    width = data.draw(st.sampled_from([1, 5, 16, 17, 40]))
    problem = awkward_arrays.awkward(width, dtype)
    assert_chunks_add_up(data, *problem, loss=loss, intercept=data.draw(st.booleans()))


@dtypes
def test_replacing_a_neighbour_changes_no_other_record(instruction_set, dtype):
    """The difference of two neighbouring data sets is that of the two records."""
    x, y, w, direction = awkward_arrays.awkward(17, dtype)
    keywords = {"loss": "huber", "intercept": True}
    special = list(awkward_arrays.special_rows(17, dtype).values())
    each = per_record(x, y, w, direction, **keywords)
    for place in (0, 7, 8, 15, 16, 39):
        for row in [*special, np.full(17, np.nan, dtype)]:
            other = x.copy()
            other[place] = row
            swapped = per_record(other[place : place + 1], y[place : place + 1], w, direction, **keywords)[0]
            expected = each.sum(axis=0) - each[place] + swapped
            assert all_integers(other, y, w, direction, **keywords).tolist() == expected.tolist()


@pytest.mark.parametrize("n_rows", [4096, 8191])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 22), (np.float64, 50)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_all_records_at_the_bound(instruction_set, n_rows, dtype, bits, sign):
    """The finest allowed grid, and every record of maximal norm: no sum overflows."""
    x, y = np.ones((n_rows, 1), dtype), np.full(n_rows, sign, dtype)
    integers = gradient_integers(bind(x, y), "squared_hinge", np.array([-sign * 100.0]), 1.0, 2.0**-bits)
    assert integers.tolist() == [-int(sign) * n_rows * 2**bits]
    along_intercept = gradient_integers(
        bind(0 * x, y, True), "squared_hinge", np.array([0.0, -sign * 100.0]), 1.0, 2.0**-bits
    )
    assert along_intercept.tolist() == [0, -int(sign) * n_rows * 2**bits]


def test_all_losses_at_the_bound(instruction_set):
    x, y = np.ones((8191, 1)), np.ones(8191)
    scores = loss_integers(bind(x, y), "hinge", np.array([-9.0]), np.array([0.0]), 1.0, 2.0**-50)
    assert scores.tolist() == [8191 * 2**50] * len(scores)


def test_far_more_records_than_the_grid_was_made_for():
    """2^22 records on a grid for one record: the sum is still exact."""
    n_rows = 2**22
    x, y = np.ones((n_rows, 1)), np.ones(n_rows)
    objective = Objective("hinge", x, y, n_public=1, n_threads=1)
    gradient = clipped_gradient_sum(objective, [-9.0], 0.25)
    one = clipped_gradient_sum(Objective("hinge", x[:1], y[:1]), [-9.0], 0.25)
    assert one.grid == gradient.grid
    assert gradient._integers.tolist() == [n_rows * int(one._integers[0])]


def test_as_many_records_as_could_overflow_are_refused(monkeypatch):
    """Sums stay below 2^62: at most 2^30 records of 2^32 grid steps. The number of rows is faked."""
    full, objective = (Objective("hinge", np.ones((2, 1)), np.ones(2), n_public=1) for _ in range(2))
    monkeypatch.setattr(full, "_n_rows", 2**30)
    clipped_gradient_sum(full, [-9.0], 0.25)
    monkeypatch.setattr(objective, "_n_rows", 2**30 + 1)
    with pytest.raises(DataError, match="n_public = 1 is far below"):
        clipped_gradient_sum(objective, [-9.0], 0.25)
    with pytest.raises(DataError, match="n_public"):
        clipped_loss_sums(objective, [-9.0], [0.0], [0.0], 0.25)


@dtypes
@pytest.mark.parametrize("clip", [2.0**-64, 0.3, 1.0, 2.0**64])
def test_sums_are_exact_doubles_for_n_public_records(dtype, clip):
    """n clip / grid <= 2^51, and the grid is a power of two that depends on public numbers alone."""
    x, y, w, direction = awkward_arrays.ordinary(50, 3, dtype)
    for n_public in (50, 64, 10**6, 2**30):
        objective = Objective("squared_hinge", x, y, n_public=n_public)
        other = Objective("squared_hinge", x[:9], y[:9], n_public=n_public)
        for a, b in [
            (clipped_gradient_sum(objective, w[:3], clip), clipped_gradient_sum(other, w[:3], clip)),
            (
                clipped_loss_sums(objective, w[:3], direction[:3], [0.0], clip),
                clipped_loss_sums(other, w[:3], direction[:3], [0.0], clip),
            ),
        ]:
            assert a.grid == b.grid
            assert np.frexp(a.grid)[0] == 0.5
            assert n_public * clip / a.grid <= 2.0**51


@dtypes
@intercepts
def test_kept_predictions_change_no_bit_of_a_line_search(instruction_set, dtype, intercept):
    x, y, w, direction = awkward_arrays.ordinary(1100, 7, dtype)
    x[5], x[700, 3] = np.nan, np.inf
    rows = bind(x, y, intercept, 1.5)
    w, direction = (weights(each, x, intercept) for each in (w, direction))
    for loss in ("logistic", "huber"):
        for steps in (np.linspace(0.0, 2.0, 21), np.array([0.0, 0.5, 7.0])):
            fresh = bind(x, y, intercept, 1.5)
            expected = loss_integers(fresh, loss, w, direction, 0.5, 2.0**-20, steps=steps)
            gradient_integers(rows, loss, w, 0.25, 2.0**-20, 2, keep_predictions=True)
            for at in (w, w + 1.0):  # the kept ones, and other weights
                found = loss_integers(rows, loss, at, direction, 0.5, 2.0**-20, threads=2, steps=steps)
                other = loss_integers(fresh, loss, at, direction, 0.5, 2.0**-20, steps=steps)
                np.testing.assert_array_equal(found, other)
            np.testing.assert_array_equal(
                loss_integers(rows, loss, w, direction, 0.5, 2.0**-20, steps=steps), expected
            )
