"""Evenly spaced line searches of the logistic loss use a shortcut, which must not change results."""

import math

import numpy as np
import pytest

from reference.kernel_calls import assert_same_on_each_instruction_set, bind, dtypes, loss_integers

CLIP = 2.0**14
GRIDS = {np.dtype(np.float64): 2.0**-36, np.dtype(np.float32): 2.0**-8}  # the finest for that clip


def sums(x, y, w, direction, steps, clip=CLIP, grid=None):
    rows = bind(np.ascontiguousarray(x), y.astype(x.dtype), row_norm=1e9)
    return loss_integers(
        rows, "logistic", w, direction, clip, grid or GRIDS[x.dtype], steps=np.asarray(steps)
    )


def exact(x, y, w, direction, steps):
    margins = y[:, None] * ((x @ w)[:, None] - np.asarray(steps) * (x @ direction)[:, None])
    return np.logaddexp(np.longdouble(0), -margins.astype(np.longdouble))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("n_steps", [3, 20, 21, 64])
def test_losses_are_accurate_whatever_the_margins(instruction_set, scale, n_steps):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(53, 7)), np.where(rng.random(53) < 0.5, 1.0, -1.0)
    w, direction = scale * rng.normal(size=7), scale * rng.normal(size=7)
    steps = np.linspace(-0.3, 1.7, n_steps)
    expected = exact(x, y, w, direction, steps)
    # the error includes the rounding of the margins
    grid = GRIDS[x.dtype]
    tolerance = 53 * (grid + 1e-13 + 1e-14 * scale)
    computed = sums(x, y, w, direction, steps) * grid
    np.testing.assert_allclose(computed, expected.sum(axis=0).astype(float), atol=tolerance, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 30.0])
@pytest.mark.parametrize("n_steps", [3, 20, 64])
def test_single_precision_costs_single_precision(instruction_set, scale, n_steps):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(53, 7)).astype(np.float32), np.where(rng.random(53) < 0.5, 1.0, -1.0)
    # weights are representable as floats: the only error is that of the arithmetic
    w, direction = (scale * rng.normal(size=(2, 7))).astype(np.float32).astype(float)
    steps = np.linspace(-0.25, 1.75, n_steps)
    expected = exact(x.astype(float), y, w, direction, steps).astype(float)
    clip = 2.0 ** math.ceil(math.log2(expected.max()))
    grid = clip * 2.0**-22
    one = lambda i: sums(x[i : i + 1], y[i : i + 1], w, direction, steps, clip, grid)  # noqa: E731
    each = np.stack([one(i) * grid for i in range(53)])
    # exp(-m) is off by (n + 8) roundings relatively, a margin by some of the largest product
    tolerance = (n_steps + 20) * 2.0**-24 * expected + 16 * 2.0**-24 * 7 * scale * np.abs(x).max() + grid / 2
    assert (np.abs(each - expected) <= tolerance).all()


@dtypes
def test_even_and_uneven_steps_agree(instruction_set, dtype):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 5)).astype(dtype), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    w, direction = rng.normal(size=5), rng.normal(size=5)
    even = np.linspace(0.0, 2.0, 21)
    uneven = np.append(even, 17.0)
    difference = sums(x, y, w, direction, even) - sums(x, y, w, direction, uneven)[:-1]
    assert np.abs(difference).max() <= 40  # at most one grid step a record


@dtypes
def test_a_wild_neighbour_changes_no_other_record(instruction_set, dtype):
    """Rows beyond the range of exp, non-finite or zero, at several places of a block."""
    rng = np.random.default_rng(2)
    steps = np.linspace(0.0, 2.0, 21)
    ordinary = rng.normal(size=(16, 4)).astype(dtype)
    y = np.where(rng.random(16) < 0.5, 1.0, -1.0)
    w, direction = rng.normal(size=4), rng.normal(size=4)
    for wild in (np.full(4, 1e4), np.full(4, -1e6), np.full(4, np.nan), np.zeros(4), np.full(4, 1e30)):
        wild = wild.astype(dtype)
        alone = sums(wild[None], np.ones(1), w, direction, steps)
        for place in (0, 7, 15):
            x, labels = np.insert(ordinary, place, wild, axis=0), np.insert(y, place, 1.0)
            expected = sums(ordinary, y, w, direction, steps) + alone
            np.testing.assert_array_equal(sums(x, labels, w, direction, steps), expected)


@dtypes
def test_same_integers_on_every_instruction_set(keep_instruction_set, dtype):
    rng = np.random.default_rng(3)
    x, y = 100 * rng.normal(size=(100, 9)).astype(dtype), np.where(rng.random(100) < 0.5, 1.0, -1.0)
    w, direction = rng.normal(size=9), rng.normal(size=9)
    assert_same_on_each_instruction_set(lambda: [sums(x, y, w, direction, np.linspace(0, 1, 21))])
