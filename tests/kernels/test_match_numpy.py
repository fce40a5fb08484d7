"""Every kernel against its numpy twin, within rigorous error bounds."""

import numpy as np
import pytest

from dperm._kernels import row_kernels
from reference import awkward_arrays, numpy_kernels
from reference.kernel_calls import (
    STEPS,
    bind,
    coordinate_integers,
    each_loss_and,
    gradient_integers,
    loss_integers,
    plain_sums,
    predictions,
    unit_roundoff,
    weights,
)
from reference.losses import DERIVATIVES, EVERY_SHAPE, LOSSES, NOT_CONVEX, WIDE

pytestmark = pytest.mark.usefixtures("instruction_set")

ROW_NORM, CLIP = 1.5, 0.6
GRID = 2.0**-22
widths_of_losses = pytest.mark.parametrize(("loss", "width"), each_loss_and(awkward_arrays.WIDTHS, few=(9,)))


@pytest.fixture(params=awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture(params=awkward_arrays.WIDTHS)
def width(request):
    return request.param


@pytest.fixture
def intercept(width):
    """With each parity of the width in turn: the intercept is not a column of the rows."""
    return width % 4 in (1, 2)


def prediction_error(x, w, intercept):
    """Bound on the error of each prediction, a dot product with rounded weights in the row's type."""
    rows = np.abs(numpy_kernels.scaled_rows(x, intercept, ROW_NORM)).astype(float)
    return (x.shape[1] + 8) * unit_roundoff(x.dtype) * (rows @ np.abs(w)) + 1e-300


def slope_error(loss, x, y, w, intercept):
    """Bound on the error of the derivative, from that of the prediction and its own arithmetic."""
    error = prediction_error(x, w, intercept)
    if loss in NOT_CONVEX:  # no second derivative here is above 1
        return error + 1e-15
    rows = numpy_kernels.scaled_rows(x, intercept, ROW_NORM)
    p, slope = rows @ np.asarray(w, WIDE), DERIVATIVES[loss]
    here = slope(p, y)  # monotone: the ends of the interval are the worst
    off = np.maximum(abs(slope(p + error, y) - here), abs(slope(p - error, y) - here))
    return off.astype(float) + 2e-15 * (1.0 + abs(here).astype(float))


def test_row_norms(dtype, width, intercept):
    x, y, *_ = awkward_arrays.awkward(width, dtype)
    exact = numpy_kernels.row_norms(x, intercept)
    got = bind(x, y, intercept).norms
    normal = (exact >= np.finfo(float).tiny) & (exact <= np.finfo(float).max)
    assert np.all(np.abs(got - exact)[normal] <= (width + 8) * 2.0**-52 * exact[normal])
    assert np.all(got[exact == 0] == 0)
    assert np.all(got[exact > np.finfo(float).max] == np.inf)
    assert np.all(got[(exact > 0) & (exact < np.finfo(float).tiny)] == np.finfo(float).tiny)


def test_predictions(dtype, width, intercept):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w = weights(w, x, intercept)
    got = predictions(bind(x, y, intercept, ROW_NORM), w)
    exact = numpy_kernels.predictions(x, w, intercept=intercept, row_norm=ROW_NORM)
    assert np.all(np.abs(got - exact) <= prediction_error(x, w, intercept))


@widths_of_losses
def test_clipped_gradient_sum(dtype, width, intercept, loss):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w = weights(w, x, intercept)
    got = gradient_integers(bind(x, y, intercept, ROW_NORM), loss, w, CLIP, GRID) * GRID
    exact = numpy_kernels.clipped_gradient_sum(loss, x, y, w, CLIP, intercept=intercept, row_norm=ROW_NORM)
    rows = np.abs(numpy_kernels.scaled_rows(x, intercept, ROW_NORM)).astype(float)
    # rounding to the grid; factor and product in the row's type; error of the slope
    bound = (
        len(x) * (GRID / 2 + 4 * unit_roundoff(dtype) * CLIP) + slope_error(loss, x, y, w, intercept) @ rows
    )
    assert np.all(np.abs(got - exact) <= bound)


@widths_of_losses
def test_gradient_sum(dtype, width, intercept, loss):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w = weights(w, x, intercept)
    gradient, total = plain_sums(bind(x, y, intercept, ROW_NORM), loss, w)
    keywords = {"intercept": intercept, "row_norm": ROW_NORM}
    exact_gradient, exact_total = numpy_kernels.gradient_sum(loss, x, y, w, **keywords)
    rows = np.abs(numpy_kernels.scaled_rows(x, intercept, ROW_NORM)).astype(float)
    each = np.abs(numpy_kernels.gradients(loss, x, y, w, **keywords)).astype(float)
    # 16 rows are added in the row's type before they go to a double
    bound = (16 + 4) * unit_roundoff(dtype) * each.sum(axis=0) + slope_error(loss, x, y, w, intercept) @ rows
    assert np.all(np.abs(gradient - exact_gradient) <= bound + 1e-14)
    slopes = np.abs(numpy_kernels.losses(loss, x, y, w, **keywords)).astype(float) + 2
    assert abs(total - exact_total) <= slopes @ prediction_error(x, w, intercept) + 1e-14 * exact_total


@pytest.mark.parametrize("precise", [False, True])
@widths_of_losses
def test_clipped_sum_in_floating_point(dtype, width, intercept, loss, precise):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w, rows = weights(w, x, intercept), bind(x, y, intercept, ROW_NORM)
    limit = 0.15  # the sigmoid loss has slopes of at most 1/4
    exact = numpy_kernels.clipped_gradient_sum(loss, x, y, w, limit, intercept=intercept, row_norm=ROW_NORM)
    (got, total), (unclipped, same) = (
        plain_sums(rows, loss, w, precise=precise, clip=clip) for clip in (limit, np.inf)
    )
    scaled = np.abs(numpy_kernels.scaled_rows(x, intercept, ROW_NORM)).astype(float)
    unit = unit_roundoff(np.float64 if precise else dtype)
    bound = 20 * unit * len(x) * limit + slope_error(loss, x, y, w, intercept) @ scaled
    assert np.all(np.abs(got - exact) <= bound + 1e-14)
    assert total == same  # losses are not clipped
    assert np.linalg.norm(got - unclipped) > 1e-3 * limit


@widths_of_losses
def test_clipped_loss_sums(dtype, width, intercept, loss):
    x, y, w, direction = awkward_arrays.ordinary(37, width, dtype)
    w, direction = weights(w, x, intercept), weights(direction, x, intercept)
    clip, grid = 1.25, 2.0**-38
    got = loss_integers(bind(x, y, intercept, ROW_NORM), loss, w, direction, clip, grid) * grid
    exact = numpy_kernels.clipped_loss_sums(
        loss, x, y, w, direction, STEPS, clip, intercept=intercept, row_norm=ROW_NORM
    )
    away = (
        prediction_error(x, w, intercept).sum()
        + np.abs(STEPS) * prediction_error(x, direction, intercept).sum()
    )
    # below the clip no loss here is steeper than sqrt(2 clip) + 1
    assert np.all(np.abs(got - exact) <= len(x) * grid / 2 + (np.sqrt(2 * clip) + 1) * away + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_coordinate_loss_sums(dtype, width, intercept, loss):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w = weights(w, x, intercept)
    stride, clip, grid = 0.4, 0.5, 2.0**-38
    rows, strides = bind(x, y, intercept, ROW_NORM), np.full(len(w), stride)
    strides[width:] = 0.15
    got = coordinate_integers(rows, loss, w, stride, clip, grid, intercept_stride=0.15) * grid
    exact = numpy_kernels.coordinate_loss_sums(
        loss, x, y, w, strides, clip, intercept=intercept, row_norm=ROW_NORM
    )
    # the error of both losses of a change: slope times the error of the prediction
    p = numpy_kernels.predictions(x, w, intercept=intercept, row_norm=ROW_NORM)
    steepest = 2 + np.abs(p).astype(float) + stride * ROW_NORM
    error = 2 * steepest @ prediction_error(x, np.abs(w) + stride, intercept)
    assert np.all(np.abs(got - exact) <= len(x) * grid / 2 + error + 1e-12)
    assert np.ptp(exact) > 1e-3 * len(x) * clip  # the stride matters


def test_precise_gradient_sum(dtype, width, intercept):
    x, y, w, _ = awkward_arrays.ordinary(37, width, dtype)
    w = weights(w, x, intercept)
    rows = bind(x, y, intercept, ROW_NORM)
    gradient, total = plain_sums(rows, "logistic", w, precise=True)
    wide = bind(x.astype(float), y.astype(float), intercept, ROW_NORM)
    expected, expected_total = plain_sums(wide, "logistic", w)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-13)
    assert abs(total - expected_total) <= 1e-13 * expected_total


@pytest.mark.parametrize(("loss", "n_rows"), each_loss_and(awkward_arrays.ROW_COUNTS, few=(257,)))
def test_row_counts(dtype, n_rows, loss):
    x, y, w, direction = awkward_arrays.ordinary(n_rows, 3, dtype)
    rows = bind(x, y, True, ROW_NORM)
    keywords = {"intercept": True, "row_norm": ROW_NORM}
    clipped = numpy_kernels.clipped_gradient_sum(loss, x, y, w, CLIP, **keywords)
    errors = np.full(4, n_rows * (GRID + 20 * unit_roundoff(dtype) * np.abs(w).sum() * ROW_NORM))
    if loss not in EVERY_SHAPE or loss == "hinge":
        errors += slope_error(loss, x, y, w, True).sum() * ROW_NORM
    assert np.all(np.abs(gradient_integers(rows, loss, w, CLIP, GRID) * GRID - clipped) <= errors)
    assert np.all(
        np.abs(plain_sums(rows, loss, w)[0] - numpy_kernels.gradient_sum(loss, x, y, w, **keywords)[0])
        <= 4 * errors
    )
    scores = numpy_kernels.clipped_loss_sums(loss, x, y, w, direction, STEPS, 1.0, **keywords)
    got = loss_integers(rows, loss, w, direction, 1.0, 2.0**-30) * 2.0**-30
    away = np.abs(w).sum() + np.abs(STEPS) * np.abs(direction).sum()
    assert np.all(np.abs(got - scores) <= n_rows * (2.0**-31 + 40 * unit_roundoff(dtype) * ROW_NORM * away))


def test_plain_sums_of_many_rows_keep_their_digits(dtype):
    """Equal terms, the worst case for a long sum in float32."""
    x, y = np.full((4096, 2), 0.1, dtype), np.ones(4096, dtype)
    gradient, _ = plain_sums(bind(x, y), "logistic", np.zeros(2))
    exact = -0.5 * 4096 * float(x[0, 0])
    bound = max(20 * unit_roundoff(dtype), 4096 * 2.0**-53)
    assert np.all(np.abs(gradient - exact) <= bound * abs(exact))


def test_the_test_data_reach_every_branch():
    """Rows longer and shorter than row_norm, and both clipped and unclipped gradients and losses."""
    x, y, w, _ = awkward_arrays.ordinary(37, 9, np.float64)
    norms = numpy_kernels.row_norms(x, False)
    assert 0 < (norms > ROW_NORM).sum() < 37
    for loss in LOSSES:
        keywords = {"intercept": False, "row_norm": ROW_NORM}
        lengths = np.linalg.norm(numpy_kernels.gradients(loss, x, y, w[:9], **keywords).astype(float), axis=1)
        assert loss == "sigmoid" or 0 < (lengths > CLIP).sum() < 37  # its values and slopes are small
        values = numpy_kernels.losses(loss, x, y, w[:9], **keywords)
        assert loss == "sigmoid" or 0 < (values > 1.25).sum() < 37


def test_instruction_set_is_the_one_asked_for(instruction_set):
    assert row_kernels.instruction_set() == instruction_set
