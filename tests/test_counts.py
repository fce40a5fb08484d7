"""Rows with multiplicities: the same integers, samples and guarantee as for repeated records."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_faults import CONFIGURATIONS, PRIVATE
from dperm import Objective, algorithms
from dperm.audit import replay_check, worst_case_neighbours
from dperm.data import aggregate
from dperm.errors import DataError
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.objective.counts import class_counts, label_sum
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.objective.moments import column_squares, gram_sum
from dperm.private_values.transform import Transform
from reference import awkward_arrays, numpy_kernels
from reference.exact import RELATIONS, assert_change_within, assert_same, dtypes, intercepts
from reference.losses import EXAMPLES

DTYPES = awkward_arrays.DTYPES
UNEVEN, EVEN = [0.0, 0.5, -1.0, 2.0, 1e-3], np.linspace(0.0, 2.0, 20)


def rows_and_counts(n_rows, width, dtype, seed=0, most=5):
    """Awkward rows: most have count 1, some a small one, and two a large one."""
    x, y, w, direction = awkward_arrays.awkward(width, dtype, seed)
    rng = np.random.default_rng([seed, n_rows])
    rows = rng.integers(0, len(x), n_rows)
    counts = np.where(rng.random(n_rows) < 0.6, 1, rng.integers(1, most + 1, n_rows))
    counts[rng.integers(0, n_rows, 2)] = [300, 1000]
    return np.ascontiguousarray(x[rows]), y[rows], counts, w, direction


def pair(loss, x, y, counts, **keywords):
    """The objective with counts, and the one with repeated rows."""
    repeated = np.repeat(np.arange(len(counts)), counts)
    loss = EXAMPLES.get(loss, loss) if isinstance(loss, str) else loss
    keywords = {"non_finite": "zero"} | keywords  # norms of some awkward rows overflow
    many = Objective(loss, x[repeated], np.asarray(y)[repeated], **keywords)
    return Objective(loss, x, y, counts=counts, **keywords), many


def weights(objective, w, direction):
    """Weights and direction of the objective's dimension, the intercept last."""
    width = objective.dimension - objective.fit_intercept
    return [np.append(v[:width], v[-1:] if objective.fit_intercept else []) for v in (w, direction)]


def linear_sums(objective, w, direction):
    """Every exact sum of an objective with one linear prediction."""
    w, direction = weights(objective, w, direction)
    sums = [
        clipped_gradient_sum(objective, w, 0.5),
        clipped_loss_sums(objective, w, direction, UNEVEN, 0.7),
        clipped_loss_sums(objective, w, direction, EVEN, 4.0),
        coordinate_loss_sums(objective, w, 0.3, 0.5),
        clipped_gradient_sum(objective, w, 0.5, keep_predictions=True),
        clipped_loss_sums(objective, w, direction, EVEN, 4.0),
    ]
    if objective.loss.classification:
        sums.append(label_sum(objective))
    return sums


def matrix_sums(objective, w):
    """Every exact sum that is a matrix or needs one."""
    d = objective.dimension
    linear_map = Transform.rounding(np.eye(d) + 0.1 * np.random.default_rng(d).normal(size=(d, d)))
    w = weights(objective, w, w)[0]
    return [
        gram_sum(objective),
        gram_sum(objective, target_factor=0.7),
        column_squares(objective, Transform.scaling(np.ones(objective.dimension), 1.5), 1.1),
        mapped_gradient_sum(objective, w, 0.6, linear_map),
    ]


def assert_equal_sums(one, other, w, direction):
    assert_same(linear_sums(one, w, direction), linear_sums(other, w, direction))
    assert_same(matrix_sums(one, w), matrix_sums(other, w))


# -- sums --------------------------------------------------------------------------------------------


@dtypes
@intercepts
@pytest.mark.parametrize("loss", list(EXAMPLES))
def test_sums_of_every_loss(instruction_set, dtype, fit_intercept, loss):
    x, y, counts, w, direction = rows_and_counts(150, 9, dtype)
    one, many = pair(loss, x, y, counts, row_norm=1.5, fit_intercept=fit_intercept)
    assert_same(linear_sums(one, w, direction), linear_sums(many, w, direction))


