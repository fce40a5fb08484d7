"""Compiled steps of stochastic gradient descent: equal to the numpy twin, with the same bits everywhere."""

import math

import numpy as np
import pytest

from reference import awkward_arrays
from reference.kernel_calls import (
    ROW_NORM,
    assert_same_on_each_instruction_set,
    bind,
    descend,
    dtypes,
    weights,
)
from reference.losses import EXAMPLES, LOSSES
from reference.sgd_twin import sgd

STEPS, BATCH = 60, 3


def problem(width, dtype, batch=BATCH):
    """Records, an order, ends of batches and step sizes."""
    x, y, *_ = awkward_arrays.ordinary(50, width, dtype)
    rng = np.random.default_rng(width)
    order = rng.integers(0, 50, STEPS * batch)
    return x, y, (order, np.arange(1, STEPS + 1) * batch, rng.uniform(0.01, 0.2, STEPS))


def one_step(rows, loss, start, batch, size=1.0, noise=None, **settings):
    """Weights after a single step."""
    batch = np.array(batch)
    return descend(rows, loss, start, batch, np.array([len(batch)]), np.array([size]), noise, **settings)[0]


@dtypes
@pytest.mark.parametrize("loss", sorted(EXAMPLES))
@pytest.mark.parametrize(("width", "intercept"), [(1, True), (5, False), (9, True), (33, False)])
def test_steps_are_the_twins(instruction_set, dtype, loss, width, intercept):
    x, y, steps = problem(width, dtype)
    rng = np.random.default_rng(7)
    noise, start = (0.1 * rng.normal(size=(*shape, width + intercept)) for shape in ((STEPS,), ()))
    settings = {"divisor": 2.0, "l2": 0.3, "n_penalized": width, "radius": 0.8}
    w, w_sum = descend(
        bind(x, y, intercept, ROW_NORM), loss, start, *steps, noise, inner_clip=0.6, **settings
    )
    expected = sgd(
        x, y, EXAMPLES[loss], steps[0].reshape(STEPS, BATCH), steps[2], row_norm=ROW_NORM,
        fit_intercept=intercept, clip=0.6, noise=noise, start=start, **settings,
    )  # fmt: skip
    # Rounding errors, amplified by the steps; no record is near a kink.
    np.testing.assert_allclose(w, expected[-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(w_sum, expected[:-1].sum(axis=0), rtol=0, atol=1e-9)


@dtypes
@pytest.mark.parametrize("width", awkward_arrays.WIDTHS)
@pytest.mark.usefixtures("keep_instruction_set")
def test_bits_are_the_same_on_every_instruction_set(dtype, width):
    x, y, steps = problem(width, dtype, batch=20)
    noise = np.random.default_rng(0).normal(size=(STEPS, width + 1))
    integers = np.rint(noise * 2**30).astype(np.int64)

    def compute():
        rows, start = bind(x, y, True, ROW_NORM), np.ones(width + 1)
        exact, kept_short = {"inner_clip": 0.3, "grid": 2.0**-30}, {"radius": 2.0}
        return [
            descend(rows, loss, start, *steps, own, **settings)
            for loss in ("logistic", "hinge", "power")
            for own, settings in ((noise, kept_short), (integers, exact))
        ]

    assert_same_on_each_instruction_set(compute)


@dtypes
def test_blocks_do_not_matter(dtype):
    x, y, (order, ends, etas) = problem(17, dtype)
    noise = np.random.default_rng(0).normal(size=(STEPS, 17))
    rows, settings = bind(x, y, False, ROW_NORM), {"inner_clip": 0.4, "l2": 0.1}
    whole = descend(rows, "logistic", np.zeros(17), order, ends, etas, noise, **settings)
    w, w_sum = np.zeros(17), np.zeros(17)
    for begin, end in [(0, 1), (1, 8), (8, 40), (40, STEPS)]:
        block = order[begin * BATCH :], ends[begin:end] - begin * BATCH, etas[begin:end], noise[begin:end]
        w, w_sum = descend(rows, "logistic", w, *block, w_sum=w_sum, **settings)
    np.testing.assert_array_equal((w, w_sum), whole)


@dtypes
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber"])
@pytest.mark.parametrize("batch", [1, 5, 16, 17, 40])
def test_one_exact_step_is_the_rounded_sum(instruction_set, dtype, loss, batch):
    """In units of the grid the step is an integer: the sum of rounded gradients and noise."""
    x, y, *_ = awkward_arrays.ordinary(batch, 9, dtype)
    rows, grid = bind(x, y, True, ROW_NORM), 2.0**-28
    noise = np.random.default_rng(2).integers(-(2**40), 2**40, (1, 10))

    def step(order, noise=None):
        return one_step(rows, loss, np.zeros(10), order, -1.0, noise, inner_clip=0.3, grid=grid) / grid

    each = [step([i]) for i in range(batch)]
    assert all(np.array_equal(record, np.rint(record)) for record in each)
    assert max(np.linalg.norm(record) for record in each) * grid <= 0.3 + grid * math.sqrt(10)
    order = np.random.default_rng(3).permutation(batch)
    np.testing.assert_array_equal(step(order, noise), np.sum(each, axis=0) + noise[0])


def test_noise_beyond_the_significand_is_added_before_rounding():
    """The exact sum is odd and the noise huge and even: their integer sum is rounded once."""
    rows, grid = bind(np.ones((1, 1)), np.ones(1)), 2.0**-10
    noise = np.array([[2**53 + 2]], dtype=np.int64)
    w = one_step(rows, "hinge", np.zeros(1), [0], -1.0, noise, inner_clip=0.5 - grid, grid=grid)
    assert w[0] / grid == float(2**53 + 2 - (2**9 - 1))


@dtypes
def test_rows_that_do_not_count(instruction_set, dtype):
    x, y, *_ = awkward_arrays.ordinary(6, 5, dtype)
    x[2, 3], y[4] = np.nan, np.inf
    rows, start = bind(x, y, True, ROW_NORM), np.linspace(-1, 1, 6)
    for index in (2, 4, 6, 10**12, -1):
        np.testing.assert_array_equal(one_step(rows, "logistic", start, [index]), start)
    everything, two = (one_step(rows, "logistic", start, batch) for batch in ([0, 2, 9, 4, 1], [0, 1]))
    np.testing.assert_array_equal(everything, two)


@dtypes
@pytest.mark.parametrize("width", [1, 7, 8, 130])
def test_awkward_rows_stay_within_the_clip(instruction_set, dtype, width):
    x, y, w, _ = awkward_arrays.awkward(width, dtype)
    rows, start = bind(x, y, True, 1e3), 0 * weights(w, x, True)
    for i in range(len(x)):
        stop = one_step(rows, "squared_hinge", start, [i], inner_clip=0.7)
        assert np.linalg.norm(stop) <= 0.7 * (1 + (width + 16) * 2.0**-52)
        assert np.isfinite(stop).all()


def test_an_empty_batch_is_a_step_of_noise():
    rows, noise = bind(np.ones((2, 2)), np.ones(2)), np.array([[1.0, -2.0], [0.5, 0.0]])
    nobody = np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    w, w_sum = descend(rows, "logistic", np.zeros(2), *nobody, np.ones(2), noise)
    np.testing.assert_array_equal(w, [-1.5, 2.0])
    np.testing.assert_array_equal(w_sum, [-1.0, 2.0])


def test_the_examples_cover_every_loss():
    assert set(LOSSES) <= set(EXAMPLES)
