"""The softmax kernels against the numpy twin, and independence of a record's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import awkward_arrays, softmax_kernels
from reference.kernel_calls import (
    assert_chunks_add_up,
    assert_same_on_each_instruction_set,
    assert_sum_of_records,
    dtypes,
    gradient_integers,
    intercepts,
    loss_integers,
    plain_sums,
    predictions,
    unit_roundoff,
)
from reference.numpy_kernels import scaled_rows
from reference.softmax_kernels import SOFTMAX, STEPS, all_integers, bind, class_problem, weights

ROW_NORM, CLIP, GRID = 1.5, 0.6, 2.0**-22
# Columns around one and several units of lanes, classes around tiles of five.
SHAPES = [(1, 2), (3, 5), (7, 6), (8, 11), (9, 10), (15, 3), (16, 4), (17, 10), (33, 2), (64, 5), (65, 11)]
shapes = pytest.mark.parametrize(("width", "n_classes"), SHAPES)


def ordinary(n_rows, width, dtype, n_classes):
    x = awkward_arrays.ordinary(n_rows, width, dtype)[0]
    return x, *class_problem(x, n_classes)


def awkward(width, dtype, n_classes):
    x = awkward_arrays.awkward(width, dtype)[0]
    return x, *class_problem(x, n_classes)


def score_errors(x, w, intercept):
    """Bound on the error of each score, (n, K), a dot product with rounded weights in the row's type."""
    rows = np.abs(scaled_rows(x, intercept, ROW_NORM)).astype(float)
    return (x.shape[1] + 8) * unit_roundoff(x.dtype) * (rows @ np.abs(w)) + 1e-300


def residual_errors(x, w, intercept):
    """Bound on the error of residuals, (n, 1): at most half the spread of the errors of the scores."""
    return score_errors(x, w, intercept).max(axis=1, keepdims=True) + 1e-14


# -- against the twin --------------------------------------------------------------------------------


@dtypes
@intercepts
@shapes
def test_sums_match_numpy(instruction_set, dtype, intercept, width, n_classes):
    x, y, w, direction = ordinary(70, width, dtype, n_classes)
    x[11], y[23] = np.nan, np.inf
    w, direction = weights(w, intercept), weights(direction, intercept)
    keywords = {"intercept": intercept, "row_norm": ROW_NORM}
    bound = bind(x, y, intercept, ROW_NORM)
    rows = np.abs(scaled_rows(x, intercept, ROW_NORM)).astype(float)
    finite = softmax_kernels.counts(x, y)
    slope = np.where(finite[:, None], residual_errors(x, w, intercept), 0)
    from_slopes = rows.T @ np.broadcast_to(slope, (len(x), n_classes))

    exact = softmax_kernels.clipped_gradient_sum(x, y, w, CLIP, **keywords)
    got = gradient_integers(bound, SOFTMAX, w, CLIP, GRID) * GRID
    # a residual's error also moves the factor of the clip: once more its share of the norm
    allowed = len(x) * (GRID / 2 + 4 * unit_roundoff(dtype) * CLIP) + 3 * from_slopes.max()
    assert np.abs(got - exact).max() <= allowed

    gradient, total = plain_sums(bound, SOFTMAX, w)
    exact_gradient, exact_total = softmax_kernels.gradient_sum(x, y, w, **keywords)
    each = np.abs(softmax_kernels.gradients(x, y, w, **keywords)).astype(float)
    allowed = (32 + 4) * unit_roundoff(dtype) * each.sum(axis=0) + from_slopes + 1e-13
    assert np.all(np.abs(gradient - exact_gradient) <= allowed)
    errors = np.where(finite, 2 * score_errors(x, w, intercept).max(axis=1), 0)
    assert abs(total - exact_total) <= errors.sum() + 1e-13 * exact_total

    clip, grid = 1.25, 2.0**-38
    values = loss_integers(bound, SOFTMAX, w, direction, clip, grid, steps=STEPS) * grid
    exact_values = softmax_kernels.clipped_loss_sums(x, y, w, direction, STEPS, clip, **keywords)
    away = np.where(finite, 2 * score_errors(x, direction, intercept).max(axis=1), 0).sum()
    assert np.all(
        np.abs(values - exact_values) <= len(x) * grid + errors.sum() + np.abs(STEPS) * away + 1e-12
    )

    scores = predictions(bound, w)
    exact_scores = softmax_kernels.scores(x, w, **keywords)
    assert np.isnan(scores[11]).all()
    good = np.isfinite(x).all(axis=1) & np.isfinite(y)
    assert np.all(np.abs(scores - exact_scores)[good] <= score_errors(x, w, intercept)[good])