@dtypes
@intercepts
@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 17, 33, 130])
def test_sums_of_every_width(instruction_set, dtype, fit_intercept, width):
    x, y, counts, w, direction = rows_and_counts(70, width, dtype)
    assert_equal_sums(
        *pair("logistic", x, y, counts, row_norm=1.5, fit_intercept=fit_intercept), w, direction
    )


@dtypes
@intercepts
@pytest.mark.parametrize("n_classes", [2, 5, 11])
def test_softmax_sums(instruction_set, dtype, fit_intercept, n_classes):
    x, _, counts, *_ = rows_and_counts(150, 9, dtype)
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, len(x))
    one, many = pair("softmax", x, y, counts, fit_intercept=fit_intercept, n_classes=n_classes)
    w, direction = rng.normal(size=(2, *one.shape))

    def sums(objective):
        return [
            clipped_gradient_sum(objective, w, 0.5),
            clipped_loss_sums(objective, w, direction, EVEN, 2.0),
            class_counts(objective),
        ]

    assert_same(sums(one), sums(many))
    for a, b in zip(one.value_and_gradient(w), many.value_and_gradient(w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10 if dtype == np.float64 else 1e-5, atol=1e-6)


@dtypes
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_values_and_gradients(instruction_set, dtype, loss):
    x, y, w, _ = awkward_arrays.ordinary(400, 9, dtype)
    counts = np.random.default_rng(0).integers(0, 4, 400)
    one, _ = pair(loss, x, y, counts, row_norm=1.5, fit_intercept=True, l2=0.1)
    repeated = np.repeat(np.arange(400), counts)
    gradient, total = numpy_kernels.gradient_sum(
        loss, x[repeated], y[repeated], w, intercept=True, row_norm=1.5
    )
    ridge = np.append(w[:-1], 0.0)
    expected = (gradient / len(repeated)).astype(float) + 0.1 * ridge
    np.testing.assert_allclose(one.gradient(w), expected, rtol=1e-11, atol=1e-13)
    value, fast = one.value_and_gradient(w)
    tolerance = 1e-11 if dtype == np.float64 else 1e-5
    assert value == pytest.approx(float(total) / len(repeated) + 0.05 * ridge @ ridge, rel=tolerance)
    np.testing.assert_allclose(fast, expected, rtol=tolerance, atol=tolerance)


@given(
    n_rows=st.integers(1, 80),
    n_distinct=st.integers(1, 20),
    width=st.sampled_from([1, 3, 8, 17]),
    dtype=st.sampled_from(DTYPES),
    n_threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**20),
)
def test_aggregated_sums_equal_those_of_records_in_any_order(
    n_rows, n_distinct, width, dtype, n_threads, seed
):
    x, y, w, direction = awkward_arrays.ordinary(n_distinct, width, dtype, seed)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n_distinct, n_rows)
    merged, targets, counts = aggregate(np.ascontiguousarray(x[rows]), y[rows])
    assert counts.sum() == n_rows
    one = Objective("logistic", merged, targets, counts=counts, n_threads=n_threads)
    order = rng.permutation(rows)
    assert_equal_sums(one, Objective("logistic", x[order], y[order], n_threads=1), w, direction)


@dtypes
def test_threads_and_instruction_sets_do_not_change_a_bit(keep_instruction_set, dtype):
    from dperm._kernels import row_kernels

    x, y, counts, w, direction = rows_and_counts(9000, 12, dtype)
    sums = []
    for name in row_kernels.instruction_sets():
        row_kernels.use_instruction_set(name)
        for n_threads in (1, 2, 3, 7):
            one = Objective("logistic", x, y, counts=counts, n_threads=n_threads, non_finite="zero")
            sums.append(linear_sums(one, w, direction) + matrix_sums(one, w))
    for others in sums[1:]:
        assert_same(sums[0], others)


