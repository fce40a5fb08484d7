"""Inputs that break naive kernels: NaN, infinity, overflow, subnormals, unusual memory layouts."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest

from dperm import Objective
from dperm._kernels import row_kernels
from dperm.errors import CopyWarning, DataError
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import awkward_arrays, numpy_kernels
from reference.kernel_calls import (
    all_integers,
    bind,
    dtypes,
    each_loss_and,
    gradient_integers,
    loss_integers,
    plain_sums,
    predictions,
)
from reference.kernel_calls import each_loss as losses
from reference.losses import CLASSIFICATION, EXAMPLES, LOSSES

pytestmark = pytest.mark.usefixtures("instruction_set")


def float_sums(x, y, w, loss):
    gradient, total = plain_sums(bind(x, y, True), loss, w)
    return [*gradient, total]


@dtypes
@pytest.mark.parametrize(("loss", "width"), each_loss_and([1, 3, 16, 17, 40], few=[3]))
def test_a_bad_entry_makes_its_row_count_zero(dtype, loss, width):
    x, y, w, direction = awkward_arrays.ordinary(20, width, dtype)
    for place, bad in zip((0, 7, 16, 19), (*awkward_arrays.NON_FINITE, math.nan), strict=True):
        without = np.delete(x, place, axis=0), np.delete(y, place)
        expected = all_integers(*without, w, direction, loss=loss, intercept=True)
        expected_floats = float_sums(*without, w, loss)
        for records in awkward_arrays.spoilt(x, y, place, bad, columns={0, width // 2, width - 1}):
            assert np.array_equal(all_integers(*records, w, direction, loss=loss, intercept=True), expected)
            assert np.allclose(float_sums(*records, w, loss), expected_floats, atol=2e-5)


@dtypes
@losses
def test_a_bad_target_makes_its_row_count_zero(dtype, loss):
    x, y, w, direction = awkward_arrays.ordinary(20, 5, dtype)
    for place, bad in zip((0, 7, 16, 19), (*awkward_arrays.NON_FINITE, math.nan), strict=True):
        without = np.delete(x, place, axis=0), np.delete(y, place)
        expected = all_integers(*without, w, direction, loss=loss, intercept=True)
        for records in awkward_arrays.spoilt(x, y, place, bad, columns=[]):
            assert np.array_equal(all_integers(*records, w, direction, loss=loss, intercept=True), expected)
            assert np.isfinite(float_sums(*records, w, loss)).all()


@dtypes
@losses
def test_nothing_but_bad_rows(dtype, loss):
    x, y, w, direction = awkward_arrays.ordinary(33, 4, dtype)
    for bad in awkward_arrays.NON_FINITE:
        assert not all_integers(np.full_like(x, bad), y, w, direction, loss=loss, intercept=True).any()
        assert float_sums(np.full_like(x, bad), y, w, loss) == [0.0] * 6
        assert np.isnan(predictions(bind(np.full_like(x, bad), y, True), w)).all()


@dtypes
@losses
def test_predictions_that_overflow_stay_within_the_clip(dtype, loss):
    """Infinite margins act as large ones; NaN margins count as 0."""
    x, y = np.ones((4, 2), dtype), np.ones(4, dtype)
    x[1], x[2] = -1, (1, -1)
    clip, grid = 0.5, 2.0**-23
    rows = bind(x, y, False, 10.0)
    integers = [
        gradient_integers(bind(x[i : i + 1], y[:1], False, 10.0), loss, np.full(2, 1.7e308), clip, grid)
        for i in range(4)
    ]
    assert all(np.square(each * grid).sum() <= clip**2 * (1 + 1e-5) for each in integers)
    assert not integers[2].any() or dtype == np.float64  # inf - inf in float32
    scores = loss_integers(rows, loss, np.full(2, 1.7e308), np.full(2, -1.7e308), clip, grid)
    assert np.all(scores >= 0)
    assert np.all(scores * grid <= 4 * clip)


@losses
@pytest.mark.parametrize("prediction", [np.nan, np.inf, -np.inf])
def test_a_prediction_that_is_not_finite(loss, prediction):
    """NaN counts as 0 in every sum; infinity is clipped, or a perfect fit."""
    rows = bind(np.ones((1, 1)), np.ones(1))
    at, zero, clip, grid = np.array([prediction]), np.zeros(1), 0.5, 2.0**-40
    slope = gradient_integers(rows, loss, at, clip, grid)[0] * grid
    score = loss_integers(rows, loss, at, zero, clip, grid)[0] * grid
    plain = plain_sums(rows, loss, at)
    if np.isnan(prediction):
        assert (slope, score, plain[0][0], plain[1]) == (0.0, 0.0, 0.0, 0.0)
    elif loss in CLASSIFICATION:
        assert score == (clip if prediction < 0 else 0.0)
        assert abs(slope) <= clip
    else:
        assert score == clip
        limits = np.array([clip, 0.3])  # a steep loss, a pinball below its target
        assert np.min(np.abs(np.copysign(limits, prediction) - slope)) <= grid
    assert np.isfinite([*plain[0], plain[1]]).all()


@losses
def test_an_infinite_loss_counts_as_the_clip(loss):
    x, y = np.array([[-1.0]]), np.array([1.0])
    scores = loss_integers(bind(x, y), loss, np.array([1.7e308]), np.array([1.7e308]), 0.5, 2.0**-40)
    if loss in CLASSIFICATION:  # steps 0, 0.5, -1, 2, 1e-3, 7 from a loss that grows with w
        assert scores.tolist() == [2**39, 2**39, 2**39, 0, 2**39, 0]
    else:
        assert scores.tolist() == [2**39] * 6


@dtypes
@losses
def test_zero_rows(dtype, loss):
    x, y, w, direction = awkward_arrays.ordinary(9, 6, dtype)
    x = 0 * x
    assert not all_integers(x, y, w, direction, loss=loss, intercept=False)[:6].any()
    at_zero = numpy_kernels.losses(loss, x, y, w[:6], intercept=False, row_norm=1.0).sum()
    scores = loss_integers(bind(x, y), loss, w[:6].copy(), direction[:6].copy(), 9.0, 2.0**-40)
    assert np.allclose(scores * 2.0**-40, float(at_zero), rtol=1e-12 if dtype == np.float64 else 1e-6)


@dtypes
@pytest.mark.parametrize("length", [1.5, 1e3, "huge"])
def test_a_long_row_is_scaled_onto_the_bound(dtype, length):
    """A row longer than row_norm is scaled down to norm row_norm."""
    length = awkward_arrays.huge(dtype) / 4 if length == "huge" else length
    direction = np.array([[3.0, 0.0, 4.0]], dtype) / 5
    long, y = (direction * dtype(length)).astype(dtype), np.ones(1, dtype)
    w = np.array([0.3, 9.0, -0.2])
    for row_norm in (0.25, 1.0):
        far = predictions(bind(long, y, False, row_norm), w)
        near = predictions(bind((direction * dtype(row_norm)).astype(dtype), y, False, 10.0), w)
        assert np.allclose(far, near, atol=4 * np.finfo(dtype).eps)


@dtypes
def test_rows_too_long_for_the_arithmetic_count_zero(dtype):
    """Their factors are subnormal, or their norm overflows a double: clipping would fail."""
    x, y = np.full((1, 300), np.finfo(dtype).max, dtype), np.ones(1, dtype)
    for clip_exponent in range(-64, 4):
        rows = bind(x, y, False, 100.0)
        clip = 2.0**clip_exponent
        integers = gradient_integers(rows, "logistic", -np.ones(300), clip, clip * 2.0**-22)
        assert sum(int(v) ** 2 for v in integers) <= 2**44 * (1 + 2.0**-10)


def test_subnormal_norms_do_not_inflate_the_factor():
    """The norm of two smallest subnormals rounds down by 30 %; the clip must still hold."""
    x, y = np.full((1, 2), 5e-324), np.array([1e308])
    rows = bind(x, y, False, 1.0)
    grid = 2.0**-90
    steep = (row_kernels.LOSS_KINDS["huber"], 1e308, math.inf)
    integers = gradient_integers(rows, steep, np.zeros(2), 2.0**-70, grid)
    assert sum(int(v) ** 2 for v in integers) <= 2**40


@dtypes
@losses
@pytest.mark.parametrize("clip", [2.0**-64, 2.0**64])
def test_tiny_and_huge_clips(dtype, loss, clip):
    x, y, w, direction = awkward_arrays.ordinary(10, 4, dtype)
    objective = Objective(EXAMPLES[loss], x, y, fit_intercept=True)
    gradient = clipped_gradient_sum(objective, w, clip)
    keywords = {"intercept": True, "row_norm": 1.0}
    exact = numpy_kernels.clipped_gradient_sum(loss, x, y, w, clip, **keywords)
    scores = clipped_loss_sums(objective, w, direction, [0.0], clip)
    assert np.all(
        np.abs(gradient._integers * gradient.grid - exact) <= 10 * (gradient.grid + 1e-5 * min(clip, 9))
    )
    total = np.minimum(numpy_kernels.losses(loss, x, y, w, **keywords), clip).sum()
    assert abs(scores._integers[0] * scores.grid - total) <= 10 * scores.grid + 1e-5 * float(total)


def test_factors_beyond_the_largest_float_count_zero():
    """A subnormal row with an infinite prediction: the factor that reaches the clip overflows a float."""
    x, y = np.array([[1e-45, 0.0]], np.float32), np.ones(1, np.float32)
    rows = bind(x, y)
    for clip in (2.0**-40, 1.0, 2.0**40):
        grid = clip * 2.0**-22
        steep, w = (row_kernels.LOSS_KINDS["huber"], 1e300, math.inf), np.array([1e300, 0.0])
        integers = gradient_integers(rows, steep, w, clip, grid)
        assert sum(int(v) ** 2 for v in integers) <= 2**44


# -- memory ------------------------------------------------------------------------------------------


@dtypes
def test_inputs_are_unchanged(dtype):
    x, y, w, direction = awkward_arrays.awkward(17, dtype)
    before = [array.copy() for array in (x, y, w, direction)]
    for loss in LOSSES:
        all_integers(x, y, w, direction, loss=loss, intercept=True)
        plain_sums(bind(x, y, True), loss, w)
        predictions(bind(x, y, True), w)
    for array, old in zip((x, y, w, direction), before, strict=True):
        assert array.tobytes() == old.tobytes()


@dtypes
@pytest.mark.parametrize("layout", ["plain", "read-only", "memory-mapped"])
def test_kernel_layouts_are_read_in_place(dtype, layout, tmp_path):
    x, y, w, _ = awkward_arrays.ordinary(50, 6, dtype)
    given = {
        "plain": x,
        "read-only": awkward_arrays.read_only(x),
        "memory-mapped": awkward_arrays.memory_mapped(x, tmp_path / "x.npy"),
    }[layout]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective = Objective("logistic", given, awkward_arrays.read_only(y))
    rows = objective._rows
    assert np.shares_memory(rows.x, given)
    assert np.shares_memory(rows.y, y)
    same = Objective("logistic", x, y)
    w = awkward_arrays.read_only(w[:6])
    assert np.array_equal(objective.gradient(w), same.gradient(w))


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x[:, ::-1],
        lambda x: x.astype(">f8"),
        lambda x: x.astype(np.longdouble),
        lambda x: np.round(100 * x).astype(np.int16),
        awkward_arrays.misaligned,
    ],
    ids=["fortran", "strided", "reversed", "big-endian", "longdouble", "int16", "misaligned"],
)
def test_other_layouts_are_copied_once_with_a_warning(change):
    x, y, w, _ = awkward_arrays.ordinary(50, 6, np.float64)
    given = change(x)
    with pytest.warns(CopyWarning, match=r"X .* was copied once") as caught:
        objective = Objective("logistic", given, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert objective._rows.x.flags.aligned
    same = Objective("logistic", np.array(given, dtype=np.float64, order="C"), y)
    assert np.array_equal(objective.gradient(w[:6]), same.gradient(w[:6]))


def test_lists_are_taken_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Objective("hinge", [[1, 2], [3, 4]], [1, -1])


@dtypes
def test_peak_memory_is_far_below_the_matrix(dtype):
    x, y = np.ones((20_000, 100), dtype), np.ones(20_000, dtype)
    w = np.zeros(100)

    def use():
        objective = Objective("logistic", x, y)
        clipped_gradient_sum(objective, w, 1.0)
        clipped_loss_sums(objective, w, w, [0.0, 1.0], 1.0)
        objective.value_and_gradient(w)

    use()  # imports, which take memory, too
    tracemalloc.start()
    try:
        use()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 8


def test_rows_whose_norm_overflows_are_an_error_for_the_data_holder():
    x = np.full((3, 2), 0.5)
    x[1] = 1.7e308
    with pytest.raises(DataError, match=r"X .* row 1"):
        Objective("logistic", x, np.ones(3))
    spared = Objective("logistic", x, np.ones(3), non_finite="zero")
    without = Objective("logistic", np.delete(x, 1, axis=0), np.ones(2), n_public=3)
    sums = [clipped_gradient_sum(each, [1.0, 2.0], 8.0)._integers.tolist() for each in (spared, without)]
    assert sums[0] == sums[1]