def test_the_test_data_reach_every_branch():
    x, y, w, _ = ordinary(70, 9, np.float64, 5)
    keywords = {"intercept": True, "row_norm": ROW_NORM}
    lengths = np.sqrt((softmax_kernels.gradients(x, y, w, **keywords).astype(float) ** 2).sum(axis=(1, 2)))
    assert 0 < (lengths > CLIP).sum() < 70
    assert 0 < (softmax_kernels.losses(x, y, w, **keywords) > 1.25).sum() < 70


@dtypes
def test_many_classes(instruction_set, dtype):
    x, y, w, _ = ordinary(50, 20, dtype, 1000)
    keywords = {"intercept": True, "row_norm": ROW_NORM}
    got = gradient_integers(bind(x, y, True), SOFTMAX, w, CLIP, GRID) * GRID
    exact = softmax_kernels.clipped_gradient_sum(x, y, w, CLIP, **keywords)
    assert np.abs(got - exact).max() <= 50 * (GRID + 40 * unit_roundoff(dtype))


@pytest.mark.parametrize("gap", [1.0, 30.0, 300.0, 700.0, 2000.0])
def test_small_residuals_and_losses_keep_their_digits(instruction_set, gap):
    """A nearly certain record, q_y = 1 - exp(-gap): the residual must not suffer from cancellation."""
    x, y = np.ones((1, 1)), np.zeros(1)
    w = np.array([[gap, 0.0]])
    gradient, total = plain_sums(bind(x, y), SOFTMAX, w)
    other = np.exp(-min(gap, 708.0)) / (1 + np.exp(-gap))
    assert np.allclose(gradient, [[-other, other]], rtol=1e-14, atol=0)
    assert abs(total - np.log1p(np.exp(-gap))) < 1e-15
    gradient, total = plain_sums(bind(x, 1 - y), SOFTMAX, w)
    assert total == pytest.approx(gap + np.log1p(np.exp(-gap)), rel=1e-15)
    assert np.allclose(gradient, np.array([[1, -1]]) * (1 - other), rtol=1e-15)


def test_logarithm_of_the_sum(instruction_set):
    """Equal scores: the loss is log K for every K."""
    for n_classes in range(2, 1001):
        loss = plain_sums(bind(np.ones((1, 1)), np.zeros(1)), SOFTMAX, np.zeros((1, n_classes)))[1]
        assert abs(loss - np.log(n_classes)) <= 2e-15, n_classes


# -- a record's integers are its own -----------------------------------------------------------------


@dtypes
@intercepts
@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_a_bit(instruction_set, dtype, intercept, threads):
    problem = ordinary(3 * 2048 + 531, 5, dtype, 3)
    one, many = (all_integers(*problem, intercept=intercept, threads=n) for n in (1, threads))
    assert np.array_equal(one, many)
    x, y, w, _ = problem
    one, many = (plain_sums(bind(x, y, True, threads=n), SOFTMAX, w, n) for n in (1, threads))
    assert np.array_equal(one[0], many[0])
    assert one[1] == many[1]


@dtypes
@intercepts
@shapes
def test_instruction_sets_agree_in_every_bit(keep_instruction_set, dtype, intercept, width, n_classes):
    x, y, w, direction = awkward(width, dtype, n_classes)

    def compute():
        rows, at = bind(x, y, intercept), weights(w, intercept)
        exact = all_integers(x, y, w, direction, intercept=intercept)
        return exact, *plain_sums(rows, SOFTMAX, at), predictions(rows, at)

    assert_same_on_each_instruction_set(compute)


@dtypes
@intercepts
@pytest.mark.parametrize(("width", "n_classes"), [(1, 6), (8, 2), (15, 5), (17, 7), (65, 3)])
def test_sum_of_one_row_data_sets(instruction_set, dtype, intercept, width, n_classes):
    assert_sum_of_records(*awkward(width, dtype, n_classes), integers=all_integers, intercept=intercept)


@dtypes
@pytest.mark.parametrize("n_rows", [1, 31, 32, 33, 257, 4097])
def test_sum_of_one_row_data_sets_at_block_sizes(dtype, n_rows):
    assert_sum_of_records(*ordinary(n_rows, 2, dtype, 3), integers=all_integers, intercept=True)


@dtypes
@pytest.mark.parametrize("size", [0, 1, 33, 600, 4097])
@pytest.mark.parametrize("width", [3, 17])
def test_a_batch_counts_its_rows_as_a_data_set_of_them_would(instruction_set, dtype, size, width):
    x, y, w, _ = ordinary(5000, width, dtype, 6)
    x[7], y[4097] = np.nan, np.inf
    batch = np.sort(np.random.default_rng(size).choice(len(x), size, replace=False))
    whole = bind(x, y, True)
    for threads in (1, 2):
        got = gradient_integers(whole, SOFTMAX, w, CLIP, GRID, threads, batch=batch)
        expected = np.zeros(w.shape, dtype=np.int64)
        if size:
            expected = gradient_integers(bind(x[batch], y[batch], True), SOFTMAX, w, CLIP, GRID)
        assert np.array_equal(got, expected)
    with pytest.raises(IndexError):
        gradient_integers(whole, SOFTMAX, w, CLIP, GRID, batch=np.array([0, len(x)]))