@dtypes
def test_counts_beyond_32_bits(dtype):
    """Sums of one repeated record are exact multiples."""
    x, y, w, direction = awkward_arrays.ordinary(40, 9, dtype)
    many = 3 * 2**33 + 7
    one = Objective("logistic", x, y, n_public=2**40)
    other = Objective("logistic", x, y, n_public=2**40, counts=np.full(40, many))
    sums = [linear_sums(objective, w, direction) for objective in (one, other)]
    for a, b in zip(*sums, strict=True):
        assert b._integers.tolist() == [int(v) * many for v in a._integers]


def test_rows_with_count_zero_contribute_nothing(instruction_set):
    x, y, counts, w, direction = rows_and_counts(100, 9, np.float64)
    counts[::3] = 0
    x[0], y[3], x[6, 2] = np.nan, np.inf, -np.inf  # they are not even checked
    one, many = pair("logistic", x, y, counts)
    assert one._rows.n_rows == counts.sum() == one.n_public
    assert_equal_sums(one, many, w, direction)


@dtypes
@intercepts
@pytest.mark.parametrize("width", [9, 400])
def test_sparse_rows(dtype, fit_intercept, width):
    rng = np.random.default_rng(width)
    dense = rng.normal(size=(120, width)).astype(dtype) * (rng.random((120, width)) < 0.1)
    rows, y = rng.integers(0, 120, 700), np.where(rng.random(120) < 0.5, -1.0, 1.0)
    merged, targets, counts = aggregate(scipy.sparse.csr_array(dense[rows]), y[rows])
    assert len(counts) <= 120
    keywords = {"row_norm": 1.5, "fit_intercept": fit_intercept}
    one = Objective("logistic", merged, targets, counts=counts, **keywords)
    other = Objective("logistic", dense[rows], y[rows], **keywords)
    w, direction = rng.normal(size=(2, width + 1))
    assert_same(linear_sums(one, w, direction), linear_sums(other, w, direction))
    counts[::2] = 0
    one = Objective("logistic", merged, targets, counts=counts, **keywords)
    _, other = pair("logistic", merged.toarray(), targets, counts, **keywords)
    assert_same(linear_sums(one, w, direction), linear_sums(other, w, direction))


def test_non_finite_records_contribute_nothing(instruction_set):
    x, y, counts, w, direction = rows_and_counts(60, 9, np.float64)
    x[5, 2], y[7], counts[5:8] = np.nan, np.inf, 4
    assert_equal_sums(*pair("logistic", x, y, counts, non_finite="zero"), w, direction)
    with pytest.raises(DataError, match="row 5"):
        Objective("logistic", x, y, counts=counts)


def test_counts_of_one_are_dropped():
    x, y, *_ = awkward_arrays.ordinary(50, 4, np.float64)
    assert Objective("logistic", x, y, counts=np.ones(50))._rows.counts is None


# -- public numbers and sensitivity ----------------------------------------------------------------------


def test_the_number_of_records_is_the_sum_of_the_counts():
    x, y, *_ = awkward_arrays.ordinary(5, 3, np.float64)
    assert Objective("logistic", x, y, counts=[1, 2, 3, 4, 5]).n_public == 15
    assert Objective("logistic", x, y, counts=[1, 2, 3, 4, 5], n_public=20).n_public == 20
    with pytest.raises(DataError, match="far below"):
        clipped_gradient_sum(Objective("logistic", x, y, counts=[2**40] * 5, n_public=1), np.zeros(3), 1.0)


@given(
    data=st.data(),
    relation=st.sampled_from(RELATIONS),
    dtype=st.sampled_from(DTYPES),
    clip=st.sampled_from([0.01, 0.3, 1.0]),
)
@settings(max_examples=100)
def test_one_record_more_moves_aggregated_sums_within_the_sensitivity(data, relation, dtype, clip):
    """A new record, another copy of an existing one, or one record replaced."""
    x, y, w, direction = awkward_arrays.awkward(7, dtype, data.draw(st.integers(0, 99)))
    records = data.draw(st.lists(st.integers(0, len(x) - 1), min_size=2, max_size=60))
    other = records.copy()
    if relation == "add_or_remove":
        other.insert(data.draw(st.integers(0, len(other))), data.draw(st.integers(0, len(x) - 1)))
    else:
        other[data.draw(st.integers(0, len(other) - 1))] = data.draw(st.integers(0, len(x) - 1))
    objectives = []
    for rows in (records, other):
        merged, targets, counts = aggregate(np.ascontiguousarray(x[rows]), y[rows])
        settings = {"n_public": 64, "non_finite": "zero"}
        objectives.append(Objective("logistic", merged, targets, counts=counts, **settings))
    for a, b in zip(*(linear_sums(each, 3 * w, direction) for each in objectives), strict=True):
        assert_change_within(a, b, relation)


