"""Compiled steps of stochastic gradient descent: the numpy twin's, the same bits everywhere."""

import math

import numpy as np
import pytest

from dperm._kernels import row_kernels
from reference import awkward_arrays, numpy_kernels
from reference.kernel_calls import EXAMPLES, bind
from reference.sgd_twin import sgd

STEPS, BATCH, ROW_NORM = 60, 3, 1.5
DTYPES = pytest.mark.parametrize("dtype", awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)


def problem(width, dtype, batch=BATCH, steps=STEPS, n_rows=50):
    x, y, *_ = awkward_arrays.ordinary(n_rows, width, dtype)
    rng = np.random.default_rng(width)
    order = rng.integers(0, n_rows, steps * batch)
    return x, y, order, np.arange(1, steps + 1) * batch, rng.uniform(0.01, 0.2, steps)


def run(rows, loss, settings, order, ends, step_sizes, noise=None, start=None):
    """Weights and sum of the iterates after the steps."""
    w = np.zeros(rows.x.shape[1]) if start is None else start.copy()
    w_sum = np.zeros_like(w)
    rows.sgd_steps(EXAMPLES[loss].kernel, settings, w, w_sum, order, ends, step_sizes, noise)
    return w, w_sum


def settings(dimension, clip=math.inf, grid=0.0, divisor=1.0, l2=0.0, n_penalized=None, radius=math.inf):
    return (clip, grid, divisor, l2, dimension if n_penalized is None else n_penalized, radius)