@dtypes
@pytest.mark.parametrize("size", [63, 600])
def test_threads_share_short_batches_of_many_weights(instruction_set, dtype, size):
    """In ranges of 64 rows, more of them with more threads."""
    x, y, w, _ = ordinary(700, 700, dtype, 6)
    batch = np.sort(np.random.default_rng(size).choice(len(x), size, replace=False))
    expected = gradient_integers(bind(x[batch], y[batch], True), SOFTMAX, w, CLIP, GRID)
    whole = bind(x, y, True)
    for threads in (1, 2, 3, 8):
        got = gradient_integers(whole, SOFTMAX, w, CLIP, GRID, threads, batch=batch)
        assert np.array_equal(got, expected), threads


@dtypes
@settings(max_examples=30)
@given(data=st.data())
def test_deletion_order_and_chunks(dtype, data):
    width, n_classes = data.draw(st.sampled_from([1, 5, 17, 40])), data.draw(st.sampled_from([2, 6, 10]))
    problem, intercept = awkward(width, dtype, n_classes), data.draw(st.booleans())
    assert_chunks_add_up(data, *problem, integers=all_integers, intercept=intercept)


@pytest.mark.parametrize("n_rows", [4096, 4097])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 22), (np.float64, 50)])
def test_all_records_at_the_bound(instruction_set, n_rows, dtype, bits):
    """The finest allowed grid, and every record of maximal norm: no sum overflows."""
    x, y = np.ones((n_rows, 1), dtype), np.zeros(n_rows, dtype)
    w = np.array([[-2000.0, 0.0]])
    clip = 0.5
    rows = bind(x, y, row_norm=1.0)
    integers = gradient_integers(rows, SOFTMAX, w, clip, clip * 2.0**-bits)
    one = gradient_integers(bind(x[:1], y[:1], row_norm=1.0), SOFTMAX, w, clip, clip * 2.0**-bits)
    assert one[0, 1] == -one[0, 0] == pytest.approx(2.0**bits / np.sqrt(2.0), rel=1e-6)
    assert integers.tolist() == [[n_rows * int(v) for v in one[0]]]


# -- what is not finite ------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("bad", awkward_arrays.NON_FINITE)
@pytest.mark.parametrize("width", [1, 15, 17])
def test_a_bad_entry_or_target_makes_its_row_count_zero(instruction_set, dtype, bad, width):
    x, y, w, direction = ordinary(40, width, dtype, 6)
    for place in (0, 15, 16, 31, 32, 39):
        expected = all_integers(
            np.delete(x, place, axis=0), np.delete(y, place), w, direction, intercept=True
        )
        for records in awkward_arrays.spoilt(x, y, place, bad, columns=[width // 2]):
            assert np.array_equal(all_integers(*records, w, direction, intercept=True), expected)


@dtypes
@pytest.mark.parametrize("column", [0, 1, 2])
def test_scores_that_overflow_never_pass(instruction_set, dtype, column):
    """Infinite and NaN scores: the record counts as 0, the others as before."""
    huge = awkward_arrays.huge(dtype)
    x, y = np.array([[1, 0], [1, 1]], dtype), np.zeros(2, dtype)
    w = np.zeros((2, 3))
    w[1, column] = huge * 1e8 if dtype == np.float64 else 1e300  # infinite in the row's type or as a product
    x[1] *= 1 if dtype == np.float32 else 1e10
    for sign in (1, -1):
        rows = bind(x, y, row_norm=np.finfo(float).max)
        integers = gradient_integers(rows, SOFTMAX, sign * w, 0.5, 2.0**-23)
        gradient, loss = plain_sums(rows, SOFTMAX, sign * w)
        assert np.abs(integers).max() <= 2 * 2**22
        assert np.isfinite(gradient).all()
        assert np.isfinite(loss)


@dtypes
def test_a_clip_far_below_the_smallest_row(instruction_set, dtype):
    """Huge rows under a tiny clip: factors would be subnormal, and count as 0."""
    x = np.full((1, 4), np.finfo(dtype).max, dtype)
    rows = bind(x, np.zeros(1, dtype), row_norm=np.finfo(float).max)
    w = np.zeros((4, 3))
    integers = gradient_integers(rows, SOFTMAX, w, 2.0**-60, 2.0**-80)
    assert (integers.astype(float) ** 2).sum() <= 2.0**40 * (1 + 2.0**-20)