@pytest.mark.parametrize("name", ["noisy_gd", "dp_agd", "dp_sgd", "whitened_gd", "dp_sgd_gradient"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_replay_passes_on_aggregated_neighbours(name, relation):
    entry = CONFIGURATIONS[name]
    neighbours = worst_case_neighbours(n=50, d=3, relation=relation, kind=entry.kind)
    objectives = []
    for each in neighbours:
        merged, targets, counts = aggregate(each.X, each.y)
        assert len(merged) == 2 if len(each.X) == 50 else 1
        objectives.append(Objective("logistic", merged, targets, n_public=50, counts=counts))
    report = replay_check(
        lambda objective: getattr(algorithms, name)(
            objective,
            entry.epsilon,
            1e-3,
            neighbors=relation,
            random_state=3,
            **entry.settings | entry.replay,
        ),
        *objectives,
    )
    assert report.ok, report
    assert 0.999 < report.largest_share <= 1.0


# -- samples and algorithms -----------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("sampling", ["poisson", "without_replacement", "permutation"])
@pytest.mark.parametrize("n_public", [None, 5000])
def test_batches_sample_records_not_rows(instruction_set, dtype, sampling, n_public):
    x, y, counts, w, _ = rows_and_counts(300, 9, dtype)
    one, many = pair("logistic", x, y, counts, n_public=n_public)
    w = w[:9]
    streams = [SecretBatches(sampling, random_bits(7), 200, each.n_public) for each in (one, many)]
    for _ in range(8):
        sums = [
            clipped_gradient_sum(each, w, 0.5, rows=next(batch))
            for each, batch in zip((one, many), streams, strict=True)
        ]
        assert_same(sums[:1], sums[1:])


# These use floating-point sums, whose rounding depends on how often a term is added.
ROUNDED = {"output_perturbation_gd", "objective_perturbation"}


@pytest.mark.parametrize("name", PRIVATE)
def test_seeded_fits_equal_those_of_repeated_rows(name):
    entry = CONFIGURATIONS[name]
    x, y, *_ = awkward_arrays.ordinary(60, 4, np.float64)
    counts = np.random.default_rng(5).integers(0, 5, 60)
    one, many = pair(entry.loss, x, y, counts, l2=entry.l2, fit_intercept=entry.fit_intercept)
    fits = [
        getattr(algorithms, name)(each, 2.0, 1e-3, random_state=11, **entry.settings) for each in (one, many)
    ]
    if name in ROUNDED:
        np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=1e-6)
    else:
        assert fits[0].coef.tolist() == fits[1].coef.tolist()
    stated = [{**fit.privacy.to_dict(), "unit": None} for fit in fits]  # which names the counts
    assert stated[0] == stated[1]
    assert np.linalg.norm(fits[0].coef) > 0.0


@pytest.mark.parametrize("name", ["noisy_gd", "dp_agd", "dp_sgd", "whitened_gd"])
def test_default_settings_do_not_depend_on_counts(name):
    x, y, *_ = awkward_arrays.ordinary(300, 5, np.float32)
    counts = np.random.default_rng(5).integers(1, 9, 300)
    one, many = pair("logistic", x, y, counts, fit_intercept=True)
    fits = [getattr(algorithms, name)(each, 1.0, 1e-6, random_state=2) for each in (one, many)]
    assert fits[0].coef.tolist() == fits[1].coef.tolist()
    assert fits[0].n_iter == fits[1].n_iter
    assert math.isfinite(np.linalg.norm(fits[0].coef))
