"""Sums over batches of rows: the integers of a data set that consists of these rows."""

import math

import numpy as np
import pytest

from reference import awkward_arrays
from reference.kernel_calls import (
    assert_same_on_each_instruction_set,
    bind,
    dtypes,
    gradient_integers,
    intercepts,
    weights,
)

CLIP, GRID = 0.5, 0.5 * 2.0**-22


def batch_sum(rows, w, batch, loss="logistic", threads=1):
    return gradient_integers(rows, loss, w, CLIP, GRID, threads, batch=batch)


def sum_of_copy(x, y, w, batch, intercept, loss="logistic"):
    """The full sum of a data set that consists of the batch's rows."""
    rows = bind(np.ascontiguousarray(x[batch]), np.ascontiguousarray(y[batch]), intercept, 1.5)
    return batch_sum(rows, w, None, loss)


@dtypes
@intercepts
@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("width", [1, 8, 17, 131])
def test_a_batch_is_the_data_set_of_its_rows(instruction_set, dtype, intercept, loss, width):
    x, y, w, _ = awkward_arrays.awkward(width, dtype)
    w = weights(w, x, intercept)
    rows = bind(x, y, intercept, 1.5)
    rng = np.random.default_rng(width)
    for _ in range(10):
        batch = np.flatnonzero(rng.random(len(x)) < rng.random())
        if len(batch):
            expected = sum_of_copy(x, y, w, batch, intercept, loss)
            assert batch_sum(rows, w, batch, loss).tolist() == expected.tolist()


@dtypes
def test_all_rows_are_the_full_sum_and_none_are_zero(instruction_set, dtype):
    x, y, w, _ = awkward_arrays.ordinary(3000, 9, dtype)
    w = weights(w, x, True)
    rows = bind(x, y, True, 1.5)
    assert batch_sum(rows, w, np.arange(3000)).tolist() == batch_sum(rows, w, None).tolist()
    for threads in (1, 2):
        assert batch_sum(rows, w, np.empty(0, dtype=np.int64), threads=threads).tolist() == [0] * 10


@dtypes
@pytest.mark.parametrize("size", [1, 16, 257, 9000])
def test_threads_do_not_change_a_bit(dtype, size):
    x, y, w, _ = awkward_arrays.ordinary(10_000, 9, dtype)
    w = weights(w, x, False)
    rows = bind(x, y, False, 1.5)
    batch = np.sort(np.random.default_rng(size).choice(len(x), size, replace=False))
    sums = [batch_sum(rows, w, batch, threads=threads).tolist() for threads in (1, 2, 3)]
    assert sums == [sum_of_copy(x, y, w, batch, False).tolist()] * 3


def test_instruction_sets_agree(keep_instruction_set):
    x, y, w, _ = awkward_arrays.awkward(33, np.float32)
    w = weights(w, x, True)
    batch = np.arange(1, len(x), 3)
    assert_same_on_each_instruction_set(lambda: [batch_sum(bind(x, y, True, 1.5), w, batch)])


@pytest.mark.parametrize("batch", [[-1, 2], [0, 5], [2**40]])
def test_rows_that_are_not_there(batch):
    rows = bind(np.ones((5, 3)), np.ones(5))
    with pytest.raises(IndexError):
        batch_sum(rows, np.zeros(3), np.array(batch))


def test_the_clip_holds_in_a_batch():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 7)), np.sign(rng.normal(size=500))
    rows = bind(x, y, False, math.inf)
    w = 3 * rng.normal(size=7)
    for i in range(500):
        assert np.linalg.norm(batch_sum(rows, w, np.array([i])) * GRID) <= CLIP + GRID * math.sqrt(7)