@DTYPES
@pytest.mark.parametrize("loss", sorted(EXAMPLES))
@pytest.mark.parametrize(("width", "intercept"), [(1, True), (5, False), (9, True), (33, False)])
def test_steps_are_the_twins(instruction_set, dtype, loss, width, intercept):
    x, y, order, ends, etas = problem(width, dtype)
    dimension = width + intercept
    rng = np.random.default_rng(7)
    noise, start = 0.1 * rng.normal(size=(STEPS, dimension)), 0.1 * rng.normal(size=dimension)
    chosen = settings(dimension, clip=0.6, divisor=2.0, l2=0.3, n_penalized=width, radius=0.8)
    rows = bind(x, y, intercept, ROW_NORM)
    w, w_sum = run(rows, loss, chosen, order, ends, etas, noise, start)
    expected = sgd(
        x, y, EXAMPLES[loss], order.reshape(STEPS, BATCH), etas, row_norm=ROW_NORM, fit_intercept=intercept,
        clip=0.6, divisor=2.0, l2=0.3, n_penalized=width, radius=0.8, noise=noise, start=start,
    )  # fmt: skip
    # Rounding of a step times what a step may expand by: kinks are not met by chance.
    np.testing.assert_allclose(w, expected[-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(w_sum, expected[:-1].sum(axis=0), rtol=0, atol=1e-9)


@DTYPES
@pytest.mark.parametrize("width", awkward_arrays.WIDTHS)
@pytest.mark.usefixtures("keep_instruction_set")
def test_bits_are_the_same_on_every_instruction_set(dtype, width):
    x, y, order, ends, etas = problem(width, dtype, batch=20)
    noise = np.random.default_rng(0).normal(size=(STEPS, width + 1))
    integers = np.rint(noise * 2**30).astype(np.int64)
    results = []
    for name in row_kernels.instruction_sets():
        row_kernels.use_instruction_set(name)
        rows = bind(x, y, True, ROW_NORM)
        for loss in ("logistic", "hinge", "power"):
            start = np.ones(width + 1)
            results.append(
                [
                    run(rows, loss, settings(width + 1, radius=2.0), order, ends, etas, noise, start),
                    run(rows, loss, settings(width + 1, 0.3, 2.0**-30), order, ends, etas, integers, start),
                ]
            )
    per_set = len(results) // len(row_kernels.instruction_sets())
    for start in range(per_set, len(results), per_set):
        np.testing.assert_array_equal(results[:per_set], results[start : start + per_set])


@DTYPES
def test_blocks_do_not_matter(dtype):
    x, y, order, ends, etas = problem(17, dtype)
    noise = np.random.default_rng(0).normal(size=(STEPS, 17))
    rows, chosen = bind(x, y, False, ROW_NORM), settings(17, clip=0.4, l2=0.1)
    whole, whole_sum = run(rows, "logistic", chosen, order, ends, etas, noise)
    w, w_sum = np.zeros(17), np.zeros(17)
    for begin, end in [(0, 1), (1, 8), (8, 40), (40, STEPS)]:
        rows.sgd_steps(
            EXAMPLES["logistic"].kernel, chosen, w, w_sum, order[begin * BATCH :],
            ends[begin:end] - begin * BATCH, etas[begin:end], noise[begin:end],
        )  # fmt: skip
    np.testing.assert_array_equal(w, whole)
    np.testing.assert_array_equal(w_sum, whole_sum)


@DTYPES
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber"])
@pytest.mark.parametrize("batch", [1, 5, 16, 17, 40])
def test_one_exact_step_is_the_rounded_sum(instruction_set, dtype, loss, batch):
    """In units of the grid the step is an integer: the records' rounded gradients and the noise."""
    x, y, *_ = awkward_arrays.ordinary(batch, 9, dtype)
    rows, grid = bind(x, y, True, ROW_NORM), 2.0**-28
    noise = np.random.default_rng(2).integers(-(2**40), 2**40, (1, 10))
    chosen, zero = settings(10, clip=0.3, grid=grid), np.zeros(10)

    def steps(order, noise=None):
        ends, eta = np.array([len(order)]), -np.ones(1)
        return run(rows, loss, chosen, np.array(order), ends, eta, noise, zero)[0] / grid

    each = [steps([i]) for i in range(batch)]
    assert all(np.array_equal(record, np.rint(record)) for record in each)
    assert max(np.linalg.norm(record) for record in each) * grid <= 0.3 + grid * math.sqrt(10)
    order = np.random.default_rng(3).permutation(batch)
    np.testing.assert_array_equal(steps(order, noise), np.sum(each, axis=0) + noise[0])


def test_noise_beyond_the_significand_is_added_before_rounding():
    """The exact sum is odd and the noise huge and even: the integer sum is what gets rounded."""
    rows = bind(np.ones((1, 1)), np.ones(1))
    grid = 2.0**-10
    noise = np.array([[2**53 + 2]], dtype=np.int64)
    chosen = settings(1, clip=0.5 - grid, grid=grid)
    w, _ = run(rows, "hinge", chosen, np.array([0]), np.array([1]), -np.ones(1), noise)
    gradient = -(2**9 - 1)
    assert w[0] / grid == float(2**53 + 2 + gradient)


@DTYPES
def test_rows_that_do_not_count(instruction_set, dtype):
    x, y, *_ = awkward_arrays.ordinary(6, 5, dtype)
    x[2, 3], y[4] = np.nan, np.inf
    rows = bind(x, y, True, ROW_NORM)
    start = np.linspace(-1, 1, 6)
    for index in (2, 4, 6, 10**12, -1):
        w, _ = run(rows, "logistic", settings(6), np.array([index]), np.array([1]), np.ones(1), start=start)
        np.testing.assert_array_equal(w, start)
    everything = np.array([0, 2, 9, 4, 1])
    w, _ = run(rows, "logistic", settings(6), everything, np.array([5]), np.ones(1), start=start)
    two, _ = run(rows, "logistic", settings(6), np.array([0, 1]), np.array([2]), np.ones(1), start=start)
    np.testing.assert_array_equal(w, two)


@DTYPES
@pytest.mark.parametrize("width", [1, 7, 8, 130])
def test_awkward_rows_stay_within_the_clip(instruction_set, dtype, width):
    x, y, w, _ = awkward_arrays.awkward(width, dtype)
    rows = bind(x, y, True, 1e3)
    clip, start = 0.7, np.append(w[:width], w[-1])
    for i in range(len(x)):
        chosen = settings(width + 1, clip=clip)
        stop, _ = run(
            rows, "squared_hinge", chosen, np.array([i]), np.array([1]), np.ones(1), start=0 * start
        )
        assert np.linalg.norm(stop) <= clip * (1 + (width + 16) * 2.0**-52)
        assert np.isfinite(stop).all()


def test_an_empty_batch_is_a_step_of_noise():
    rows = bind(np.ones((2, 2)), np.ones(2))
    noise = np.array([[1.0, -2.0], [0.5, 0.0]])
    w, w_sum = run(
        rows,
        "logistic",
        settings(2),
        np.zeros(0, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.ones(2),
        noise,
    )
    np.testing.assert_array_equal(w, [-1.5, 2.0])
    np.testing.assert_array_equal(w_sum, [-1.0, 2.0])


def test_the_examples_cover_every_loss():
    assert set(numpy_kernels.LOSSES) <= set(EXAMPLES)
